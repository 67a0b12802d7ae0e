"""Writes one OFRecord file."""

from __future__ import annotations

from collections.abc import Sequence

from dataformats.backends.framed.framing import Framing
from dataformats.backends.framed.writer import FramedWriter
from dataformats.backends.ofrecord.layout import FRAMING
from dataformats.errors import SpecError


class OFRecordWriter(FramedWriter):
    """Appends records, none of them empty, to one file.

    There are no checksums, so a journal shows which bytes are as written. Without one, `resume` can detect only
    incomplete frames: it truncates the file behind the last frame that has all its bytes, and before the first one of
    length 0.
    """

    framing: Framing = FRAMING
    extra: int = FRAMING.extra

    def check(self, record: bytes) -> None:
        """Raise `SpecError` for an empty record."""
        if not record:
            raise SpecError(
                "an OFRecord file cannot hold empty records, because its other readers stop at them. "
                "Leave the record out, or give it a field that has a value"
            )

    def accepts_all(self, records: Sequence[bytes]) -> bool:
        return all(records)  # none is empty
