"""`oneflow.OFRecord`: a map of features, one level less than an Example, with two lists more."""

from __future__ import annotations

from typing import Any

from dataformats.codecs.features.feature_maps import FeatureMap
from dataformats.codecs.features.lists import OFRECORD_LISTS
from dataformats.codecs.features.messages import OFRECORD_MESSAGE, parse
from dataformats.errors import CorruptRecordError
from dataformats.kernels.wire import Shape

__all__ = ["OFRECORD"]


class _OFRecord(FeatureMap):
    """A map of names to lists of bytes, floats, doubles, int32 or int64."""

    name = "ofrecord"
    title = "an OFRecord"
    shape = Shape.OFRECORD
    message = OFRECORD_MESSAGE
    lists = OFRECORD_LISTS

    def features(self, message: Any) -> Any:
        return message.feature

    def matches(self, blob: bytes) -> bool:
        """Return True for a message with a feature at least, and for no bytes at all.

        Almost any short text parses as unknown fields alone.
        """
        try:
            return not blob or len(parse(OFRECORD_MESSAGE, blob).feature) > 0
        except CorruptRecordError:
            return False


OFRECORD = _OFRecord()
"""`oneflow.OFRecord`."""
