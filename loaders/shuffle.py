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
from dataformats.loaders.blocks import Blocks, Line, line_of

_Numbers = NDArray[np.int64]
_PERSON = b"dataformats plan"
_RUN = 2**14  # places whose records are computed at once

WINDOW_SIZES = ("block_records", "window_blocks", "groups")
"""The numbers of a window order, in the order of its JSON form."""


@dataclass(frozen=True, slots=True)
class Shuffle:
    """The kind of order.

    Attributes:
        kind: `"global"`: all records are permuted. `"window"`: blocks of consecutive records are permuted, and then the
            records within windows of some blocks. `"none"`: as they are stored.
        block_records: Records of a block; the last block of a source may be shorter; 0 without windows. A source that
            decodes blocks has these instead: a window has those that begin within `block_records * window_blocks`
            records.
        window_blocks: Blocks of a window; 0 without windows.
        groups: Streams of windows, whose records take turns; 1 without windows.
    """

    kind: Literal["global", "window", "none"]
    block_records: int = 0
    window_blocks: int = 0
    groups: int = 1

    @classmethod
    def of(cls, shuffle: object, block_records: int = 1024, window_blocks: int = 256, groups: int = 1) -> Shuffle:
        """Return the shuffle for `Loader(shuffle=...)`: True, False or `"window"`.

        Raises:
            ValueError: An argument is invalid.
        """
        if shuffle is True or shuffle is False:
            return cls("global" if shuffle else "none")
        if shuffle != "window":
            raise ValueError(f"shuffle: expected 'auto', True, False or 'window', found {shuffle!r}")
        sizes = {"block_records": block_records, "window_blocks": window_blocks, "groups": groups}
        for name, size in sizes.items():
            if type(size) is not int or not 1 <= size < 2**31:
                raise ValueError(f"{name}: expected a whole number in [1, 2**31), found {size!r}")
        return cls("window", **sizes)

    @classmethod
    def from_json(cls, form: object) -> Shuffle:
        """Return the shuffle that `to_json` converted.

        Raises:
            ValueError: `form` is not a result of `to_json`.
        """
        if form in ("global", "none"):
            return cls.of(form == "global")
        if isinstance(form, list) and len(form) == 4 and form[0] == "window":
            return cls.of(*form)
        raise ValueError(f"expected 'global', 'none' or ['window', {', '.join(WINDOW_SIZES)}], found {form!r}")

    def to_json(self) -> str | list[str | int]:
        """Return `"global"`, `"none"` or `["window", block_records, window_blocks, groups]`."""
        return self.kind if self.kind != "window" else [self.kind, *(getattr(self, name) for name in WINDOW_SIZES)]


