"""The order of the records of one epoch: a bijection that any place can be looked up in, without memory of the rest."""

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
    """How records are put in order.

    Attributes:
        kind: `"global"`: any record may come at any place. `"window"`: blocks of neighbours are put in any order, and
            records within groups of blocks. `"none"`: as they are stored.
        block_records: Records of a block, the last of a source may be shorter; 0 without windows.
        window_blocks: Blocks of a group; 0 without windows.
    """

    kind: Literal["global", "window", "none"]
    block_records: int = 0
    window_blocks: int = 0

    @classmethod
    def of(cls, shuffle: object, block_records: int = 1024, window_blocks: int = 16) -> Shuffle:
        """Return what `Loader(shuffle=...)` means: True, False or `"window"`.

        Raises:
            ValueError: Something else, or no records in a block, or no blocks in a window.
        """
        if shuffle is True or shuffle is False:
            return cls("global" if shuffle else "none")
        if shuffle != "window":
            raise ValueError(f"shuffle is True, False or 'window', found {shuffle!r}")
        for name, size in (("block_records", block_records), ("window_blocks", window_blocks)):
            if type(size) is not int or not 1 <= size < 2**31:
                raise ValueError(f"{name} is a whole number in [1, 2**31), found {size!r}")
        return cls("window", block_records, window_blocks)

    @classmethod
    def from_json(cls, form: object) -> Shuffle:
        """Return the shuffle of a form that `to_json` gave.

        Raises:
            ValueError: It did not.
        """
        if form in ("global", "none"):
            return cls.of(form == "global")
        if isinstance(form, list) and len(form) == 3 and form[0] == "window":
            return cls.of(*form)
        raise ValueError(f"a shuffle is 'global', 'none' or ['window', block_records, window_blocks], found {form!r}")

    def to_json(self) -> str | list[str | int]:
        """Return `"global"`, `"none"` or `["window", block_records, window_blocks]`."""
        return self.kind if self.kind != "window" else [self.kind, self.block_records, self.window_blocks]


class Epoch(NamedTuple):
    """One walk through all records of one component.

    Attributes:
        n: Records of the component, at least 1.
        name: What tells this walk from all others: plan version, seed, epoch, component.
    """

    n: int
    name: tuple[int, int, int, int]

    def records(self, places: _Numbers, shuffle: Shuffle) -> _Numbers:
        """Return which record, int64[m], comes at each of these places of the walk, int64[m] in `[0, n)`."""
        if shuffle.kind == "none":
            return places
        if shuffle.kind == "global":
            return permute(places, self.n, _key(*self.name, "records"))
        return self._in_windows(places, min(shuffle.block_records, self.n), shuffle.window_blocks)

    def _in_windows(self, places: _Numbers, block: int, window: int) -> _Numbers:
        """Blocks are permuted; each `window` slots form a group, in which records are permuted.

        The last block lacks `lacking` records, and lies in the slot `short`. Were it full, slot and place within it
        would be a division: so everything behind its records is moved on by what it lacks, and the groups of full size
        are found by a division, too.
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
        behind = (group == odd) & (inside >= (short - odd * window + 1) * block - lacking)
        slot, record = np.divmod(inside + lacking * behind, block)
        blocks = permute(slot + group * window, n_blocks, blocks_key)
        return np.add(blocks * block, record, dtype=np.int64)


def group_rows(*columns: _Numbers) -> Iterator[slice | NDArray[np.intp]]:
    """Yield, for each combination of values that occurs in columns of int64[m], the rows that have it."""
    if all((column == column[0]).all() for column in columns if len(column)):
        if len(columns[0]):
            yield slice(None)
        return
    order = np.lexsort(columns)
    changes = np.any([np.diff(column[order]) != 0 for column in columns], axis=0)
    yield from np.split(order, np.flatnonzero(changes) + 1)


@lru_cache(4096)
def _key(*name: int | str) -> tuple[int, int]:
    """Return the key of one permutation: a hash of everything that it should depend on.

    Hashed, never added up: epoch 1 of seed 0 must have nothing to do with epoch 0 of seed 1.
    """
    digest = hashlib.blake2b(",".join(map(str, name)).encode(), digest_size=16, person=_PERSON).digest()
    first, second = struct.unpack("<QQ", digest)
    return first, second
