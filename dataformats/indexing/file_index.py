"""The index of one file: the extents of each field of its records, and the problems of those that cannot be read."""

from __future__ import annotations

import hashlib
import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError
from dataformats.spec import VALUE

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NARROW = (np.dtype(np.int8), np.dtype(np.int16), np.dtype(np.int32), np.dtype(np.uint32))


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Where the rows of an index lie, and how to give them to the kernels.

    Attributes:
        n_bytes: Their bytes.
        path: The file with the rows; `None` if they are in memory, or not on the local disk.
        base: Where they begin in that file.
        read: Returns them.
        hold: Gives them to the kernels: takes the result of `hold_index`, the number of the file, the rows or a path,
            if it is a path, and where they begin. Returns False if they are damaged.
    """

    n_bytes: int
    path: str | None
    base: int
    read: Callable[[], bytes]
    hold: Callable[[Any, int, bytes, bool, int], bool]


class PackedIndex(Protocol):
    """Extents of one field that are read on demand; the kernels can look them up. Thread-safe."""

    def __len__(self) -> int:
        """Return the number of records."""
        ...

    @property
    def digest(self) -> str:
        """A digest of lengths and stored checksums; how the index was made does not matter."""
        ...

    def part(self, first: int, stop: int) -> ArrayIndex:
        """Return the extents of the records `[first, stop)`.

        Raises:
            FormatError: The index itself is damaged.
        """
        ...

    def packed(self) -> PackedRows:
        """Return where its rows lie.

        Raises:
            FormatError: The index itself is damaged.
        """
        ...


@dataclass(frozen=True, slots=True)
class ArrayIndex:
    """Extents of one field of the records of a file, in memory.

    Attributes:
        offset: int64[n] or smaller integers, the first byte of each record's blob.
        length: int64[n] or smaller integers, the bytes of each blob; -1 if the record lacks the field.
        stored: uint32[n] or smaller integers, the stored checksum of each blob, or another number that the format keeps
            for `Extents.stored`; `None` if it keeps none.
        problems: Records that cannot be read, row to error. If the rest of a file cannot be read, it is one more
            record, of length 0, with its problem.
    """

    offset: NDArray[Any]
    length: NDArray[Any]
    stored: NDArray[Any] | None = None
    problems: Mapping[int, FormatError] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def digest(self) -> str:
        """A digest of lengths and stored checksums."""
        state = hashlib.blake2b(len(self).to_bytes(8, "little"), digest_size=16)
        state.update(self.length.astype("<i8").tobytes())
        if self.stored is not None:
            state.update(self.stored.astype("<u4").tobytes())
        return state.hexdigest()

    def part(self, first: int, stop: int) -> ArrayIndex:
        """Return the records `[first, stop)`; arrays are views."""
        here = slice(first, stop)
        stored = None if self.stored is None else self.stored[here]
        return ArrayIndex(self.offset[here], self.length[here], stored, _part(self.problems, first, stop))

    @property
    def distinct_lengths(self) -> NDArray[Any]:
        """The lengths of the records without a problem, each of them at least once."""
        lengths = np.delete(self.length, list(self.problems)) if self.problems else self.length
        return lengths[:1] if lengths.strides == (0,) else lengths

    def compact(self) -> ArrayIndex:
        """Return the same extents in the smallest integers; a number that all records have takes no memory."""
        stored = None if self.stored is None else _compact(self.stored)
        return ArrayIndex(_compact(self.offset), _compact(self.length), stored, self.problems)


FieldIndex: TypeAlias = ArrayIndex | PackedIndex
"""The extents of one field of the records of a file."""


@dataclass(frozen=True, slots=True)
class FileIndex:
    """Where the fields of the records of one file lie. Formats of one blob a record have the field `VALUE`.

    Attributes:
        n_records: How many records there are.
        fields: Field to its extents, one for each record.
        metadata: Further metadata of the file, as JSON, kept with the index.

    Example:
        >>> import numpy as np
        >>> from dataformats.interfaces import ArrayIndex, FileIndex
        >>> index = FileIndex(2, {"text": ArrayIndex(np.array([8, 0]), np.array([5, -1]))})
        >>> index.arrays["text"].length.tolist()
        [5, -1]
    """

    n_records: int
    fields: Mapping[str, FieldIndex]
    metadata: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)

    def __len__(self) -> int:
        return self.n_records

    @classmethod
    def of_blobs(cls, extents: FieldIndex) -> Self:
        """Return the index of a file whose records are one blob each."""
        return cls(len(extents), {VALUE: extents})

    @property
    def arrays(self) -> dict[str, ArrayIndex]:
        """The fields whose extents are in memory."""
        return {name: extents for name, extents in self.fields.items() if isinstance(extents, ArrayIndex)}


def join(parts: Sequence[ArrayIndex]) -> ArrayIndex:
    """Return the extents of one field in several files, one file behind the other."""
    if len(parts) == 1:
        return parts[0].compact()
    stored = None
    if any(part.stored is not None for part in parts):
        stored = np.concatenate([np.zeros(len(one), np.uint32) if one.stored is None else one.stored for one in parts])
    offset, length = np.concatenate([one.offset for one in parts]), np.concatenate([one.length for one in parts])
    return ArrayIndex(offset, length, stored, _join_problems(parts)).compact()


def _join_problems(parts: Sequence[ArrayIndex]) -> Mapping[int, FormatError]:
    problems = [part.problems for part in parts]
    if not any(problems):
        return {}
    starts = list(itertools.accumulate(map(len, parts), initial=0))
    wrong = np.zeros(starts[-1], np.bool_)
    for start, found in zip(starts, problems, strict=False):
        wrong[[start + row for row in found]] = True

    def problem(record: int) -> FormatError:
        file = bisect_right(starts, record) - 1
        return problems[file][record - starts[file]]

    return LazyProblems(wrong, problem)


class LazyProblems(Mapping[int, FormatError]):
    """The problems of records, row to error; each error is created on access.

    A table with millions of wrong entries would otherwise be as many exceptions.

    Args:
        wrong: bool[n], which records are wrong.
        make: Returns the error of a wrong record.

    Example:
        >>> import numpy as np
        >>> from dataformats import FormatError
        >>> from dataformats.interfaces import LazyProblems
        >>> problems = LazyProblems(np.array([False, True]), lambda index: FormatError(f"record {index} is cut"))
        >>> len(problems), str(problems[1])
        (1, 'record 1 is cut')
    """

    def __init__(self, wrong: NDArray[np.bool_], make: Callable[[int], FormatError]) -> None:
        self._wrong = wrong
        self._make = make
        self._n = int(np.count_nonzero(wrong))

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(self._wrong).tolist())

    def __contains__(self, row: object) -> bool:
        return isinstance(row, int) and 0 <= row < len(self._wrong) and bool(self._wrong[row])

    def __getitem__(self, row: int) -> FormatError:
        if row not in self:
            raise KeyError(row)
        return self._make(row)

    def part(self, first: int, stop: int) -> LazyProblems:
        """Return the problems of the records `[first, stop)`, numbered from `first`."""
        return LazyProblems(self._wrong[first:stop], lambda row: self._make(first + row))


def _part(problems: Mapping[int, FormatError], first: int, stop: int) -> Mapping[int, FormatError]:
    if isinstance(problems, LazyProblems):
        return problems.part(first, stop)
    return {row - first: error for row, error in problems.items() if first <= row < stop}


def _compact(numbers: NDArray[Any]) -> NDArray[Any]:
    if not len(numbers):
        return numbers
    low, high = int(numbers.min()), int(numbers.max())
    if low == high:
        return np.broadcast_to(np.array(low, np.int64), len(numbers))
    fitting = (dtype for dtype in _NARROW if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max)
    return numbers.astype(next(fitting, np.int64), copy=False)
