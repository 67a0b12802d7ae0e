"""A format whose records only its journal locates until `close` writes their lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dataformats.interfaces import AppendingWriter, FieldsWriter
from dataformats.storage.record_journal import journal_path
from dataformats.writing.appending_writer import Journaled


class LengthsAtEnd(AppendingWriter, FieldsWriter):  # pyright: ignore[reportIncompatibleMethodOverride]  # a record has fields
    """Two fields back to back, and behind all records the length of each."""

    journaled: Journaled = "record"
    journal_fields: Sequence[str] = ("a", "b")

    def frames(self, records: Sequence[Mapping[str, Sequence[bytes]]]) -> Sequence[bytes]:
        return [record[name][0] for record in records for name in self.journal_fields]

    def end(self) -> bytes:
        fields = [index.arrays[name] for index in self.written() for name in self.journal_fields]
        return b"".join(part.length.astype("u1").tobytes() + part.offset.astype("u1").tobytes() for part in fields)


def test_complete_file_is_resumed_behind_its_records(tmp_path: Path) -> None:
    path = tmp_path / "x"
    writer = LengthsAtEnd(path)
    writer.extend([{"a": [b"one"], "b": [b""]}, {"a": [b""], "b": [b"three"]}])
    writer.close()
    assert path.read_bytes() == b"onethree" + bytes([3, 0, 0, 3, 0, 5, 3, 3])
    assert journal_path(path).exists()  # until the file is published
    writer = LengthsAtEnd(path, resume=True)
    assert writer.n_records == 2
    writer.append({"a": [b"x"], "b": [b"y"]})
    writer.close()
    assert path.read_bytes() == b"onethreexy" + bytes([3, 0, 1, 0, 3, 8, 0, 5, 1, 3, 3, 9])
