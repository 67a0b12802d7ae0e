"""The RecordIO backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dataformats.backends.recordio.frames import FRAME, MAGIC, frame_problem
from dataformats.backends.recordio.reader import RecordIOReader
from dataformats.interfaces import Backend, ReaderOptions, SniffResult, StoredFile


class RecordIOBackend(Backend):
    """RecordIO of MXNet."""

    name = "recordio"
    suffixes: tuple[str, ...] = (".rec",)
    has_checked_header = True
    key_field = "id"

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize a file by its first frame."""
        head = file.pread(0, FRAME.size)
        if head[:4] != MAGIC.to_bytes(4, "little"):
            return SniffResult("no", "no magic number of RecordIO")
        problem = frame_problem(head, 0, file, (0, 1))
        return SniffResult("yes") if problem is None else SniffResult("damaged", problem.what)

    def open(
        self, files: Sequence[StoredFile], options: ReaderOptions, *, headers: bool = True, **_: Any
    ) -> RecordIOReader:
        """Return a reader. Scans the files, unless the index cache has their indexes.

        Args:
            headers: False if the data of a record do not begin with the header of an image (`mxnet.recordio.pack`):
                then a record has one field, `data`.
        """
        return RecordIOReader(files, options, headers=headers)
