"""Finds the files of a dataset: `spec.json` and one bag per field, in a folder or in numbered ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dataformats.backends.granular.bag_limits import BAG, IDX
from dataformats.backends.granular.stored_types import stored_type
from dataformats.errors import FormatError, SpecError
from dataformats.interfaces import natural_key
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.spec import Spec
from dataformats.storage.remote.systems import is_url
from dataformats.storage.threads import concurrent_map

SPEC = "spec.json"
REFS = "refs"  # the one bag that is not a field
_MAX_SPEC_BYTES = 16 * 2**20
_SHOWN = 3
_EXPECTED_SPEC = "an object of field to type"


@dataclass(frozen=True, slots=True)
class ColumnFiles:
    """The files of one field.

    Attributes:
        bag: The records.
        idx: Their ends, in generation 3.
    """

    bag: StoredFile
    idx: StoredFile | None


@dataclass(frozen=True, slots=True)
class DatasetFiles:
    """The files of one dataset; only `spec.json` has been read.

    Attributes:
        name: The folder.
        spec: The fields, sorted by name, with the types in `spec.json`.
        columns: The files of each field, in the same order.
        refs: `refs.bag` of generations 1 and 2; `None` in generation 3.
        nbytes: Bytes of all of them, `spec.json` included.
    """

    name: str
    spec: Spec
    columns: dict[str, ColumnFiles]
    refs: StoredFile | None
    nbytes: int

    def files(self) -> list[StoredFile]:
        """Return all files but `spec.json`, because a fingerprint is of the records, not of the types."""
        found = [] if self.refs is None else [self.refs]
        for column in self.columns.values():
            found += [column.bag] if column.idx is None else [column.bag, column.idx]
        return found


def find_files(folder: Folder) -> list[StoredFile]:
    """Return the files of the dataset in a folder, or of those in its numbered folders; else an empty list.

    Raises:
        FormatError: The folder, or a numbered one, has only bags and no `spec.json`.
    """
    names = folder.names()
    here = _dataset(folder, names)
    if here:
        return here
    if names and all(map(_is_bag, names)):
        raise _without_spec(folder, names)
    inside = [folder.folder(name) for name in sorted(filter(str.isdecimal, folder.folders()), key=natural_key)]
    local = not is_url(folder.name)
    shards = list(zip(inside, concurrent_map(lambda shard: shard.names(), inside, local=local), strict=True))
    found = [_dataset(shard, names) for shard, names in shards]
    for files, (shard, names) in zip(found, shards, strict=True):
        if any(found) and not files:
            raise _without_spec(shard, names)
    return [file for files in found for file in files]


def group_files(files: Sequence[StoredFile]) -> list[dict[str, StoredFile]]:
    """Return the files of each folder by name, in order; a folder that occurs twice gives two groups."""
    groups: list[dict[str, StoredFile]] = []
    current: dict[str, dict[str, StoredFile]] = {}
    for file in files:
        here = current.get(_folder_of(file))
        if here is None or file.basename in here:
            here = current[_folder_of(file)] = {}
            groups.append(here)
        here[file.basename] = file
    return groups


def dataset_files(files: dict[str, StoredFile]) -> DatasetFiles:
    """Return the dataset of these files, which are keyed by name.

    Raises:
        FormatError: `spec.json` is not a spec, or a file of a field is missing.
    """
    spec_file = files[SPEC]
    name = _folder_of(spec_file)
    spec = _read_spec(spec_file)
    refs = files.get(REFS + BAG)
    has_idx = refs is None and any(field + IDX in files for field in spec)
    if refs is None and not has_idx:
        raise FormatError(
            "a dataset needs refs.bag (generations 1 and 2) or .idx files (generation 3)", path=name, found=_some(files)
        )
    columns = {
        field: ColumnFiles(_part(files, name, field + BAG), _part(files, name, field + IDX) if has_idx else None)
        for field in spec
    }
    found = DatasetFiles(name, spec, columns, refs, 0)
    nbytes = spec_file.size + sum(file.size for file in found.files())
    return DatasetFiles(name, spec, columns, refs, nbytes)


def bags_of(groups: Sequence[dict[str, StoredFile]]) -> list[StoredFile]:
    """Return the bags among files, without the `.idx` files beside them."""
    return [
        file
        for files in groups
        for name, file in files.items()
        if not (name.endswith(IDX) and name.removesuffix(IDX) + BAG in files)
    ]


def _dataset(folder: Folder, names: Sequence[str]) -> list[StoredFile]:
    """Return the files of the dataset in a folder, or an empty list."""
    bags = [name for name in names if _is_bag(name)]
    if SPEC not in names or not (bags or len(names) == 1):
        return []
    return folder.files((SPEC, *bags))


def _is_bag(name: str) -> bool:
    return name.endswith((BAG, IDX))


def _without_spec(folder: Folder, names: Sequence[str]) -> FormatError:
    return FormatError(
        "a dataset needs spec.json",
        path=f"{folder.name}/{SPEC}",
        found=_some(names) or "an empty folder",
        remedy="To read single bags as bytes, pass the .bag files themselves",
    )


def spec_types(text: bytes, path: str) -> dict[str, str]:
    """Return the types in the text of a `spec.json`, by field.

    Raises:
        FormatError: It is not an object of field to type, or a name leads out of the folder.
    """
    try:
        types: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"spec.json is not JSON: {error}", path=path, expected=_EXPECTED_SPEC) from error
    if not isinstance(types, dict) or not all(isinstance(kind, str) for kind in types.values()):
        raise FormatError("spec.json is not a spec", path=path, expected=_EXPECTED_SPEC, found=_short(types))
    for name in types:
        if not name or name in (".", "..") or any(mark in name for mark in "/\\\0"):
            raise _impossible_name(name, path)
    return types


def _read_spec(file: StoredFile) -> Spec:
    """Return the spec in `spec.json`."""
    try:
        types = spec_types(file.read_all(_MAX_SPEC_BYTES), file.name)
    finally:
        file.release()
    if REFS in types:
        raise _impossible_name(REFS, file.name)
    if not types:
        raise FormatError("spec.json has no fields", path=file.name)
    try:
        return Spec({name: stored_type(types[name]) for name in sorted(types)})
    except SpecError as error:
        raise FormatError(f"spec.json is not a spec: {error}", path=file.name) from error


def _impossible_name(name: str, path: str) -> FormatError:
    return FormatError("spec.json has an impossible name of a field", path=path, found=_short(name))


def _part(files: dict[str, StoredFile], folder: str, name: str) -> StoredFile:
    if name not in files:
        raise FormatError(
            "a file of the dataset is missing", path=f"{folder}/{name}", expected=name, found=_some(files)
        )
    return files[name]


def _folder_of(file: StoredFile) -> str:
    return file.name.rstrip("/").rpartition("/")[0]


def _some(names: Sequence[str] | dict[str, StoredFile]) -> str:
    first = sorted(names)[:_SHOWN]
    return ", ".join(first) + (f" and {len(names) - len(first)} more" if len(names) > len(first) else "")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 100 else f"{text[:97]}..."
