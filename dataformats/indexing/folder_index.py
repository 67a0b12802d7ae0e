"""Join the indexes of the shards of a folder into one file: writers leave it there, and readers find it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from dataformats.indexing.index_cache import UNUSABLE, read_header
from dataformats.indexing.index_set import IndexSet, LocalBytes, Member, write_members

_LOG = logging.getLogger("dataformats")
_CHUNK_BYTES = 2**20


def write_folder_index(path: Path, new: Mapping[str, Path], kept: Mapping[str, str], finished: Path) -> None:
    """Write the index of a folder of shards, of as many of them as have one; no file if none has.

    An error leaves no index: readers then build it.

    Args:
        path: The file.
        new: Name of each new shard to the index of the file that becomes it: see `IndexCache`.
        kept: Name of each shard that stays to its name in `finished`.
        finished: The index of the folder that the new one replaces.
    """
    before, members, places = IndexSet(str(finished), None), list[Member](), list[tuple[Path, int, int]]()
    try:
        for name, single in new.items():
            if single.exists():
                size = single.stat().st_size
                header, base = read_header(LocalBytes(str(single)), size)
                members.append((name, {**header, "made_ns": time.time_ns()}, size - base))
                places.append((single, base, size - base))
        for name, present in kept.items():
            if (found := before.load(present)) is not None:
                members.append((name, *found[:2]))
                places.append((finished, found[2][2], found[1]))
        if members:
            write_members(path, members, (chunk for place in places for chunk in _chunks(*place)))
    except UNUSABLE as error:
        _LOG.warning("%s gets no index: %s", path.parent, error)
        path.unlink(missing_ok=True)


def _chunks(path: Path, base: int, n_bytes: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(base)
        for first in range(0, n_bytes, _CHUNK_BYTES):
            yield file.read(min(_CHUNK_BYTES, n_bytes - first))
