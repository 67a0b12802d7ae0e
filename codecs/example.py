"""`tf.train.Example`, and the choice between the payloads of TFRecord files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dataformats.codecs.feature_maps import FeatureMap
from dataformats.codecs.lists import EXAMPLE_LISTS
from dataformats.codecs.messages import EXAMPLE_MESSAGE
from dataformats.codecs.payloads import looks_like
from dataformats.codecs.sequence_example import SEQUENCE_EXAMPLE
from dataformats.kernels.wire import Shape

__all__ = ["EXAMPLE", "SEQUENCE_EXAMPLE", "guess"]


class _Example(FeatureMap):
    """A map of names to lists of bytes, floats or integers."""

    name = "example"
    title = "an Example"
    shape = Shape.EXAMPLE
    message = EXAMPLE_MESSAGE
    lists = EXAMPLE_LISTS

    def features(self, message: Any) -> Any:
        return message.features.feature

    def matches(self, blob: bytes) -> bool:
        """Return True for a message of nothing but features."""
        return looks_like(EXAMPLE_MESSAGE, blob, {1})


EXAMPLE = _Example()
"""`tf.train.Example`."""


def guess(samples: Iterable[bytes]) -> str:
    """Return which payload TFRecords have, judged by some of them; empty records say nothing.

    Returns:
        `"example"` where each holds only features and parses to its end; `"sequence_example"` where one has
        feature lists as well (which an Example's parser would skip as unknown); else `"bytes"`.
    """
    filled = [blob for blob in samples if blob]
    for codec in (EXAMPLE, SEQUENCE_EXAMPLE) if filled else ():
        if all(codec.matches(blob) for blob in filled):
            return codec.name
    return "bytes"
