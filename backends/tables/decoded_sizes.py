"""Sizes in memory of what is compressed in tables, before it is decoded: kilobytes can stand for gigabytes."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from dataformats.batch.to_arrow import pyarrow
from dataformats.errors import FormatError, Remedy
from dataformats.interfaces import StoredFile

_TRUSTED = "If you trust the data, pass {max_record_bytes}"
_TEXTS = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
_WIDTH = 9  # bytes of a number or an offset, and whether it is there


def check_decoded_size(file: StoredFile, part: str, n_bytes: int, max_record_bytes: int) -> None:
    """Raise `FormatError` if a part of a file, such as `"row group 3"`, would have too many bytes in memory."""
    most = file.most_decoded_bytes(max_record_bytes)
    if n_bytes > most:
        what, expected = (
            f"{part} is longer than a share of max_record_bytes",
            f"<= {most} bytes in a file of {file.size}",
        )
        needed = Remedy(_TRUSTED, max_record_bytes=8 * n_bytes)
        raise FormatError(what, path=file.name, expected=expected, found=f"{n_bytes} bytes", remedy=needed)


def bytes_of_repeated(columns: Iterable[Any]) -> int:
    """Return the bytes that decoding adds to columns: of texts in dictionaries, of values in runs, and of nulls.

    Args:
        columns: pyarrow arrays, also chunked ones; structs, lists and maps count what they hold.
    """
    arrays = itertools.chain.from_iterable(getattr(column, "chunks", [column]) for column in columns)
    return sum(map(_bytes_of_repeated, arrays))


def _bytes_of_repeated(array: Any) -> int:
    types, compute = pyarrow().types, importlib.import_module("pyarrow.compute")
    if isinstance(array, pyarrow().ExtensionArray):
        return _bytes_of_repeated(array.storage)
    if types.is_null(array.type):
        return _WIDTH * len(array)
    if types.is_dictionary(array.type):
        return compute.sum(_lengths(array.dictionary).take(array.indices)).as_py() or 0
    if types.is_run_end_encoded(array.type):
        runs = np.diff(np.asarray(array.run_ends).astype(np.int64), prepend=0)
        return int(runs @ (np.asarray(_lengths(array.values)) + _WIDTH))
    if types.is_union(array.type):
        return bytes_of_repeated(map(array.field, range(array.type.num_fields)))
    if types.is_map(array.type):
        return bytes_of_repeated([array.keys, array.items])
    inner = array.flatten() if array.type.num_fields else []
    return bytes_of_repeated(inner if isinstance(inner, list) else [inner])


def _lengths(values: Any) -> Any:
    """Return an int64 array with the bytes of each text; 0 for other values."""
    if str(values.type) not in _TEXTS:
        return pyarrow().array(np.zeros(len(values), np.int64))
    return importlib.import_module("pyarrow.compute").binary_length(values.cast("large_binary")).fill_null(0)
