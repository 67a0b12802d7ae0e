"""Writes a pair: the tokens as they come, the tables at close."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from dataformats.backends.journaled.journal import Journal, StoredJournal, sound_entries
from dataformats.backends.journaled.journaled_file import JournaledFileWriter, journal_path, new_journal
from dataformats.backends.megatron.layout import BIN, CODES, HEADER, IDX, MAGIC
from dataformats.backends.rows.windows import TOKENS
from dataformats.batch import StoredRecords
from dataformats.errors import FormatError, SpecError
from dataformats.interfaces import FieldsWriter, HasSidecars
from dataformats.kernels import crc32_extents
from dataformats.storage import atomic

_JOURNAL_MAGIC = b"MEGJRNL1"
_MAX_TOKENS = 2**31 - 1
_BLOCK = 2**17  # documents in a block of the last table


class MegatronWriter(JournaledFileWriter, FieldsWriter, HasSidecars):
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

    keeps_journal = True

    def __init__(self, path: Path, dtype: str, name: str, *, resume: bool) -> None:
        self._dtype = np.dtype(dtype)
        self._idx, self._idx_name = path.with_name(path.name + IDX), name.removesuffix(BIN) + IDX
        journal = _recover(path, dtype) if resume else None
        super().__init__(
            path, journal or new_journal(path, _JOURNAL_MAGIC, {"dtype": dtype}, 1), base=0, entry_bytes=20
        )
        self.n_bytes: int = HEADER.size + 8 + self._data_bytes + 20 * self.n_records

    def append(self, blobs: Mapping[str, Sequence[bytes]]) -> None:
        """Append one document; raises `SpecError` if it has more tokens than an int32 counts."""
        self._check_open()
        (tokens,) = blobs[TOKENS]
        if len(tokens) > _MAX_TOKENS * self._dtype.itemsize:
            found = len(tokens) // self._dtype.itemsize
            raise SpecError(f"expected at most {_MAX_TOKENS} tokens in a document, found {found}", field=TOKENS)
        self._append((tokens,), len(tokens))

    def append_stored(self, records: StoredRecords) -> None:
        """Append documents at once."""
        data, offsets = records.fields[TOKENS][0].contiguous()
        lengths = np.diff(offsets)
        if (lengths > _MAX_TOKENS * self._dtype.itemsize).any():
            super().append_stored(records)
            return
        self._check_open()
        self._append_many(data.data, lengths[:, None], crc32_extents(data, offsets[:-1], lengths))

    def sidecars(self) -> Mapping[str, Path | None]:
        return {self._idx_name: self._idx}

    def discard(self) -> None:
        """Delete the file, its journal and its tables."""
        super().discard()
        atomic.remove(self._idx)

    def _complete(self) -> None:
        atomic.write_chunks(self._idx, self._tables())

    def _tables(self) -> Iterator[bytes]:
        n, at = self.n_records, 0
        code = next(code for code, dtype in CODES.items() if dtype == self._dtype)
        yield HEADER.pack(MAGIC, 1, code, n, n + 1)
        for entries in self._journal.entries():
            yield (entries.lengths // self._dtype.itemsize).astype("<i4").tobytes()
        for entries in self._journal.entries():
            yield (at + np.cumsum(entries.lengths) - entries.lengths).astype("<i8").tobytes()
            at += entries.n_bytes
        for first in range(0, n + 1, _BLOCK):
            yield np.arange(first, min(first + _BLOCK, n + 1), dtype="<i8").tobytes()


def _recover(path: Path, dtype: str) -> Journal | None:
    """Return a new journal of the sound documents at the front of an unfinished file, or `None` without such a file."""
    journal = StoredJournal.find(journal_path(path), _JOURNAL_MAGIC, lambda metadata, n: n == 1 and "dtype" in metadata)
    if not path.is_file() or (journal is None and not path.stat().st_size):
        return None
    if journal is None:
        what, remedy = "cannot resume an unfinished file without its journal", "Delete it, or write without resume"
        raise FormatError(what, path=str(path), remedy=remedy)
    if journal.metadata["dtype"] != dtype:
        raise SpecError(f"cannot resume {str(path)!r}: expected {journal.metadata['dtype']} tokens, found {dtype}")
    with path.open("rb", buffering=0) as file:
        entries = sound_entries(file.fileno(), 0, journal.entries())
        return Journal(journal_path(path), _JOURNAL_MAGIC, {"dtype": dtype}, 1, entries)
