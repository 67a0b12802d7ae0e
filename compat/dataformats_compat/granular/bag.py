"""Single bags: records of bytes, appended in place and read by number, of all three generations.

Example:
    >>> import os, tempfile
    >>> from dataformats_compat import granular
    >>> path = os.path.join(tempfile.mkdtemp(), "words.bag")
    >>> with granular.BagWriter(path) as writer:
    ...     [writer.append(word) for word in (b"a", b"", b"bag")]
    [0, 1, 2]
    >>> with granular.BagReader(path) as reader:
    ...     len(reader), reader[2], reader[0:2]
    (3, b'bag', [b'a', b''])
"""

from __future__ import annotations

import functools
import operator
import os
import struct
from collections.abc import Sequence
from io import FileIO
from itertools import islice, pairwise
from operator import le
from typing import TYPE_CHECKING, Any, cast

from dataformats.errors import FormatError, TruncatedError
from dataformats.internals import is_local, layout_of
from dataformats_compat.granular.content import SharedBuffer, content_of
from dataformats_compat.granular.utils import ArgumentError, Closing, RandomAccess, path_of

if TYPE_CHECKING:
    from dataformats.interfaces import StoredFile

__all__ = ["BagReader", "BagWriter", "SharedBuffer", "rows_of"]

_END_BYTES = 8  # a uint64
_TWO_ENDS = struct.Struct("<QQ")
_BUFFER_BYTES = 2**16
_SINGLE_FILE = (1, 2)  # the generations with their table at the end of the bag


class BagWriter(Closing):
    """Appends records to a bag in place: each `flush` writes them, then their ends.

    A bag that exists is continued. If its last writer was interrupted between the two, the bytes behind the last end
    must be those that are appended now.

    Args:
        bag_path: The bag: a path, or a path object.
        idx_path: The file of the ends; `None`: beside the bag. A number is the `version`, as in granular 0.21.
        version: 3; or, as in granular 0.21, 1 or 2: a new bag with its ends in the same file, written by `close`.

    Raises:
        FormatError: The bag is shorter than its ends say.
        ArgumentError: The bag exists, and the version is 1 or 2.
    """

    def __init__(self, bag_path: Any, idx_path: Any = None, version: int = 3) -> None:
        if isinstance(idx_path, int):
            idx_path, version = None, idx_path
        if version not in (*_SINGLE_FILE, 3):
            raise ArgumentError(f"expected version 1, 2 or 3, found {version!r}")
        self.bag_path: Any = path_of(bag_path)
        self.version = version
        self.length: int = 0
        self._written = self._end = 0
        self._pending: list[bytes] = []
        self._ends: list[int] = []  # ends of pending records; in a single file, of all records
        self.idx_path: Any = None
        if version == 3:
            self.idx_path = self.bag_path.with_suffix(".idx") if idx_path is None else path_of(idx_path)
            if self.idx_path.exists():
                self.length, self._end = self._resume()
                self._written = self._end
        elif self.bag_path.exists():
            raise ArgumentError(f"{str(self.bag_path)!r} exists, and bags of version {version} are written once")
        self.bag: Any = _opened(self.bag_path)
        self.idx: Any = None if self.idx_path is None else _opened(self.idx_path)
        self._is_clean = version != 3  # else the bag may have bytes behind the last end

    @property
    def size(self) -> int:
        """Bytes of the records and of their ends."""
        return self._end + _END_BYTES * (self.length + (self.version == 1))

    def __len__(self) -> int:
        return self.length

    def append(self, record: Any, flush: bool = True) -> int:
        """Append a record and return its number.

        Args:
            record: Bytes; at least one in version 2.
            flush: False leaves it in memory until the next `flush`.
        """
        if self.closed:
            raise ArgumentError("the writer is closed")
        if not isinstance(record, bytes) or (not record and self.version == 2):
            raise ArgumentError(f"expected bytes{', not empty' if self.version == 2 else ''}, found {record!r:.40}")
        self.add(record)
        if flush:
            self.flush()
        return self.length - 1

    def add(self, record: bytes) -> None:
        """Append a record that was checked; it is written by the next `flush`."""
        self._pending.append(record)
        self._end += len(record)
        self._ends.append(self._end)
        self.length += 1

    def flush(self) -> None:
        """Hand the records, then their ends, to the operating system.

        In versions 1 and 2 this waits for more: before `close` writes the ends, a bag cannot be read.

        Raises:
            ValueError: The bag has other bytes behind its last end.
        """
        if not self.closed and (self.version == 3 or self._end - self._written >= _BUFFER_BYTES):
            self._write_pending()

    def _write_pending(self) -> None:
        if not self._pending:
            return
        data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        new = data if self._is_clean else data[self._repaired(data) :]
        self._is_clean = False
        _write(self.bag, new)
        if self.idx is not None:
            if not isinstance(self.bag, FileIO):
                self.bag.flush()
            ends = self._ends
            _write(self.idx, _ends_of(len(ends)).pack(*ends))
            if not isinstance(self.idx, FileIO):
                self.idx.flush()
            ends.clear()
        self._pending.clear()
        self._written += len(data)
        self._is_clean = len(new) == len(data)

    def close(self) -> None:
        """Flush and close; in versions 1 and 2 this writes the ends."""
        if self.closed:
            return
        try:
            self._write_pending()
            if self.idx is None:
                first = [0] if self.version == 1 else []
                _write(self.bag, _ends_of(len(first + self._ends)).pack(*first, *self._ends))
        finally:
            for file in (self.bag, self.idx):
                if file is not None:
                    file.close()
            super().close()

    def _resume(self) -> tuple[int, int]:
        """Return the records of the bag, and the end of the last one."""
        idx, bag = content_of(self.idx_path), content_of(self.bag_path)
        length = idx.size // _END_BYTES
        end = int.from_bytes(idx.pread(_END_BYTES * (length - 1), _END_BYTES), "little") if length else 0
        idx.close()
        size = bag.size if self.bag_path.exists() else 0
        if size < end:
            problem = "the bag is shorter than its ends say"
            raise TruncatedError(problem, path=str(self.bag_path), expected=f"{end} bytes", found=f"{size} bytes")
        return length, end

    def _repaired(self, data: bytes) -> int:
        """Drop an end that was torn; return how many of these bytes the bag has already behind its last end."""
        if isinstance(self.idx, FileIO):
            self.idx.truncate(_END_BYTES * (self.length - len(self._ends)))
        size = self.bag.seek(0, os.SEEK_END)
        if size == self._written:
            return 0
        found = content_of(self.bag_path).pread(self._written, min(len(data), size - self._written))
        if not data.startswith(found):
            raise FormatError(
                "cannot resume after a partial write: the record does not match",
                path=str(self.bag_path),
                offset_bytes=self._written,
                expected="the bytes that the interrupted writer left behind the last end",
                found=f"others among {len(found)} bytes",
                remedy="Append the same records again, or cut the bag to this offset",
            )
        return len(found)


