"""Arrays that take a while to compute, kept in a file of the cache folder: mapped into memory, checked when used.

A file is `DFARRAY1`, the length (uint32) and the CRC32 (uint32) of a JSON header, the header, the CRC32 (uint32) of
each piece, and the arrays. The checksum of a piece is compared when a process first takes an item of it, so a large
file opens as fast as a small one. All integers are little-endian.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.indexing.block_file import DTYPES, layout_of
from dataformats.indexing.index_cache import UNUSABLE, cache_folder
from dataformats.kernels import crc32, crc32_extents
from dataformats.storage.atomic import write_chunks
from dataformats.storage.paths import is_local

_LOG = logging.getLogger("dataformats")
_MAGIC = b"DFARRAY1"
_START = struct.Struct("<8sII")
_PIECE = 2**16  # bytes that have one checksum

_Array = NDArray[Any]


class _Arrays(NamedTuple):
    """Arrays, and for those in a file the checksums of their pieces, and which pieces were compared."""

    arrays: Mapping[str, _Array]
    checksums: Mapping[str, _Array] = {}
    is_sound: Mapping[str, NDArray[np.bool_]] = {}


class ArrayFile:
    """Arrays of non-negative integers by name, from the cache folder, or else computed and kept there. Thread-safe.

    If the file is damaged, or cannot be written, they are computed and stay in memory.

    Args:
        folder: A folder in the cache folder.
        key: The digest of everything that the arrays depend on.
        make: Computes them, name to array.
    """

    def __init__(self, folder: str, key: str, make: Callable[[], Mapping[str, _Array]]) -> None:
        self._path = cache_folder() / folder / f"{key}.arrays"
        self._key = key
        self._make = make
        found = _load(self._path, key)
        if found is None:
            made = self._computed()
            found = _load(self._path, key) or made  # the file can leave memory
        self._found = found

    def size(self, name: str) -> int:
        """Return the number of items of an array."""
        return len(self._found.arrays[name])

    def take(self, name: str, items: NDArray[np.int64] | slice) -> NDArray[np.int64]:
        """Return some items of an array, int64[n]: a slice, or the items with these numbers in `[0, size)`."""
        found = self._found
        array, is_sound = found.arrays[name], found.is_sound.get(name)
        if is_sound is not None and not is_sound.all():
            numbers = np.arange(*items.indices(len(array))) if isinstance(items, slice) else items
            is_taken = np.zeros(len(is_sound), np.bool_)
            is_taken[numbers * array.itemsize // _PIECE] = True
            pieces = np.flatnonzero(is_taken & ~is_sound)  # `np.unique` would import `numpy.ma`, which takes 30 ms
            if (_checksums(array, pieces) != found.checksums[name][pieces]).any():
                _LOG.warning("computing the damaged %s again", self._path)
                self._found = self._computed()
                return self.take(name, items)
            is_sound[pieces] = True
        return array[items].astype(np.int64)

    def _computed(self) -> _Arrays:
        arrays = {name: array.astype(_dtype(array), copy=False) for name, array in self._make().items()}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            _save(self._path, self._key, arrays)
        except OSError as error:
            _LOG.warning("cannot keep %s, so each process computes it: %s", self._path, error)
        return _Arrays(arrays)


def facts_of_files(paths: tuple[str, ...]) -> list[str]:
    """Return sizes and times of the local ones of these files, for a key: their content may change under one name."""
    infos = (os.stat(path) for path in paths if is_local(path) and os.path.exists(path))
    return [f"{info.st_size} {info.st_mtime_ns}" for info in infos]


def _dtype(array: _Array) -> str:
    """Return the smallest dtype for these numbers."""
    return layout_of({"": array}).columns[0].dtype


def _checksums(array: _Array, pieces: NDArray[np.int64]) -> NDArray[np.uint32]:
    octets = array.view(np.uint8)
    starts = pieces * _PIECE
    return crc32_extents(octets, starts, np.minimum(_PIECE, len(octets) - starts))


def _save(path: Path, key: str, arrays: Mapping[str, _Array]) -> None:
    pieces = [_checksums(array, np.arange(-(-array.nbytes // _PIECE))).astype("<u4") for array in arrays.values()]
    table = np.concatenate(pieces).tobytes()
    kept = [[name, array.dtype.str, len(array)] for name, array in arrays.items()]
    header = json.dumps({"key": key, "arrays": kept, "table": crc32(table)}).encode()
    start = _START.pack(_MAGIC, len(header), zlib.crc32(header)) + header + table
    write_chunks(path, [start, *(array.data.cast("B") for array in arrays.values())], sync_to_disk=False)


def _load(path: Path, key: str) -> _Arrays | None:
    """Return the arrays of a file; `None` if it is missing, damaged, or of another key."""
    try:
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        magic, length, checksum = _START.unpack_from(data)
        text = data[_START.size : _START.size + length]
        if magic != _MAGIC or zlib.crc32(text) != checksum:
            raise ValueError("its header is damaged")
        header = json.loads(text)
        if header["key"] != key:
            raise ValueError("it is of another key")
        return _arrays(data, _START.size + length, header)
    except FileNotFoundError:
        return None
    except UNUSABLE as error:
        _LOG.warning("ignored %s: %s", path, error)
        return None


def _arrays(data: mmap.mmap, base: int, header: Mapping[str, Any]) -> _Arrays:
    """Return the arrays behind a header. Raises `ValueError` if the file is not as long as it says."""
    if any(dtype not in DTYPES or n < 0 for _, dtype, n in header["arrays"]):
        raise ValueError(f"expected arrays of {', '.join(DTYPES)}")
    n_pieces = {name: -(-n * np.dtype(dtype).itemsize // _PIECE) for name, dtype, n in header["arrays"]}
    table = np.frombuffer(data, "<u4", sum(n_pieces.values()), base)
    if crc32(table) != header["table"]:
        raise ValueError("its checksums are damaged")
    at, arrays = base + table.nbytes, {}
    for name, dtype, n in header["arrays"]:
        arrays[name] = np.frombuffer(data, dtype, n, at) if n else np.zeros(0, dtype)
        at += arrays[name].nbytes
    if at != len(data):
        raise ValueError(f"expected {at} bytes, found {len(data)}")
    parts = np.split(table, np.cumsum(list(n_pieces.values()))[:-1])
    is_sound = {name: np.zeros(n, np.bool_) for name, n in n_pieces.items()}
    return _Arrays(arrays, dict(zip(n_pieces, parts, strict=True)), is_sound)
