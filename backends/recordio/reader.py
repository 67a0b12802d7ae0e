"""Reads RecordIO files: the fields of the image header, and the data behind it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.recordio.frames import IMAGE_HEADER, FrameTable, scan
from dataformats.backends.rows.reader import number_type_for
from dataformats.errors import FormatError
from dataformats.indexing.block_file import BrokenBlockError
from dataformats.indexing.index_cache import IndexCache
from dataformats.indexing.lookup import split_by_file
from dataformats.interfaces import Extents, Located, Reader, ReaderOptions, StoredFile
from dataformats.spec import Spec, Type
from dataformats.storage.shared_memory_file import CachedFile
from dataformats.storage.spliced_file import SplicedFile
from dataformats.storage.threads import threads_for

_LOG = logging.getLogger("dataformats")
_KIND = "recordio-1"
_MOST_PARTS = 2**12  # parts of records in several frames: the index of a file with more is not kept
_MOST_MEMORY = 2**26  # bytes of the records in several frames of a file that are held in memory


class RecordIOReader(Reader):
    """The records of some files. Records in several frames are read from a further file, which splices these.

    Args:
        headers: False if the data of a record do not begin with the header of an image.
    """

    def __init__(self, files: Sequence[StoredFile], options: ReaderOptions, *, headers: bool) -> None:
        self._cache = IndexCache(options.index)
        with threads_for(len(files), local=all(file.local is not None for file in files)) as threads:
            self._frames = list(threads.map(self._load, files))
        self._n_files = len(files)
        split = [(file, frames) for file, frames in zip(files, self._frames, strict=True) if frames.parts]
        self.files: Sequence[StoredFile] = [*files, *(_spliced(file, frames) for file, frames in split)]
        number = np.cumsum([bool(frames.parts) for frames in self._frames]) + self._n_files - 1
        self._spliced = number.astype(np.int32)
        counts = [len(frames.start) + (frames.rest is not None) for frames in self._frames]
        self._counts = np.array([*counts, *([0] * len(split))], np.int64)
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        self._headers = headers
        several = any(frames.labels.any() for frames in self._frames)
        label = Type("float32", dims=(None,) if several else ())
        header = {"label": label, "id": Type("uint64"), "id2": Type("uint64")} if headers else {}
        self._types = {**header, "data": Type("bytes")}
        self.spec: Spec | None = Spec(self._types)

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._counts

    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        where = split_by_file(self._starts, indices)
        n = len(indices)
        file, start, length, labels = where.file.copy(), *(np.zeros(n, np.int64) for _ in range(3))
        problems: dict[int, FormatError] = {}
        for number, here in where.groups.items():
            frames, local = self._frames[number], where.local[here]
            whole = local < len(frames.start)
            if not whole.all() and frames.rest is not None:
                problems |= dict.fromkeys(np.arange(n)[here][~whole].tolist(), frames.rest)
                here, local = np.arange(n)[here][whole], local[whole]
            start[here], length[here], labels[here] = frames.start[local], frames.length[local], frames.labels[local]
            file[here] = np.where(frames.is_split[local], self._spliced[number], number)
        if not self._headers:
            return dict.fromkeys(fields, Located(Extents(file, start, length, problems=problems)))
        rest = length - IMAGE_HEADER.size - 4 * labels
        for row in np.flatnonzero(rest < 0).tolist():
            problems.setdefault(row, self._no_header(int(file[row]), int(start[row]), int(length[row])))
        one = np.where(labels > 0, 4 * labels, 4)
        places = {
            "label": (start + np.where(labels > 0, IMAGE_HEADER.size, 4), one),
            "id": (start + 8, np.full(n, 8, np.int64)),
            "id2": (start + 16, np.full(n, 8, np.int64)),
            "data": (start + IMAGE_HEADER.size + 4 * labels, np.maximum(rest, 0)),
        }
        return {name: Located(Extents(file, *places[name], problems=problems)) for name in fields}

    def digest(self, update: Callable[[bytes], None]) -> None:
        for frames in self._frames:
            update(len(frames.start).to_bytes(8, "little"))
            update(frames.length.tobytes() + frames.labels.tobytes())

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

    def _load(self, file: StoredFile) -> FrameTable:
        """Return the records of a file, from the index that is kept, or from a scan."""
        kept = self._cache.load(file.stored, _KIND)
        if kept is not None and kept.exact:
            try:
                return _unpacked(kept.rows(0, len(kept)).columns, kept.metadata)
            except (BrokenBlockError, LookupError, TypeError, ValueError) as error:
                _LOG.warning("ignored the index of %s: %s", file.name, error)
        frames = scan(file)
        if frames.rest is None and len(frames.parts) <= _MOST_PARTS:
            parts = [[part.start, part.stop] for part in frames.parts]
            self._cache.save(file.stored, _KIND, _packed(frames), {"parts": parts})
        return frames


def _packed(frames: FrameTable) -> dict[str, NDArray[np.int64]]:
    is_split = frames.is_split.astype(np.int64)
    return {"length": frames.length, "start": frames.start, "labels": frames.labels, "is_split": is_split}


def _unpacked(columns: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> FrameTable:
    start, length, labels = (columns[name].astype(np.int64) for name in ("start", "length", "labels"))
    parts = [range(*part) for part in metadata["parts"]]
    return FrameTable(start, length, labels, columns["is_split"].astype(np.bool_), parts)


def _spliced(file: StoredFile, frames: FrameTable) -> StoredFile:
    """Return the records of a file that are in several frames, as a file: in memory, unless they are large."""
    spliced = SplicedFile(file, frames.parts)
    return CachedFile(spliced) if spliced.size <= _MOST_MEMORY else spliced
