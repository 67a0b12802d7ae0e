"""Writes a pair: the tokens as they come, the tables at close."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dataformats.backends.megatron.layout import BIN, CODES, HEADER, IDX, MAGIC
from dataformats.backends.rows.windows import TOKENS
from dataformats.batch import StoredRecords
from dataformats.errors import SpecError
from dataformats.interfaces import FieldsWriter, HasSidecars
from dataformats.kernels import crc32_extents
from dataformats.storage import atomic
from dataformats.writing.appending_writer import AppendingWriter, Journaled

_MAX_TOKENS = 2**31 - 1
_BLOCK = 2**17  # documents in a block of the last table


class MegatronWriter(AppendingWriter, FieldsWriter, HasSidecars):  # pyright: ignore[reportIncompatibleMethodOverride]  # a record has fields
    """Appends documents of one sequence each.

    Args:
        path: A local path; `close` writes the `.idx` file beside it, under that name with one more ending.
        dtype: The dtype of the tokens.
        name: The final name of the `.bin` file.
        resume: Continue an unfinished file; otherwise it is deleted.

    Raises:
        FormatError: There are data to resume, but not their journal.
        SpecError: The unfinished file has another dtype.
    """

    extra: int = 20
    overhead: int = HEADER.size + 8
    journaled: Journaled = "record"
    journal_fields: Sequence[str] = (TOKENS,)

    def __init__(self, path: Path, dtype: str, name: str, *, resume: bool) -> None:
        self._dtype = np.dtype(dtype)
        self.journal_metadata: Mapping[str, Any] = {"dtype": dtype}
        self._idx, self._idx_name = path.with_name(path.name + IDX), name.removesuffix(BIN) + IDX
        super().__init__(path, resume=resume)

    def check(self, record: Mapping[str, Sequence[bytes]]) -> None:
        """Raise `SpecError` for a document of more tokens than an int32 counts."""
        (tokens,) = record[TOKENS]
        if len(tokens) > _MAX_TOKENS * self._dtype.itemsize:
            found = len(tokens) // self._dtype.itemsize
            raise SpecError(f"expected at most {_MAX_TOKENS} tokens in a document, found {found}", field=TOKENS)

    def frame(self, record: Mapping[str, Sequence[bytes]]) -> bytes:
        return record[TOKENS][0]

    def append_stored(self, records: StoredRecords) -> None:
        """Append documents at once."""
        data, offsets = records.fields[TOKENS][0].contiguous()
        lengths = np.diff(offsets)
        if (lengths > _MAX_TOKENS * self._dtype.itemsize).any():
            super().append_stored(records)
            return
        self._write_blobs(data.data, lengths[:, None], crc32_extents(data, offsets[:-1], lengths))

    def sidecars(self) -> Mapping[str, Path | None]:
        return {self._idx_name: self._idx}

    def discard(self) -> None:
        """Delete the file, its journal and its tables."""
        super().discard()
        atomic.remove(self._idx)

    def complete(self) -> None:
        """Write the tables, in a file of their own."""
        atomic.write_chunks(self._idx, self._tables())

    def _tables(self) -> Iterator[bytes]:
        n = self.n_records
        code = next(code for code, dtype in CODES.items() if dtype == self._dtype)
        yield HEADER.pack(MAGIC, 1, code, n, n + 1)
        for index in self.written():
            yield (index.arrays[TOKENS].length // self._dtype.itemsize).astype("<i4").tobytes()
        for index in self.written():
            yield index.arrays[TOKENS].offset.astype("<i8").tobytes()
        for first in range(0, n + 1, _BLOCK):
            yield np.arange(first, min(first + _BLOCK, n + 1), dtype="<i8").tobytes()
