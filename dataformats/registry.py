"""Registries of backends and codecs by name: registered by a call, by an entry point, or shipped here."""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dataformats.errors import UnknownNameError
from dataformats.fork_hooks import after_fork

if TYPE_CHECKING:
    from dataformats.interfaces import Backend, Codec  # noqa: F401  # the base class of Formats names it

__all__ = ["Registry", "backends", "codecs", "codecs_beside"]

T = TypeVar("T")
_LOG = logging.getLogger("dataformats")


class Registry(Generic[T]):
    """Objects by name; shipped objects and objects of entry points are imported at first use. Thread-safe.

    Args:
        kind: The kind of object, for messages: "format", "codec".
        group: The entry-point group for other packages.
        shipped: Name to `"module:attribute"` of the objects in this package.

    Example:
        >>> from dataformats.registry import Registry
        >>> colors = Registry("color", "example.colors", {})
        >>> colors.register("red", 0xFF0000)
        >>> colors.get("red")
        16711680
        >>> list(colors), "blue" in colors
        (['red'], False)
    """

    def __init__(self, kind: str, group: str, shipped: dict[str, str]) -> None:
        self._kind = kind
        self._group = group
        self._shipped = shipped
        self._objects: dict[str, T] = {}
        self._registered: set[str] = set()  # names that a call registered
        self._broken: set[str] = set()  # names of entry points that cannot be imported, each logged once
        self._advertised: dict[str, Any] | None = None
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.RLock()

    def register(self, name: str, thing: T, *, replace: bool = False) -> None:
        """Register `thing` as `name`.

        Raises:
            ValueError: Another object has the name, and `replace` is not given.
        """
        with self._lock:
            if not replace and name in self and self.get(name) is not thing:
                raise ValueError(f"{self._kind} {name!r} is registered already. Pass replace=True to replace it.")
            self._objects[name] = thing
            self._registered.add(name)

    def get(self, name: str) -> T:
        """Return the object registered as `name`.

        Raises:
            UnknownNameError: No object has that name.
            ImportError: The entry point of another package cannot be imported.
        """
        if name in self._objects:
            return self._objects[name]
        with self._lock:
            name = self._meant(name)
            if name not in self._objects:
                self._objects[name] = self._load(name)
            return self._objects[name]

    def values(self) -> list[T]:
        """Return all objects, in the order of their names; logs one of another package that cannot be imported."""
        return [thing for name in self if (thing := self._importable(name)) is not None]

    def _importable(self, name: str) -> T | None:
        if name in self._objects or name in self._shipped:
            return self.get(name)
        if name not in self._broken:
            try:
                return self.get(name)
            except Exception as error:  # another package's import may raise anything
                self._broken.add(name)
                _LOG.warning("ignored: %s", error)
        return None

    def shipped(self, name: str) -> bool:
        """Return True if `name` is an object of this package that has not been replaced."""
        return name in self._shipped and (
            name not in self._objects or self._objects[name] is _imported(self._shipped[name])
        )

    def package_of(self, name: str) -> str | None:
        """Return the installed package whose entry point gives the object `name`; `None` if none does."""
        point = None if name in self._shipped else self._entry_points().get(name)
        if point is None or point.dist is None or name in self._registered:
            return None
        return str(point.dist.name)

    def __contains__(self, name: object) -> bool:
        return name in self._objects or name in self._shipped or name in self._entry_points()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._objects, *self._shipped, *self._entry_points()}))

    def _meant(self, name: str) -> str:
        """Return the name that another spelling means."""
        return name

    def _load(self, name: str) -> T:
        if name in self._shipped:
            thing: T = _imported(self._shipped[name])
            return thing
        advertised = self._entry_points().get(name)
        if advertised is None:
            raise UnknownNameError(self._kind, name=name, known=self)
        try:
            return advertised.load()  # type: ignore[no-any-return]  # an entry point is untyped by nature
        except Exception as error:
            error.add_note(f"while loading {self._kind} {name!r} from the entry point {advertised.value!r}")
            what = f"the {self._kind} {name!r} of the package {self.package_of(name)!r} cannot be imported"
            raise ImportError(f"{what}: {type(error).__name__}: {error}") from error

    def _entry_points(self) -> dict[str, Any]:
        if self._advertised is None:
            from importlib.metadata import entry_points  # slow: a writer of a shipped format does without

            found: dict[str, Any] = {}
            for point in entry_points(group=self._group):
                if point.name in self._shipped or (point.name in found and found[point.name].value != point.value):
                    _LOG.warning("ignored entry point %s = %s: the name is taken", point.name, point.value)
                    continue
                found[point.name] = point
            self._advertised = found
        return self._advertised


