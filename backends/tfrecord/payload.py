"""The payload of records that may be Examples, judged by some of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from dataformats.interfaces import RecordCodec
from dataformats.registry import codecs

__all__ = ["payload_of"]


def payload_of(samples: Iterable[bytes]) -> str:
    """Return `"example"`, `"sequence_example"` or `"bytes"`.

    Every SequenceExample parses as an Example, too, with an unknown field. So an Example must have no unknown fields.
    Empty records are ignored.
    """
    example, sequence = _record_codec("example"), _record_codec("sequence_example")
    found = "bytes"
    for sample in filter(None, samples):
        if example.matches(sample):
            found = "example" if found == "bytes" else found
        elif sequence.matches(sample):
            found = "sequence_example"
        else:
            return "bytes"  # no other sample is read, which may be behind a URL
    return found


def _record_codec(payload: str) -> RecordCodec:
    return cast(RecordCodec, codecs.get(payload))
