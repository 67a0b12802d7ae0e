"""What a pickled source carries, so that a worker process lists, opens and counts no local files.

A file is compared with its size and time when it is opened to be read, as always.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.indexing.files_reader import FilesReader
from dataformats.interfaces import Reader, Table
from dataformats.spec import Spec
from dataformats.storage.files import LocalFile
from dataformats.storage.remote.files import FsspecFile

_COMPARED = 1024  # files that are compared at once

KnownFiles = tuple[bytes, bytes]
"""Names, and int64[3, n]: sizes, times and counts of records; compressed, some 8 bytes a file."""


class PickledSource(NamedTuple):
    """What a pickled source knows, besides the arguments of `open`.

    Attributes:
        fingerprint: Its fingerprint.
        payload: Its payload, inferred or not.
        spec: Its spec, inferred or not; after `with_spec` it differs from the call's.
        is_declared: True if the call or a sidecar declares types.
        declared: The payload and the spec that its sidecar declares.
        files: Its files; `None` if they must be listed and opened.
        versions: The result of `versions_of` for its files.
        memory: Gives access to its files in memory; `None` if it has none, or cannot share them.
    """

    fingerprint: str
    payload: str | None
    spec: Spec
    is_declared: bool
    declared: Mapping[str, Any]
    files: KnownFiles | None
    versions: bytes | None
    memory: Any


def pack_files(reader: Reader | Table) -> KnownFiles | None:
    """Return the files of a reader; `None` if one is not a plain local file, or the format needs to open them."""
    files = [file for file in reader.files if type(file) is LocalFile]
    if not isinstance(reader, FilesReader) or reader.spec is not None or len(files) != len(reader.files):
        return None
    names = "\0".join(file.name for file in files).encode(errors="surrogateescape")
    facts = np.array([[file.size for file in files], [file.mtime_ns for file in files], reader.counts])
    return zlib.compress(names), _packed(facts)


def versions_of(reader: Reader | Table) -> bytes | None:
    """Return a digest of names and versions of the files; `None` if no server tells the version of one of them.

    Files of the same digest have the same fingerprint.
    """
    files = [file.stored for file in reader.files]
    remote = [file for file in files if isinstance(file, FsspecFile) and file.is_versioned]
    if len(remote) < len(files):
        return None
    return hashlib.blake2b(repr([file.cache_key for file in remote]).encode(), digest_size=16).digest()


def known_files(packed: KnownFiles) -> tuple[list[LocalFile], NDArray[np.int64]] | None:
    """Return the files, and int64[n], the records of each; `None` if one of those compared is another file now."""
    names = zlib.decompress(packed[0]).decode(errors="surrogateescape").split("\0")
    facts = _unpacked(packed[1])
    sizes, mtimes_ns, counts = facts[0].tolist(), facts[1].tolist(), facts[2]
    for number in range(0, len(names), -(-len(names) // _COMPARED)):
        try:
            info = os.stat(names[number])
        except OSError:
            return None
        if (info.st_size, info.st_mtime_ns) != (sizes[number], mtimes_ns[number]):
            return None
    known = zip(names, sizes, mtimes_ns, strict=True)
    return [LocalFile.known(name, size, mtime_ns) for name, size, mtime_ns in known], counts


def _packed(facts: NDArray[np.int64]) -> bytes:
    """Return int64[3, n] compressed: neighbors are alike, and so are the high bytes of their differences."""
    planes = np.diff(facts.astype("<i8"), prepend=0).reshape(-1, 1).view(np.uint8).T
    return zlib.compress(planes.tobytes())


def _unpacked(packed: bytes) -> NDArray[np.int64]:
    planes = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(8, -1)
    differences = np.ascontiguousarray(planes.T).view("<i8").reshape(3, -1)
    return np.cumsum(differences, axis=1).astype(np.int64)
