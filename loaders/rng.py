"""Randomness: random numbers for records and batches that depend on seed and position alone."""

from __future__ import annotations

import hashlib
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dataformats.loaders.pytorch.rng import TorchDraws

_LOG = logging.getLogger("dataformats")
_OF_RECORDS, _OF_BATCHES, _OF_COLLATES, _OF_OPERATIONS = 0, 1, 2, 3


class Randomness:
    """Generators keyed by (seed, position). Thread-safe; pickles.

    Philox maps a key and a counter to numbers. The key is a hash of the seed; the position is in the upper half of the
    counter, which draws never reach. So no two positions share numbers, no hash is computed per record, and the numbers
    of a record depend on seed, position and NumPy's version alone: not on threads, processes or earlier draws.

    Attributes:
        seed: Any integer; another seed gives other numbers.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._local = _OfThread(_key(seed))

    def __reduce__(self) -> tuple[Any, ...]:
        return Randomness, (self.seed,)

    def at(self, position: int) -> np.random.Generator:
        """Return the generator of the record at `position`.

        Each thread has one generator whose state is set here (0.5 µs; creating one takes 11 µs), so it is valid until
        the next call in this thread.
        """
        return self._local.at(_OF_RECORDS, position)

    def of_batch(self, position: int) -> np.random.Generator:
        """Return the generator of the batch that begins at `position`, with other numbers than its record; see `at`."""
        return self._local.at(_OF_BATCHES, position)

    def of_collate(self, position: int) -> np.random.Generator:
        """Return the generator for collating the batch that begins at `position`; see `at`."""
        return self._local.at(_OF_COLLATES, position)

    def of_operation(self, position: int) -> np.random.Generator:
        """Return the generator of operations on fields of the record at `position`; see `at`."""
        return self._local.at(_OF_OPERATIONS, position)

    @contextmanager
    def torch_draws(self) -> Iterator[None]:
        """Return a context in which random numbers that torch draws in this thread depend on the position as well.

        They depend on the last call of `at`, `of_batch` or `of_collate`, and differ from the numbers of the generator
        that it returned, which they do not change. torch's global generator is not used. Enter it for each batch.
        Without torch it does nothing.
        """
        if "torch" not in sys.modules:
            yield
            if "torch" in sys.modules:
                _LOG.warning(
                    "torch was first imported while records were transformed: random numbers that it drew for them "
                    "differ between runs. Import torch before the loader starts"
                )
            return
        with self._local.torch_draws():
            yield


class _OfThread(threading.local):
    """The generators of one thread: NumPy's and torch's."""

    def __init__(self, key: tuple[int, int]) -> None:
        self._key = key
        bits = np.random.Philox(key=np.array(key, np.uint64))
        self._bits, self._generator = bits, np.random.Generator(bits)
        self._counter = [0, 0, 0, 0]
        # The whole state, so that no rest of the previous record (half a word, a buffer) is used.
        self._state: Any = {
            "bit_generator": "Philox",
            "state": {"counter": self._counter, "key": list(key)},
            "buffer": [0, 0, 0, 0],
            "buffer_pos": 4,
            "has_uint32": 0,
            "uinteger": 0,
        }
        self._draws: TorchDraws | None = None

    def at(self, purpose: int, position: int) -> np.random.Generator:
        self._counter[2:] = position, purpose
        self._bits.state = self._state
        if self._draws is not None:
            self._draws.forget()
        return self._generator

    def torch_draws(self) -> TorchDraws:
        if self._draws is None:
            # Imported here, because it imports torch.
            from dataformats.loaders.pytorch.rng import TorchDraws

            self._draws = TorchDraws(self._torch_seed)
        return self._draws

    def _torch_seed(self) -> int:
        """Return a hash of seed, purpose and position, in `[0, 2**63)`."""
        name = f"{self._key},{self._counter[2]},{self._counter[3]}"
        digest = hashlib.blake2b(name.encode(), digest_size=8, person=b"dataform torch").digest()
        return int.from_bytes(digest, "little") >> 1


def _key(seed: int) -> tuple[int, int]:
    digest = hashlib.blake2b(str(int(seed)).encode(), digest_size=16, person=b"dataform random").digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")
