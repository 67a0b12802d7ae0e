"""Where tasks write shards, and entries commit them: a folder beside the partial data, or objects with a prefix."""

from __future__ import annotations

import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dataformats.indexing.sidecar import list_file, without_checksums
from dataformats.storage import atomic
from dataformats.storage.remote_errors import errors_as_os_error
from dataformats.writing.destination import Destination
from dataformats.writing.partial_data import ATTEMPTS, check_encoding
from dataformats.writing.remote_destination import RemoteDestination

__all__ = ["Attempts", "attempts_of"]

_PLAN = "plan.json"


class Attempts(ABC):
    """Shards that tasks have written, and small texts. Processes on other machines may receive it.

    Attributes:
        name: The path or URL.
        survives: True if the shards stay, although the destination keeps no partial data.
    """

    name: str
    survives: bool = False

    def begin(self, facts: Mapping[str, Any], resume: bool) -> None:  # noqa: B027  # of local data, the destination does
        """Delete what an interrupted conversion left, or check that this one resumes it.

        Args:
            facts: As in `PartialData.begin`.
            resume: Keep the shards.

        Raises:
            StateMismatchError: The interrupted one had another format, payload, spec or plan.
        """

    def clear(self) -> None:  # noqa: B027  # as `begin`
        """Delete all shards and texts."""

    @contextmanager
    @abstractmethod
    def working_folder(self) -> Iterator[Path]:
        """Yield a local folder for a shard that grows."""

    @abstractmethod
    def send(self, shard: Path) -> None:
        """Add a complete shard, a file or a folder, under its own name."""

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of all shards and texts."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return a text, or raise `FileNotFoundError`."""

    @abstractmethod
    def write(self, name: str, text: bytes, unique: str) -> None:
        """Write a text at once; of several writers, the last one wins.

        Args:
            name: Its name.
            text: The text.
            unique: A name that no other writer uses.
        """

    @abstractmethod
    def remove(self, names: Iterable[str]) -> None:
        """Delete shards and texts."""

    @abstractmethod
    def is_sound(self, shard: str, entry: Mapping[str, Any], checksums: bool) -> bool:
        """Return True if a shard is as it is listed.

        Args:
            shard: Its name.
            entry: `list_file` of it, with checksums.
            checksums: Read local files whole; else compare their size and a few blocks. Of objects, only the sizes are
                compared: their store keeps checksums.
        """

    def take_back(self, names: Mapping[str, str]) -> None:  # noqa: B027  # objects keep their names
        """Undo what an interrupted `give_names` did.

        Args:
            names: Each name that it may have given, and the name of the shard.
        """

    @property
    def is_renamed(self) -> bool:
        """True if some shards may have final names."""
        return False

    @abstractmethod
    def give_names(self, names: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
        """Give shards their final names under the partial name.

        Args:
            names: Final name to the name and the entry of a shard.
        """


class _LocalAttempts(Attempts):
    def __init__(self, partial: Path) -> None:
        self._partial = partial
        self._folder = partial.with_name(partial.name + ATTEMPTS)
        self.name: str = str(self._folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        partial.mkdir(exist_ok=True)

    @contextmanager
    def working_folder(self) -> Iterator[Path]:
        yield self._folder

    def send(self, shard: Path) -> None:
        """Do nothing: it is there."""

    def names(self) -> list[str]:
        return [path.name for path in self._folder.iterdir()]

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def write(self, name: str, text: bytes, unique: str) -> None:
        temporary = self._folder / unique
        temporary.write_bytes(text)
        atomic.sync(temporary)
        temporary.replace(self._folder / name)

    def remove(self, names: Iterable[str]) -> None:
        atomic.remove(*(self._folder / name for name in names))

    def is_sound(self, shard: str, entry: Mapping[str, Any], checksums: bool) -> bool:
        path, listed = self._folder / shard, dict(entry) if checksums else without_checksums(entry)
        return path.exists() and list_file(entry["name"], entry["records"], path, {}, checksums=checksums) == listed

    @property
    def is_renamed(self) -> bool:
        return any(self._partial.iterdir())

    def take_back(self, names: Mapping[str, str]) -> None:
        for name, shard in names.items():
            if (self._partial / name).exists():
                (self._partial / name).rename(self._folder / shard)
        atomic.remove(*self._partial.iterdir())

    def give_names(self, names: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
        for name, (shard, _) in names.items():
            (self._folder / shard).rename(self._partial / name)
        atomic.sync(self._partial)


class _RemoteAttempts(Attempts):
    survives = True

    def __init__(self, target: RemoteDestination) -> None:
        self._target = target
        self._prefix = f"{target.path}.partial{ATTEMPTS}"
        self.name: str = f"{target.name.rstrip('/')}.partial{ATTEMPTS}"

    def begin(self, facts: Mapping[str, Any], resume: bool) -> None:
        if not resume:
            self.clear()
        try:
            check_encoding(json.loads(self.read(_PLAN)), facts, f"{self.name}/{_PLAN}")
        except FileNotFoundError:
            self.write(_PLAN, json.dumps(facts).encode(), "")

    def clear(self) -> None:
        self.remove([""])

    @contextmanager
    def working_folder(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="dataformats-") as folder:
            yield Path(folder)

    def send(self, shard: Path) -> None:
        files = sorted(part for part in shard.rglob("*") if part.is_file()) if shard.is_dir() else [shard]
        with errors_as_os_error(self.name):
            self._target.put({f"{self._prefix}/{path.relative_to(shard.parent).as_posix()}": path for path in files})

    def names(self) -> list[str]:
        return [*{path.split("/", 1)[0] for path in self._objects("")}]

    def read(self, name: str) -> bytes:
        with errors_as_os_error(f"{self.name}/{name}"):
            return bytes(self._target.fs.cat_file(f"{self._prefix}/{name}"))

    def write(self, name: str, text: bytes, unique: str) -> None:
        with errors_as_os_error(self.name):
            self._target.put_bytes(f"{self._prefix}/{name}", text)

    def remove(self, names: Iterable[str]) -> None:
        with errors_as_os_error(self.name):
            self._target.delete([f"{self._prefix}/{path}" for name in names for path in self._objects(name)])

    def is_sound(self, shard: str, entry: Mapping[str, Any], checksums: bool) -> bool:
        return self._objects(shard) == {f"{shard}{part}": size for part, size in _sizes(entry)}

    def give_names(self, names: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
        self._target.sent = {
            f"{self._target.path}/{name}{part}": f"{self._prefix}/{shard}{part}"
            for name, (shard, entry) in names.items()
            for part, _ in _sizes(entry)
        }

    def _objects(self, name: str) -> dict[str, int]:
        """Return the objects of a shard or a text, or all of them, with their sizes."""
        path, fs = f"{self._prefix}/{name}".rstrip("/"), self._target.fs
        with errors_as_os_error(self.name):
            fs.invalidate_cache(path)
            found = fs.find(path, detail=True) if fs.exists(path) else {}
        return {other.partition(f"{self._prefix}/")[2]: int(facts["size"]) for other, facts in found.items()}


def attempts_of(target: Destination, resume: bool) -> Attempts:
    """Return where the shards of a destination are written.

    Raises:
        ValueError: They are to be resumed, and it keeps none.
    """
    if resume and not isinstance(target, RemoteDestination):
        _ = target.final
    return _RemoteAttempts(target) if isinstance(target, RemoteDestination) else _LocalAttempts(target.partial)


def _sizes(entry: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the path of each file inside a shard, and its size; of a file, its path is empty."""
    return (
        [(f"/{part['name']}", part["bytes"]) for part in entry["parts"]] if "parts" in entry else [("", entry["bytes"])]
    )
