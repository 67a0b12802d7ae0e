"""The backend of safetensors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from dataformats.backends.rows.reader import FixedRows, RowsReader
from dataformats.backends.safetensors.header import BITS, StoredTensor, read_header
from dataformats.errors import FormatError
from dataformats.interfaces import Backend, ReaderOptions, SniffResult, StoredFile
from dataformats.spec import Type

_NUMBERS = {"BOOL": "bool"} | {
    f"{letter}{bits}": f"{kind}{bits}"
    for letter, kind in (("I", "int"), ("U", "uint"), ("F", "float"))
    for bits in (8, 16, 32, 64)
}
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

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> RowsReader:
        """Return a reader of rows.

        Raises:
            FormatError: A header is damaged, tensors have different first dimensions, or files differ in tensors.
        """
        return RowsReader(files, [_rows(file) for file in files])


def _rows(file: StoredFile) -> dict[str, FixedRows]:
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
    return {name: _rows_of(file, tensor) for name, tensor in tensors.items()}


def _rows_of(file: StoredFile, tensor: StoredTensor) -> FixedRows:
    """Return the rows of a tensor; if NumPy lacks the dtype, they are bytes."""
    if tensor.dtype in _NUMBERS:
        return FixedRows.of(file, np.dtype(_NUMBERS[tensor.dtype]), tensor.shape, tensor.first)
    plain = FixedRows.of(file, np.dtype(np.uint8), (*tensor.shape, BITS[tensor.dtype] // 8), tensor.first)
    return FixedRows(Type("bytes"), plain.row_bytes, plain.first, plain.step, plain.count)
