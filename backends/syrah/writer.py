"""Writes one Syrah file: the arrays as they come, header and metadata at close."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.syrah.dtypes import dtypes_of
from dataformats.backends.syrah.layout import HEADER, MAX_METADATA_BYTES, build_header
from dataformats.backends.syrah.metadata import build_frames, metadata_bytes, table_places
from dataformats.batch import Blobs, StoredRecords
from dataformats.errors import SpecError
from dataformats.interfaces import FieldsWriter
from dataformats.kernels import crc32_extents
from dataformats.spec import Spec
from dataformats.storage.atomic import write_all
from dataformats.writing.appending_writer import AppendingWriter, Journaled

_ENTRY_BYTES = 16  # metadata bytes for each array of each item


class SyrahWriter(AppendingWriter, FieldsWriter):  # pyright: ignore[reportIncompatibleMethodOverride]  # a record has fields
    """Appends items to one file: 22 zero bytes until `close` writes the header, then the arrays of each item.

    The arrays of an item lie in the order of the spec.

    Args:
        stored: The types under which fields are stored, at least one.
        resume: Continue an unfinished file; otherwise it is deleted.

    Raises:
        FormatError: There are data to resume, but their journal is missing.
        SpecError: The unfinished file has other fields.
    """

    journaled: Journaled = "record"

    def __init__(self, path: Path, *, stored: Spec, resume: bool = False) -> None:
        self._dtypes = dtypes_of(stored)
        self.journal_metadata: Mapping[str, Any] = self._dtypes
        self.journal_fields: Sequence[str] = [*self._dtypes]
        self.overhead: int = metadata_bytes(self._dtypes, 0) + HEADER.size
        self.extra: int = _ENTRY_BYTES * len(self._dtypes)
        self._max_items = (MAX_METADATA_BYTES - metadata_bytes(self._dtypes, 0)) // self.extra
        super().__init__(path, resume=resume, first_byte=HEADER.size)

    def check(self, record: Mapping[str, Sequence[bytes]]) -> None:
        """Raise `SpecError` if an array has no blob or several, or the metadata would grow past 2 GiB."""
        for name in self._dtypes:
            if len(found := record.get(name, ())) != 1:
                raise SpecError(f"expected one blob, found {len(found)}", field=name)
        if self.n_records >= self._max_items:
            raise SpecError(
                f"cannot append item {self.n_records + 1}: a Syrah file of {len(self._dtypes)} arrays holds at most "
                f"{self._max_items} items, because its metadata are limited to 2 GiB. Write several files with "
                "shard_records="
            )

    def frames(self, records: Sequence[Mapping[str, Sequence[bytes]]]) -> Sequence[bytes]:
        """Return the arrays of the items, in the order of the spec."""
        return [record[name][0] for record in records for name in self._dtypes]

    def append_stored(self, records: StoredRecords) -> None:
        """Append items at once."""
        if records.fields.keys() != self._dtypes.keys() or self.n_records + len(records) > self._max_items:
            super().append_stored(records)
            return
        columns = [records.fields[name][0] for name in self._dtypes]
        sizes = np.stack([column.lengths for column in columns], axis=1)
        items = _interleaved(columns, sizes)
        if items is None:
            super().append_stored(records)
            return
        starts = np.arange(len(items), dtype=np.int64) * items.shape[1]
        checksums = crc32_extents(items.reshape(-1), starts, sizes.sum(axis=1))
        self._write_blobs(items.reshape(-1).data, sizes, checksums)

    def complete(self) -> None:
        """Write the metadata, and the header last, when everything it refers to is on the disk."""
        descriptor = self._open_file().fileno()
        end = self._write_metadata(descriptor)
        os.fsync(descriptor)
        write_all(descriptor, build_header(self._end, end - self._end), 0)

    def _write_metadata(self, descriptor: int) -> int:
        """Write the metadata behind the arrays, in blocks of items; return where they end."""
        frames = build_frames(self._dtypes, self.n_records)
        *places, end = table_places(frames, self.n_records, self._end)
        for frame, place in zip(frames, [*places, end], strict=True):
            write_all(descriptor, frame, place - len(frame))
        done = 0
        for index in self.written():
            tables = [table for arrays in index.arrays.values() for table in (arrays.offset, arrays.length)]
            for table, place in zip(tables, places, strict=True):
                write_all(descriptor, table.astype("<i8").tobytes(), place + 8 * done)
            done += len(index)
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
