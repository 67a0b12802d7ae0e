"""Writes one Syrah file: the arrays as they come, header and metadata at close."""

from __future__ import annotations

import os
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.syrah.dtypes import dtypes_of, stored_types
from dataformats.backends.syrah.layout import HEADER, MAX_METADATA_BYTES, build_header
from dataformats.backends.syrah.metadata import build_metadata, metadata_bytes
from dataformats.backends.syrah.recovery import JOURNAL_MAGIC, recover
from dataformats.errors import SpecError
from dataformats.interfaces import FieldsWriter
from dataformats.kernels import crc32_extents
from dataformats.spec import Spec
from dataformats.storage.atomic import write_all
from dataformats.writing.journal import Entries, Journal

__all__ = ["SyrahWriter"]

_PENDING_BYTES = 4 * 2**20
_PENDING_ITEMS = 4096
_ENTRY_BYTES = 16  # of the metadata for each array of each item


class SyrahWriter(FieldsWriter):
    """Arrays grow in the file at `path` behind 22 zero bytes, their sizes in `path` + ".journal", until `close`.

    The arrays of an item lie in the order of the spec.

    Args:
        path: A local path.
        stored: The types under which fields are stored.
        resume: Go on with what a killed writer left; otherwise that is deleted.

    Raises:
        FormatError: There is something to resume, but its journal is lost.
        SpecError: There are no fields, or others than those of what is resumed.
    """

    def __init__(self, path: Path, *, stored: Spec, resume: bool = False) -> None:
        if not len(stored):
            stored_types(stored)  # says so
        self.path = path
        self._dtypes = dtypes_of(stored)
        self._most_items = (MAX_METADATA_BYTES - metadata_bytes(self._dtypes, 0)) // (_ENTRY_BYTES * len(stored))
        found = self._found(resume)
        self._sizes = array("q", found.sizes.tobytes())
        self._data_bytes = found.n_bytes
        self.n_records: int = len(found)
        self.n_bytes: int = metadata_bytes(self._dtypes, len(found)) + HEADER.size + found.n_bytes
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._open_files(found)

    def append(self, blobs: Mapping[str, Sequence[bytes]]) -> None:
        """Append one item.

        Args:
            blobs: Array name to its one blob, for each of the arrays.

        Raises:
            SpecError: An array lacks its blob or has several, or the metadata would grow past 2 GiB.
            ValueError: The writer is closed.
        """
        self._check_open()
        item = [_one(blobs, name) for name in self._dtypes]
        if self.n_records >= self._most_items:
            raise SpecError(
                f"a Syrah file of {len(self._dtypes)} arrays holds at most {self._most_items} items, as its table is "
                "at most 2 GiB long; write several with shard_records="
            )
        n_bytes = sum(map(len, item))
        self._pending += item
        self._pending_bytes += n_bytes
        self.n_records += 1
        self.n_bytes += n_bytes + _ENTRY_BYTES * len(item)
        if self._pending_bytes >= _PENDING_BYTES or len(self._pending) >= _PENDING_ITEMS * len(item):
            self.flush()

    def flush(self, *, sync: bool = False) -> None:
        """Hand all items to the operating system, with `sync` to the disk; it may be tried again."""
        self._check_open()
        # Data first: an entry of the journal is worth something only when its item is there.
        sizes, checksums = self._write_pending()
        if sync:
            os.fsync(self._descriptor)
        self._journal.append(sizes, checksums)
        self._settle(sizes)
        if sync:
            self._journal.sync()

    def close(self) -> None:
        """Complete the file at `path`, sync it and delete the journal; the caller gives it its final name.

        Raises:
            RuntimeError: An append was interrupted halfway.
        """
        if self._closed:
            return
        # With the journal on the disk, a crash below leaves the file in a state that resuming understands.
        self.flush(sync=True)
        self._check_whole()
        offset = HEADER.size + self._data_bytes
        at = offset
        for piece in build_metadata(self._dtypes, *self._tables()):
            write_all(self._descriptor, piece, at)
            at += len(piece)
        # The header last, when all that it speaks of is there.
        os.fsync(self._descriptor)
        write_all(self._descriptor, build_header(offset, at - offset), 0)
        os.fsync(self._descriptor)
        self._close_files()
        self._journal.path.unlink(missing_ok=True)

    def suspend(self) -> None:
        """Hand everything to the operating system and let go; the file and its journal stay for a resume."""
        if not self._closed:
            try:
                self.flush()
            finally:
                self._close_files()

    def discard(self) -> None:
        """Let go of the file and delete it and its journal."""
        if not self._closed:
            self._close_files()
        # The journal last: data without one could neither be resumed nor be known as ours.
        for path in (self.path, self._journal.path):
            path.unlink(missing_ok=True)

    @property
    def _journal_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.journal")

    @property
    def _closed(self) -> bool:
        return self._descriptor < 0

    def _found(self, resume: bool) -> Entries:
        found = recover(self.path, self._journal_path, self._dtypes) if resume else None
        if found is None:
            self.path.unlink(missing_ok=True)
            self._journal_path.unlink(missing_ok=True)
            found = Entries.none(self._dtypes, len(self._dtypes))
        return found

    def _open_files(self, found: Entries) -> None:
        # The journal first: data without one could not be resumed.
        self._journal = Journal(self._journal_path, JOURNAL_MAGIC, found)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        write_all(self._descriptor, bytes(HEADER.size), 0)
        os.ftruncate(self._descriptor, HEADER.size + self._data_bytes)

    def _write_pending(self) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Write what is pending, which stays so; return int64[n, k] sizes and uint32[n] CRCs of these items."""
        data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        sizes = np.fromiter(map(len, self._pending), np.int64, len(self._pending)).reshape(-1, len(self._dtypes))
        lengths = sizes.sum(axis=1)
        # At a known place, so that a write that failed (a full disk) can be done again.
        write_all(self._descriptor, data, HEADER.size + self._data_bytes)
        return sizes, crc32_extents(data, np.cumsum(lengths) - lengths, lengths)

    def _settle(self, sizes: NDArray[np.int64]) -> None:
        self._sizes.frombytes(sizes.tobytes())
        self._data_bytes += self._pending_bytes
        self._pending.clear()
        self._pending_bytes = 0

    def _tables(self) -> tuple[list[bytes], list[bytes]]:
        """Return offsets and sizes, one little-endian table an array."""
        sizes = np.frombuffer(self._sizes, np.int64).astype("<i8")
        offsets = (HEADER.size + np.cumsum(sizes) - sizes).astype("<i8")
        n_arrays = len(self._dtypes)
        return tuple([table[i::n_arrays].tobytes() for i in range(n_arrays)] for table in (offsets, sizes))  # type: ignore[return-value]

    def _close_files(self) -> None:
        self._journal.close()
        os.close(self._descriptor)
        self._descriptor = -1

    def _check_whole(self) -> None:
        """Refuse a state that an interrupt (Ctrl-C) in an append or a flush left half changed."""
        if len(self._sizes) != self.n_records * len(self._dtypes) or sum(self._sizes) != self._data_bytes:
            raise RuntimeError(f"writing {str(self.path)!r} was interrupted; go on with resume=True")

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"the writer of {str(self.path)!r} is closed")


def _one(blobs: Mapping[str, Sequence[bytes]], name: str) -> bytes:
    found = blobs.get(name, ())
    if len(found) != 1:
        raise SpecError(f"expected one blob, found {len(found)}", field=name)
    return found[0]
