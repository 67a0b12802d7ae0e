"""The types in `dataset_info.json` of Hugging Face: a dataset without records may tell them nowhere else."""

from __future__ import annotations

import json
import re
from typing import Any

from dataformats.batch.to_arrow import pyarrow
from dataformats.errors import FormatError
from dataformats.interfaces import StoredFile
from dataformats.storage.spliced_file import SplicedFile

INFO = "dataset_info.json"
_MAX_INFO_BYTES = 2**24
_WITH_ARGUMENTS = ("timestamp", "duration", "time32", "time64", "decimal128", "decimal256", "binary")
_FILES = ("Image", "Audio", "Video", "Pdf", "Nifti")


def empty_stream(info: StoredFile) -> StoredFile:
    """Return an Arrow stream with the types of a dataset, and no record.

    Args:
        info: `dataset_info.json`.

    Raises:
        FormatError: It has no types, or unknown ones.
    """
    arrow = pyarrow()
    try:
        features = json.loads(info.read_all(_MAX_INFO_BYTES))["features"]
        metadata = {"huggingface": json.dumps({"info": {"features": features}})}
        schema = arrow.schema({name: _arrow_type(one) for name, one in features.items()}, metadata)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        what, remedy = "the types of the fields are damaged or unknown", "The dataset has no records: leave it out"
        raise FormatError(what, path=info.name, found=str(error)[:200], remedy=remedy) from error
    return SplicedFile(info, [schema.serialize().to_pybytes()])


def _arrow_type(feature: Any) -> Any:
    """Return the Arrow type in which `datasets` stores a feature."""
    arrow = pyarrow()
    if isinstance(feature, list):
        return arrow.list_(_arrow_type(feature[0]))
    kind = feature.get("_type")
    if not isinstance(kind, str):
        return arrow.struct({name: _arrow_type(one) for name, one in feature.items()})
    if kind in ("List", "Sequence", "LargeList"):
        inner = _arrow_type(feature["feature"])
        return arrow.large_list(inner) if kind == "LargeList" else arrow.list_(inner, feature.get("length", -1))
    if kind in _FILES:
        return arrow.struct({"bytes": arrow.binary(), "path": arrow.string()})
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
