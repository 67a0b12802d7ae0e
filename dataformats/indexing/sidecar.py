"""Sidecars `NAME.dataformats.json` beside data, and cached specs that were inferred from all records."""

from __future__ import annotations

import hashlib
import json
import logging
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dataformats.errors import FormatError, Remedy
from dataformats.indexing.index_cache import IndexCache
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage import atomic
from dataformats.storage.files import LocalFile

__all__ = ["SIDECAR_SUFFIX", "load_inferred", "load_sidecar", "save_inferred", "save_sidecar"]

_LOG = logging.getLogger("dataformats")
_MAX_BYTES = 16 * 2**20
SIDECAR_SUFFIX = ".dataformats.json"
_REMEDY = Remedy("Delete it, or pass {payload} and {spec}.", payload=..., spec=...)


def load_sidecar(entry: StoredFile | Folder) -> dict[str, Any] | None:
    """Return the content of `NAME.dataformats.json` beside a file or folder; `None` if it has none.

    Raises:
        FormatError: The sidecar is damaged, or of another version.
    """
    file = entry.sibling(entry.basename + SIDECAR_SUFFIX) if entry.basename else None
    if file is None:
        return None
    try:
        facts = json.loads(file.read_all(_MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the sidecar is not JSON ({error})", path=file.name, remedy=_REMEDY) from error
    if not isinstance(facts, dict) or facts.get("version") != 1:
        found = facts.get("version") if isinstance(facts, dict) else type(facts).__name__
        remedy = "Delete it, or update dataformats."
        raise FormatError(
            "the sidecar cannot be read", path=file.name, expected="an object of version 1", found=found, remedy=remedy
        )
    for name, fits in _FACTS.items():
        if facts.get(name) is not None and not fits(facts[name]):
            raise FormatError(f"the sidecar has an invalid {name!r}", path=file.name, remedy=_REMEDY)
    return facts


def _is_file_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return False
    return all(isinstance(entry.get(number), int) for number in ("records", "bytes"))


_FACTS: dict[str, Callable[[Any], bool]] = {
    "payload": lambda payload: isinstance(payload, str),
    "spec": lambda spec: isinstance(spec, dict) and all(isinstance(kind, str) for kind in spec.values()),
    "files": lambda files: isinstance(files, list) and all(map(_is_file_entry, files)),
}


def save_sidecar(path: Path, facts: Mapping[str, Any]) -> Path:
    """Write the sidecar of `path`; return its path."""
    sidecar = path.with_name(path.name + SIDECAR_SUFFIX)
    atomic.write_bytes(sidecar, (json.dumps({"version": 1, **facts}, indent=1) + "\n").encode())
    return sidecar


def load_inferred(files: Sequence[StoredFile], where: str) -> dict[str, Any] | None:
    """Return payload and spec that were inferred from all records of these files; `None` if they are not cached."""
    path = _inferred_path(files, where)
    try:
        found = json.loads(LocalFile(path).read_all(_MAX_BYTES))
        facts = found["facts"]
        sound = zlib.crc32(json.dumps(facts).encode()) == found["crc32"]
        return facts if sound and all(_FACTS[name](facts[name]) for name in ("payload", "spec")) else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def save_inferred(files: Sequence[StoredFile], where: str, facts: Mapping[str, Any]) -> None:
    """Cache payload and spec that were inferred from all records of these files, until a file changes."""
    path = _inferred_path(files, where)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(facts)
        atomic.write_bytes(path, f'{{"crc32": {zlib.crc32(text.encode())}, "facts": {text}}}'.encode())
    except OSError as error:
        _LOG.warning("cannot cache the inferred spec: %s", error)


def _inferred_path(files: Sequence[StoredFile], where: str) -> Path:
    cache = IndexCache("cache" if where == "beside" else where)
    state = hashlib.blake2b(digest_size=16)
    for file in files:
        state.update(repr((cache.resolved(file), file.identity)).encode(errors="surrogateescape"))
    return Path(cache.folder) / f"{state.hexdigest()}.spec.json"
