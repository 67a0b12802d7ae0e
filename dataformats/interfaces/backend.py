"""What a backend is: one file format, which recognizes, opens and writes its files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from dataformats.interfaces.file_writer import BlobWriter, FieldsWriter
from dataformats.interfaces.reader import Reader
from dataformats.interfaces.stored_file import Folder, StoredFile, natural_key
from dataformats.spec import Spec, Type

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "MAX_RECORD_BYTES",
    "Backend",
    "BlobBackend",
    "FieldsBackend",
    "OpenOptions",
    "SniffResult",
]


MAX_RECORD_BYTES = 2**31
"""The default of `max_record_bytes`: protobuf's own limit."""


@dataclass(frozen=True, slots=True)
class SniffResult:
    """What a backend says of a file's content.

    Attributes:
        fits: `"yes"`, `"damaged"` (this format, but broken) or `"no"`.
        why: The reason where it is not `"yes"`.
    """

    match: Literal["yes", "damaged", "no"]
    why: str = ""


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """The arguments of `open` that every backend needs.

    Attributes:
        verify_checksums: False skips what costs a pass over the data; structure is always checked.
        index: Where indexes are kept: `"cache"`, `"beside"`, or a path.
        progress: Called with (bytes done, bytes in all) while an index is built; `None` is silent.
        max_record_bytes: A longer record is a problem, not an allocation.
    """

    verify_checksums: bool = True
    index: str = "cache"
    progress: Callable[[int, int], None] | None = None
    max_record_bytes: int = MAX_RECORD_BYTES


class Backend(ABC):
    """One file format.

    Attributes:
        name: As in `open(format=...)`.
        suffixes: File endings that hint at the format, dots included.
    """

    name: str
    suffixes: tuple[str, ...] = ()

    def matches_name(self, name: str) -> bool:
        """Return True for the file names in a folder that look like this format's."""
        return name.endswith(self.suffixes)

    def order(self, names: Sequence[str]) -> list[str]:
        """Return file names in the format's reading order; `x-2` before `x-10` unless it says otherwise."""
        return sorted(names, key=natural_key)

    def find(self, folder: Folder) -> list[StoredFile]:
        """Return the files of a folder that are this format's, in reading order."""
        return [folder.file(name) for name in self.order([name for name in folder.names() if self.matches_name(name)])]

    @abstractmethod
    def sniff(self, file: StoredFile) -> SniffResult:
        """Judge a non-empty file by its content, reading a bounded part of it."""

    @abstractmethod
    def open(self, files: Sequence[StoredFile], options: OpenOptions, **backend_options: Any) -> Reader:
        """Return a reader; lists, stats and reads headers, nothing else.

        Raises:
            FormatError: A header is broken.
            TypeError: An option that this format does not have.
        """

    def portable_type(self, kind: Type) -> Type:
        """Return the type that a conversion gives a field of this type: Granular's integers are numbers elsewhere."""
        numbers = {"int": "int64", "i64": "int64", "u64": "uint64"}
        return replace(kind, codec=numbers[kind.codec]) if kind.codec in numbers and not kind.args else kind

    @abstractmethod
    def shard_names(self, stem: str, count: int) -> list[str]:
        """Return the format's own names for `count` files (or folders) in a folder, in order."""


class BlobBackend(Backend):
    """A format that stores one blob a record."""

    def guess_payload(self, samples: Iterable[bytes]) -> str:
        """Return the codec of whole records, judged by some of them."""
        return "bytes"

    def accepts_payload(self, payload: str) -> bool:
        """Return True where a conversion keeps this payload of the source unless another is asked for."""
        return True

    def payload_for(self, spec: Spec) -> str:
        """Return the payload that holds records of this spec unless another is named."""
        return "example"

    @abstractmethod
    def create(self, path: Path, *, resume: bool = False, **backend_options: Any) -> BlobWriter:
        """Return a writer of one file at `path` (a partial name; the caller renames it).

        Args:
            path: A local path.
            resume: Go on with what a killed writer left there.
            **backend_options: What this format adds.
        """


class FieldsBackend(Backend):
    """A format that stores the fields of a record apart.

    Attributes:
        tells_spec: False where files do not say all of a spec, a shape say, so that our sibling file always must.
    """

    stores_full_spec: bool = True

    @abstractmethod
    def stored_spec(self, spec: Spec, **backend_options: Any) -> Spec:
        """Return the types under which values of these types are stored, by the format's own names.

        Raises:
            SpecError: The format cannot hold the spec; every offending field is named, with the reason.
        """

    @abstractmethod
    def create(
        self, path: Path, *, stored: Spec, resume: bool = False, **backend_options: Any
    ) -> FieldsWriter | BlobWriter:
        """Return a writer of one file or folder at `path` (a partial name; the caller renames it).

        Args:
            path: A local path.
            stored: What `stored_spec` gave; empty for single values, where the format has such.
            resume: Go on with what a killed writer left there.
            **backend_options: What this format adds.
        """

    def can_append_in_place(self, path: Path, **backend_options: Any) -> bool:
        """Return True where the data at this final name can be appended to in place, as the original does."""
        return False
