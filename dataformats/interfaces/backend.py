"""What a backend, a reader, a file writer and a codec are: the contract that the wings fulfil.

A backend is small. It parses an index and says where blobs lie (`Extents`); it never loops over records to read
them. `storage` reads extents and verifies them, codecs decode whole batches of blobs.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np

from dataformats.batch import Blobs, Column
from dataformats.batch.inline_values import Around, Window
from dataformats.errors import FormatError, SpecError
from dataformats.kernels import FrameCheck
from dataformats.spec import Spec, Type

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from dataformats.storage.files import Folder, StoredFile

__all__ = [
    "Backend",
    "BlobBackend",
    "BlobWriter",
    "Check",
    "Codec",
    "Extents",
    "FieldCodecs",
    "FieldsBackend",
    "FieldsWriter",
    "FileWriter",
    "KernelCheck",
    "Located",
    "OpenOptions",
    "Reader",
    "RecordCodec",
    "RecordCoder",
    "Streaming",
    "Stretch",
    "Verdict",
    "natural_key",
]


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that puts `x-2` before `x-10`."""
    parts = re.split(r"(\d+)", name)
    return tuple((0, int(part), part) if part.isdecimal() else (1, 0, part) for part in parts)


# ---- where blobs lie


@dataclass(frozen=True, slots=True)
class Extents:
    """Where blobs lie, and how to know that they are sound.

    Attributes:
        file: int32[n], the number of each blob's file in `Reader.files`.
        offset: int64[n], first byte of the blob.
        length: int64[n], its bytes.
        head: Bytes before each blob that are read with it, for `check`.
        tail: Bytes behind each blob that are read with it, for `check`.
        stored: uint32[n], checksums known from an index, for `check`; `None` where there are none.
        check: Called with the bytes read (head and tail included) and these extents; returns what is wrong,
            position to error. `None` where the format has nothing to check.
        problems: What is known to be unreadable before anything is read, position to error.
    """

    file: NDArray[np.int32]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    head: int = 0
    tail: int = 0
    stored: NDArray[np.uint32] | None = None
    check: Check | None = None
    problems: Mapping[int, FormatError] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.offset)


class Check(Protocol):
    """Verifies blobs that were read; pure, vectorised, thread-safe."""

    def __call__(self, frames: Blobs, extents: Extents) -> dict[int, FormatError]:
        """Return what is wrong, position to error with `offset_bytes` (path and record are filled in later)."""
        ...


class KernelCheck(ABC):
    """A check that a kernel does as well, faster: that one says whether, this one says what.

    Attributes:
        kernel: The kernel's check, which finds fault with the same blobs.
    """

    kernel: FrameCheck

    @abstractmethod
    def __call__(self, frames: Blobs, extents: Extents) -> dict[int, FormatError]:
        """Return what is wrong: see `Check`."""


