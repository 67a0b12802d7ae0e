"""The interface of an operation, which decodes the stored bytes of a field instead of its codec."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import numpy as np

from dataformats.batch import Blobs, Column


class FieldOperation(ABC):
    """Decodes the stored bytes of a field, as `decode=` of `Loader` and `DecodingSource.read` asks.

    Thread-safe; pickles. The result for a record depends on its bytes and its generator alone.

    Attributes:
        name: The name in errors.
        seed: The seed of the random numbers in `read`, at least 0; a `Loader` has its own seed.
    """

    name: str
    seed: int = 0

    @abstractmethod
    def decode_batch(self, blobs: Blobs, generator: Callable[[int], np.random.Generator]) -> Column:
        """Return a column with a value for each blob. An exception is chained to a `CodecError`.

        Args:
            blobs: The stored bytes.
            generator: Returns the generator of a blob, at its beginning in every call; valid until the next call in
                the same thread.
        """


Decode = Mapping[str, FieldOperation]
"""Field to the operation that decodes it."""
