"""Cache specs that were inferred from all records of a dataset."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dataformats.indexing.index_cache import IndexCache
from dataformats.interfaces.stored_file import StoredFile
from dataformats.sidecars.sidecar import is_payload, is_spec
from dataformats.storage import atomic
from dataformats.storage.checked_json import pack_checked, parse_checked
from dataformats.storage.files import LocalFile

_LOG = logging.getLogger("dataformats")
_MAX_BYTES = 16 * 2**20


def load_inferred(files: Sequence[StoredFile], where: str) -> dict[str, Any] | None:
    """Return payload and spec that were inferred from all records of these files; `None` if they are not cached."""
    if not all(file.stored.has_name for file in files):
        return None
    path = _inferred_path(files, where)
    try:
        metadata: dict[str, Any] = parse_checked(LocalFile(path).read_all(_MAX_BYTES))
        return metadata if is_payload(metadata["payload"]) and is_spec(metadata["spec"]) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def save_inferred(files: Sequence[StoredFile], where: str, metadata: Mapping[str, Any]) -> None:
    """Cache payload and spec that were inferred from all records of these files, until a file changes."""
    if not all(file.stored.has_name for file in files):
        return
    path = _inferred_path(files, where)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_bytes(path, pack_checked(metadata))
    except OSError as error:
        _LOG.warning("cannot cache the inferred spec as %r: %s", str(path), error)


def _inferred_path(files: Sequence[StoredFile], where: str) -> Path:
    cache = IndexCache("cache" if where == "beside" else where)
    state = hashlib.blake2b(digest_size=16)
    for file in files:
        state.update(repr((cache.resolved(file), file.identity)).encode(errors="surrogateescape"))
    return Path(cache.folder) / f"{state.hexdigest()}.spec.json"