@dataclass(frozen=True, slots=True)
class Located:
    """The extents of one field of some records.

    Attributes:
        extents: All blobs, record after record.
        counts: int64[n], how many blobs each record has; `None` where each has exactly one.
    """

    extents: Extents
    counts: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring records of one file as a sequential reader found them.

    Attributes:
        blobs: The stored bytes, one blob a record.
        problems: Positions in `blobs` that are unreadable, with the error.
        base: Where in the file the first byte of the blobs' buffer lies.
    """

    blobs: Blobs
    problems: Mapping[int, FormatError] = field(default_factory=dict)
    base: int = 0


# ---- readers and backends


class Reader(ABC):
    """An opened data set of one format: it knows where the blobs are and reads none.

    Thread-safe. It is not pickled: a source opens it again.

    Attributes:
        files: The files that extents speak of, in reading order.
        spec: The fields, for formats that store them apart; `None` where a record is one blob.
    """

    files: Sequence[StoredFile]
    spec: Spec | None = None

    @property
    @abstractmethod
    def counts(self) -> NDArray[np.int64]:
        """int64[n_files], records of each file; builds the index where there is none."""

    @abstractmethod
    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        """Return where the blobs of these records lie, for each field asked for.

        Args:
            indices: int64[n], each in `[0, sum(counts))`.
            fields: The fields, each whole (`True`) or a range of a sequence's elements; formats that store one
                blob a record are asked for `VALUE`.
        """

    def every(self, field: str) -> Extents | None:
        """Return where the blob of every record lies, problems included; asked for where that is not much to hold.

        Args:
            field: One that is stored apart; in formats that store one blob a record, `VALUE`.

        Returns:
            As many extents as records; `None` where not all are known yet, or records may have several blobs.
        """
        located = self.locate(np.arange(int(self.counts.sum())), {field: True})[field]
        return located.extents if located.counts is None else None

    @abstractmethod
    def digest(self, update: Callable[[bytes], None]) -> None:
        """Give `update` all record lengths and stored checksums, for the fingerprint; no paths, no times."""

    def parts(self) -> list[tuple[str, int, int]]:
        """Return name, records and bytes of each part that is written as one: a file, or a folder of files."""
        sizes = [int(file.identity[0]) for file in self.files]
        return list(zip([file.name for file in self.files], self.counts.tolist(), sizes, strict=True))

    def files_of(self, field: str) -> Sequence[int]:
        """Return the numbers of the files in which the blobs of a field lie."""
        return range(len(self.files))

    def decoded_as(self, field: str, declared: Type) -> Type:
        """Return the type that decodes the blobs of a field which a spec declares as `declared`.

        `bytes`, with the dims of a sequence, is always allowed: the blobs as they are.

        Raises:
            SpecError: What is stored cannot be that type.
        """
        raise SpecError("the format has no fields of its own", field=field)

    def faults(self) -> list[FormatError]:
        """Return what is wrong with the data set and hurts no record that it counts, for `verify`."""
        return []

    def facts(self) -> dict[str, str]:
        """Return what else the files say of themselves, for `info`: compression, a version."""
        return {}

    def available(self, index: int) -> dict[str, bool | range] | None:
        """Return what record `index` has, field by field; `None` where only its blob can tell."""
        return None


@runtime_checkable
class Streaming(Protocol):
    """A reader that can go through a file without an index."""

    def stream(self, file: int) -> Iterator[Stretch]:
        """Yield the records of one file, in order; damage that ends the file is the last stretch's last problem."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a backend says of a file's content.

    Attributes:
        fits: `"yes"`, `"damaged"` (this format, but broken) or `"no"`.
        why: The reason where it is not `"yes"`.
    """

    fits: Literal["yes", "damaged", "no"]
    why: str = ""


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """What `open` was told that concerns reading in general.

    Attributes:
        verify_checksums: False skips what costs a pass over the data; structure is always checked.
        index: Where indexes are kept: `"cache"`, `"beside"`, or a path.
        progress: Called with (bytes done, bytes in all) while an index is built; `None` is silent.
        max_record_bytes: A longer record is a problem, not an allocation.
    """

    verify_checksums: bool = True
    index: str = "cache"
    progress: Callable[[int, int], None] | None = None
    max_record_bytes: int = 2**31


class Backend(ABC):
    """One file format.

    Attributes:
        name: As in `open(format=...)`.
        suffixes: File endings that hint at the format, dots included.
    """

    name: str
    suffixes: tuple[str, ...] = ()

    def claims(self, name: str) -> bool:
        """Return True for the file names in a folder that look like this format's."""
        return name.endswith(self.suffixes)

    def order(self, names: Sequence[str]) -> list[str]:
        """Return file names in the format's reading order; `x-2` before `x-10` unless it says otherwise."""
        return sorted(names, key=natural_key)

    def find(self, folder: Folder) -> list[StoredFile]:
        """Return the files of a folder that are this format's, in reading order."""
        return [folder.file(name) for name in self.order([name for name in folder.names() if self.claims(name)])]

    @abstractmethod
    def sniff(self, file: StoredFile) -> Verdict:
        """Judge a non-empty file by its content, reading a bounded part of it."""

    @abstractmethod
    def open(self, files: Sequence[StoredFile], options: OpenOptions, **backend_options: Any) -> Reader:
        """Return a reader; lists, stats and reads headers, nothing else.

        Raises:
            FormatError: A header is broken.
            TypeError: An option that this format does not have.
        """

    def natural(self, kind: Type) -> Type:
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

    def keeps(self, payload: str) -> bool:
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

    tells_spec: bool = True

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

    def continues(self, path: Path, **backend_options: Any) -> bool:
        """Return True where the data at this final name can be appended to in place, as the original does."""
        return False


class FileWriter(ABC):
    """Writes one file (or folder) of a format. Not thread-safe.

    Attributes:
        n_records: Records appended, those found on resuming included.
        n_bytes: Bytes so far, about.
    """

    n_records: int = 0
    n_bytes: int = 0

    @abstractmethod
    def flush(self, *, sync: bool = False) -> None:
        """Hand everything to the operating system; with `sync` onto the disk, so that it survives a crash."""

    @abstractmethod
    def close(self) -> None:
        """Complete the file and sync it."""

    @abstractmethod
    def leave(self) -> None:
        """Let go of the file as it is, for a later resume."""

    @abstractmethod
    def discard(self) -> None:
        """Delete the file and whatever stands beside it for a resume."""

    def companions(self) -> Mapping[str, Path | None]:
        """Return the files that belong beside the closed one: final name to where each is now.

        They get their names just before the file does. `None`: nothing of that name may stand there.
        """
        return {}


class BlobWriter(FileWriter):
    """Writes one file of a format that stores one blob a record."""

    @abstractmethod
    def append(self, blob: bytes) -> None:
        """Append one record."""


