"""Our own facts beside data: binary indexes with a checksum per block, and `NAME.dataformats.json`.

An index is `DFINDEX1`, the length (uint32) and the CRC32 (uint32) of a JSON header, the header, and then each column
of the header in blocks of 1 MiB, each followed by its CRC32. All integers are little-endian.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import struct
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.storage import atomic
from dataformats.storage.files import Folder, LocalFile, StoredFile

__all__ = [
    "FACTS_SUFFIX",
    "INDEX_SUFFIX",
    "Index",
    "cache_folder",
    "load_facts",
    "load_index",
    "load_inferred",
    "save_facts",
    "save_index",
    "save_inferred",
]

_LOG = logging.getLogger("dataformats")
_MAGIC = b"DFINDEX1"
_HEADER = struct.Struct("<8sII")
_BLOCK = 2**20
_MAX_FACTS = 16 * 2**20
_UNUSABLE = (ValueError, LookupError, TypeError, ArithmeticError, RecursionError, struct.error, OSError, MemoryError)
_TICK_NS = 50_000_000
_MOST_PER_BYTE = 2  # an index has 12 bytes a record, and a record at least 8 in its file
_MOST_HEADER = 2**20
FACTS_SUFFIX = ".dataformats.json"
INDEX_SUFFIX = ".dataformats.idx"


@dataclass(frozen=True, slots=True)
class Index:
    """The index of one file.

    Attributes:
        columns: Arrays by name.
        facts: What else is known, as JSON.
        exact: True where the index was made of this very file (size and time); False where it came with the data
            and only the size fits: then it is a hint, and every frame must be checked.
    """

    columns: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any]
    exact: bool = True


def cache_folder() -> Path:
    """Return the folder of this user's indexes: `DATAFORMATS_CACHE`, or the platform's cache folder."""
    if chosen := os.environ.get("DATAFORMATS_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "dataformats"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "dataformats"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dataformats"


def load_index(file: StoredFile, where: str, kind: str) -> Index | None:
    """Return the index of a file, or `None` where there is none, an old one or a broken one.

    Args:
        file: The data file.
        where: `"cache"`, `"beside"`, or a folder.
        kind: What sort of index; another sort is not this file's.
    """
    sidecar = file.sibling(file.basename + INDEX_SUFFIX) if where == "beside" else _cached(file, where)
    if sidecar is None:
        return None
    try:
        if where == "beside" and sidecar.size > _MOST_PER_BYTE * int(file.identity[0]) + _MOST_HEADER:
            raise ValueError(f"{sidecar.size} bytes are more than such a file can need")
        return _parse(sidecar, file, kind)
    except (
        ValueError,
        LookupError,
        TypeError,
        ArithmeticError,
        RecursionError,
        struct.error,
        OSError,
        MemoryError,
    ) as error:
        _LOG.warning("ignored the index %s: %s", sidecar.name, error)
        return None


def save_index(file: StoredFile, where: str, kind: str, index: Index) -> Path | None:
    """Write an index so that others see it whole; return its path, or `None` where it cannot be written."""
    path = _path(file, where)
    if path is None:
        return None
    header = {
        "kind": kind,
        "identity": list(file.identity),
        "made_ns": time.time_ns(),
        "facts": dict(index.facts),
        "columns": [[name, array.dtype.str, len(array)] for name, array in index.columns.items()],
    }
    text = json.dumps(header).encode()
    parts = [_HEADER.pack(_MAGIC, len(text), zlib.crc32(text)), text]
    for array in index.columns.values():
        memory = np.ascontiguousarray(array).data.cast("B")
        for first in range(0, len(memory), _BLOCK):
            block = memory[first : first + _BLOCK]
            parts += [bytes(block), zlib.crc32(block).to_bytes(4, "little")]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_bytes(path, b"".join(parts))
    except (OSError, MemoryError) as error:
        _LOG.warning("the index of %s is kept in memory only: %s", file.name, error)
        return None
    return path


def load_facts(entry: StoredFile | Folder) -> dict[str, Any] | None:
    """Return what `NAME.dataformats.json` says of a file or folder, or `None`.

    Raises:
        ValueError: The sibling is there and is not what it should be.
    """
    sibling = entry.sibling(entry.basename + FACTS_SUFFIX) if entry.basename else None
    if sibling is None:
        return None
    try:
        facts = json.loads(sibling.read_all(_MAX_FACTS))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{sibling.name!r} is no JSON: {error}; delete it, or pass spec= and payload=") from error
    if not isinstance(facts, dict) or facts.get("version") != 1:
        raise ValueError(f"{sibling.name!r}: expected a JSON object of version 1; delete it or update dataformats")
    for name, fits in _FACTS.items():
        if facts.get(name) is not None and not fits(facts[name]):
            raise ValueError(f"{sibling.name!r}: {name!r} is not what this package writes; delete it")
    return facts


def _is_file_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return False
    return all(isinstance(entry.get(number), int) for number in ("records", "bytes"))


_FACTS: dict[str, Callable[[Any], bool]] = {
    "payload": lambda payload: isinstance(payload, str),
    "spec": lambda spec: isinstance(spec, dict) and all(isinstance(kind, str) for kind in spec.values()),
    "files": lambda files: isinstance(files, list) and all(map(_is_file_entry, files)),
}


def save_facts(path: Path, facts: Mapping[str, Any]) -> Path:
    """Write the sibling of `path`; return its path."""
    sibling = path.with_name(path.name + FACTS_SUFFIX)
    atomic.write_bytes(sibling, (json.dumps({"version": 1, **facts}, indent=1) + "\n").encode())
    return sibling


def load_inferred(files: Sequence[StoredFile], where: str) -> dict[str, Any] | None:
    """Return what a full pass over these very files found out of their spec, or `None`."""
    path = _inferred_path(files, where)
    try:
        found = json.loads(LocalFile(path).read_all(_MAX_FACTS))
        facts = found["facts"]
        sound = zlib.crc32(json.dumps(facts).encode()) == found["crc32"]
        return facts if sound and all(_FACTS[name](facts[name]) for name in ("payload", "spec")) else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def save_inferred(files: Sequence[StoredFile], where: str, facts: Mapping[str, Any]) -> None:
    """Keep what a full pass over these files found out, until one of them changes."""
    path = _inferred_path(files, where)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(facts)
        atomic.write_bytes(path, f'{{"crc32": {zlib.crc32(text.encode())}, "facts": {text}}}'.encode())
    except OSError as error:
        _LOG.warning("the inferred spec is not kept: %s", error)


def _inferred_path(files: Sequence[StoredFile], where: str) -> Path:
    state = hashlib.blake2b(digest_size=16)
    for file in files:
        state.update(repr((_resolved_name(file), file.identity)).encode(errors="surrogateescape"))
    return _index_folder("cache" if where == "beside" else where) / f"{state.hexdigest()}.spec.json"


def _index_folder(where: str) -> Path:
    return cache_folder() / "indexes" if where == "cache" else Path(where)


def _resolved_name(file: StoredFile) -> str:
    return str(file.local.resolve()) if file.local is not None else file.name


def _path(file: StoredFile, where: str) -> Path | None:
    if where == "beside":
        return None if file.local is None else file.local.with_name(file.basename + INDEX_SUFFIX)
    digest = hashlib.blake2b(_resolved_name(file).encode(errors="surrogateescape"), digest_size=16).hexdigest()
    return _index_folder(where) / f"{digest}{INDEX_SUFFIX}"


def _cached(file: StoredFile, where: str) -> StoredFile | None:
    path = _path(file, where)
    return LocalFile(path) if path is not None and path.is_file() else None


def _parse(sidecar: StoredFile, file: StoredFile, kind: str) -> Index | None:
    data = sidecar.pread(0, sidecar.size)
    magic, length, checksum = _HEADER.unpack_from(data)
    text = data[_HEADER.size : _HEADER.size + length]
    if magic != _MAGIC or zlib.crc32(text) != checksum:
        raise ValueError("its header is damaged")
    header = json.loads(text)
    if not isinstance(header["facts"], dict):
        raise ValueError("its facts are no mapping")
    identity = tuple(header["identity"])
    if header["kind"] != kind or identity[0] != file.identity[0]:
        return None
    at, columns = _HEADER.size + length, {}
    for name, dtype, n in header["columns"]:
        columns[name], at = _column(data, at, np.dtype(dtype), int(n))
    if at != len(data):
        raise ValueError("bytes follow its last column")
    exact = identity == file.identity and not _racy(identity, int(header["made_ns"]))
    return Index(columns, header["facts"], exact=exact)


def _racy(identity: tuple[str, ...], made_ns: int) -> bool:
    """Return True where the file may have changed after the index was made without its size and time telling so.

    Times of files are coarse: what is written within the same tick has the same time, as git found out.
    """
    return len(identity) > 1 and identity[1].isdecimal() and made_ns - int(identity[1]) < _TICK_NS


def _column(data: bytes, at: int, dtype: np.dtype[Any], n: int) -> tuple[NDArray[Any], int]:
    if dtype.hasobject or n < 0:
        raise ValueError(f"its header names a column of {n} {dtype}")
    blocks = []
    left = n * dtype.itemsize
    while left > 0:
        block = data[at : at + min(left, _BLOCK)]
        at += len(block) + 4
        if len(block) < min(left, _BLOCK) or zlib.crc32(block) != int.from_bytes(data[at - 4 : at], "little"):
            raise ValueError(f"the block before byte {at} is damaged")
        blocks.append(block)
        left -= len(block)
    return np.frombuffer(b"".join(blocks), dtype), at
