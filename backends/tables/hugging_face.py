"""The features of Hugging Face: the types of fields in the metadata of tables and in `dataset_info.json`."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dataformats.batch.arrow_types import MEDIA
from dataformats.batch.to_arrow import pyarrow
from dataformats.columns.column_cast import can_cast
from dataformats.errors import FormatError, SpecError
from dataformats.interfaces import StoredFile
from dataformats.spec import Type
from dataformats.storage.spliced_file import SplicedFile

INFO = "dataset_info.json"
KEY = b"huggingface"  # the metadata of a schema, or of a field, with its features
_MAX_INFO_BYTES = 2**24
_WITH_ARGUMENTS = ("timestamp", "duration", "time32", "time64", "decimal128", "decimal256", "binary")
_MEDIA = ("Image", "Audio", "Video", "Pdf", "Nifti")
_CODEC_FEATURES = {"mp4": "Video", "webm": "Video", "audio": "Audio"}  # other media are images
_LISTS = ("List", "Sequence", "LargeList")


def empty_stream(info: StoredFile) -> StoredFile:
    """Return an Arrow stream with the types of a dataset, and no record: they may stand nowhere else.

    Args:
        info: `dataset_info.json`.

    Raises:
        FormatError: It has no types, or unknown ones.
    """
    try:
        features = json.loads(info.read_all(_MAX_INFO_BYTES))["features"]
        types = {name: arrow_type_of(one) for name, one in features.items()}
        schema = pyarrow().schema(types, metadata_of(features))
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        what, remedy = "the types of the fields are damaged or unknown", "The dataset has no records: leave it out"
        raise FormatError(what, path=info.name, found=str(error)[:200], remedy=remedy) from error
    return SplicedFile(info, [schema.serialize().to_pybytes()])


def metadata_of(features: Mapping[str, Any]) -> dict[bytes, str]:
    """Return the metadata of a schema whose columns have features."""
    return {KEY: json.dumps({"info": {"features": features}})}


def features_of(schemas: Sequence[Any]) -> dict[str, Any]:
    """Return the features, column to feature, that are the same in all `pyarrow.Schema`."""
    first, *others = map(_features_in, {(schema.metadata or {}).get(KEY) for schema in schemas})
    return {name: feature for name, feature in first.items() if all(other.get(name) == feature for other in others)}


def _features_in(text: bytes | None) -> dict[str, Any]:
    try:
        return dict(json.loads(text or b"{}")["info"]["features"])
    except (ValueError, TypeError, LookupError, RecursionError):
        return {}


def feature_of(kind: Type) -> dict[str, Any] | None:
    """Return the feature of media, of integers with class names, or of lists of these; `None` for others."""
    if kind.class_names:
        feature: dict[str, Any] = {"names": [*kind.class_names], "_type": "ClassLabel"}
    elif kind.arrow_type is not None:
        return _feature_in(kind.arrow_type) if is_media_type(kind.arrow_type) else None
    elif kind.codec in MEDIA:
        feature = {"_type": _CODEC_FEATURES.get(kind.codec, "Image")}
    else:
        return None
    for size in reversed(kind.dims):
        feature = _list_of(feature, size or -1)
    return feature


def _list_of(feature: Any, length: int = -1) -> dict[str, Any]:
    return {"feature": feature, "length": length, "_type": "Sequence"}


def _item_of(feature: Any) -> Any:
    """Return the feature of the items of a list; `None` if it is no list."""
    if isinstance(feature, list):
        return feature[0] if len(feature) == 1 else None
    return feature.get("feature") if isinstance(feature, dict) and feature.get("_type") in _LISTS else None


def is_media(feature: Any) -> bool:
    """True if the values of a feature are files, their bytes and a path, or lists of files."""
    if (item := _item_of(feature)) is not None:
        return is_media(item)
    return isinstance(feature, dict) and feature.get("_type") in _MEDIA


def media_type(feature: Any) -> Any:
    """Return the `pyarrow.DataType` of files, or of lists of files, with their feature in its metadata."""
    arrow = pyarrow()
    if (item := _item_of(feature)) is not None:
        return arrow.list_(media_type(item))
    content = arrow.field("bytes", arrow.binary(), metadata={KEY: json.dumps(feature)})
    return arrow.struct([content, arrow.field("path", arrow.string())])


def is_media_type(kind: Any) -> bool:
    """True for a type that `media_type` returned."""
    types = pyarrow().types
    if types.is_list(kind):
        return is_media_type(kind.value_type)
    return bool(types.is_struct(kind) and kind.num_fields and KEY in (kind.field(0).metadata or {}))


def _feature_in(media: Any) -> Any:
    """Return the feature of a type that `media_type` returned."""
    if media.num_fields == 1:
        return _list_of(_feature_in(media.value_type))
    return json.loads(media.field(0).metadata[KEY])


def class_names(feature: Any) -> tuple[str, ...]:
    """Return the class names of a feature, or of the elements of a list."""
    if (item := _item_of(feature)) is not None:
        return class_names(item)
    names = feature.get("names") if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" else None
    return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else ()


def array_type(feature: Any, stored: Type) -> Type:
    """Return the type of a feature such as `Array2D`, whose values are stored as nested lists; else the stored type."""
    with contextlib.suppress(KeyError, TypeError, ValueError, SpecError):
        if re.fullmatch("Array[2-5]D", feature["_type"]):
            dims = tuple(None if size is None else int(size) for size in feature["shape"])
            kind = replace(Type.parse(feature["dtype"]), dims=dims, optional=stored.optional)
            return kind if can_cast(stored, kind) else stored
    return stored


def arrow_type_of(feature: Any) -> Any:
    """Return the `pyarrow.DataType` in which `datasets` stores a feature."""
    arrow = pyarrow()
    if isinstance(feature, list):
        return arrow.list_(arrow_type_of(feature[0]))
    kind = feature.get("_type")
    if not isinstance(kind, str):
        return arrow.struct({name: arrow_type_of(one) for name, one in feature.items()})
    if kind in _LISTS:
        inner = arrow_type_of(feature["feature"])
        return arrow.large_list(inner) if kind == "LargeList" else arrow.list_(inner, feature.get("length", -1))
    if is_media(feature):
        return media_type(feature)
    if kind == "Translation":
        return arrow.struct(dict.fromkeys(feature["languages"], arrow.string()))
    if kind != "ClassLabel" and "dtype" not in feature:
        raise ValueError(f"a feature {kind}")
    found = _value_type(feature.get("dtype", "int64"))
    for _ in feature["shape"] if re.fullmatch("Array[2-5]D", kind) else ():
        found = arrow.list_(found)
    return found


def _value_type(name: str) -> Any:
    """Return the Arrow type of a name such as `float32` or `timestamp[us, tz=UTC]`."""
    arrow = pyarrow()
    base, *arguments = re.findall(r"[^\[\](), ]+", name.replace("fixed_size_", "").replace("tz=", ""))
    if arguments and base in _WITH_ARGUMENTS:
        return getattr(arrow, base)(*(int(one) if one.lstrip("-").isdigit() else one for one in arguments))
    return arrow.type_for_alias(name)
