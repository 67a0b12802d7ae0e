"""Files of records: `FileReader` and `FileWriter`."""

from __future__ import annotations

import dataclasses
import itertools
import operator
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from dataformats import create
from dataformats.errors import FormatError
from dataformats.interfaces import LocalFile
from dataformats.internals import TableIndex, arguments_of

__all__ = ["FileReader", "FileWriter", "MissingFileError", "ReadError", "RecordIndexError", "checkFsAlign"]

_NO_LIMIT = 2**62  # no record is longer than its file


class ReadError(FormatError, RuntimeError):
    """A file or a record is damaged; the error of this package is its cause."""


class RecordIndexError(IndexError, RuntimeError):
    """There is no record of this number."""


class MissingFileError(AssertionError, FileNotFoundError):
    """There is no such file."""


def checkFsAlign(fd: int) -> bool:  # noqa: N802  # as the original has it
    """Return False: this package reads from any file system without aligned buffers."""
    return False


class FileReader:
    """Reads records of one or several files. Thread-safe, and picklable.

    Args:
        fname: A `.ffr` file; a folder, whose `.ffr` files are read in the order of their names; or a list of files, in
            this order.
        check_data: Check the CRCs of headers and records.

    Raises:
        AssertionError: There are no files, or one does not exist, is not a file, or does not end in `.ffr`.
        ReadError: A header is damaged.
        TypeError: `fname` has another type.

    Example:
        >>> from dataformats_compat.ffrecord import FileReader
        >>> reader = FileReader("tests/golden/ffrecord/pickled_ints.ffr")
        >>> reader.n, len(reader.read([3, 6, 0]))
        (100, 3)
    """

    def __init__(self, fname: Any, check_data: bool = True) -> None:
        self._fnames = _file_names(fname)
        self._check_data = check_data
        self._closed = False
        try:
            self._source = arguments_of(
                self._fnames,
                format="ffrecord",
                payload="bytes",
                verify_checksums=bool(check_data),
                max_record_bytes=_NO_LIMIT,
            ).open_blobs()
            self._n = len(self._source)
        except FormatError as error:
            raise _read_error(error) from error

    @property
    def n(self) -> int:
        """Number of records."""
        return self._n

    @property
    def fnames(self) -> list[str]:
        """The files."""
        return list(self._fnames)

    @property
    def check_data(self) -> bool:
        """True if CRCs are checked."""
        return self._check_data

    def read(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> list[Any]:
        """Return the records at `indices`, in this order, each an array uint8[length], writable.

        All are parts of one array: copy a record that is to outlive the others.

        Raises:
            ReadError: A record is damaged.
            RecordIndexError: An index is out of range `[0, n)`.
            RuntimeError: The reader is closed.
        """
        self._check_open()
        try:
            values, offsets = self._source.read_blobs(indices).contiguous()
        except FormatError as error:
            raise _read_error(error) from error
        except IndexError as error:
            raise RecordIndexError(str(error)) from error
        return [values[start:stop] for start, stop in itertools.pairwise(offsets.tolist())]

    def read_one(self, index: SupportsIndex) -> Any:
        """Return one record, an array uint8[length], writable; raises the errors of `read`."""
        self._check_open()
        number = operator.index(index)
        if not 0 <= number < self._n:
            raise RecordIndexError(f"index {number} is out of range for {self._n} records")
        try:
            return np.frombuffer(self._source.stored_record(number)[0], np.uint8)
        except FormatError as error:
            raise _read_error(error) from error

    def validate(self) -> None:
        """Check the CRCs of all headers again.

        Raises:
            ReadError: One is wrong.
        """
        for number in range(len(self._fnames)):
            try:
                self._table(number).verify()
            except FormatError as error:
                raise _read_error(error) from error

    def get_offsets(self, file_index: int) -> NDArray[np.int64]:
        """Return int64[n + 1], where the records of a file begin, and the end of the file."""
        return self._table(file_index).entries().bounds()

    def get_checksums(self, file_index: int) -> NDArray[np.uint32]:
        """Return uint32[n], the stored CRC-32 of the records of a file."""
        return self._table(file_index).entries().checksums

    def close(self) -> None:
        """Close the files; `n` stays."""
        self._closed = True
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return FileReader, (self._fnames, self._check_data)

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"the reader of {self._fnames[0]!r} has been closed. Make a new FileReader")

    def _table(self, number: int) -> TableIndex:
        return TableIndex(LocalFile(Path(self._fnames[number])), verify=True)