class Formats(Registry["Backend"]):
    """The backends by the names of their formats; `"ffr"`, `".ffr"` and `"FFRecord"` mean `"ffrecord"`.

    A suffix of several formats means none of them.
    """

    def _meant(self, name: str) -> str:
        if name in self:
            return name
        plain = str(name).lower().lstrip(".")
        meant = [one.name for one in self.values() if plain in (one.name, *(end[1:] for end in one.suffixes))]
        return meant[0] if len(meant) == 1 else name


def _imported(reference: str) -> Any:
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)


backends: Formats = Formats(
    "format",
    "dataformats.backends",
    {
        "array_record": "dataformats.backends.array_record:BACKEND",
        "arrow": "dataformats.backends.tables.arrow_ipc:BACKEND",
        "audio": "dataformats.backends.media:AUDIO",
        "csv": "dataformats.backends.tables.delimited:BACKEND",
        "ffrecord": "dataformats.backends.ffrecord:BACKEND",
        "granular": "dataformats.backends.granular:BACKEND",
        "hdf5": "dataformats.backends.tables.hdf5:BACKEND",
        "images": "dataformats.backends.media:IMAGES",
        "json": "dataformats.backends.documents:BACKEND",
        "jsonl": "dataformats.backends.lines:JSONL",
        "lance": "dataformats.backends.tables.lance:BACKEND",
        "litdata": "dataformats.backends.litdata:BACKEND",
        "lmdb": "dataformats.backends.tables.lmdb:BACKEND",
        "mds": "dataformats.backends.mds:BACKEND",
        "megatron": "dataformats.backends.megatron:BACKEND",
        "npy": "dataformats.backends.npy:BACKEND",
        "ofrecord": "dataformats.backends.ofrecord:BACKEND",
        "parquet": "dataformats.backends.tables.parquet:BACKEND",
        "recordio": "dataformats.backends.recordio:BACKEND",
        "safetensors": "dataformats.backends.safetensors:BACKEND",
        "syrah": "dataformats.backends.syrah:BACKEND",
        "text": "dataformats.backends.lines:TEXT",
        "tfrecord": "dataformats.backends.tfrecord:BACKEND",
        "tokens": "dataformats.backends.tokens:BACKEND",
        "videos": "dataformats.backends.media:VIDEOS",
        "webdataset": "dataformats.backends.webdataset:BACKEND",
        "zarr": "dataformats.backends.tables.zarr:BACKEND",
    },
)
"""The file formats."""

codecs: Registry[Codec] = Registry(
    "codec",
    "dataformats.codecs",
    {
        "bytes": "dataformats.codecs.text:BYTES",
        "utf8": "dataformats.codecs.text:UTF8",
        "json": "dataformats.codecs.documents:JSON",
        "json_object": "dataformats.codecs.json_object:JSON_OBJECT",
        "msgpack": "dataformats.codecs.documents:MSGPACK",
        "pickle": "dataformats.codecs.documents:PICKLE",
        "jpg": "dataformats.codecs.images:JPG",
        "jpeg": "dataformats.codecs.images:JPEG",
        "png": "dataformats.codecs.images:PNG",
        "webp": "dataformats.codecs.images:WEBP",
        "mp4": "dataformats.codecs.videos:MP4",
        "webm": "dataformats.codecs.videos:WEBM",
        "audio": "dataformats.codecs.sounds:AUDIO",
        "int": "dataformats.codecs.granular_integers:INT",
        "i64": "dataformats.codecs.granular_integers:I64",
        "u64": "dataformats.codecs.granular_integers:U64",
        "array": "dataformats.codecs.arrays:ARRAY",
        "npy": "dataformats.codecs.arrays:NPY",
        "tensor": "dataformats.codecs.tensors:TENSOR",
        "decimal": "dataformats.codecs.decimal_numbers:DECIMAL",
        "tree": "dataformats.codecs.trees:TREE",
        "mds": "dataformats.codecs.mds:MDS",
        "litdata": "dataformats.codecs.litdata:LITDATA",
        "feature": "dataformats.codecs.features.feature:FEATURE",
        "example": "dataformats.codecs.example:EXAMPLE",
        "ofrecord": "dataformats.codecs.ofrecord:OFRECORD",
        "sequence_example": "dataformats.codecs.sequence_example:SEQUENCE_EXAMPLE",
    },
)
"""The codecs of single values and of payloads; numbers (`float32[28,28]`) are types, not names in here."""


def codecs_beside(format: str) -> frozenset[str]:
    """Return the names of the codecs that come with the backend of a format, in one installed package; imports none.

    Files of that format may name those that are safe: the installed package chose the names.

    Example:
        >>> from dataformats.registry import codecs_beside
        >>> codecs_beside("tfrecord")
        frozenset()
    """
    package = backends.package_of(format)
    if package is None:
        return frozenset()
    return frozenset(name for name in codecs if codecs.package_of(name) == package)
