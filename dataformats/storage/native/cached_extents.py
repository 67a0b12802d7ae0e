"""Find the extents of a batch in the blocks of a cache, so that the kernels read the blobs from memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.interfaces import Extents
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.compressed.windows import Windows
from dataformats.storage.remote.block_cache import current_cache
from dataformats.storage.remote.files import FsspecFile

__all__ = ["find_cached"]


def find_cached(files: Sequence[StoredFile], requests: Sequence[Extents], max_bytes: int) -> Windows | None:
    """Return the memory in which these extents lie, as one window; `None` if the reference path must read them.

    Args:
        files: The files that the extents number.
        requests: Extents, such as one for each field.
        max_bytes: The most bytes of a blob.

    Raises:
        OSError: A block cannot be read.
        FormatError: A file ends early, changed, or its server does not support ranges.
    """
    cache = current_cache()
    if cache is None or not cache.saves or any(one.problems for one in requests):
        return None
    file, offset, length, size = map(np.concatenate, zip(*map(_columns, requests), strict=True))
    if not len(file) or length.min() < 0 or length.max() > max_bytes or file.min() < 0 or file.max() >= len(files):
        return None
    numbers = file.tolist()
    by_number = {number: files[number] for number in set(numbers)}
    room = np.array([by_number[number].size for number in numbers]) - size
    remote = {number: one for number, one in by_number.items() if isinstance(one, FsspecFile)}
    if len(remote) < len(by_number) or ((offset < 0) | (offset > room)).any():
        return None
    rows = np.flatnonzero(size)
    found = cache.addresses(remote, file[rows], offset[rows], size[rows])
    if found is None:
        return None
    address, kept = found
    begin = address.min(initial=np.iinfo(np.int64).max)
    place = np.zeros(len(file), np.int64)
    place[rows] = address - begin
    facts = np.array([begin], np.uint64), np.array([(place + size).max()]), np.array([-1])
    parts = np.split(place, np.cumsum([len(one) for one in requests])[:-1])
    moved = [
        replace(one, file=np.zeros(len(one), np.int32), offset=part + one.head)
        for one, part in zip(requests, parts, strict=True)
    ]
    return Windows(moved, facts, kept)


def _columns(one: Extents) -> tuple[NDArray[Any], ...]:
    """Return file, first byte of the framing and length of each blob, and its bytes with the framing."""
    return one.file, one.offset - one.head, one.length, one.length + (one.head + one.tail)
