"""Read images, videos, sounds and opaque fields as their stored bytes."""

from __future__ import annotations

from dataformats.columns.codec_resolver import as_bytes
from dataformats.errors import SpecError
from dataformats.interfaces.record_source import RecordSource

_MEDIA = ("jpg", "jpeg", "png", "webp", "mp4", "webm", "audio")


def leave_undecoded(source: RecordSource) -> RecordSource:
    """Return the source with images, videos, sounds and fields that no codec decodes as bytes, if stored."""
    media = {name for name, kind in source.spec.items() if kind.codec in _MEDIA}
    encoded = media | source.spec_facts.opaque_fields.keys()
    if not encoded:
        return source
    try:
        return source.with_spec(as_bytes(source.spec, encoded))
    except SpecError:  # the records are computed
        return source
