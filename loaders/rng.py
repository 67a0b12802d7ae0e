"""Randomness: the random numbers that a record, or a batch, gets wherever and whenever it is made."""

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

__all__ = ["Randomness"]

_LOG = logging.getLogger("dataformats")
_OF_RECORDS, _OF_BATCHES, _OF_COLLATES = 0, 1, 2


class Randomness:
    """Generators keyed by (seed, position). Thread-safe; pickles.

    Philox gives the numbers of a counter under a key. The key is a hash of the seed; the position stands in the upper
    half of the counter, which draws never reach. So no two positions share numbers, nothing is hashed for a record,
    and what a record gets depends on seed, position and NumPy's version alone: not on threads, processes or what was
    drawn before.

    Attributes:
        seed: Any integer; another seed, other numbers.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._local = _OfThread(_key(seed))

    def __reduce__(self) -> tuple[Any, ...]:
        return Randomness, (self.seed,)

    def at(self, position: int) -> np.random.Generator:
        """Return the generator of the record at `position`.

        It is one generator for each thread, with its state set anew (0.5 µs; making one takes 11 µs): valid until this
        thread asks for another.
        """
        return self._local.at(_OF_RECORDS, position)

    def of_batch(self, position: int) -> np.random.Generator:
        """Return the generator of the batch that begins at `position`: other numbers than that record's; see `at`."""
        return self._local.at(_OF_BATCHES, position)

    def of_collate(self, position: int) -> np.random.Generator:
        """Return the generator for making columns of the batch that begins at `position`; see `at`."""
        return self._local.at(_OF_COLLATES, position)

    @contextmanager
    def torch_draws(self) -> Iterator[None]:
        """Within, random numbers that torch draws in this thread are keyed as well; torch's own generator rests.

        They belong to what `at`, `of_batch` or `of_collate` was last called for, and are other numbers than those of
        its generator, which they leave as it is. Enter it for each batch. Without torch it does nothing.
        """
        if "torch" not in sys.modules:
            yield
            if "torch" in sys.modules:
                _LOG.warning(
                    "torch was first imported while records were transformed: random numbers that it drew for them "
                    "differ from run to run; import torch before the loader starts"
                )
            return
        with self._local.torch_draws():
            yield


class _OfThread(threading.local):
    """The generator of one thread, and torch's."""

    def __init__(self, key: tuple[int, int]) -> None:
        self._key = key
        bits = np.random.Philox(key=np.array(key, np.uint64))
        self._bits, self._generator = bits, np.random.Generator(bits)
        self._counter = [0, 0, 0, 0]
        # The whole state, so that nothing that the record before left over (half a word, a buffer) is used up.
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
            # Only now: whoever uses no torch shall not import it.
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
