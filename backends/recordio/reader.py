"""Reads RecordIO files: the fields of the image header, and the data behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.recordio.frames import IMAGE_HEADER, scan
from dataformats.backends.rows.reader import number_type_for
from dataformats.errors import FormatError
from dataformats.indexing.fields_reader import FieldsReader
from dataformats.indexing.file_index import FileIndex
from dataformats.interfaces import Extents, Located, ReaderOptions, StoredFile
from dataformats.spec import VALUE, Spec, Type
from dataformats.storage.shared_memory_file import CachedFile
from dataformats.storage.spliced_file import SplicedFile

_MAX_PARTS = 2**12  # parts of records in several frames: the index of a file with more is not kept
_MAX_MEMORY = 2**26  # bytes of the records in several frames of a file that are held in memory


class RecordIOReader(FieldsReader):
    """The records of some files. Records in several frames are read from a further file, which splices these.

    Args:
        headers: False if the data of a record do not begin with the header of an image.
    """

    def __init__(self, files: Sequence[StoredFile], options: ReaderOptions, *, headers: bool) -> None:
        super().__init__(files, options, "recordio-2")
        self._headers = headers
        self._labels = [np.asarray(index.arrays[VALUE].stored) for index in self.file_indexes]
        several = any(labels.any() for labels in self._labels)
        label = Type("float32", dims=(None,) if several else ())
        header = {"label": label, "id": Type("uint64"), "id2": Type("uint64")} if headers else {}
        self._types = {**header, "data": Type("bytes")}
        self.spec: Spec | None = Spec(self._types)

    def index_of(self, file: StoredFile) -> FileIndex:
        return scan(file)

    def can_keep(self, file_index: FileIndex) -> bool:
        return super().can_keep(file_index) and len(file_index.metadata["parts"]) <= _MAX_PARTS

    def derived_file(self, file: StoredFile, file_index: FileIndex) -> StoredFile | None:
        """Return the records that are in several frames, as a file: in memory, unless they are large."""
        spliced = SplicedFile(file, [range(*part) for part in file_index.metadata["parts"]])
        return None if not spliced.size else CachedFile(spliced) if spliced.size <= _MAX_MEMORY else spliced

    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        record = super().locate(indices, {VALUE: True})[VALUE].extents
        if not self._headers:
            return dict.fromkeys(fields, Located(replace(record, stored=None)))
        labels, problems = np.asarray(record.stored, np.int64), dict(record.problems)
        n, start, length = len(indices), record.offset, record.length
        rest = length - IMAGE_HEADER.size - 4 * labels
        for row in np.flatnonzero(rest < 0).tolist():
            problems.setdefault(row, self._no_header(int(record.file[row]), int(start[row]), int(length[row])))
        places = {
            "label": (start + np.where(labels > 0, IMAGE_HEADER.size, 4), np.where(labels > 0, 4 * labels, 4)),
            "id": (start + 8, np.full(n, 8, np.int64)),
            "id2": (start + 16, np.full(n, 8, np.int64)),
            "data": (start + IMAGE_HEADER.size + 4 * labels, np.maximum(rest, 0)),
        }
        return {name: Located(Extents(record.file, *places[name], problems=problems)) for name in fields}

    def digest(self, update: Callable[[bytes], None]) -> None:
        for index, labels in zip(self.file_indexes, self._labels, strict=True):
            damaged = list(index.arrays[VALUE].problems)
            update((len(index) - len(damaged)).to_bytes(8, "little"))
            for numbers in (index.arrays[VALUE].length, labels):
                update(np.delete(numbers, damaged).astype("<i8").tobytes())

    def stored_type_for(self, field: str, declared: Type) -> Type:
        """Return `declared`, if the bytes of the field can be read as that: the data by any codec."""
        return number_type_for(field, self._types[field], declared)

    def _no_header(self, number: int, start: int, length: int) -> FormatError:
        return FormatError(
            "no header of an image",
            path=self.files[number].name,
            offset_bytes=start,
            expected=f"{IMAGE_HEADER.size} bytes, and 4 for each label",
            found=f"a record of {length} bytes",
            remedy="If the records have no such headers, pass headers=False to open",
        )
