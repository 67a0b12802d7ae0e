"""The backend of NumPy arrays."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dataformats.backends.npy.header import MAGIC, ArrayHeader, read_header
from dataformats.backends.rows.reader import FixedRows, RowsReader, types_of
from dataformats.backends.rows.windows import TokenStream, check_windows, open_windows
from dataformats.errors import FormatError
from dataformats.indexing.union_reader import column_notes, open_union
from dataformats.interfaces import Backend, Reader, ReaderOptions, SniffResult, StoredFile
from dataformats.spec import VALUE

_INDEX_MAP = re.compile(r"_indexmap_\w+_(doc|sample|shuffle)_idx\.npy")  # a cache that Megatron-LM leaves beside data


class NpyBackend(Backend):
    """Arrays of `numpy.save`: a record is a row, or a window over the elements of an array of one dimension."""

    name = "npy"
    suffixes: tuple[str, ...] = (".npy",)
    has_checked_header = True

    def matches_name(self, name: str) -> bool:
        """True for names in `.npy`, but for the index maps of Megatron-LM."""
        return super().matches_name(name) and _INDEX_MAP.search(name) is None

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize a file by the magic number; the header must be sound."""
        if file.pread(0, len(MAGIC)) != MAGIC:
            return SniffResult("no", "no magic number of NumPy")
        try:
            read_header(file)
        except FormatError as error:
            return SniffResult("damaged", error.what)
        return SniffResult("yes")

    def open(
        self,
        files: Sequence[StoredFile],
        options: ReaderOptions,
        *,
        window: int | None = None,
        stride: int | None = None,
        **_: Any,
    ) -> Reader:
        """Return a reader of rows, or of windows over tokens.

        Args:
            window: The tokens of a record; `None`: a record is a row along the first axis.
            stride: Tokens from the beginning of a window to the beginning of the next one; `None` is `window`.

        Raises:
            FormatError: A header is damaged, or an array has no rows or no numbers.
            SpecError: `stride` without `window`; or no type has the values of all files.
        """
        check_windows(window, stride)
        headers = [_checked(file, read_header(file), window) for file in files]
        if window is None:
            shards = [
                (file, {VALUE: FixedRows.of(file, header.dtype, header.shape, header.first)})
                for file, header in zip(files, headers, strict=True)
            ]
            reader = open_union(shards, lambda one: types_of(one[1]), _reader, options)
            reader.warnings = column_notes([[file.name] for file in files], [reader])
            return reader
        for file, header in zip(files, headers, strict=True):
            if len(header.shape) > 1:
                what, remedy = "windows are cut from arrays of one dimension", "Leave out window="
                raise FormatError(what, path=file.name, found=f"the shape {header.shape}", remedy=remedy)
        streams = [TokenStream(header.dtype, header.first, header.shape[0]) for header in headers]
        return open_windows(files, streams, window, stride, options)


def _reader(shards: Sequence[tuple[StoredFile, dict[str, FixedRows]]]) -> RowsReader:
    """Return a reader of arrays whose rows have the same type."""
    return RowsReader([file for file, _ in shards], [rows for _, rows in shards])


def _checked(file: StoredFile, header: ArrayHeader, window: int | None) -> ArrayHeader:
    """Return the header of an array with rows, which the file is long enough for, or cut; windows need numbers."""
    if not header.shape:
        raise FormatError("a single value has no rows", path=file.name, expected="an array of one dimension or more")
    rows = FixedRows.of(file, header.dtype, header.shape, header.first)
    if window is not None and rows.type.dtype is None:
        raise FormatError("windows are cut from numbers", path=file.name, found=header.dtype)
    end = header.first + rows.count * rows.step
    if file.size > end:
        what = "the file goes on behind the array"
        raise FormatError(what, path=file.name, expected=f"{end} bytes", found=f"{file.size} bytes")
    return header
