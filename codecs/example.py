"""`tf.train.Example`: a map of features."""

from __future__ import annotations

from operator import attrgetter

from dataformats.codecs.features.feature_maps import FeatureMap
from dataformats.codecs.features.list_kinds import EXAMPLE_LISTS
from dataformats.codecs.features.protobuf_messages import EXAMPLE_MESSAGE
from dataformats.codecs.features.validation import looks_like
from dataformats.kernels.wire import Shape


class _Example(FeatureMap):
    """A map of names to lists of bytes, floats or integers."""

    name = "example"
    title = "an Example"
    shape = Shape.EXAMPLE
    message = EXAMPLE_MESSAGE
    lists = EXAMPLE_LISTS
    features = attrgetter("features.feature")

    def matches(self, blob: bytes) -> bool:
        """Return True for a message of features only."""
        return looks_like(EXAMPLE_MESSAGE, blob)


EXAMPLE = _Example()
"""`tf.train.Example`."""
