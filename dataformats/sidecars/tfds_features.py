"""The types of the fields of an Example, from the `features.json` of tensorflow_datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dataformats.spec import NUMBER_TYPES

_IMAGES = {"png": "png", "jpeg": "jpg"}


def spec_of_features(features: Any) -> tuple[dict[str, str], bool]:
    """Return field to type, and whether these are all fields: some features are stored in ways that are not known here.

    Args:
        features: The content of `features.json`.

    Example:
        >>> text = {"pythonClassName": "Text", "text": {}}
        >>> spec_of_features({"featuresDict": {"features": {"title": text, "clip": {"video": {}}}}})
        ({'title': 'utf8'}, False)
    """
    fields = dict(_fields("", features, None))
    known = {name: kind for name, kind in fields.items() if kind is not None}
    return known, len(known) == len(fields)


def _fields(name: str, feature: Any, length: int | None) -> Iterator[tuple[str, str | None]]:
    """Yield the fields of a feature, each with its type; `None` for a feature that is not known here.

    Args:
        name: Its name; names inside dicts are joined by `/`.
        feature: Its description.
        length: The length of the sequence around it, -1 if it differs; `None`: there is no sequence.
    """
    try:
        if "featuresDict" in feature:
            inner = feature["featuresDict"]["features"].items()
            for key, one in inner:
                yield from _fields(f"{name}/{key}" if name else key, one, length)
        elif "sequence" in feature and length is None:
            yield from _fields(name, feature["sequence"]["feature"], int(feature["sequence"].get("length", -1)))
        else:
            kind, dims = _element(feature)
            yield name, kind + _dims(dims if length is None else [length, *dims], kind)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        yield name, None


def _element(feature: Mapping[str, Any]) -> tuple[str, list[int]]:
    """Return the type of one value of a feature, and its dimensions."""
    if "classLabel" in feature:
        return "int64", []
    if "text" in feature:
        return "utf8", []
    if "boundingBox" in feature:
        return "float32", [4]
    if "image" in feature:
        image = feature["image"]
        is_known = image.get("dtype", "uint8") == "uint8"
        return (_IMAGES.get(image.get("encodingFormat", ""), "bytes") if is_known else "bytes"), []
    tensor = feature["audio"] if "audio" in feature else feature["tensor"]
    if tensor.get("encoding", "none").lower() != "none":
        return "bytes", []
    kind = "bytes" if tensor["dtype"] == "string" else tensor["dtype"]
    if kind != "bytes" and kind not in NUMBER_TYPES:
        raise LookupError(kind)
    return kind, [int(size) for size in tensor["shape"].get("dimensions", [])]


def _dims(sizes: list[int], kind: str) -> str:
    if not sizes:
        return ""
    if -1 in sizes[1:] or (kind not in NUMBER_TYPES and len(sizes) > 1):
        raise LookupError("a dimension of any length inside another one")
    inner = ",".join(map(str, sizes[1:]))
    if kind not in NUMBER_TYPES or sizes[0] == -1:
        return f"[][{inner}]" if inner else "[]"
    return f"[{','.join(map(str, sizes))}]"
