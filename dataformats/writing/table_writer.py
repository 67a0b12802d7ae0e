"""TableWriter: collects records to blocks of columns, for libraries that encode columns."""

from __future__ import annotations

import contextlib
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dataformats.batch import Column, StoredRecords, concat_columns
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.columns.field_decoder import FieldDecoder
from dataformats.interfaces import FieldsWriter
from dataformats.spec import Spec

_ROWS = 1024
_BLOCK_BYTES = 8 * 2**20


class TableWriter(FieldsWriter):
    """Writes one file through a library that takes columns. Not thread-safe.

    A file of such a format is complete or useless: `resume=True` begins it anew.

    Args:
        path: The partial file.
        stored: The result of `stored_spec`.
        block_records: Records of a block; `None`: about 8 MiB.
    """

    def __init__(self, path: Path, stored: Spec, block_records: int | None = None) -> None:
        self.n_records: int = 0
        self.n_bytes: int = 0
        self._path = path
        self._most = block_records
        codecs = CodecResolver(trusted=True)
        self._decoders = {name: FieldDecoder(codecs, kind, kind, name) for name, kind in _as_text(stored).items()}
        self._rows: list[Mapping[str, Sequence[bytes]]] = []
        self._columns: list[Mapping[str, Column]] = []
        self._n_block = self._n_block_bytes = 0
        self._file = path.open("wb")

    @abstractmethod
    def write_block(self, columns: Mapping[str, Column], n: int) -> None:
        """Write `n` records."""

    @abstractmethod
    def finish(self) -> None:
        """Write the end of the file."""

    def append(self, blobs: Mapping[str, Sequence[bytes]]) -> None:
        self._rows.append(blobs)
        self._count(1, sum(len(blob) for values in blobs.values() for blob in values))
        if len(self._rows) >= _ROWS:
            self._decode_rows()

    def append_stored(self, records: StoredRecords) -> None:
        self._decode_rows()
        first = 0
        while first < len(records):
            room = len(records) if self._most is None else self._most - self._n_block
            part = records[first : first + room]
            self._decode(part)
            self._count(len(part), part.n_bytes)
            first += len(part)

    def _decode_rows(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            self._decode(StoredRecords.join("", rows))

    def _decode(self, records: StoredRecords) -> None:
        self._columns.append({name: self._decoders[name].decode(*stored) for name, stored in records.fields.items()})

    def _count(self, n: int, n_bytes: int) -> None:
        self.n_records += n
        self.n_bytes += n_bytes
        self._n_block += n
        self._n_block_bytes += n_bytes
        if self._n_block_bytes >= _BLOCK_BYTES if self._most is None else self._n_block >= self._most:
            self._write_block()

    def _write_block(self) -> None:
        self._decode_rows()
        if self._n_block:
            columns = {name: concat_columns([part[name] for part in self._columns]) for name in self._decoders}
            self.write_block(columns, self._n_block)
            self._columns = []
            self._n_block = self._n_block_bytes = 0

    def flush(self, *, sync: bool = False) -> None:
        """Do nothing: without its end, the file cannot be read."""

    def close(self) -> None:
        self._write_block()
        self.finish()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def suspend(self) -> None:
        with contextlib.suppress(Exception):  # the library may write to the file when it is dropped
            self.finish()
        self._file.close()

    def discard(self) -> None:
        self.suspend()
        self._path.unlink(missing_ok=True)


def _as_text(stored: Spec) -> Spec:
    """Return the types that decode what is written: JSON stays text."""
    return Spec({name: replace(kind, codec="utf8") if kind.codec == "json" else kind for name, kind in stored.items()})
