"""Where new data go: built on the local disk, published under their name in one step."""

from __future__ import annotations

import functools
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dataformats.errors import StateMismatchError
from dataformats.indexing.sidecar import FACTS_SUFFIX, load_facts, save_facts
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage import atomic
from dataformats.storage.files import LocalFile, LocalFolder
from dataformats.storage.paths import is_local, is_url

__all__ = ["Destination", "target"]

_NOTHING: Mapping[str, Path | None] = {}


class Destination(ABC):
    """A name for new data, and the local place where they grow until they get it.

    Attributes:
        name: For messages.
        partial: The local path of the growing file or folder.
    """

    name: str
    partial: Path

    @abstractmethod
    def exists(self) -> bool:
        """Return True where something has the name already."""

    @property
    def final(self) -> Path:
        """The local path of the name.

        Raises:
            ValueError: It is not on the local disk, where alone interrupted data can be gone on with.
        """
        raise ValueError(f"resume=True needs a local path, found {self.name!r}")

    def in_place(self) -> Destination:
        """Return the target that appends to what has the name already."""
        return _InPlace(self.final)

    def unrelated_file(self, find: Callable[[Folder], Sequence[StoredFile]]) -> str | None:
        """Return a file that would be lost with the folder of this name and is no data that `find` knows; or `None`."""
        return None

    def inode(self) -> int | None:
        """Return what tells that `partial` is still what it was: two writers of one name would mix their records."""
        try:
            return self.partial.stat().st_ino
        except FileNotFoundError:
            return None

    def discard_partial(self) -> None:
        """Delete what an interrupted writer left."""
        atomic.remove(self.partial)
        self._plan.unlink(missing_ok=True)

    def check_resume_plan(self, facts: Mapping[str, Any]) -> None:
        """Note beside what grows how its records are encoded, and compare with what an interrupted writer noted.

        Raises:
            StateMismatchError: It encoded them otherwise.
        """
        plan = load_facts(LocalFile(self.partial)) if self.partial.is_file() else None
        if self.partial.is_dir():
            plan = load_facts(LocalFolder(self.partial))
        if plan is None:
            save_facts(self.partial, facts)
        elif (noted := {name: fact for name, fact in plan.items() if name != "version"}) != dict(facts):
            raise StateMismatchError(
                f"the encoding of what was left in {str(self.partial)!r}",
                expected=noted,
                found=dict(facts),
                remedy="go on with the same payload and spec, or start anew without resume=True",
            )

    @property
    def _plan(self) -> Path:
        return self.partial.with_name(self.partial.name + FACTS_SUFFIX)

    @abstractmethod
    def publish(self, facts: Mapping[str, Any] | None, beside: Mapping[str, Path | None] = _NOTHING) -> None:
        """Give `partial` its name; `facts` go into the sibling, and `None` removes an old one.

        Args:
            facts: What a reader cannot tell from the data.
            beside: Files that belong beside the new one, by their names there: `FileWriter.sidecars`.
        """

    def discard(self) -> None:
        """Delete what has grown."""
        self.discard_partial()


class _LocalTarget(Destination):
    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = str(path)
        self.partial = path.with_name(path.name + ".partial")
        path.parent.mkdir(parents=True, exist_ok=True)

    @property
    def final(self) -> Path:
        return self._path

    def exists(self) -> bool:
        return self._path.exists()

    def unrelated_file(self, find: Callable[[Folder], Sequence[StoredFile]]) -> str | None:
        if not self._path.is_dir():
            return None
        known = {Path(file.name).resolve() for file in find(LocalFolder(self._path))}
        files = (path for path in sorted(self._path.rglob("*")) if not path.is_dir() or path.is_symlink())
        return next((str(path) for path in files if path.resolve() not in known), None)

    def publish(self, facts: Mapping[str, Any] | None, beside: Mapping[str, Path | None] = _NOTHING) -> None:
        # The old sibling goes first and the new one comes last: a crash between leaves data that nothing describes,
        # never data that another sibling describes wrongly.
        self._path.with_name(self._path.name + FACTS_SUFFIX).unlink(missing_ok=True)
        if beside:
            # Nobody must ever see old data beside a new companion, or the other way round.
            atomic.remove(self._path)
        for name, now in beside.items():
            there = self._path.with_name(name)
            if now is None:
                there.unlink(missing_ok=True)
            else:
                now.replace(there)
        atomic.publish(self.partial, self._path)
        self._plan.unlink(missing_ok=True)
        if facts is not None:
            save_facts(self._path, facts)


