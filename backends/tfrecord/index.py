"""The indexes of TFRecord files: ours, and those of the `tfrecord` package as hints."""

from __future__ import annotations

from dataformats.backends.framed.index import FrameIndexes
from dataformats.backends.tfrecord.layout import FRAMING
from dataformats.backends.tfrecord.text_index import text_hints

__all__ = ["INDEXES"]

INDEXES = FrameIndexes(FRAMING, text_hints)
