"""Writes one Syrah file: the arrays as they come, header and metadata at close."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.journaled.journaled_file import JournaledFileWriter, new_journal
from dataformats.backends.syrah.dtypes import dtypes_of
from dataformats.backends.syrah.layout import HEADER, MAX_METADATA_BYTES, build_header
from dataformats.backends.syrah.metadata import build_frames, metadata_bytes, table_places
from dataformats.backends.syrah.resume import JOURNAL_MAGIC, recover
from dataformats.batch import Blobs, StoredRecords
from dataformats.errors import SpecError
from dataformats.interfaces import FieldsWriter
from dataformats.kernels import crc32_extents
from dataformats.spec import Spec
from dataformats.storage.atomic import write_all

_ENTRY_BYTES = 16  # metadata bytes for each array of each item


class SyrahWriter(JournaledFileWriter, FieldsWriter):
    """Appends items to one file: 22 zero bytes until `close` writes the header, then the arrays of each item.

    The arrays of an item lie in the order of the spec.

    Args:
        stored: The types under which fields are stored, at least one.
        resume: Continue an unfinished file; otherwise it is deleted.

    Raises:
        FormatError: There are data to resume, but their journal is missing.
        SpecError: The unfinished file has other fields.
    """

    def __init__(self, path: Path, *, stored: Spec, resume: bool = False) -> None:
        self._dtypes = dtypes_of(stored)
        n_arrays = len(self._dtypes)
        self._max_items = (MAX_METADATA_BYTES - metadata_bytes(self._dtypes, 0)) // (_ENTRY_BYTES * n_arrays)
        journal = recover(path, self._dtypes) if resume else None
        if journal is None:
            journal = new_journal(path, JOURNAL_MAGIC, self._dtypes, n_arrays)
        super().__init__(path, journal, base=HEADER.size, entry_bytes=_ENTRY_BYTES * n_arrays)
        write_all(self._descriptor, bytes(HEADER.size), 0)
        self.n_bytes: int = metadata_bytes(self._dtypes, journal.n_entries) + HEADER.size + journal.n_bytes

    def append(self, blobs: Mapping[str, Sequence[bytes]]) -> None:
        """Append one item.

        Args:
            blobs: Array name to its one blob, for every array.

        Raises:
            SpecError: An array has no blob or several, or the metadata would grow past 2 GiB.
            ValueError: The writer is closed.
        """
        self._check_open()
        item = [_one(blobs, name) for name in self._dtypes]
        if self.n_records >= self._max_items:
            raise SpecError(
                f"cannot append item {self.n_records + 1}: a Syrah file of {len(self._dtypes)} arrays holds at most "
                f"{self._max_items} items, because its metadata are limited to 2 GiB. Write several files with "
                "shard_records="
            )
        self._append(item, sum(map(len, item)))

    def append_stored(self, records: StoredRecords) -> None:
        """Append items at once."""
        if records.fields.keys() != self._dtypes.keys() or self.n_records + len(records) > self._max_items:
            super().append_stored(records)
            return
        self._check_open()
        columns = [records.fields[name][0] for name in self._dtypes]
        sizes = np.stack([column.lengths for column in columns], axis=1)
        items = _interleaved(columns, sizes)
        if items is None:
            self._append(list(chain.from_iterable(zip(*columns, strict=True))), records.n_bytes, len(records))
            return
        starts = np.arange(len(items), dtype=np.int64) * items.shape[1]
        checksums = crc32_extents(items.reshape(-1), starts, sizes.sum(axis=1))
        self._append_many(items.reshape(-1).data, sizes, checksums)

    def _complete(self) -> None:
        offset = HEADER.size + self._data_bytes
        end = self._write_metadata(offset)
        # The header last, when everything it refers to is on disk.
        os.fsync(self._descriptor)
        write_all(self._descriptor, build_header(offset, end - offset), 0)
        os.fsync(self._descriptor)

    def _write_metadata(self, start: int) -> int:
        """Write the metadata from byte `start` on, in blocks of items; return where they end."""
        frames = build_frames(self._dtypes, self.n_records)
        *places, end = table_places(frames, self.n_records, start)
        for frame, place in zip(frames, [*places, end], strict=True):
            write_all(self._descriptor, frame, place - len(frame))
        done, at = 0, HEADER.size
        for entries in self._journal.entries():
            sizes = entries.sizes.reshape(-1)
            ends = at + np.cumsum(sizes)
            offsets = (ends - sizes).reshape(entries.sizes.shape)
            for number, place in enumerate(places):
                table = (entries.sizes if number % 2 else offsets)[:, number // 2]
                write_all(self._descriptor, table.astype("<i8").tobytes(), place + 8 * done)
            done, at = done + len(entries), int(ends[-1])
        return end


def _interleaved(columns: Sequence[Blobs], sizes: NDArray[np.int64]) -> NDArray[np.uint8] | None:
    """Return uint8[n, bytes of an item], the blobs of each item; `None` unless all items have the same sizes."""
    if (sizes != sizes[:1]).any():
        return None
    ends = np.cumsum(sizes[0]).tolist()
    items = np.empty((len(sizes), ends[-1]), np.uint8)
    for column, begin, end in zip(columns, [0, *ends], ends, strict=False):
        items[:, begin:end] = column.rows(end - begin)
    return items


def _one(blobs: Mapping[str, Sequence[bytes]], name: str) -> bytes:
    found = blobs.get(name, ())
    if len(found) != 1:
        raise SpecError(f"expected one blob, found {len(found)}", field=name)
    return found[0]