class FileWriter:
    """Writes one file of `n` records. The file appears at `close`.

    An exception that leaves the `with` block deletes the data.

    Args:
        fname: The file, which ends in `.ffr`; an existing one is replaced.
        n: Number of records, at least 0.

    Attributes:
        n: Number of records in the whole file.
        count: Number of records written.

    Raises:
        AssertionError: `fname` does not end in `.ffr`.

    Example:
        >>> import pathlib, tempfile
        >>> from dataformats_compat.ffrecord import FileWriter
        >>> with FileWriter(pathlib.Path(tempfile.mkdtemp()) / "a.ffr", 2) as writer:
        ...     writer.write_one(b"one")
        ...     writer.write_one(bytearray(b"two"))
    """

    def __init__(self, fname: Any, n: int) -> None:
        if not isinstance(fname, (str, os.PathLike)) or Path(fname).suffix != ".ffr":
            raise AssertionError(f"expected the name of a file that ends in .ffr, found {fname!r}")
        self.n: int = operator.index(n)
        self.count: int = 0
        self._name = os.fspath(fname)
        self._writer = create(fname, "ffrecord", records=self.n, overwrite=True)
        self._closed = False

    def write_one(self, buffer: Any) -> None:
        """Append one record.

        Args:
            buffer: `bytes`, `bytearray`, `memoryview`, or an array: one dimension of bytes.

        Raises:
            RuntimeError: There are `n` records already.
            TypeError: It is no buffer.
            ValueError: It is no sequence of bytes: an array of more dimensions, or of larger numbers.
        """
        if self.count >= self.n:
            raise RuntimeError(f"cannot write record {self.count + 1} to {self._name!r}: expected n={self.n} records")
        self._writer.append_bytes(buffer if type(buffer) is bytes else _bytes_of(buffer))
        self.count += 1

    def close(self) -> None:
        """Complete the file.

        Raises:
            RuntimeError: There are fewer than `n` records; more can be written.
        """
        if self._closed:
            return
        if self.count != self.n:
            raise RuntimeError(f"cannot close {self._name!r}: expected n={self.n} records, found {self.count}")
        self._writer.close()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self._writer.abort()  # has no effect after `close`


def _file_names(fname: Any) -> list[str]:
    if isinstance(fname, (str, os.PathLike)):
        path = Path(fname)
        names = sorted(map(str, path.glob("*.ffr"))) if path.is_dir() else [str(fname)]
    elif isinstance(fname, (list, tuple)):
        names = [str(name) for name in fname]
    else:
        raise TypeError(f"expected fname as a str, os.PathLike, list or tuple, found {type(fname).__name__}")
    if not names:
        raise AssertionError(f"expected at least one .ffr file, found none in {str(fname)!r}")
    for path in map(Path, names):
        if not path.exists():
            raise MissingFileError(f"{str(path)!r} does not exist")
        if not path.is_file() or path.suffix != ".ffr":
            raise AssertionError(f"expected a file that ends in .ffr, found {str(path)!r}")
    return names


def _read_error(error: FormatError) -> ReadError:
    return ReadError(**{fact.name: getattr(error, fact.name) for fact in dataclasses.fields(ReadError)})


def _bytes_of(buffer: Any) -> Any:
    view = memoryview(buffer)
    if view.ndim != 1 or view.itemsize != 1:
        raise ValueError(
            f"cannot write a record: expected one dimension of bytes, found {view.ndim} of {view.itemsize} bytes each. "
            "Pass its tobytes()"
        )
    return view if view.c_contiguous else view.tobytes()
