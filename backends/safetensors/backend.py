"""The backend of safetensors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dataformats.backends.rows.reader import FixedRows, RowsReader, types_of
from dataformats.backends.safetensors.header import StoredTensor, read_header
from dataformats.errors import DataFormatsError, FormatError
from dataformats.indexing.union_reader import open_union
from dataformats.interfaces import Backend, Reader, ReaderOptions, SniffResult, StoredFile
from dataformats.spec import Type

_NUMBERS = {"BOOL": "bool", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"} | {
    f"{letter}{bits}": f"{kind}{bits}"
    for letter, kind in (("I", "int"), ("U", "uint"), ("F", "float"))
    for bits in (8, 16, 32, 64)
}
_Shard = tuple[StoredFile, dict[str, FixedRows], dict[str, DataFormatsError]]
_BEGIN = re.compile(rb'\{\s*("(?:[^"\\]|\\.)*"\s*:\s*\{|\})')


class SafetensorsBackend(Backend):
    """Tensors whose first dimensions are equal: a record is a row of each."""

    name = "safetensors"
    suffixes: tuple[str, ...] = (".safetensors",)
    has_checked_header = True

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize a file by the length of its header and the first entry in it."""
        head = file.pread(0, 4096)
        if _BEGIN.match(head, 8) is None:
            return SniffResult("no", "no JSON object begins at byte 8")
        length = int.from_bytes(head[:8], "little")
        is_inside = 8 + length <= file.size
        return SniffResult("yes") if is_inside else SniffResult("damaged", f"a header of {length} bytes does not fit")

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> Reader:
        """Return a reader of rows.

        Raises:
            FormatError: A header is damaged, or tensors have different first dimensions.
            SpecError: The rows of a tensor have several types, and no type has the values of all files.
        """
        shards = [(file, *_rows(file)) for file in files]
        return open_union(shards, lambda one: (types_of(one[1]), one[2].keys()), _reader, options)


def _reader(shards: Sequence[_Shard]) -> RowsReader:
    """Return a reader of files with the same tensors."""
    reader = RowsReader([file for file, _, _ in shards], [rows for _, rows, _ in shards])
    reader.left_out = shards[0][2] if shards else {}
    return reader


def _rows(file: StoredFile) -> tuple[dict[str, FixedRows], dict[str, DataFormatsError]]:
    """Return the fields of a file, and why tensors are left out."""
    tensors = read_header(file)
    if not tensors:
        raise FormatError("the file has no tensors", path=file.name, offset_bytes=8)
    sizes = {tensor.shape[:1] for tensor in tensors.values()}
    if len(sizes) > 1 or () in sizes:
        shapes = ", ".join(f"{name}{list(tensor.shape)}" for name, tensor in list(tensors.items())[:4])
        raise FormatError(
            "the tensors are no rows of records: their first dimensions differ",
            path=file.name,
            expected="one first dimension, as of embeddings with their labels",
            found=shapes + (" and more" if len(tensors) > 4 else ""),
            remedy="Weights of a model are read by safetensors itself",
        )
    end = max(tensor.end for tensor in tensors.values())
    if file.size > end:
        what = "the file goes on behind the tensors"
        raise FormatError(what, path=file.name, expected=f"{end} bytes", found=f"{file.size} bytes")
    failed = {name: _split_bytes(file, tensor) for name, tensor in tensors.items() if _is_split(tensor)}
    if len(failed) == len(tensors):
        raise next(iter(failed.values()))
    return {name: _rows_of(file, tensor) for name, tensor in tensors.items() if name not in failed}, dict(failed)


def _is_split(tensor: StoredTensor) -> bool:
    """True if two rows share a byte, as numbers of four or six bits may."""
    return bool((tensor.end - tensor.first) % max(1, tensor.shape[0]))


def _split_bytes(file: StoredFile, tensor: StoredTensor) -> FormatError:
    what, found = f"rows of {tensor.dtype} are no whole bytes", f"{tensor.end - tensor.first} bytes"
    return FormatError(what, path=file.name, offset_bytes=tensor.first, found=f"{tensor.shape[0]} rows in {found}")


def _rows_of(file: StoredFile, tensor: StoredTensor) -> FixedRows:
    """Return the rows of a tensor; the type is opaque if neither NumPy nor ml_dtypes has the dtype."""
    dtype = Type(_NUMBERS.get(tensor.dtype, "")).dtype
    if dtype is not None:
        rows = FixedRows.of(file, dtype, tensor.shape, tensor.first)
        return replace(rows, type=Type(_NUMBERS[tensor.dtype], dims=tensor.shape[1:]))
    n, n_bytes = tensor.shape[0], tensor.end - tensor.first
    plain = FixedRows.of(file, np.dtype(np.uint8), (n, n_bytes // max(1, n)), tensor.first)
    return FixedRows(Type(tensor.dtype), plain.row_bytes, plain.first, plain.step, plain.count)
