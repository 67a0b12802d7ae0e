"""Find the extents of a batch in the blocks of a cache, so that the kernels read the blobs from memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dataformats.interfaces import Extents
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.compressed.memory_spans import FlatExtents, MemorySpans, one_span
from dataformats.storage.read_context import READ_CONTEXT
from dataformats.storage.remote.files import FsspecFile


def find_cached(files: Sequence[StoredFile], requests: Sequence[Extents], max_bytes: int) -> MemorySpans | None:
    """Return the memory in which these extents lie, as one span; `None` if the reference path must read them.

    Args:
        files: The files that the extents number.
        requests: Extents, such as one for each field.
        max_bytes: The most bytes of a blob.

    Raises:
        OSError: A block cannot be read.
        FormatError: A file ends early, changed, or its server does not support ranges.
    """
    cache = READ_CONTEXT.cache
    flat = None if cache is None or not cache.saves else FlatExtents.of(files, requests, max_bytes)
    if cache is None or flat is None:
        return None
    remote = {number: one for number, one in flat.files.items() if isinstance(one, FsspecFile)}
    if len(remote) < len(flat.files):
        return None
    rows = np.flatnonzero(flat.size)
    found = cache.addresses(remote, flat.file[rows], flat.begin[rows], flat.size[rows])
    if found is None:
        return None
    address, kept = found
    begin = address.min(initial=np.iinfo(np.int64).max)
    places = np.zeros(len(flat.file), np.int64)
    places[rows] = address - begin
    return one_span(requests, places, begin, (places + flat.size).max(), kept)
