"""Groups the members of a tar file into samples, as WebDataset 1.0 does (`tariterators.py`); joins scattered ones."""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.webdataset.extensions import KEY, extensions
from dataformats.backends.webdataset.members import BLOCK, SPEC, Member, TarMembers, joined_name
from dataformats.errors import FormatError, TruncatedError
from dataformats.indexing.damaged_scan import scan_past_damage
from dataformats.indexing.fields_reader import DERIVED
from dataformats.indexing.file_index import ArrayIndex, FileIndex
from dataformats.interfaces import StoredFile
from dataformats.spec import Spec
from dataformats.storage.checked_json import parse_checked

EMPTY = b"__empty__"
"""The extension of the one member of a record without values."""
_MAC = re.compile(rb"(\A|/)(\._|__MACOSX/)")
"""Names that the tar of macOS adds: for each file one with its attributes."""
_META = re.compile(rb"__[^/]*__(/|\Z)")
_MAX_SPEC = 2**20
_FREE_CELLS, _MAX_CELLS = 2**20, 64  # cells of the table, and for each member: else its fields are names of files


def split_name(name: bytes) -> tuple[bytes, bytes] | None:
    """Return key and extension of a member: split at the first dot behind the last slash; `None` if it has none."""
    if name.startswith(b"__") and _META.match(name):
        return None
    folder, slash, base = name.rpartition(b"/")
    stem, dot, extension = base.partition(b".")
    if stem and dot:
        return name[: len(name) - len(extension) - 1], extension
    if dot and slash and b"." not in folder.rpartition(b"/")[2]:
        return folder + slash, extension  # as WebDataset splits the names of hidden files
    return None


@dataclass(slots=True)
class _Column:
    rows: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("q"))
    lengths: array[int] = field(default_factory=lambda: array("q"))

    def append(self, row: int, offset: int, length: int) -> None:
        self.rows.append(row)
        self.offsets.append(offset)
        self.lengths.append(length)

    def keep(self, kept: NDArray[np.bool_], number: NDArray[np.int64]) -> None:
        """Keep some of the members, and give their rows these numbers."""
        self.rows = array("q", number[_numbers(self.rows)[kept]].tolist())
        self.offsets = array("q", _numbers(self.offsets)[kept].tolist())
        self.lengths = array("q", _numbers(self.lengths)[kept].tolist())


