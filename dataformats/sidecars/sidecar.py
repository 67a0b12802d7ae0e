"""Sidecars `NAME.dataformats.json`: metadata that a format cannot store, and a list of the data files beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataformats.errors import FormatError, Remedy, SpecError
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.sidecars.file_digest import file_checksum, file_digest
from dataformats.spec import Type
from dataformats.storage.files import LocalFile

_MAX_BYTES = 32 * 2**20
_VERSION = 1
SIDECAR_SUFFIX = ".dataformats.json"
_REMEDY = Remedy("Delete it, or, if records have a payload, pass {payload} and {spec}.", payload=..., spec=...)


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The content of `NAME.dataformats.json`.

    Attributes:
        name: The path or URL of the sidecar.
        metadata: `format`, `payload`, `spec`, and `files`, each as far as known; for a conversion also its `plan`, the
            number of records that it `omitted`, and the version of this package, `dataformats`. While the objects of
            remote data are replaced one after another, they are `incomplete`.
        previous: The metadata of the data that a writer was replacing; `None` unless it was interrupted. The metadata
            hold whose files are there.
    """

    name: str
    metadata: dict[str, Any]
    previous: dict[str, Any] | None = None


def load_sidecar(entry: StoredFile | Folder) -> Sidecar | None:
    """Return the sidecar of a file or folder; `None` if it has none.

    Raises:
        FormatError: The sidecar is damaged, or of another version.
    """
    there = entry.bytes_beside(entry.basename + SIDECAR_SUFFIX, _MAX_BYTES) if entry.basename else None
    if there is None:
        return None
    name, content = there
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the sidecar is not JSON ({error})", path=name, remedy=_REMEDY) from error
    if not isinstance(found, dict) or found.get("version") != _VERSION:
        raise FormatError(
            "the sidecar cannot be read",
            path=name,
            expected=f"an object of version {_VERSION}",
            found=found.get("version") if isinstance(found, dict) else type(found).__name__,
            remedy="Delete it, or update dataformats.",
        )
    previous = found.get("previous")
    return Sidecar(name, _metadata(found, name), None if previous is None else _metadata(previous, name))


def sidecar_bytes(metadata: Mapping[str, Any], previous: Mapping[str, Any] | None = None) -> bytes:
    """Return the content of a sidecar, with a line for each fact and each file.

    Args:
        metadata: See `Sidecar`.
        previous: The metadata of the data that a writer is replacing: see `Sidecar`.
    """
    content = {"version": _VERSION, **metadata} | ({} if previous is None else {"previous": dict(previous)})
    lines = [f" {json.dumps(name)}: {_lines(fact)}" for name, fact in content.items()]
    text = ("{\n" + ",\n".join(lines) + "\n}\n").encode()
    if len(text) > _MAX_BYTES and "files" in metadata:  # more than some hundred thousand files
        return sidecar_bytes({name: fact for name, fact in metadata.items() if name != "files"}, previous)
    return text


def _lines(fact: Any) -> str:
    if not (fact and isinstance(fact, list)):
        return json.dumps(fact)
    return "[\n  " + ",\n  ".join(map(json.dumps, fact)) + "\n ]"  # `indent=` takes five times as long


def list_file(
    name: str, records: int, path: Path, beside: Mapping[str, Path], *, checksums: bool = False
) -> dict[str, Any]:
    """Return the entry of a sidecar's `files` for a complete file or folder.

    Args:
        name: Its final name.
        records: The number of its records.
        path: Where it is now.
        beside: Final name and present path of the files beside it that belong to it.
        checksums: Read each file whole, for its CRC-32.
    """
    entry: dict[str, Any] = {"name": name, "records": records}
    if path.is_dir():
        inside = sorted(part for part in path.rglob("*") if part.is_file())
        parts = [_part(part.relative_to(path).as_posix(), part, checksums) for part in inside]
        return entry | {"bytes": sum(part["bytes"] for part in parts), "parts": parts}
    parts = [_part(name, part, checksums) for name, part in beside.items()]
    return entry | _part(name, path, checksums) | ({"parts": parts} if parts else {})


def without_checksums(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of `list_file` without the CRC-32s."""
    kept = {name: fact for name, fact in entry.items() if name != "crc32"}
    return kept | ({"parts": [without_checksums(part) for part in entry["parts"]]} if "parts" in entry else {})


def _part(name: str, path: Path, checksums: bool) -> dict[str, Any]:
    file = LocalFile(path)
    checksum = {"crc32": file_checksum(file)} if checksums else {}
    return {"name": name, "bytes": file.size, "digest": file_digest(file), **checksum}


def remedy_instead_of(metadata: Mapping[str, Any], template: str) -> Remedy:
    """Return a remedy to pass arguments instead of metadata of a sidecar.

    Args:
        metadata: What a call takes from the sidecar: `"payload"`, `"spec"`, or both; `None` is unknown.
        template: The text; `{arguments}` is the place of the arguments.
    """
    names = sorted(metadata)
    arguments = " and ".join(f"{{{name}}}" for name in names)
    known = {name: metadata[name] if isinstance(metadata[name], str) else ... for name in names}  # no long spec
    return Remedy(template.replace("{arguments}", arguments), **known)


def is_payload(payload: object) -> bool:
    """True for the name of a codec."""
    return isinstance(payload, str)


def is_spec(spec: object) -> bool:
    """True for a mapping of field to the JSON of a type; the types may be unknown."""
    try:
        return isinstance(spec, dict) and all(Type.named(kind) for kind in spec.values())
    except SpecError:
        return False


def _is_list_of_files(files: object) -> bool:
    return isinstance(files, list) and all(_is_file(file) and isinstance(file.get("records"), int) for file in files)


def _is_file(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return False
    parts = entry.get("parts", [])
    texts = all(isinstance(entry.get(key, ""), str) for key in ("digest", "crc32"))
    sound = isinstance(entry.get("bytes"), int) and texts
    sound = sound and isinstance(entry.get("grows", []), list)
    return sound and isinstance(parts, list) and all(_is_file(part) and "parts" not in part for part in parts)


_KNOWN: dict[str, Callable[[Any], bool]] = {
    "format": lambda format: isinstance(format, str),
    "payload": is_payload,
    "spec": is_spec,
    "files": _is_list_of_files,
    "plan": lambda plan: isinstance(plan, dict),
}


def _metadata(parsed: Any, name: str) -> dict[str, Any]:
    """Return the metadata of a sidecar of this name.

    Raises:
        FormatError: One of them is invalid.
    """
    if not isinstance(parsed, dict):
        raise FormatError("the sidecar has an invalid 'previous'", path=name, remedy=_REMEDY)
    metadata = {key: value for key, value in parsed.items() if key not in ("version", "previous")}
    for key, fits in _KNOWN.items():
        if metadata.get(key) is not None and not fits(metadata[key]):
            raise FormatError(f"the sidecar has an invalid {key!r}", path=name, remedy=_REMEDY)
    return metadata
