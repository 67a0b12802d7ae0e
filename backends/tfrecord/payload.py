"""The payload of records that may be Examples, judged by some of them."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import cast

from dataformats.interfaces import RecordCodec
from dataformats.registry import codecs

_FIRST_FIELDS = (1, 2)
"""The numbers of all fields of these messages: the low bits of the tag that they begin with."""


def payload_of(samples: Iterable[bytes]) -> str:
    """Return `"example"`, `"sequence_example"` or `"bytes"`.

    Every SequenceExample parses as an Example, too, with an unknown field. So an Example must have no unknown fields.
    Empty records are ignored.
    """
    found = "bytes"
    for sample in filter(None, samples):
        if sample[0] >> 3 & 0xF not in _FIRST_FIELDS:  # the codecs take 40 ms to import
            return "bytes"
        if _codec("example").matches(sample):
            found = "example" if found == "bytes" else found
        elif _codec("sequence_example").matches(sample):
            found = "sequence_example"
        else:
            return "bytes"  # no other sample is read, which may be behind a URL
    return found


@functools.cache
def _codec(payload: str) -> RecordCodec:
    return cast(RecordCodec, codecs.get(payload))
