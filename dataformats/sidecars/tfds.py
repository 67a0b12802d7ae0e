"""Folders of tensorflow_datasets: `dataset_info.json` tells the splits and files, `features.json` the types."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dataformats.errors import FormatError, Remedy, SpecError, UnknownNameError
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.sidecars.tfds_features import spec_of_features
from dataformats.storage.selected_files import GlobFolder

_INFO, _FEATURES = "dataset_info.json", "features.json"
_MAX_BYTES = 32 * 2**20
_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"


@dataclass(frozen=True, slots=True)
class TfdsSplit:
    """A split of a dataset that tensorflow_datasets wrote.

    Attributes:
        files: Its shards.
        metadata: Format, payload and spec, as a sidecar of this package has them; `other_fields` is true if the types
            of others must be inferred.
    """

    files: Folder
    metadata: dict[str, Any]


def tfds_split(entries: Sequence[StoredFile | Folder], split: str | None) -> TfdsSplit | None:
    """Return the split of a folder that tensorflow_datasets wrote; `None` if the path is something else.

    Args:
        entries: The files and folders of a path.
        split: The name of the split; `None` takes the only one.

    Raises:
        FormatError: The description of the dataset is damaged, or shards are missing.
        SpecError: There are several splits, and `split` is `None`.
        UnknownNameError: There is no such split.
    """
    folder = entries[0]
    info = _described(folder) if len(entries) == 1 and isinstance(folder, Folder) and not folder.explicit else None
    if info is None or not isinstance(folder, Folder):
        return None
    chosen = _chosen(info, split, folder)
    format = str(info.get("fileFormat") or "tfrecord")
    if format not in ("tfrecord", "array_record", "parquet"):
        what = "tensorflow_datasets wrote the files in a format that cannot be read"
        raise FormatError(what, path=folder.name, expected="tfrecord, array_record or parquet", found=format)
    names = list(_shard_names(info, chosen, format))
    missing = sorted({*names}.difference(folder.names()))
    if missing or not names:
        what = f"shards of the split {chosen['name']!r} are missing: {', '.join(missing[:3]) or 'it has none'}"
        raise FormatError(what, path=folder.name, expected=f"{len(names)} files", found=len(names) - len(missing))
    metadata: dict[str, Any] = {"format": format}
    if format != "parquet":  # which has the Examples in a column
        types, is_whole = spec_of_features(_json(folder, _FEATURES)) if _FEATURES in folder.names() else ({}, False)
        spec = {field: _with_class_names(folder, field, kind) for field, kind in types.items()}
        metadata |= {"payload": "example", "spec": spec or None, "other_fields": not is_whole}
    return TfdsSplit(GlobFolder(folder.name, dict(zip(names, folder.files(names), strict=True))), metadata)


def _with_class_names(folder: Folder, field: str, kind: str) -> Any:
    """Return the type of a field, with the class names that a file beside the data lists, one in a line."""
    name = f"{field.replace('/', '-')}.labels.txt"
    if not kind.startswith("int64") or name not in folder.names():
        return kind
    file = folder.file(name)
    try:
        lines = file.read_all(_MAX_BYTES).decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"the class names are not UTF-8 ({error})", path=file.name) from error
    finally:
        file.release()
    names = [line.strip() for line in lines.split("\n") if line.strip()]
    return {"type": kind, "class_names": names} if names else kind


def _described(folder: Folder) -> dict[str, Any] | None:
    """Return `dataset_info.json` if it is of tensorflow_datasets: other programs have such a file, too."""
    info = _json(folder, _INFO) if _INFO in folder.names() else None
    splits = info.get("splits") if isinstance(info, dict) else None
    if not isinstance(info, dict) or not isinstance(splits, list) or not isinstance(info.get("name"), str):
        return None
    if not all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in splits):
        raise FormatError("a split has no name", path=f"{folder.name}/{_INFO}")
    return info


def _json(folder: Folder, name: str) -> Any:
    file = folder.file(name)
    try:
        return json.loads(file.read_all(_MAX_BYTES))
    except (ValueError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"the file is not JSON ({error})", path=file.name) from error
    finally:
        file.release()


def _chosen(info: Mapping[str, Any], split: str | None, folder: Folder) -> Mapping[str, Any]:
    splits: dict[str, Mapping[str, Any]] = {one["name"]: one for one in info["splits"]}
    if split is None and len(splits) == 1:
        return next(iter(splits.values()))
    if split is None:
        what = f"the folder {folder.name!r} has {len(splits)} splits: {', '.join(map(repr, splits))}"
        raise SpecError(what, remedy=Remedy("Pass {split}, or another one.", split=next(iter(splits))))
    if split not in splits:
        raise UnknownNameError("split", name=split, known=splits)
    return splits[split]


def _shard_names(info: Mapping[str, Any], split: Mapping[str, Any], format: str) -> Iterator[str]:
    template, lengths = split.get("filepathTemplate") or _TEMPLATE, split.get("shardLengths") or []
    n = len(lengths) if isinstance(lengths, list) else 0
    for number in range(n):
        parts = {
            "DATASET": info["name"],
            "SPLIT": split["name"],
            "FILEFORMAT": format,
            "SHARD_INDEX": f"{number:05d}",
            "NUM_SHARDS": f"{n:05d}",
            "SHARD_X_OF_Y": f"{number:05d}-of-{n:05d}",
        }
        name = str(template)
        for key, text in parts.items():
            name = name.replace(f"{{{key}}}", text)
        yield name
