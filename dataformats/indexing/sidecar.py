"""Our own facts beside data: `NAME.dataformats.json`, and the spec that a full pass over files found out."""

from __future__ import annotations

import hashlib
import json
import logging
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dataformats.indexing.index_cache import IndexCache
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage import atomic
from dataformats.storage.files import LocalFile

__all__ = ["FACTS_SUFFIX", "load_facts", "load_inferred", "save_facts", "save_inferred"]

_LOG = logging.getLogger("dataformats")
_MAX_FACTS = 16 * 2**20
FACTS_SUFFIX = ".dataformats.json"


def load_facts(entry: StoredFile | Folder) -> dict[str, Any] | None:
    """Return what `NAME.dataformats.json` says of a file or folder, or `None`.

    Raises:
        ValueError: The sibling is there and is not what it should be.
    """
    sibling = entry.sibling(entry.basename + FACTS_SUFFIX) if entry.basename else None
    if sibling is None:
        return None
    try:
        facts = json.loads(sibling.read_all(_MAX_FACTS))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{sibling.name!r} is no JSON: {error}; delete it, or pass spec= and payload=") from error
    if not isinstance(facts, dict) or facts.get("version") != 1:
        raise ValueError(f"{sibling.name!r}: expected a JSON object of version 1; delete it or update dataformats")
    for name, fits in _FACTS.items():
        if facts.get(name) is not None and not fits(facts[name]):
            raise ValueError(f"{sibling.name!r}: {name!r} is not what this package writes; delete it")
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


def save_facts(path: Path, facts: Mapping[str, Any]) -> Path:
    """Write the sibling of `path`; return its path."""
    sibling = path.with_name(path.name + FACTS_SUFFIX)
    atomic.write_bytes(sibling, (json.dumps({"version": 1, **facts}, indent=1) + "\n").encode())
    return sibling


def load_inferred(files: Sequence[StoredFile], where: str) -> dict[str, Any] | None:
    """Return what a full pass over these very files found out of their spec, or `None`."""
    path = _inferred_path(files, where)
    try:
        found = json.loads(LocalFile(path).read_all(_MAX_FACTS))
        facts = found["facts"]
        sound = zlib.crc32(json.dumps(facts).encode()) == found["crc32"]
        return facts if sound and all(_FACTS[name](facts[name]) for name in ("payload", "spec")) else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def save_inferred(files: Sequence[StoredFile], where: str, facts: Mapping[str, Any]) -> None:
    """Keep what a full pass over these files found out, until one of them changes."""
    path = _inferred_path(files, where)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(facts)
        atomic.write_bytes(path, f'{{"crc32": {zlib.crc32(text.encode())}, "facts": {text}}}'.encode())
    except OSError as error:
        _LOG.warning("the inferred spec is not kept: %s", error)


def _inferred_path(files: Sequence[StoredFile], where: str) -> Path:
    shelf = IndexCache("cache" if where == "beside" else where)
    state = hashlib.blake2b(digest_size=16)
    for file in files:
        state.update(repr((shelf.resolved(file), file.identity)).encode(errors="surrogateescape"))
    return Path(shelf.folder) / f"{state.hexdigest()}.spec.json"
