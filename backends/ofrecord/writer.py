"""Writes one OFRecord file."""

from __future__ import annotations

from dataformats.backends.framed.framing import Framing
from dataformats.backends.framed.writer import FramedWriter
from dataformats.backends.ofrecord.layout import FRAMING

__all__ = ["OFRecordWriter"]


class OFRecordWriter(FramedWriter):
    """Appends records, none of them empty, to one file.

    Without checksums only whole frames can be told from broken ones: a file that is resumed is cut behind the last
    frame that is there with all its bytes, and before the first one of length 0.
    """

    framing: Framing = FRAMING