class _InPlace(_LocalTarget):
    """Data that grow under their final name."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.partial = path

    def publish(self, facts: Mapping[str, Any] | None, beside: Mapping[str, Path | None] = _NOTHING) -> None:
        if facts is not None:
            save_facts(self.partial, facts)

    def discard(self) -> None:
        """Delete nothing: the data were there before."""


class _BuiltApart(Destination):
    """Something that is not on the local disk: built in a temporary folder, which is made when it is needed."""

    @functools.cached_property
    def _folder(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="dataformats-"))

    @property
    def partial(self) -> Path:  # type: ignore[override]  # that of the others never changes
        """The local path of the growing file or folder."""
        return self._folder / self.name.rstrip("/").rsplit("/", 1)[-1]

    def discard(self) -> None:
        """Delete what has grown, and the folder with it."""
        if "_folder" in vars(self):
            shutil.rmtree(self._folder, ignore_errors=True)


class _RemoteTarget(_BuiltApart):
    """Behind an fsspec URL: sent under a partial name, renamed there."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        from fsspec.core import url_to_fs

        self._fs, self._path = url_to_fs(url, **options)
        self._path = self._path.rstrip("/")
        self.name = url

    def exists(self) -> bool:
        return bool(self._fs.exists(self._path))

    def publish(self, facts: Mapping[str, Any] | None, beside: Mapping[str, Path | None] = _NOTHING) -> None:
        self._send(self.partial, self._path + ".partial")
        for old in (self._path + FACTS_SUFFIX, self._path):
            if self._fs.exists(old):
                self._fs.rm(old, recursive=True)
        for name, now in beside.items():
            there = f"{self._fs._parent(self._path)}/{name}"
            if now is not None:
                self._send(now, there)
            elif self._fs.exists(there):
                self._fs.rm(there)
        self._fs.mv(self._path + ".partial", self._path, recursive=self.partial.is_dir())
        if facts is not None:
            self._send(save_facts(self.partial, facts), self._path + FACTS_SUFFIX)
        self.discard()

    def _send(self, local: Path, remote: str) -> None:
        self._fs.makedirs(self._fs._parent(remote), exist_ok=True)
        if local.is_dir():
            self._fs.put(f"{local}/", f"{remote}/", recursive=True)
        else:
            self._fs.put_file(str(local), remote)


class _ObjectTarget(_BuiltApart):
    """Behind a path object: written through `open("wb")`."""

    def __init__(self, path: Any) -> None:
        if not hasattr(path, "parent"):
            raise TypeError(f"{str(path)!r} has no `parent`, which is needed to write what belongs beside the data")
        self._path = path
        self.name = str(path)

    def exists(self) -> bool:
        return bool(self._path.exists())

    def publish(self, facts: Mapping[str, Any] | None, beside: Mapping[str, Path | None] = _NOTHING) -> None:
        if facts is not None:
            sibling = save_facts(self.partial, facts)
            self._send(sibling, self._path.parent / sibling.name)
        for name, now in beside.items():
            if now is not None:
                self._send(now, self._path.parent / name)
            elif (self._path.parent / name).exists():
                (self._path.parent / name).unlink()
        self._send(self.partial, self._path)
        self.discard()

    def _send(self, local: Path, remote: Any) -> None:
        if local.is_dir():
            remote.mkdir()
            for part in sorted(local.iterdir()):
                self._send(part, remote / part.name)
            return
        with local.open("rb") as source, remote.open("wb") as sink:
            shutil.copyfileobj(source, sink, 2**20)


def target(path: Any, storage_options: dict[str, Any] | None = None) -> Destination:
    """Return the target that a path, a URL or a path object names."""
    if is_local(path):
        return _LocalTarget(Path(path).expanduser())
    if isinstance(path, str) and is_url(path):
        return _RemoteTarget(path, storage_options or {})
    if hasattr(path, "open") and hasattr(path, "exists"):
        return _ObjectTarget(path)
    raise TypeError(f"expected a path, a URL or a path object, found {type(path).__name__}")
