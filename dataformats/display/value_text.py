"""Values of any type and size as one line of text for people."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dataformats.display.media import media_text
from dataformats.display.protobuf_text import protobuf_text
from dataformats.display.text import array_type, quote_text

_BYTES, _CHARACTERS, _VALUES, _ITEMS = 32, 120, 8, 4
_LEVELS, _LINE = 6, 1000  # levels of nesting, and characters in all


def as_text(value: Any) -> str:
    """Return one line for a value of any type and size."""
    text = _text(value, _LEVELS)
    return text if len(text) <= _LINE else f"{text[:_LINE]}..."


def _text(value: Any, levels: int) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _text_bytes(bytes(value))
    if isinstance(value, str):
        return quote_text(value, _CHARACTERS)
    if isinstance(value, np.ndarray):
        return _text_array(value)
    if isinstance(value, Mapping):
        return "{" + _some(_pairs(value, levels), len(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + _some(_items(value, levels), len(value)) + "]"
    return _text_other(value)


def _pairs(value: Mapping[Any, Any], levels: int) -> list[str]:
    first = itertools.islice(value.items(), _ITEMS if levels else 0)
    return [f"{_text(key, 0)}: {_text(item, levels - 1)}" for key, item in first]


def _items(value: Sequence[Any], levels: int) -> list[str]:
    return [_text(item, levels - 1) for item in value[: _ITEMS if levels else 0]]


def _text_bytes(blob: bytes) -> str:
    media = media_text(blob)
    if media:
        return f"{media}, {len(blob)} bytes"
    message = protobuf_text(blob)
    if message is not None:
        return f"{len(blob)} bytes, perhaps protobuf {message}"
    return repr(blob) if len(blob) <= _BYTES else f"{len(blob)} bytes: {blob[:_BYTES]!r}..."


def _text_array(array: np.ndarray[Any, Any]) -> str:
    kind = array_type(array)
    if not array.size:
        return kind
    values = " ".join(str(value) for value in array.reshape(-1)[:_VALUES].tolist())
    return f"{kind}: {values}{' ...' if array.size > _VALUES else ''}"


def _text_other(value: Any) -> str:
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}..."


def _some(texts: Sequence[str], n: int) -> str:
    more = [f"... ({n} in all)"] if n > len(texts) else []
    return ", ".join([*texts, *more])
