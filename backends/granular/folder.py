"""Which files make a data set: `spec.json` and one bag a field, in a folder or in numbered ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dataformats.backends.granular.bags import BAG, IDX
from dataformats.backends.granular.stored_types import stored_type
from dataformats.errors import FormatError, SpecError
from dataformats.interfaces import natural_key
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.spec import Spec

__all__ = ["REFS", "SPEC", "ColumnFiles", "DataSetFiles", "bags_of", "data_set_files", "find", "group"]

SPEC = "spec.json"
REFS = "refs"  # the bag that is no field
_MAX_SPEC_BYTES = 16 * 2**20
_SHOWN = 3


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
class DataSetFiles:
    """The files of one data set; none was opened but `spec.json`.

    Attributes:
        name: The folder.
        spec: The fields, sorted by name, with the types that the file gives.
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
        """Return all files but `spec.json`: a fingerprint is of the records, not of the types."""
        found = [] if self.refs is None else [self.refs]
        for column in self.columns.values():
            found += [column.bag] if column.idx is None else [column.bag, column.idx]
        return found


def find(folder: Folder) -> list[StoredFile]:
    """Return the files of the data set, or of the numbered data sets, that a folder is; none if it is neither.

    Raises:
        FormatError: Nothing but bags and no `spec.json`, here or in one of the numbered folders.
    """
    names = folder.names()
    here = _data_set(folder, names)
    if here:
        return here
    if names and all(map(_is_bag, names)):
        raise _without_spec(folder, names)
    inside = [folder.folder(name) for name in sorted(filter(str.isdecimal, folder.folders()), key=natural_key)]
    shards = [(shard, shard.names()) for shard in inside]
    found = [_data_set(shard, names) for shard, names in shards]
    for files, (shard, names) in zip(found, shards, strict=True):
        if any(found) and not files:
            raise _without_spec(shard, names)
    return [file for files in found for file in files]


def group(files: Sequence[StoredFile]) -> list[dict[str, StoredFile]]:
    """Return the files by name for each folder that they lie in, in order; a folder that is given twice is two."""
    groups: list[dict[str, StoredFile]] = []
    current: dict[str, dict[str, StoredFile]] = {}
    for file in files:
        here = current.get(_folder_of(file))
        if here is None or file.basename in here:
            here = current[_folder_of(file)] = {}
            groups.append(here)
        here[file.basename] = file
    return groups


def data_set_files(files: dict[str, StoredFile]) -> DataSetFiles:
    """Return the data set whose files these are, each under its name.

    Raises:
        FormatError: `spec.json` is none, or a file of a field is missing.
    """
    spec_file = files[SPEC]
    name = _folder_of(spec_file)
    spec = _read_spec(spec_file)
    refs = files.get(REFS + BAG)
    has_idx = refs is None and any(field + IDX in files for field in spec)
    if refs is None and not has_idx:
        raise FormatError(
            "neither refs.bag (generations 1 and 2) nor an .idx file (generation 3)", path=name, found=_some(files)
        )
    columns = {
        field: ColumnFiles(_part(files, name, field + BAG), _part(files, name, field + IDX) if has_idx else None)
        for field in spec
    }
    found = DataSetFiles(name, spec, columns, refs, 0)
    nbytes = spec_file.size + sum(file.size for file in found.files())
    return DataSetFiles(name, spec, columns, refs, nbytes)


def bags_of(groups: Sequence[dict[str, StoredFile]]) -> list[StoredFile]:
    """Return the bags among files, without the `.idx` files that belong to one of them."""
    return [
        file
        for files in groups
        for name, file in files.items()
        if not (name.endswith(IDX) and name.removesuffix(IDX) + BAG in files)
    ]


def _data_set(folder: Folder, names: Sequence[str]) -> list[StoredFile]:
    """Return the files of a data set, or nothing for a folder that is none."""
    bags = [name for name in names if _is_bag(name)]
    if SPEC not in names or not (bags or len(names) == 1):
        return []
    return [folder.file(name) for name in (SPEC, *bags)]


def _is_bag(name: str) -> bool:
    return name.endswith((BAG, IDX))


def _without_spec(folder: Folder, names: Sequence[str]) -> FormatError:
    return FormatError(
        "no spec.json, which a data set has",
        path=f"{folder.name}/{SPEC}",
        found=_some(names) or "an empty folder",
        remedy="to read single bags as bytes, name the .bag files themselves",
    )


def _read_spec(file: StoredFile) -> Spec:
    """Return what `spec.json` says; every name in it is that of a file in the folder itself, or refused."""
    try:
        types: Any = json.loads(file.read_all(_MAX_SPEC_BYTES))
    except (ValueError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"not JSON: {error}", path=file.name, expected="an object of field to type") from error
    finally:
        file.release()
    if not isinstance(types, dict) or not all(isinstance(kind, str) for kind in types.values()):
        raise FormatError("not a spec", path=file.name, expected="an object of field to type", found=_short(types))
    for name in types:
        if not name or name in (".", "..", REFS) or any(mark in name for mark in "/\\\0"):
            raise FormatError("a name that no field can have", path=file.name, found=_short(name))
    if not types:
        raise FormatError("no fields", path=file.name)
    try:
        return Spec({name: stored_type(types[name]) for name in sorted(types)})
    except SpecError as error:
        raise FormatError(f"not a spec: {error}", path=file.name) from error


def _part(files: dict[str, StoredFile], folder: str, name: str) -> StoredFile:
    if name not in files:
        raise FormatError(
            "a file of the data set is missing", path=f"{folder}/{name}", expected=name, found=_some(files)
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
