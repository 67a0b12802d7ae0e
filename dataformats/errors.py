"""The errors of the package.

DataFormatsError
├─ FormatError(ValueError)         path, record index, offset_bytes, expected, found
│   ├─ TruncatedError
│   ├─ ChecksumError               stored, computed
│   └─ CorruptRecordError
├─ SpecError(ValueError)           field, and why
├─ CodecError(ValueError)          codec, field, index; the cause chained
├─ UnknownNameError(KeyError)      the name, and the nearest known names
├─ StateMismatchError(ValueError)  which field differs, both values
├─ WorkerError(RuntimeError)       worker, and what it was reading
├─ TargetExistsError(FileExistsError)  the existing file or folder
├─ TargetInUseError(BlockingIOError)  the name that another writer has
└─ MissingExtraError(ImportError)  the pip command that helps

A missing file stays `FileNotFoundError`, a bad index `IndexError`. Every error keeps its facts as attributes, also when
it is pickled, and its `remedy`: how to fix it, or `None`.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from dataformats.foreign_names import TYPES

__all__ = [
    "ChecksumError",
    "CodecError",
    "CorruptRecordError",
    "DataFormatsError",
    "FormatError",
    "MissingExtraError",
    "Remedy",
    "SpecError",
    "StateMismatchError",
    "TargetExistsError",
    "TargetInUseError",
    "TruncatedError",
    "UnknownNameError",
    "WorkerError",
]


class Remedy(str):
    """A remedy for an error: a text that names arguments of the call.

    It reads as Python; the command line writes the same arguments as options.

    Args:
        template: The text, with arguments by name in braces. A literal: names from data go into `arguments`.
        **arguments: The value to pass; `...` for any. A mapping (of `spec` or `rename`) changes these fields alone.

    Example:
        >>> from dataformats.errors import Remedy
        >>> str(Remedy("Pass {format}, or a glob.", format=...))
        'Pass format=, or a glob.'
        >>> str(Remedy("Pass {spec}.", spec={"label": "int64[]"}))
        "Pass spec={'label': 'int64[]'}."
    """

    __slots__ = ("_arguments", "_template")
    _template: str
    _arguments: Mapping[str, Any]

    def __new__(cls, template: str, /, **arguments: Any) -> Self:
        written = {name: _in_python(name, value) for name, value in arguments.items()}
        self = super().__new__(cls, template.format_map(written))
        self._template, self._arguments = template, arguments
        return self

    def __getnewargs_ex__(self) -> tuple[tuple[str], Mapping[str, Any]]:
        return (self._template,), self._arguments

    def for_source(self) -> Remedy:
        """Return the remedy for `convert`, whose `source_options` are the arguments of `open`, but `codecs`."""
        names = {name: name if name == "codecs" else f"from_{name}" for name in self._arguments}
        template = self._template.format_map({name: f"{{{new}}}" for name, new in names.items()})
        return Remedy(template, **{names[name]: value for name, value in self._arguments.items()})

    def written(self, write: Callable[[str, Any], str]) -> str:
        """Return the text with each argument as `write(name, value)` gives it."""
        return self._template.format_map({name: write(name, value) for name, value in self._arguments.items()})


def _in_python(name: str, value: Any) -> str:
    if name.startswith("from_"):
        argument, _, text = _in_python(name.removeprefix("from_"), value).partition("=")
        return f"source_options={{{argument!r}: {text or '...'}}}"
    if value is ...:
        return f"{name}="
    if isinstance(value, Mapping):
        items = [f"{key!r}: {'(encode, decode)' if item is ... else repr(item)}" for key, item in value.items()]
        return f"{name}={{{', '.join(items)}}}"
    return f"{name}={value!r}"


class DataFormatsError(Exception):
    """The root of every error that this package defines.

    Example:
        >>> import dataformats
        >>> issubclass(dataformats.SpecError, dataformats.DataFormatsError)
        True
    """


@dataclass(kw_only=True, eq=False, repr=False)
class _FactsError(DataFormatsError):
    """An error whose facts are keyword arguments and attributes, so that a pickle keeps them."""

    what: str = dataclasses.field(default="", kw_only=False)
    remedy: str | None = None

    def __post_init__(self) -> None:
        super().__init__(self.what)

    def __reduce__(self) -> tuple[Any, ...]:
        notes = getattr(self, "__notes__", None)
        return functools.partial(type(self), **self._facts()), (self.what,), notes and {"__notes__": notes}

    def __str__(self) -> str:
        return f"{self._problem()}. {self.remedy}" if self.remedy else self._problem()

    def _facts(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(self) if one.name != "what"}

    def _problem(self) -> str:
        """Return the message without its remedy."""
        return self.what


@dataclass(kw_only=True, eq=False, repr=False)
class _RecordError(_FactsError, ValueError):
    """An error that may name a file and a record."""

    path: str | None = None
    index: int | None = None

    def at(self, index: int) -> Self:
        """Return a copy of this error that names record `index`."""
        return dataclasses.replace(self, index=index)


@dataclass(kw_only=True, eq=False, repr=False)
class FormatError(_RecordError):
    """Bytes do not follow the format.

    Args:
        what: The error in words.
        path: The file.
        index: The record's index in the source that was read, or `None`.
        offset_bytes: The byte offset in the file; in a compressed file, in its decompressed bytes.
        expected: The content that the format requires.
        found: The content of the file.
        remedy: How to fix it.
        lost_bytes: The bytes that cannot be read, if they may hold several records, or none.

    Example:
        >>> import dataformats
        >>> raise dataformats.FormatError("no length fits", path="a.tfrecord", index=3, offset_bytes=96)
        Traceback (most recent call last):
        ...
        dataformats.errors.FormatError: record 3 of 'a.tfrecord' at byte 96: no length fits
    """

    offset_bytes: int | None = None
    expected: object = None
    found: object = None
    lost_bytes: range | None = None

    def _problem(self) -> str:
        where = _where(self.path, self.index, self.offset_bytes)
        text = f"{where}: {self.what}" if where and self.what else where or self.what
        facts = [f"expected {_show(self.expected)}"] if self.expected is not None else []
        facts += [f"found {_show(self.found)}"] if self.found is not None else []
        return text + (f": {', '.join(facts)}" if facts else "")


class TruncatedError(FormatError):
    """A file ends before the data that its header promises.

    Example:
        >>> import dataformats
        >>> src = dataformats.open("tests/golden/tfrecord/corrupt/cut_in_data.tfrecord")
        >>> src[len(src) - 1]
        Traceback (most recent call last):
        ...
        dataformats.errors.TruncatedError: ...
    """


@dataclass(kw_only=True, eq=False, repr=False)
class ChecksumError(FormatError):
    """A stored checksum does not match the bytes.

    Args:
        what: The bytes that the checksum covers.
        stored: The checksum in the file.
        computed: The checksum of the bytes.
        path: The file.
        index: The record.
        offset_bytes: The byte offset.
        expected: Shown if `stored` is `None`.
        found: Shown if `computed` is `None`.
        remedy: How to fix it.

    Example:
        >>> import dataformats
        >>> src = dataformats.open("tests/golden/tfrecord/corrupt/data_bit.tfrecord")
        >>> try:
        ...     src[3]
        ... except dataformats.ChecksumError as error:
        ...     print(error.index, error.offset_bytes, error.stored != error.computed)
        3 368 True
    """

    what: str = dataclasses.field(default="checksum", kw_only=False)
    stored: int | None = None
    computed: int | None = None

    def __post_init__(self) -> None:
        if self.stored is not None:
            self.expected: object = f"{self.stored:#010x} (stored)"
        if self.computed is not None:
            self.found: object = f"{self.computed:#010x} (computed)"
        super().__post_init__()


class CorruptRecordError(FormatError):
    """A record's frame is sound, but its content does not parse.

    Example:
        >>> import dataformats, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.ffr"
        >>> with dataformats.create(path, "ffrecord") as writer:
        ...     writer.append(b"no protobuf")
        >>> src = dataformats.open(path, payload="example", spec={"label": "int64"})
        >>> list(src.read([0], on_corrupt="omit").failed.values())
        [CorruptRecordError(...)]
    """


@dataclass(kw_only=True, eq=False, repr=False)
class SpecError(_RecordError):
    """A spec does not parse, a format cannot hold it, or a record does not fit it.

    Args:
        what: The error in words.
        field: The field, or `None`.
        index: The record, or `None`.
        path: The file, or `None`.
        remedy: How to fix it.
        problems: The errors, if there are several; the message then has a line for each.

    Example:
        >>> import dataformats
        >>> dataformats.create("new.syr", "syrah", spec={"label": "int64?"})
        Traceback (most recent call last):
        ...
        dataformats.errors.SpecError: field 'label': syrah cannot hold int64?: every item has every array
    """

    field: str | None = None
    problems: Sequence[SpecError] = ()

    def __post_init__(self) -> None:
        self.problems = tuple(self.problems)
        super().__post_init__()

    def _problem(self) -> str:
        field = f"field {self.field!r}" if self.field is not None else ""
        return _placed("\n".join(map(str, self.problems)) or self.what, _where(self.path, self.index), field)

    @classmethod
    def of(cls, problems: Iterable[SpecError]) -> SpecError:
        """Return one error for one or more problems; its message has a line for each."""
        problems = tuple(problems)
        return problems[0] if len(problems) == 1 else cls(problems=problems)


@dataclass(kw_only=True, eq=False, repr=False)
class CodecError(_RecordError):
    """A codec cannot encode or decode a value; the cause is chained.

    Args:
        what: The error in words.
        codec: The codec's name.
        field: The field, or `None`.
        index: The record, or `None`.
        path: The file, or `None`.
        remedy: How to fix it.

    Example:
        >>> import dataformats, pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> with dataformats.create(folder / "x.ffr", "ffrecord", payload="json") as writer:
        ...     writer.append({1, 2})
        Traceback (most recent call last):
        ...
        dataformats.errors.CodecError: record 0, codec 'json': ...
    """

    codec: str | None = None
    field: str | None = None

    def _problem(self) -> str:
        field = f"field {self.field!r}" if self.field is not None else ""
        codec = f"codec {self.codec!r}" if self.codec is not None else ""
        return _placed(self.what, _where(self.path, self.index), field, codec)


@dataclass(init=False, eq=False, repr=False)
class UnknownNameError(_FactsError, KeyError):
    """No format, codec or field has that name.

    Args:
        kind: The kind of thing that the name should mean: "format", "codec", "field".
        name: The name that was asked for.
        known: The existing names.
        remedy: How to fix it.

    Example:
        >>> import dataformats
        >>> dataformats.open("tests/golden/real/photos.tfrecord", format="tfrecordz")
        Traceback (most recent call last):
        ...
        dataformats.errors.UnknownNameError: unknown format 'tfrecordz' (nearest: tfrecord, ...)
    """

    name: str = ""
    known: tuple[str, ...] = ()

    def __init__(
        self, kind: str = "name", *, name: str = "", known: Iterable[str] = (), remedy: str | None = None
    ) -> None:
        self.name, self.known = str(name), tuple(known)
        super().__init__(kind, remedy=remedy)

    def _problem(self) -> str:
        meant = [name for name in TYPES.get(self.name.lower(), ()) if name.removesuffix("[]") in self.known]
        near = meant or difflib.get_close_matches(self.name, self.known, n=3)
        hint = f"nearest: {', '.join(near)}" if near else f"known: {', '.join(sorted(self.known))}"
        return f"unknown {self.what} {self.name!r} ({hint})"


@dataclass(init=False, eq=False, repr=False)
class StateMismatchError(_FactsError, ValueError):
    """A state, or a pickle, belongs to other data, another seed or another plan.

    Args:
        field: The name of the part that differs.
        expected: Its value in the state.
        found: Its value now; for two mappings, the message has only the parts that differ.
        remedy: How to fix it.

    Example:
        >>> import dataformats, pathlib, pickle, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.ffr"
        >>> with dataformats.create(path, "ffrecord") as writer:
        ...     writer.append(b"old")
        >>> pickled = pickle.dumps(dataformats.open(path))
        >>> with dataformats.create(path, "ffrecord", overwrite=True) as writer:
        ...     writer.append(b"new")
        >>> try:
        ...     pickle.loads(pickled)
        ... except dataformats.StateMismatchError as error:
        ...     print(error.remedy)
        they changed since this source was pickled: open them again
    """

    expected: object = None
    found: object = None

    def __init__(
        self, field: str = "", *, expected: object = None, found: object = None, remedy: str | None = None
    ) -> None:
        self.expected, self.found = expected, found
        super().__init__(field, remedy=remedy)

    @property
    def field(self) -> str:
        """The name of the part that differs."""
        return self.what

    def _problem(self) -> str:
        expected, found = _differing(self.expected, self.found)
        return f"{self.field} differs: expected {expected!r}, found {found!r}"


@dataclass(kw_only=True, eq=False, repr=False)
class WorkerError(_FactsError, RuntimeError):
    """A worker died, hung or raised.

    Args:
        what: The event in words.
        worker: The number of the worker, or `None`.
        reading: The records that it was reading.

    Example:
        >>> import dataformats
        >>> raise dataformats.WorkerError("killed by signal 9", worker=3, reading="records 64 to 96")
        Traceback (most recent call last):
        ...
        dataformats.errors.WorkerError: worker 3 while reading records 64 to 96: killed by signal 9
    """

    worker: int | None = None
    reading: str | None = None

    def _problem(self) -> str:
        reading = f" while reading {self.reading}" if self.reading else ""
        return f"worker {self.worker}{reading}: {self.what}"


class TargetExistsError(_FactsError, FileExistsError):
    """Something has the name of new data.

    Args:
        what: The thing that has the name.
        remedy: How to fix it.

    Example:
        >>> import dataformats
        >>> dataformats.create("tests/golden/real/photos.tfrecord", "tfrecord")
        Traceback (most recent call last):
        ...
        dataformats.errors.TargetExistsError: 'tests/golden/real/photos.tfrecord' exists. Pass overwrite=True to ...
    """


class TargetInUseError(_FactsError, BlockingIOError):
    """Another writer has the name of new data.

    Args:
        what: The name.
        remedy: How to fix it.

    Example:
        >>> import dataformats, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.ffr"
        >>> with dataformats.create(path, "ffrecord") as writer:
        ...     try:
        ...         dataformats.create(path, "ffrecord")
        ...     except dataformats.TargetInUseError as error:
        ...         print(error.remedy)
        Close or abort that writer, or wait until its process has ended
    """


@dataclass(kw_only=True, eq=False, repr=False)
class MissingExtraError(_FactsError, ImportError):
    """An optional dependency is not installed.

    Args:
        what: The feature that was asked for.
        extra: The extra of this package that installs the dependency, or `""`.
        package: The requirement for `pip install`, if no extra installs it.

    Example:
        >>> import dataformats
        >>> raise dataformats.MissingExtraError("to_torch", extra="torch")
        Traceback (most recent call last):
        ...
        dataformats.errors.MissingExtraError: to_torch needs a package. Run pip install 'dataformats[torch]'
    """

    extra: str = ""
    package: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        wanted = f"'dataformats[{self.extra}]'" if self.extra else self.package
        self.remedy: str | Remedy | None = f"Run pip install {wanted}" if wanted else None

    def _problem(self) -> str:
        return f"{self.what} needs a package"


def _where(path: str | None, index: int | None, offset_bytes: int | None = None) -> str:
    record = f"record {index}" if index is not None else ""
    file = f"{path!r}" if path is not None else ""
    place = f"at byte {offset_bytes}" if offset_bytes is not None else ""
    start = f"{record} of {file}" if record and file else record or file
    return f"{start} {place}".strip()


def _differing(expected: Any, found: Any) -> tuple[Any, Any]:
    """Return two mappings without their equal items, also of mappings in them; other values unchanged."""
    if not (isinstance(expected, Mapping) and isinstance(found, Mapping)):
        return expected, found
    names = [name for name in {**expected, **found} if expected.get(name, ...) != found.get(name, ...)]
    parts = {name: _differing(expected.get(name, ...), found.get(name, ...)) for name in names}
    return (
        {name: part for name, (part, _) in parts.items() if part is not ...},
        {name: part for name, (_, part) in parts.items() if part is not ...},
    )


def _placed(what: str, *places: str) -> str:
    where = ", ".join(filter(None, places))
    return f"{where}: {what}" if where else what


def _show(fact: object) -> str:
    return fact if isinstance(fact, str) else repr(fact)