class Samples:
    """The samples of a tar file, from one pass over its headers.

    Args:
        file: The file, decompressed.

    Attributes:
        spec: The stored types of a file of this package; `None` for other files.
        starts: The byte at which the first header of each sample begins, and at last where the members end.

    Raises:
        FormatError: The file holds no samples, or the spec in it is damaged.
    """

    def __init__(self, file: StoredFile) -> None:
        self.spec: Spec | None = None
        self.starts: array[int] = array("q")
        self._key: bytes | None = None
        self._file = file
        self._keys = _Column()
        # A hash of each key, as its offset. Two of a million keys share one with a probability of 3e-8; a writer who
        # looks for such keys joins but samples of his own.
        self._hashes = _Column()
        self._columns: dict[str, _Column] = {}
        self._by_extension: dict[bytes, _Column | None] = {}
        self._problems: dict[int, FormatError] = {}
        self._gaps: dict[int, FormatError] = {}
        self._hides_extension = False  # True if a damaged header has one that no member before it has
        self._hidden: set[int] = set()  # hashes of the keys in damaged headers: samples that lack a member
        self._end = 0
        self._n_members = 0
        self._scan()
        n = len(self.starts) - 1
        if n * len(self._columns) > _FREE_CELLS + _MAX_CELLS * self._n_members:
            what, found = "the extensions differ too much", f"{len(self._columns)} extensions in {n} samples"
            raise FormatError(what, path=file.name, expected="samples with the same extensions", found=found)

    def _scan(self) -> None:
        tar, begin = TarMembers(self._file), 0
        for found in scan_past_damage(self._file, tar.members, tar.find):
            if isinstance(found, FormatError):
                self._add_gap(found)
            else:
                if begin != tar.begin:  # no sample goes on in another tar file
                    self._key, begin = None, tar.begin
                self._add(found)
                self._n_members += 1
        if self.spec is None and self._n_members and not self.starts:
            raise FormatError("no record: no member is a file with an extension", path=self._file.name)
        if self.spec is not None and tar.end is not None and not tar.is_complete:
            what, expected = "the tar file is truncated", "blocks of zeros behind the last member"
            error = TruncatedError(what, path=self._file.name, offset_bytes=tar.end, expected=expected)
            self._add_gap(replace(error, lost_bytes=range(tar.end, self._file.size)))
        self.starts.append(self._file.size if tar.end is None else tar.end)
        every = [column for column in self._columns.values() if column.rows]
        is_scattered = bool(self._gaps) and self._join_gaps(every)
        if self.spec is None:
            self._join_scattered()
        if is_scattered:  # the damage may hide a member of each sample that lacks one
            gap = next(iter(self._gaps.values()))
            lacks = self._lacks([*every, *[_Column()] * self._hides_extension])
            self._problems = dict.fromkeys(np.flatnonzero(lacks).tolist(), gap) | self._problems

    def index(self) -> FileIndex:
        """Return the extents of all fields."""
        n = len(self.starts) - 1
        spec = None if self.spec is None else self.spec.to_json()
        columns = {KEY: self._keys, **self._columns} if spec is None or KEY in spec else self._columns
        fields = {name: self._extents(column, n) for name, column in columns.items()}
        if self._problems and not fields:
            raise next(iter(self._problems.values()))
        return FileIndex(n, fields, {"spec": spec, "size": self._file.size})

    def _extents(self, column: _Column, n: int) -> ArrayIndex:
        offset, length = np.zeros(n, np.int64), np.full(n, -1, np.int64)
        rows = _numbers(column.rows)
        offset[rows], length[rows] = _numbers(column.offsets), _numbers(column.lengths)
        length[list(self._problems)] = 0
        return ArrayIndex(offset, length, problems=self._problems)

    def _add(self, member: Member) -> None:
        name, name_at, start, offset, size, is_sparse, self._end = member
        parts = split_name(name)
        if parts is None or (self.spec is None and _MAC.search(name)):
            if name == SPEC and start == 0:
                self._set_spec(offset, size)
            return
        key, extension = parts
        if key != self._key:
            self._key = key
            self._keys.append(len(self.starts), start + DERIVED if name_at < 0 else name_at, len(key))
            self._hashes.append(len(self.starts), hash(key), 0)
            self.starts.append(start)
        row = len(self.starts) - 1
        column = self._by_extension.get(extension) or self._column_of(extension)
        if column is None:
            return
        if column is self._keys or (column.rows and column.rows[-1] == row):
            self._add_problem(row, "two members of a sample have one extension", offset, extension)
        elif is_sparse:
            self._add_problem(row, "a member is stored as a sparse file", offset, extension)
        else:
            column.append(row, offset, size)

    def _add_problem(self, row: int, what: str, offset: int, extension: bytes) -> None:
        error = FormatError(what, path=self._file.name, offset_bytes=offset, found=extension)
        self._problems.setdefault(row, error)

    def _add_gap(self, error: FormatError) -> None:
        """Add a record that stands for the lost bytes of an error."""
        if not self.starts and error.lost_bytes is not None and error.lost_bytes.stop == self._file.size:
            raise error
        if self._end == 0:
            self._set_spec_behind_header()
        name = b""
        with suppress(FormatError):
            name = joined_name(self._file.pread(self._end, BLOCK).ljust(BLOCK, b"\0"))
        parts = split_name(name)
        if parts is not None:
            self._hidden.add(hash(parts[0]))
            self._hides_extension |= parts[1] not in self._by_extension
        elif name and self._key is not None and self._key.startswith(name):  # the file ends in the name
            self._hidden.add(hash(self._key))
        self._key = None
        self._gaps[len(self.starts)] = error
        self.starts.append(self._end)

    def _join_gaps(self, every: Sequence[_Column]) -> bool:
        """Join each damaged range with the samples beside it that may be cut.

        They are, if the header at the damage has their name; and may be, if they lack a member of others, or if no
        sample is far from damage, which shows all members. Returns True if members of a sample lie elsewhere, too.
        """
        is_gap = np.zeros(len(self.starts) - 1, np.bool_)
        is_gap[list(self._gaps)] = True
        lacks = self._lacks(every)
        if self.spec is not None and is_gap[-1]:  # a writer that was interrupted leaves whole samples before its end
            lacks = self._lacks([self._columns[name] for name in self._columns if not self.spec[name].optional])
        beside = is_gap | _behind(is_gap) | _behind(is_gap[::-1])[::-1]
        if beside.all() and self.spec is None:
            lacks |= not all(isinstance(error, TruncatedError) for error in self._gaps.values())
        rows, hashes = _numbers(self._hashes.rows), _numbers(self._hashes.offsets)
        cut = rows[np.isin(hashes, list(self._hidden))]
        cut = cut[beside[cut] | lacks[cut] | self._hides_extension]
        if self.spec is not None:  # a sample with all fields is whole
            cut = cut[self._lacks([*self._columns.values()])[cut]]
        lacks[cut] = True
        lost = is_gap | (beside & lacks)
        error = next(iter(self._gaps.values()))
        self._problems |= dict.fromkeys(cut.tolist(), error)
        elsewhere = hashes[~lost[rows]]
        n_elsewhere = len(elsewhere) - len(np.unique(elsewhere)) + np.isin(hashes[lost[rows]], elsewhere).sum()
        is_scattered = n_elsewhere > 0 or not lost[cut].all()
        self._drop(lost)
        return self.spec is None and is_scattered

    def _lacks(self, columns: Sequence[_Column]) -> NDArray[np.bool_]:
        """Return bool[n], the samples without a member in one of the columns."""
        n_members = np.zeros(len(self.starts) - 1, np.int64)
        for column in columns:
            n_members[_numbers(column.rows)] += 1
        return n_members < len(columns)

    def _drop(self, lost: NDArray[np.bool_]) -> None:
        """Make one record of each run of lost samples and damaged ranges."""
        starts, size = _numbers(self.starts), self._file.size
        begins = np.flatnonzero(lost & ~_behind(lost))
        stops = np.flatnonzero(lost & ~_behind(lost[::-1])[::-1]) + 1
        is_kept = ~lost
        is_kept[begins] = True
        number = np.cumsum(is_kept) - 1
        self._problems = {int(number[row]): error for row, error in self._problems.items() if not lost[row]}
        for begin, stop in zip(begins.tolist(), stops.tolist(), strict=True):
            error = next(self._gaps[row] for row in range(begin, stop) if row in self._gaps)
            where = range(min(int(starts[begin]), size), min(int(starts[stop]), size))
            self._problems[int(number[begin])] = replace(error, lost_bytes=where)
        for column in (self._keys, self._hashes, *self._columns.values()):
            column.keep(~lost[_numbers(column.rows)], number)
        self.starts = array("q", [*starts[:-1][is_kept].tolist(), int(starts[-1])])

    def _join_scattered(self) -> None:
        """Join samples with one key that are not neighbors, unless two of them have one extension, or a problem."""
        rows, every = _numbers(self._hashes.rows), np.arange(len(self.starts) - 1)
        distinct, first, group = np.unique(_numbers(self._hashes.offsets), return_index=True, return_inverse=True)
        if len(distinct) == len(rows):
            return
        joined = every.copy()
        joined[rows] = rows[first[group]]
        differs = np.zeros(len(every), np.bool_)
        differs[joined[list(self._problems)]] = True
        for column in self._columns.values():
            differs |= np.bincount(joined[_numbers(column.rows)], minlength=len(every)) > 1
        joined = np.where(differs[joined], every, joined)
        is_kept = joined == every
        number = (np.cumsum(is_kept) - 1)[joined]
        self._problems = {int(number[row]): error for row, error in self._problems.items()}
        self._keys.keep(is_kept[_numbers(self._keys.rows)], number)
        for column in self._columns.values():
            column.rows = array("q", number[_numbers(column.rows)].tolist())
        self.starts = array("q", [*_numbers(self.starts)[:-1][is_kept].tolist(), self.starts[-1]])

    def _column_of(self, extension: bytes) -> _Column | None:
        """Return the column of an extension that was not met yet; `None` if its members have no value."""
        if extension not in self._by_extension:
            name = extension.decode("utf-8", "backslashreplace").lower()
            is_empty = self.spec is not None and extension == EMPTY
            column = self._keys if name == KEY else None if is_empty else self._columns.setdefault(name, _Column())
            self._by_extension[extension] = column
        return self._by_extension[extension]

    def _set_spec_behind_header(self) -> None:
        """Take the spec of a file of this package, whose checksum proves it, from behind a damaged header."""
        try:
            text = self._file.pread(BLOCK, _MAX_SPEC).partition(b"\0")[0]
            self._set_spec(BLOCK, len(text))
        except FormatError:
            if self._file.pread(0, len(SPEC)) == SPEC:
                raise

    def _set_spec(self, offset: int, size: int) -> None:
        try:
            types: Mapping[str, str] = parse_checked(self._file.pread(offset, min(size, _MAX_SPEC)))
            self.spec = Spec(types)
        except (ValueError, TypeError, AttributeError) as error:
            what = f"the spec in the file is damaged: {error}"
            raise FormatError(what, path=self._file.name, offset_bytes=offset) from error
        for name, extension in extensions(self.spec).items():
            column = self._columns[name] = _Column()
            self._by_extension[extension.encode()] = column


def _behind(rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return bool[n], the rows that are behind one of these."""
    return np.concatenate([np.zeros(1, np.bool_), rows[:-1]])


def _numbers(column: array[int]) -> NDArray[np.int64]:
    return np.frombuffer(column, np.int64) if column else np.zeros(0, np.int64)
