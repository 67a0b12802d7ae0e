"""The contract of a backend: one file format, which recognizes, opens and writes its files."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs
from dataformats.errors import Remedy, SpecError
from dataformats.foreign_names import describe_replacements
from dataformats.interfaces.file_writer import BlobWriter, FieldsWriter
from dataformats.interfaces.reader import Reader
from dataformats.interfaces.stored_file import Folder, StoredFile, natural_key
from dataformats.interfaces.table import Table
from dataformats.spec import Spec, Type

if TYPE_CHECKING:
    from pathlib import Path


MAX_RECORD_BYTES = 2**31
"""The default of `max_record_bytes`: protobuf's own limit."""


@dataclass(frozen=True, slots=True)
class SniffResult:
    """The answer to whether a file has the content of a format.

    Attributes:
        match: `"yes"`, `"damaged"` (this format, but broken) or `"no"`.
        reason: The evidence, unless `match` is `"yes"`.
        remedy: What to do if the file is of no other format, either.
    """

    match: Literal["yes", "damaged", "no"]
    reason: str = ""
    remedy: str | None = None

    @classmethod
    def of_magic(cls, file: StoredFile, magic: bytes, offset: int = 0) -> SniffResult:
        r"""Return the answer for a format whose files have a magic number: `"damaged"` if the file ends inside of it.

        Example:
            >>> from dataformats.interfaces import LocalFile, SniffResult
            >>> SniffResult.of_magic(LocalFile("tests/golden/npy/labels.npy"), b"\x93NUMPY").match
            'yes'
        """
        found = file.pread(offset, len(magic))
        if found == magic:
            return cls("yes")
        is_cut = 0 < len(found) < len(magic) and magic.startswith(found)
        return cls("damaged" if is_cut else "no", f"the magic number at byte {offset} is {found!r}")


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """The arguments of `open` that every backend needs.

    Attributes:
        verify_checksums: False skips checks that cost a pass over the data; structure is always checked.
        index: Where indexes are stored: `"cache"`, `"beside"`, or a path.
        progress: Called with (bytes done, bytes in all) while an index is built; `None` is silent.
        max_record_bytes: A longer record is a problem, not an allocation.
        spec: The types that the call declares, for a format whose files have none.
        saved: The types with which the files were written, by their sidecar; `None` without one.
        counts: int64[n_files], the records of each file, if another process has opened the same files: then they are
            not compressed, and need not be opened before they are read. A backend may ignore it.
    """

    verify_checksums: bool = True
    index: str = "cache"
    progress: Callable[[int, int], None] | None = None
    max_record_bytes: int = MAX_RECORD_BYTES
    spec: Spec | None = None
    saved: Spec | None = field(default=None, compare=False)
    counts: NDArray[np.int64] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _check_bool("verify_checksums", self.verify_checksums)