def _opened(path: Any) -> Any:
    """Return a file to append to, unbuffered if it is local."""
    return open(path, "ab", buffering=0) if is_local(path) else path.open("ab")


def _write(file: Any, data: bytes) -> None:
    written = file.write(data)
    while written < len(data):  # an unbuffered file may take a part
        written += file.write(data[written:])


class BagReader(RandomAccess):
    """The records of a bag by number. It has the records that the bag had as it was opened; the bag may grow.

    Args:
        bag_source: A path, a path object, bytes, or a `SharedBuffer`.
        idx_source: The ends, as a path, a path object, bytes or a `SharedBuffer`; `None`: beside the bag, or else at
            its end, as in granular 0.21.
        cache_index: True: hold the ends in shared memory.
        cache_data: True: hold the whole bag in shared memory.
        single_file: True: the ends are at the end of the bag, whatever lies beside it.

    Raises:
        FormatError: The bag has no table of ends.
    """

    _unit = "record"

    def __init__(
        self,
        bag_source: Any,
        idx_source: Any = None,
        cache_index: bool | None = None,
        cache_data: bool = False,
        single_file: bool = False,
    ) -> None:
        if isinstance(idx_source, bool):  # granular 0.21: BagReader(source, cache_index, cache_data)
            idx_source, cache_index, cache_data = None, idx_source, bool(cache_index)
        if idx_source is None and not single_file:
            idx_source = _idx_beside(bag_source)
        self._bag = content_of(path_of(bag_source))
        self._idx = self._bag if idx_source is None else content_of(path_of(idx_source))
        self._table = 0  # where the ends begin
        self._single_size = 0  # size of a bag that holds its ends
        if idx_source is None:
            self._single_size = self._bag.size
            layout = layout_of(cast("StoredFile", self._bag), None)
            self._table, self.length, self._data_bytes = layout.table_offset, layout.n_records, layout.data_bytes
        else:
            self.length, self._data_bytes = self._idx.size // _END_BYTES, self._bag.size
        if cache_data and not isinstance(self._bag, SharedBuffer):
            self._bag = SharedBuffer(self._bag.pread(0, self._bag.size))
        if cache_index is not False and not isinstance(self._idx, SharedBuffer):
            self._idx = SharedBuffer(self._idx.pread(self._table, _END_BYTES * self.length))
            self._table = 0

    @property
    def size(self) -> int:
        """Bytes of the records and of their ends."""
        if self._single_size:
            return self._single_size
        return (self._limits(self.length - 1, self.length)[-1] if self.length else 0) + _END_BYTES * self.length

    def __getitem__(self, index: Any) -> Any:
        """Return a record, or the list of those in a slice or range, which is cut at the end.

        Raises:
            IndexError: There is no such record.
            FormatError: The bag is damaged there.
        """
        if self.closed:
            raise ArgumentError("the reader is closed")
        number = index
        if type(index) is not int:
            if isinstance(index, (slice, range)):
                data, limits = self.read(rows_of(index, self.length))
                return [data[start:stop] for start, stop in pairwise(limits)]
            number = operator.index(index)
        if not 0 < number < self.length:
            start, stop = self._limits(self.checked(number), 1)
        else:
            at, memory = self._table + _END_BYTES * (number - 1), self._idx.buf
            ends = self._idx.pread(at, 2 * _END_BYTES) if memory is None else memory[at : at + 2 * _END_BYTES]
            start, stop = _TWO_ENDS.unpack(ends)
        return self._read(number, start, stop)

    def read(self, rows: range) -> tuple[bytes, Sequence[int]]:
        """Return the bytes of these records, one after the other, and n + 1 limits: where each begins and ends."""
        if not rows:
            return b"", (0,)
        limits = self._limits(rows.start, rows.stop)
        first, last = limits[0], limits[-1]
        if len(rows) > 1 and not all(map(le, limits, islice(limits, 1, None))):
            for number, (start, stop) in zip(rows, pairwise(limits), strict=True):
                self._read(number, start, stop)  # one of them raises
        return self._read(rows.start, first, last), [end - first for end in limits] if first else limits

    def close(self) -> None:
        """Close files, and free shared memory."""
        self._bag.close()
        self._idx.close()
        super().close()

    def _limits(self, start: int, stop: int) -> tuple[int, ...]:
        """Return the starts of records `start` to `stop - 1`, and the end of the last one."""
        first = max(0, start - 1)
        table = self._idx.pread(self._table + _END_BYTES * first, _END_BYTES * (stop - first))
        ends = _ends_of(len(table) // _END_BYTES).unpack(table)
        return ends if start else (0, *ends)

    def _read(self, number: int, start: int, stop: int) -> bytes:
        """Return the bytes of records from `number` on."""
        if not 0 <= start <= stop <= self._data_bytes:
            if not self._single_size:
                self._data_bytes = self._bag.size  # it may have grown
            if not 0 <= start <= stop <= self._data_bytes:
                raise FormatError(
                    "a record ends before it starts, or behind the bag",
                    path=self._bag.name,
                    index=number,
                    offset_bytes=start,
                    expected=f"an end from {start} to {self._data_bytes}",
                    found=stop,
                )
        data = self._bag.pread(start, stop - start)
        if len(data) != stop - start:
            raise TruncatedError(
                "the bag was truncated while it was open",
                path=self._bag.name,
                index=number,
                expected=f"{stop - start} bytes",
                found=f"{len(data)} bytes",
            )
        return data


@functools.lru_cache(256)
def _ends_of(n: int) -> struct.Struct:
    return struct.Struct(f"<{n}Q")


def _idx_beside(bag: Any) -> Any:
    """Return the path of the `.idx` beside a bag, or `None`."""
    path = path_of(bag)
    idx = path.with_suffix(".idx") if hasattr(path, "with_suffix") else None
    return idx if idx is not None and idx.exists() else None


def rows_of(index: slice | range, length: int) -> range:
    """Return the numbers that a slice or range means, cut at `length`.

    Raises:
        ArgumentError: It has a negative bound or a step.
    """
    start = 0 if index.start is None else operator.index(index.start)
    stop = length if index.stop is None else operator.index(index.stop)
    if not 0 <= start <= stop or index.step not in (None, 1):
        raise ArgumentError(f"expected 0 <= start <= stop and a step of 1, found {index}")
    return range(min(start, length), min(stop, length))