class FieldsWriter(FileWriter):
    """Writes one file or folder of a format that stores the fields of a record apart."""

    @abstractmethod
    def append(self, blobs: Mapping[str, Sequence[bytes]]) -> None:
        """Append one record: field to its blob, or to one blob an element for a sequence of a codec.

        A record is appended whole or not at all.
        """


# ---- codecs


class Codec(ABC):
    """Between one value and its bytes. Deterministic and thread-safe; never reads outside the blob.

    Attributes:
        name: As in a spec.
        safe: True where a name found in a file may resolve to this codec: decoding runs no code from the data.
        copyable: True where a blob means the same in every format, so that a conversion may copy it.
    """

    name: str
    safe: bool = True
    copyable: bool = True

    def configured(self, args: Sequence[str]) -> Codec:
        """Return the codec with the arguments that a type gives in parentheses.

        Raises:
            SpecError: It takes none, or not these.
        """
        if args:
            raise SpecError(f"codec {self.name!r} takes no arguments, found ({','.join(args)})")
        return self

    def giving(self, declared: Type) -> Codec:
        """Return the codec that may give the column of a declared type at once, where this one's goes to `conform`."""
        return self

    @abstractmethod
    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value. What it raises is chained to a `CodecError`."""

    @abstractmethod
    def decode(self, blob: bytes) -> Any:
        """Return the value of these bytes. What it raises is chained to a `CodecError`."""

    def decode_batch(self, blobs: Blobs) -> Column:
        """Return the values of many blobs as a column: a list, unless the codec knows better."""
        return [self.decode(blob) for blob in blobs]

    def window(self, blobs: Blobs) -> Window | None:
        """Return a part that these blobs have at the same place, and that `decode_around` does not look at."""
        return None

    def decode_around(self, around: Around) -> Column | None:
        """Return the column, made of `around.rows`; `None` where the window is not what it was thought to be."""
        return None


class FieldCodecs(Protocol):
    """From types to codecs, by the rules of one call: overrides first, unsafe names refused."""

    def codec(self, element: Type) -> Codec:
        """Return the codec of a type's elements; dims and `?` are ignored. Numbers are little-endian bytes.

        Raises:
            UnknownNameError: Nothing is registered as that, or what is may not be named by a file.
        """
        ...

    def decode(
        self, kind: Type, blobs: Blobs, counts: NDArray[np.int64] | None = None, *, field: str | None = None
    ) -> Column:
        """Return the column of a field stored as blobs.

        Args:
            kind: The field's type. Numbers with dims are one blob a record; other codecs with dims have one blob
                an element, `counts` of them a record.
            blobs: All blobs, record after record.
            counts: int64[n], blobs of each record; `None`: one each.
            field: The field's name, for errors.
        """
        ...

    def encode(self, kind: Type, value: Any, *, field: str | None = None) -> list[bytes]:
        """Return the blobs of a value: one, or with another codec than a number's and dims, one an element."""
        ...


class RecordCodec(Codec):
    """A payload whose values are records with fields. `decode` alone gives the record as its bytes tell it."""

    @abstractmethod
    def recognises(self, blob: bytes) -> bool:
        """Return True where these bytes look like a record of this payload and parse to their end."""

    @abstractmethod
    def infer(self, blobs: Iterable[bytes]) -> Spec:
        """Return the spec that fits these records."""

    @abstractmethod
    def bind(self, spec: Spec, codecs: FieldCodecs, *, inferred: bool = False) -> RecordCoder:
        """Return what encodes and decodes records of this spec.

        Args:
            spec: The fields.
            codecs: Where the fields' codecs come from.
            inferred: The spec was inferred from a sample: a field that it lacks is an error, not left out.

        Raises:
            SpecError: The payload cannot hold the spec; every offending field is named.
        """


class RecordCoder(ABC):
    """A payload bound to a spec. Thread-safe."""

    @abstractmethod
    def encode(self, record: Mapping[str, Any]) -> bytes:
        """Return the bytes of a record.

        Raises:
            SpecError: The record does not fit the spec.
            CodecError: A value does not encode.
        """

    @abstractmethod
    def decode_batch(self, blobs: Blobs, fields: Mapping[str, bool | range]) -> dict[str, Column]:
        """Return a column for each field asked for.

        Raises:
            CorruptRecordError: A blob does not parse.
            SpecError: A record does not fit the spec.
            CodecError: A value does not decode.
        """

    def window(self, blobs: Blobs, fields: Mapping[str, bool | range]) -> Window | None:
        """Return a part that these records have at the same place, and that `decode_around` does not look at."""
        return None

    def decode_around(self, around: Around, fields: Mapping[str, bool | range]) -> dict[str, Column] | None:
        """Return what `decode_batch` does; `None` where the window is not what it was thought to be.

        Raises:
            SpecError: A record does not fit the spec.
            CodecError: A value does not decode.
        """
        return None