class Backend(ABC):
    """One file format. A `BlobBackend` or a `FieldsBackend` writes it, too; any other backend only reads it.

    Options of the format are further keyword-only parameters of `open` and `create`, with defaults. Any other option
    that a user passes is refused before the call (`checked_options`), so a backend needs no check; its `**_` stays
    empty. If `create` has a keyword-only parameter `place`, it gets a `FilePlace`.
    `dataformats.interfaces.capabilities` has the methods of few formats.

    Attributes:
        name: The name for `open(format=...)`.
        suffixes: File endings that hint at the format, dots included.
        in_folders: True if each dataset is a folder, unless its name ends in one of `suffixes`.
        has_checked_header: True if `sniff` verifies a checksum or a magic number. A damaged file of such a format is
            never taken for one of a format without.
        folder_rank: If a folder has files of several formats, the one with the lowest rank has the folder. Files like
            `README.txt` and pictures often lie beside other data. Several formats of one rank are an error.
        prefix_ending: The ending that `open` adds to a path that names no file, because the format's own programs leave
            it out; `None` if they do not.
        copies_records: True if `merge`, `split` and `repair` can copy records as they are stored: the format is
            written, and its `open` returns a `Reader`.
        compressions: What `create` takes as `compression=`, beside `"none"`, which `None` means as well: names,
            `"zstd:LEVEL"` for a name with a level, and `"auto"` if the name of a file decides. The core checks it.
        written_as: The format to write instead, if the format is only read and has the same records; `None` for none.
        key_field: The field that has the key of a record, if the format has keys.
        keeps_field_types: True if every codec is stored under its name, so that conversions keep the type of each
            field. Conversions to other formats turn Granular's integers into numbers: `i64` and `int` into `int64`.
    """

    name: str
    suffixes: tuple[str, ...] = ()
    in_folders: bool = False
    has_checked_header: bool = False
    folder_rank: int = 0
    prefix_ending: str | None = None
    copies_records: bool = False
    compressions: tuple[str, ...] = ()
    written_as: str | None = None
    key_field: str = ""
    keeps_field_types: bool = False

    def matches_name(self, name: str) -> bool:
        """True if a file of this name in a folder looks like this format's."""
        return name.endswith(self.suffixes)

    def order(self, names: Sequence[str]) -> list[str]:
        """Return file names in the format's reading order; by default `x-2` comes before `x-10`."""
        return sorted(names, key=natural_key)

    def find(self, folder: Folder) -> list[StoredFile]:
        """Return the files of this format in a folder, in reading order."""
        return folder.files(self.order([name for name in folder.names() if self.matches_name(name)]))

    @abstractmethod
    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize a non-empty file by a bounded part of its content."""

    @abstractmethod
    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **backend_options: Any) -> Reader | Table:
        """Return a reader, or a table if a library decodes the files. Lists, stats and reads headers, nothing else.

        Raises:
            FormatError: A header is broken.
        """

    def new_names(
        self, spec: Spec, rename: Mapping[str, str], first: Callable[[], Mapping[str, Any]]
    ) -> dict[str, str]:
        """Return the names that a conversion to this format gives the fields of a source: by default `rename`.

        Args:
            spec: The fields of the source.
            rename: Old name to new name, as the call says.
            first: Returns the first record; empty if it cannot be read.

        Raises:
            SpecError: The format cannot hold these fields together.
        """
        return dict(rename)

    def guess_payload(self, samples: Iterable[bytes]) -> str:
        """Return the codec of whole records, judging by some of them, if a record is one blob."""
        return "bytes"

    def options_like(self, reader: Reader, *, named: bool) -> dict[str, Any]:
        """Return the `create` options that reproduce the reader's files; `{}` if the format has none.

        Args:
            reader: A reader of files of this format.
            named: True for one file, whose name may show its options; False for shards.

        Raises:
            SpecError: Its files differ, or such files are not written.
        """
        return {}

    def shard_names(self, stem: str, count: int, **backend_options: Any) -> list[str]:
        """Return the format's own names for `count` files (or folders) in a folder, in order.

        By default, `stem-00000-of-00003` with the first of `suffixes`, and so on.

        Args:
            stem: The name of the folder.
            count: How many there are.
            **backend_options: The options of `create` that the caller passed.
        """
        return [f"{stem}-{number:05d}-of-{count:05d}{self.suffixes[0]}" for number in range(count)]

    def shard_name(self, stem: str, number: int, **backend_options: Any) -> str:
        """Return the name of one shard if their number is not known yet: by default as if it were the last."""
        return self.shard_names(stem, number + 1, **backend_options)[number]


class BlobBackend(Backend):
    """A format that stores one blob a record.

    Attributes:
        value_payload: The default payload of new data without a spec.
    """

    copies_records: bool = True
    value_payload: str = "bytes"

    def accepts_payload(self, payload: str) -> bool:
        """True if a conversion keeps this payload of the source, unless another one is requested."""
        return True

    def payload_for(self, spec: Spec) -> str:
        """Return the default payload for records of this spec."""
        return "example"

    def copied(self, blobs: Blobs) -> Blobs:
        """Return stored records of another format as this one holds the same values: by default, as they are.

        Raises:
            CorruptRecordError: A record is not of its payload.
        """
        return blobs

    @abstractmethod
    def create(self, path: Path, *, resume: bool = False, **backend_options: Any) -> BlobWriter:
        """Return a writer of one file at `path` (a partial name; the caller renames it).

        Args:
            path: A local path.
            resume: Continue the file that an interrupted writer left at `path`.
            **backend_options: The format's own.
        """


class FieldsBackend(Backend):
    """A format that stores the fields of a record apart.

    Attributes:
        stores_full_spec: False if the files lack a part of the spec, such as shapes: the sidecar then always has it.
        infers_types: True if readers infer the types of fields that are stored under their own types. Then the sidecar
            has only the other ones, and those with class names.
        keeps_records: False if names of files order the records, so that a conversion cannot compare them in order.
        stores_optional_fields: True if records may lack a field. Then specs may have types with a `?`, stored as one
            blob each: `stored_spec` keeps the `?`, or refuses the type; a writer gets no blob (`[]`) of a field that a
            record lacks; a reader's `Located` of the field has extents for the other records only, and `counts` of 1
            and 0. False: `create` refuses types with a `?`.
    """

    copies_records: bool = True
    stores_full_spec: bool = True
    infers_types: bool = False
    keeps_records: bool = True
    stores_optional_fields: bool = False

    def stored_type(self, type_: Type) -> Type:
        """Return the format's own type for values of a type: by default the same, if each value is one blob.

        Raises:
            SpecError: The format cannot hold such values.
        """
        if type_.is_blob_list:
            raise SpecError(f"expected a type of one blob a record, found {type_}")
        return type_

    def stored_spec(self, spec: Spec, **backend_options: Any) -> Spec:
        """Return the format's own types for values of these types: by default, the `stored_type` of each.

        Raises:
            SpecError: The format cannot hold the spec; names every offending field, with the reason.
        """
        stored: dict[str, Type] = {}
        problems: list[SpecError] = []
        for name, kind in spec.items():
            try:
                stored[name] = self.stored_type(kind)
            except SpecError as error:
                error.field = name
                problems.append(error)
        if problems:
            raise SpecError.of(problems)
        return Spec(stored)

    @abstractmethod
    def create(self, path: Path, *, stored: Spec, resume: bool = False, **backend_options: Any) -> FieldsWriter:
        """Return a writer of one file or folder at `path` (a partial name; the caller renames it).

        Args:
            path: A local path.
            stored: The result of `stored_spec`.
            resume: Continue the data that an interrupted writer left at `path`.
            **backend_options: The format's own.
        """


_CONTRACT = frozenset({"stored", "resume", "place"})  # keyword-only parameters that are no options of a format


def checked_options(backend: Backend, method: Literal["open", "create"], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for a call of the backend, with the name of a compression for `None` or other letters.

    Args:
        backend: The format.
        method: The method whose keyword-only parameters are the options.
        options: The options that the user passed.

    Raises:
        SpecError: The method is `create`, and the format is only read.
        TypeError: The format has no such option.
        ValueError: It has no such compression, or an option is neither True nor False.
    """
    if method == "create" and not isinstance(backend, BlobBackend | FieldsBackend):
        named = backend.written_as
        remedy = Remedy("Pass {format}.", format=named) if named else Remedy("Pass another {format}.", format=...)
        raise SpecError(f"{backend.name} files are read, not written", remedy=remedy)
    if not options:
        return {}
    known = _options_of(backend, method)
    unknown = ", ".join(repr(name) for name in options if name not in known)
    if unknown:
        expected = f"an argument of {method}() or an option of {backend.name} ({', '.join(known) or 'it has none'})"
        raise TypeError(f"unknown option: expected {expected}, found {unknown}{describe_replacements(options)}")
    for name in options:
        if isinstance(known[name].default, bool):
            _check_bool(name, options[name])
    if not (backend.compressions and "compression" in options):
        return dict(options)
    return {**options, "compression": _checked_compression(backend, options["compression"])}


def _options_of(backend: Backend, method: Literal["open", "create"]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(getattr(backend, method)).parameters
    return {name: p for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY and name not in _CONTRACT}


def _check_bool(name: str, value: object) -> None:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}: expected True or False, found {value!r}")


def _checked_compression(backend: Backend, value: object) -> str:
    name = str(value or "none").lower()
    base, _, level = name.partition(":")
    has_level = f"{base}:LEVEL" in backend.compressions and level.removeprefix("-").isdecimal()
    if not has_level and name not in ("none", *backend.compressions):
        expected = ", ".join(map(repr, backend.compressions))
        raise ValueError(f"compression: expected {expected} or 'none', found {value!r}")
    return name
