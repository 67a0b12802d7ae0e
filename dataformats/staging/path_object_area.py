"""PathObjectArea: new data behind a path object, which are built in a temporary folder and then copied."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.sidecars.sidecar import SIDECAR_SUFFIX, sidecar_bytes
from dataformats.staging.area import Publication
from dataformats.staging.local_area import LocalArea
from dataformats.storage.paths import resolve


class PathObjectArea(LocalArea):
    """New data behind a path object with `open` and `/`; they are written through `open("wb")`.

    Args:
        path: The final name.

    Raises:
        TypeError: The path object has no `parent`: there is no place for a sidecar.
    """

    def __init__(self, path: Any) -> None:
        if not hasattr(path, "parent"):
            raise TypeError(f"cannot write sidecars beside {str(path)!r}: expected a path object with `parent`")
        self._object = path
        self._temporary = Path(tempfile.mkdtemp(prefix="dataformats-"))
        weakref.finalize(self, shutil.rmtree, self._temporary, ignore_errors=True)
        super().__init__(self._temporary / str(path).rstrip("/").rsplit("/", 1)[-1])
        self.name: str = str(path)

    @property
    def final(self) -> Path:
        raise self._not_local()

    def begin(self, metadata: Mapping[str, Any], *, resume: bool, sharded: bool) -> None:
        if resume:
            raise self._not_local()
        super().begin(metadata, resume=resume, sharded=sharded)

    def exists(self) -> bool:
        return bool(self._object.exists())

    def release(self) -> None:
        super().release()
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _rename(self, publication: Publication) -> None:
        beside, self._overwrite = dict(publication.beside), True
        super()._rename(publication)
        for name in beside:
            local, there = self._temporary / name, self._object.parent / name
            if local.exists():
                _send(local, there)
            elif there.exists():
                there.unlink()
        _send(self._path, self._object)

    def _entry(self) -> StoredFile | Folder:
        entry = resolve(self._object)[0]
        if isinstance(entry, StoredFile):
            entry.release()
        return entry

    @property
    def _sidecar_object(self) -> Any:
        return self._object.parent / (self._path.name + SIDECAR_SUFFIX)

    def _read_sidecar(self) -> bytes | None:
        if not self._sidecar_object.exists():
            return None
        with self._sidecar_object.open("rb") as file:
            return bytes(file.read())

    def write_sidecar(self, content: bytes | None) -> None:
        if content is None and not self._sidecar_object.exists():
            return
        if content is None and hasattr(self._sidecar_object, "unlink"):
            self._sidecar_object.unlink()
            return
        with self._sidecar_object.open("wb") as file:
            file.write(sidecar_bytes({}) if content is None else content)


def _send(local: Path, remote: Any) -> None:
    if local.is_dir():
        remote.mkdir()
        for part in sorted(local.iterdir()):
            _send(part, remote / part.name)
        return
    with local.open("rb") as source, remote.open("wb") as sink:
        shutil.copyfileobj(source, sink, 2**20)
