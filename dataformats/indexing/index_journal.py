"""IndexJournal: the lengths and checksums of a growing file, from which its index is made without reading it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.indexing.index_cache import IndexCache
from dataformats.indexing.index_set import INDEX_SUFFIX
from dataformats.storage.atomic import open_unbuffered, remove, write_all
from dataformats.storage.files import LocalFile

_LOG = logging.getLogger("dataformats")


class IndexJournal:
    """The rows of the index of a growing file, in a file beside it: a writer holds none in memory.

    It is never resumed, because a resume reads the whole file. An error drops the index, not the data.

    Args:
        path: The growing file.
        has_checksums: Its frames have checksums.
    """

    def __init__(self, path: Path, *, has_checksums: bool) -> None:
        self._path = path
        self._journal = path.with_name(f"{path.name}{INDEX_SUFFIX}.journal")
        self._dtype = np.dtype([("length", "<i8"), *([("crc", "<u4")] if has_checksums else [])])
        self._end = 0
        self._file = open_unbuffered(self._journal)
        self._file.truncate(0)

    def append(self, lengths: NDArray[np.int64], checksums: NDArray[np.uint32] | None) -> None:
        """Append rows.

        Args:
            lengths: int64[n], bytes of each record.
            checksums: uint32[n], the checksum of each in its frame; `None` if frames have none.
        """
        if self._file.closed:
            return
        rows = np.empty(len(lengths), self._dtype)
        rows["length"] = lengths
        if checksums is not None:
            rows["crc"] = checksums
        try:
            write_all(self._file.fileno(), rows.tobytes(), self._end)
        except OSError as error:
            _LOG.warning("%s gets no index: %s", self._path, error)
            self.discard()
        self._end += rows.nbytes

    def save(self, kind: str, metadata: Mapping[str, Any]) -> None:
        """Save the index beside the file, which is complete, and delete the journal."""
        is_whole = not self._file.closed
        self._file.close()
        try:
            if is_whole:
                rows = np.memmap(self._journal, self._dtype, "r") if self._end else np.empty(0, self._dtype)
                columns = {name: rows[name] for name in self._dtype.names or ()}
                file = LocalFile(self._path)
                IndexCache("beside").save(file, kind, columns, {**metadata, "size": file.size})
        except (OSError, ValueError) as error:
            _LOG.warning("%s gets no index: %s", self._path, error)
        self.discard()

    def discard(self) -> None:
        """Delete the journal."""
        self._file.close()
        remove(self._journal)
