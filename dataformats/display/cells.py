"""Values as the page shows them: cut to limits, as plain dicts for JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.display.conversation import conversation
from dataformats.display.json_values import as_json
from dataformats.display.media import as_image, image_facts, media_of, media_within
from dataformats.display.text import array_type, text_of, with_class_name

_ENCODER = json.JSONEncoder(ensure_ascii=False, default=as_json)  # writes a long value only as far as it is shown

Cell = dict[str, Any]
"""`kind`, and the entries of that kind: `text` and `length`, `values` and `shape`, ..."""


@dataclass(frozen=True, slots=True)
class CellLimits:
    """How much of a value is sent to the page.

    Attributes:
        characters: Characters of a text; a quarter as many bytes.
        values: Numbers of an array, as text.
        points: Numbers of a sparkline.
        side: Rows and columns of a heat map.
        items: Items of a list.
        turns: Messages of a chat.
    """

    characters: int
    values: int
    points: int
    side: int
    items: int
    turns: int


TABLE = CellLimits(characters=160, values=6, points=48, side=24, items=3, turns=6)
DETAIL = CellLimits(characters=100_000, values=1000, points=512, side=128, items=50, turns=100)
_TURN = 10_000  # characters of a message
_MOST = 8e307  # the largest number of a chart: twice as much is a float64


def cell(value: Any, limits: CellLimits, class_names: Sequence[str] = ()) -> Cell:
    """Return a value of any type and size, cut to the limits; a number with the name of its class."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _of_bytes(bytes(value), limits)
    if isinstance(value, str):
        return {"kind": "text", **_cut(value, limits)}
    if isinstance(value, np.ndarray) and value.ndim:
        return _of_array(value, limits)
    if isinstance(value, (bool, int, float, complex, np.generic, np.ndarray)):
        return {"kind": "number", "text": with_class_name(str(value), value, class_names)[: limits.characters]}
    if _is_list(value):
        return _of_list(value, limits)
    turns = conversation(value, limits.turns, min(limits.characters, _TURN))
    if turns is not None:
        return {"kind": "chat", "length": len(value), "turns": [turn._asdict() for turn in turns]}
    return {"kind": "null"} if value is None else _of_tree(value, limits)


def items_within(value: Any) -> Sequence[Any]:
    """Return the media files inside a document, or else the items of a list."""
    return value if _is_list(value) else media_within(value) or value


def short_text(value: Any, class_names: Sequence[str] = ()) -> str:
    """Return a value that many records share, such as a class, as text."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    return with_class_name(text, value, class_names)[:100]


def as_download(value: Any) -> tuple[bytes, str, str]:
    """Return a whole value as bytes, their MIME type and the suffix of a file: media, or else bytes without a type."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        blob = bytes(value)
        media = media_of(blob)
        return (blob, "application/octet-stream", "bin") if media is None else (blob, media.mime, media.name.lower())
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass"), "application/octet-stream", "txt"
    return json.dumps(as_json(value)).encode(), "application/octet-stream", "json"


def _is_list(value: Any) -> bool:
    """Return True for a list that is shown item by item."""
    is_list = isinstance(value, (list, tuple)) and len(value) > 0
    return is_list and all(isinstance(item, (bytes, np.ndarray)) for item in value[:100])


def _media(value: Any, limits: CellLimits) -> Cell:
    """Return the first media files inside a value as `items`, if there are any."""
    found = media_within(value)[: limits.items]
    return {"items": [_of_bytes(blob, limits) for blob in found]} if found else {}


def _cut(text: str, limits: CellLimits) -> Cell:
    return {"text": text[: limits.characters], "length": len(text), "cut": len(text) > limits.characters}


def _of_bytes(blob: bytes, limits: CellLimits) -> Cell:
    media = media_of(blob)
    if media is not None:
        return {"kind": media.kind, "name": media.name, "length": len(blob)} | _of_image(blob, media.kind)
    text = text_of(blob, limits.characters)
    if text is not None:
        return {"kind": "text", "text": text, "length": len(blob), "bytes": True, "cut": len(blob) > limits.characters}
    return {"kind": "bytes", "hex": blob[: limits.characters // 4].hex(), "length": len(blob), **_media(blob, limits)}


def _of_image(blob: bytes, kind: str) -> Cell:
    """Return the size of an image, or the error of its header."""
    if kind != "image":
        return {}
    try:
        facts = image_facts(blob)
    except ValueError as error:
        return {"error": str(error)}
    return {"width": facts.width, "height": facts.height, "mode": facts.mode}


def _of_array(array: NDArray[Any], limits: CellLimits) -> Cell:
    shape = list(array.shape)
    facts = {"dtype": str(array.dtype), "shape": shape, "length": int(array.size)}
    image = as_image(array)
    if image is not None:
        size = {"width": image.shape[1], "height": image.shape[0]}
        return {"kind": "image", "name": array_type(array), "length": array.nbytes, **size}
    first = array.reshape(-1)[: limits.values] if array.size else array[:0]
    facts |= {"kind": "array", "values": [_short(value) for value in first.reshape(-1)]}
    if array.dtype.kind not in "biuf" or array.size < 2:
        return facts
    return facts | _drawn(array, limits)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else str(value)[:100]


def _drawn(array: NDArray[Any], limits: CellLimits) -> Cell:
    """Return a sparkline of one dimension, or a heat map of the last two."""
    grid = array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array[None]
    if array.ndim > 2:
        grid = array.reshape(-1, *array.shape[-2:])[0]
    if 1 in grid.shape or array.ndim == 1:
        points = _drawable(_spread(grid.reshape(-1), 0, limits.points))
        finite = np.isfinite(points)
        return {"line": [float(x) if ok else None for x, ok in zip(points, finite, strict=True)]}
    grid = _drawable(_spread(_spread(grid, 0, limits.side), 1, limits.side))
    known = grid[np.isfinite(grid)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    levels = np.nan_to_num((grid - low) / ((high - low) or 1.0), nan=0.0, posinf=1.0, neginf=0.0)
    pixels = base64.b64encode((levels * 255).astype(np.uint8).tobytes()).decode()
    return {"map": {"rows": grid.shape[0], "columns": grid.shape[1], "levels": pixels, "low": low, "high": high}}


def _drawable(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return numbers whose range is finite, besides NaN and infinity."""
    return np.where(np.isfinite(numbers := array.astype(np.float64)), np.clip(numbers, -_MOST, _MOST), numbers)


def _spread(array: NDArray[Any], axis: int, n: int) -> NDArray[Any]:
    """Return at most `n` entries along an axis, spread evenly."""
    length = array.shape[axis]
    if length <= n:
        return array
    return np.take(array, np.linspace(0, length - 1, n).astype(np.int64), axis)


def _of_list(items: Sequence[Any], limits: CellLimits) -> Cell:
    lengths = [len(item) for item in items[: limits.values]]
    shown = [cell(item, limits) for item in items[: limits.items]]
    return {"kind": "list", "length": len(items), "lengths": lengths, "items": shown}


def _of_tree(value: Any, limits: CellLimits) -> Cell:
    facts: Cell = {"kind": "json", **_media(value, limits)}
    facts |= {"entries": len(value)} if isinstance(value, (Mapping, list, tuple)) else {}
    start = ""
    with suppress(TypeError, ValueError, RecursionError):  # which the slower way below knows how to write
        for part in _ENCODER.iterencode(value):
            start += part
            if len(start) > limits.characters:
                return {**facts, "text": start[: limits.characters], "cut": True}
    return {**facts, **_cut(json.dumps(as_json(value), ensure_ascii=False), limits)}