class Epoch(NamedTuple):
    """The order of one epoch of one component.

    Attributes:
        n: Records of the component, at least 1.
        name: Identifies this order: plan version, seed, epoch, component; of appended records the first one, too.
        blocks: The blocks that the component decodes at once, if there are any.
        first: The first of these records.
    """

    n: int
    name: tuple[int, ...]
    blocks: Blocks | None = None
    first: int = 0

    def records(self, places: _Numbers, shuffle: Shuffle) -> _Numbers:
        """Return the record, int64[m], at each of these places of the epoch, int64[m] in `[0, n)`."""
        if self.first:
            return self._replace(first=0).records(places, shuffle) + self.first
        if shuffle.kind == "none":
            return places
        if shuffle.kind == "global":
            return permute(places, self.n, key_of(*self.name, "records"))
        return self._in_windows(places, shuffle)

    def records_of_batch(self, places: _Numbers, shuffle: Shuffle) -> _Numbers:
        """Return what `records` returns, for ascending places of a batch: neighboring batches share the work."""
        first = int(places[0]) // _RUN * _RUN
        if shuffle.kind == "none" or places[-1] >= first + _RUN:
            return self.records(places, shuffle)
        return _records_of_run(self, first, shuffle)[places - first]

    def windows(self, places: _Numbers, shuffle: Shuffle) -> list[range]:
        """Return the windows that these places are in, each as its places, if the order has windows."""
        groups, columns = shuffle.groups, self._windows(places, shuffle)
        bounds = sorted([int(column[rows][0]) for column in columns] for rows in group_rows(*columns))
        return [range(stream + begin * groups, stream + end * groups, groups) for stream, begin, end in bounds]

    def _windows(self, places: _Numbers, shuffle: Shuffle) -> tuple[_Numbers, _Numbers, _Numbers]:
        """Return the stream of each place, and the turns of the stream at which its window begins and ends."""
        turn, stream = np.divmod(places, shuffle.groups)
        length = (self.n - stream + shuffle.groups - 1) // shuffle.groups
        if self.blocks is not None:
            first = self._first_of(stream, shuffle)
            bounds = self._line(self.blocks, shuffle).bounds
            window = np.searchsorted(bounds, first + turn, side="right")
            begin = np.maximum(bounds[window - 1] - first, 0)
            return stream, begin, np.minimum(np.append(bounds, self.n)[window] - first, length)
        size = min(shuffle.block_records, self.n) * shuffle.window_blocks
        begin = turn // size * size
        return stream, begin, np.minimum(begin + size, length)

    def _first_of(self, stream: _Numbers, shuffle: Shuffle) -> _Numbers:
        """Return the place in the line at which each stream begins; the first streams have one record more."""
        each, longer = divmod(self.n, shuffle.groups)
        return stream * each + np.minimum(stream, longer)

    def _line(self, blocks: Blocks, shuffle: Shuffle) -> Line:
        return line_of(blocks, key_of(*self.name, "blocks"), shuffle.block_records * shuffle.window_blocks)

    def _in_windows(self, places: _Numbers, shuffle: Shuffle) -> _Numbers:
        """Permute blocks into a line. Each stream has a part of the line, and permutes the records of each window.

        The last block lacks `lacking` records, and lies in the slot `short` of the line. If it were full, a division
        would give the slot and the place within it. So all places after its records are moved on by `lacking`.
        """
        stream, begin, end = self._windows(places, shuffle)
        inside = places // shuffle.groups - begin
        for rows in group_rows(stream, begin):
            window = int(stream[rows][0]), int(begin[rows][0])
            size = int(end[rows][0]) - window[1]
            inside[rows] = permute(inside[rows], size, key_of(*self.name, "window", *window))
        line = self._first_of(stream, shuffle) + begin + inside
        if self.blocks is not None:
            blocks, starts, _ = self._line(self.blocks, shuffle)
            slot = np.searchsorted(starts, line, side="right") - 1
            return np.add(self.blocks.starts[blocks[slot]], line - starts[slot], dtype=np.int64)
        blocks_key, block, n_blocks, short, lacking = self._slots(shuffle)
        slot, record = np.divmod(line + lacking * (line >= (short + 1) * block - lacking), block)
        return np.add(permute(slot, n_blocks, blocks_key) * block, record, dtype=np.int64)

    def _slots(self, shuffle: Shuffle) -> tuple[tuple[int, int], int, int, int, int]:
        """Return the key of the line, the records of a block, the number of blocks, and `short` and `lacking`."""
        block = min(shuffle.block_records, self.n)
        n_blocks = -(-self.n // block)
        blocks_key = key_of(*self.name, "blocks")
        short = int(permute_back([n_blocks - 1], n_blocks, blocks_key)[0])
        return blocks_key, block, n_blocks, short, n_blocks * block - self.n

    def block_places(self, blocks: _Numbers, shuffle: Shuffle) -> _Numbers:
        """Return the place, int64[m], of each of these blocks of a window order: if its window were not shuffled."""
        blocks_key, block, n_blocks, short, lacking = self._slots(shuffle)
        slot = permute_back(blocks, n_blocks, blocks_key)
        line = slot * block - lacking * (slot > short)
        firsts = self._first_of(np.arange(shuffle.groups), shuffle)
        stream = np.searchsorted(firsts, line, side="right") - 1
        return np.add((line - firsts[stream]) * shuffle.groups, stream, dtype=np.int64)


def group_rows(*columns: _Numbers) -> Iterator[slice | NDArray[np.intp]]:
    """Yield the rows of each group of equal rows, in columns of int64[m]."""
    if all((column == column[0]).all() for column in columns if len(column)):
        if len(columns[0]):
            yield slice(None)
        return
    order = np.lexsort(columns)
    changes = np.any([np.diff(column[order]) != 0 for column in columns], axis=0)
    yield from np.split(order, np.flatnonzero(changes) + 1)


@lru_cache(8)
def _records_of_run(order: Epoch, first: int, shuffle: Shuffle) -> _Numbers:
    return order.records(np.arange(first, min(first + _RUN, order.n)), shuffle)


@lru_cache(4096)
def key_of(*name: int | str) -> tuple[int, int]:
    """Return the key of one permutation: a hash of all that it depends on.

    A hash and not a sum, because epoch 1 of seed 0 must be unrelated to epoch 0 of seed 1.
    """
    digest = hashlib.blake2b(",".join(map(str, name)).encode(), digest_size=16, person=_PERSON).digest()
    first, second = struct.unpack("<QQ", digest)
    return first, second
