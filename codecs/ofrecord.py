"""`oneflow.OFRecord`: a map of features, one level less than an Example, with two more lists."""

from __future__ import annotations

from operator import attrgetter

from dataformats.codecs.features.feature_maps import FeatureMap
from dataformats.codecs.features.list_kinds import OFRECORD_LISTS
from dataformats.codecs.features.protobuf_messages import OFRECORD_MESSAGE, parse
from dataformats.errors import CorruptRecordError
from dataformats.kernels.wire import Shape


class _OFRecord(FeatureMap):
    """A map of names to lists of bytes, floats, doubles, int32 or int64."""

    name = "ofrecord"
    title = "an OFRecord"
    shape = Shape.OFRECORD
    message = OFRECORD_MESSAGE
    lists = OFRECORD_LISTS
    features = attrgetter("feature")

    def matches(self, blob: bytes) -> bool:
        """Return True for a message with at least one feature, and for no bytes.

        Almost any short text parses as unknown fields.
        """
        try:
            return not blob or len(parse(OFRECORD_MESSAGE, blob).feature) > 0
        except CorruptRecordError:
            return False


OFRECORD = _OFRecord()
"""`oneflow.OFRecord`."""
