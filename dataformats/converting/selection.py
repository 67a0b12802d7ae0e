"""Which records of a source are converted, and in which order."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.interfaces.record_source import OnCorrupt, RecordSource
from dataformats.kernels import crc32, permute
from dataformats.reading.conditions import Condition, Where, condition_of
from dataformats.reading.views import evaluate


class Selection:
    """The records to convert: those for which a function is true, then shuffled, then the first ones.

    Args:
        source: The records.
        where: A condition; it is evaluated here, for every record. `None` takes all records.
        shuffle_seed: The seed of a global shuffle; `None` keeps the order. It takes no memory.
        limit: The most records; `None` selects all.
        on_corrupt: `"omit"` selects damaged records, too; the conversion leaves them out.
    """

    def __init__(
        self,
        source: RecordSource,
        where: Where | None,
        shuffle_seed: int | None,
        limit: int | None,
        on_corrupt: OnCorrupt,
    ) -> None:
        if limit is not None and limit < 0:
            raise ValueError(f"limit must be at least 0, found {limit}")
        condition = None if where is None else condition_of(where)
        self._matching = None if condition is None else np.flatnonzero(evaluate(source, condition, on_corrupt))
        self._n_matching = len(source) if self._matching is None else len(self._matching)
        self._n = self._n_matching if limit is None else min(limit, self._n_matching)
        self._key = None if shuffle_seed is None else _key(shuffle_seed)
        chosen = (
            {} if self._matching is None else {"where": f"{name_of(condition)}, {crc32(self._matching.tobytes()):08x}"}
        )
        given = {"shuffle_seed": shuffle_seed, "limit": limit}
        self.facts: dict[str, Any] = chosen | {name: value for name, value in given.items() if value is not None}

    def __len__(self) -> int:
        return self._n

    def records(self, first: int, stop: int) -> range | NDArray[np.int64]:
        """Return the indices in the source of the selected records `first` to `stop`."""
        if self._key is None:
            return range(first, stop) if self._matching is None else self._matching[first:stop]
        places = permute(np.arange(first, stop), max(1, self._n_matching), self._key)
        return places if self._matching is None else self._matching[places]


def name_of(function: Any) -> str:
    """Return the qualified name of a function, or the text of a condition, by which plans are compared."""
    if isinstance(function, Condition):
        return str(function)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '')}.{name}"


def _key(seed: int) -> tuple[int, int]:
    digest = hashlib.blake2b(f"dataformats convert {seed}".encode(), digest_size=16).digest()
    first, second = struct.unpack("<QQ", digest)
    return first, second
