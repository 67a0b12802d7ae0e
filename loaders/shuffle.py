"""Shuffle: the order of an epoch as a bijection from places to records, computed for any place in O(1) memory."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels import permute, permute_back

__all__ = ["Epoch", "Shuffle", "group_rows"]

_Numbers = NDArray[np.int64]
_PERSON = b"dataformats plan"


@dataclass(frozen=True, slots=True)
class Shuffle:
    """The kind of order.

    Attributes:
        kind: `"global"`: all records are permuted. `"window"`: blocks of consecutive records are permuted, and then the
            records within groups of blocks. `"none"`: as they are stored.
        block_records: Records of a block; the last block of a source may be shorter; 0 without windows.
        window_blocks: Blocks of a group; 0 without windows.
    """

    kind: Literal["global", "window", "none"]
    block_records: int = 0
    window_blocks: int = 0

    @classmethod
    def of(cls, shuffle: object, block_records: int = 1024, window_blocks: int = 16) -> Shuffle:
        """Return the shuffle for `Loader(shuffle=...)`: True, False or `"window"`.

        Raises:
            ValueError: An argument is invalid.
        """
        if shuffle is True or shuffle is False:
            return cls("global" if shuffle else "none")
        if shuffle != "window":
            raise ValueError(f"shuffle: expected 'auto', True, False or 'window', found {shuffle!r}")
        for name, size in (("block_records", block_records), ("window_blocks", window_blocks)):
            if type(size) is not int or not 1 <= size < 2**31:
                raise ValueError(f"{name}: expected a whole number in [1, 2**31), found {size!r}")
        return cls("window", block_records, window_blocks)

    @classmethod
    def from_json(cls, form: object) -> Shuffle:
        """Return the shuffle that `to_json` converted.

        Raises:
            ValueError: `form` is not a result of `to_json`.
        """
        if form in ("global", "none"):
            return cls.of(form == "global")
        if isinstance(form, list) and len(form) == 3 and form[0] == "window":
            return cls.of(*form)
        raise ValueError(f"expected 'global', 'none' or ['window', block_records, window_blocks], found {form!r}")

    def to_json(self) -> str | list[str | int]:
        """Return `"global"`, `"none"` or `["window", block_records, window_blocks]`."""
        return self.kind if self.kind != "window" else [self.kind, self.block_records, self.window_blocks]


class Epoch(NamedTuple):
    """The order of one epoch of one component.

    Attributes:
        n: Records of the component, at least 1.
        name: Identifies this order: plan version, seed, epoch, component.
    """

    n: int
    name: tuple[int, int, int, int]

    def records(self, places: _Numbers, shuffle: Shuffle) -> _Numbers:
        """Return the record, int64[m], at each of these places of the epoch, int64[m] in `[0, n)`."""
        if shuffle.kind == "none":
            return places
        if shuffle.kind == "global":
            return permute(places, self.n, _key(*self.name, "records"))
        return self._in_windows(places, min(shuffle.block_records, self.n), shuffle.window_blocks)

    def _in_windows(self, places: _Numbers, block: int, window: int) -> _Numbers:
        """Permute blocks into slots; each `window` slots form a group, in which records are permuted.

        The last block lacks `lacking` records, and lies in the slot `short`. If it were full, a division would give
        the slot and the place within it. So all places after its records are moved on by `lacking`, and then divided;
        the group of a place is found the same way.
        """
        n_blocks = -(-self.n // block)
        lacking = n_blocks * block - self.n
        blocks_key = _key(*self.name, "blocks")
        short = int(permute_back([n_blocks - 1], n_blocks, blocks_key)[0])
        odd = short // window  # the group that it is in
        odd_end = min((odd + 1) * window, n_blocks) * block - lacking
        group, within = np.divmod(places + lacking * (places >= odd_end), window * block)
        inside = np.empty_like(within)
        for rows in group_rows(group):
            number = int(group[rows][0])
            slots = min((number + 1) * window, n_blocks) - number * window
            size = slots * block - lacking * (number == odd)
            inside[rows] = permute(within[rows], size, _key(*self.name, "group", number))
        after_short = (group == odd) & (inside >= (short - odd * window + 1) * block - lacking)
        slot, record = np.divmod(inside + lacking * after_short, block)
        blocks = permute(slot + group * window, n_blocks, blocks_key)
        return np.add(blocks * block, record, dtype=np.int64)


def group_rows(*columns: _Numbers) -> Iterator[slice | NDArray[np.intp]]:
    """Yield the rows of each group of equal rows, in columns of int64[m]."""
    if all((column == column[0]).all() for column in columns if len(column)):
        if len(columns[0]):
            yield slice(None)
        return
    order = np.lexsort(columns)
    changes = np.any([np.diff(column[order]) != 0 for column in columns], axis=0)
    yield from np.split(order, np.flatnonzero(changes) + 1)


@lru_cache(4096)
def _key(*name: int | str) -> tuple[int, int]:
    """Return the key of one permutation: a hash of all that it depends on.

    A hash and not a sum, because epoch 1 of seed 0 must be unrelated to epoch 0 of seed 1.
    """
    digest = hashlib.blake2b(",".join(map(str, name)).encode(), digest_size=16, person=_PERSON).digest()
    first, second = struct.unpack("<QQ", digest)
    return first, second
