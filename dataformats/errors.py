"""The errors of the package.

DataFormatsError
├─ FormatError(ValueError)         path, record index, offset_bytes, expected, found
│   ├─ TruncatedError
│   ├─ ChecksumError               stored, computed
│   └─ CorruptRecordError
├─ SpecError(ValueError)           field, and why
├─ CodecError(ValueError)          codec, field, index; the cause chained
├─ UnknownNameError(LookupError)   what was asked, the nearest known names
├─ StateMismatchError(ValueError)  which field differs, both values, what to do
├─ WorkerError(RuntimeError)       worker, what it was reading
└─ MissingExtraError(ImportError)  the pip line that helps

A missing file stays `FileNotFoundError`, a bad index `IndexError`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, Self

__all__ = [
    "ChecksumError",
    "CodecError",
    "CorruptRecordError",
    "DataFormatsError",
    "FormatError",
    "MissingExtraError",
    "SpecError",
    "StateMismatchError",
    "TruncatedError",
    "UnknownNameError",
    "WorkerError",
]


class DataFormatsError(Exception):
    """The root of every error that this package defines.

    Example:
        >>> import dataformats
        >>> issubclass(dataformats.SpecError, dataformats.DataFormatsError)
        True
    """


class _KeywordError(DataFormatsError):
    """An error whose facts are keyword arguments, so that a pickle keeps them."""

    def __init__(self, what: str = "", **facts: Any) -> None:
        super().__init__(what)
        self.what = what
        self._facts = tuple(facts)
        for name, value in facts.items():
            setattr(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.what, {name: getattr(self, name) for name in self._facts})


def _rebuild(kind: type[_KeywordError], what: str, facts: dict[str, Any]) -> _KeywordError:
    return kind(what, **facts)


class FormatError(_KeywordError, ValueError):
    """Bytes that are not what the format says they must be.

    Args:
        what: What is wrong, in words.
        path: The file.
        index: The record's number in the source that was asked, or `None`.
        offset_bytes: Where in the file (in a compressed one: of the decompressed bytes).
        expected: What should stand there.
        found: What stands there.
        remedy: What the user can do.

    Example:
        >>> import dataformats
        >>> raise dataformats.FormatError("no length fits", path="a.tfrecord", index=3, offset_bytes=96)
        Traceback (most recent call last):
        ...
        dataformats.errors.FormatError: record 3 of 'a.tfrecord' at byte 96: no length fits
    """

    def __init__(
        self,
        what: str = "",
        *,
        path: str | None = None,
        index: int | None = None,
        offset_bytes: int | None = None,
        expected: object = None,
        found: object = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(
            what,
            path=path,
            index=index,
            offset_bytes=offset_bytes,
            expected=expected,
            found=found,
            remedy=remedy,
        )
        self.path = path
        self.index = index
        self.offset_bytes = offset_bytes
        self.expected = expected
        self.found = found
        self.remedy = remedy

    def __str__(self) -> str:
        where = _where(self.path, self.index, self.offset_bytes)
        text = f"{where}: {self.what}" if where and self.what else where or self.what
        facts = [f"expected {_show(self.expected)}"] if self.expected is not None else []
        facts += [f"found {_show(self.found)}"] if self.found is not None else []
        text += f": {', '.join(facts)}" if facts else ""
        return f"{text}. {self.remedy}" if self.remedy else text

    def at(self, index: int) -> Self:
        """Return a copy of this error that names record `index`."""
        facts: dict[str, Any] = {name: getattr(self, name) for name in self._facts} | {"index": index}
        return type(self)(self.what, **facts)


class TruncatedError(FormatError):
    """A file that ends before what it announces does.

    Example:
        >>> import dataformats
        >>> src = dataformats.open("tests/golden/tfrecord/corrupt/cut_in_data.tfrecord")
        >>> src[len(src) - 1]
        Traceback (most recent call last):
        ...
        dataformats.errors.TruncatedError: ...
    """


class ChecksumError(FormatError):
    """A stored checksum that does not fit the bytes.

    Args:
        what: What the checksum is of.
        stored: The checksum in the file.
        computed: The checksum of the bytes.
        **where: path, index, offset_bytes, remedy, as in `FormatError`.

    Example:
        >>> import dataformats
        >>> src = dataformats.open("tests/golden/tfrecord/corrupt/data_bit.tfrecord")
        >>> try:
        ...     src[3]
        ... except dataformats.ChecksumError as error:
        ...     print(error.index, error.offset_bytes, error.stored != error.computed)
        3 368 True
    """

    def __init__(
        self,
        what: str = "checksum",
        *,
        stored: int | None = None,
        computed: int | None = None,
        path: str | None = None,
        index: int | None = None,
        offset_bytes: int | None = None,
        expected: object = None,
        found: object = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(
            what,
            path=path,
            index=index,
            offset_bytes=offset_bytes,
            expected=f"{stored:#010x} (stored)" if stored is not None else expected,
            found=f"{computed:#010x} (computed)" if computed is not None else found,
            remedy=remedy,
        )
        self.stored = stored
        self.computed = computed
        self._facts = (*self._facts, "stored", "computed")


class CorruptRecordError(FormatError):
    """A record whose frame is sound and whose content does not parse.

    Example:
        >>> import dataformats, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.ffr"
        >>> with dataformats.create(path, "ffrecord") as writer:
        ...     writer.append(b"no protobuf")
        >>> src = dataformats.open(path, payload="example", spec={"label": "int64"})
        >>> list(src.read([0], on_corrupt="omit").failed.values())
        [CorruptRecordError(...)]
    """


class SpecError(_KeywordError, ValueError):
    """A spec that does not parse, that a format cannot hold, or that a record does not fit.

    Args:
        what: What is wrong and what to do.
        field: The field, or `None`.
        index: The record, or `None`.
        path: The file, or `None`.

    Example:
        >>> import dataformats
        >>> dataformats.create("new.syr", "syrah", spec={"label": "int64?"})
        Traceback (most recent call last):
        ...
        dataformats.errors.SpecError: field 'label': syrah cannot hold int64?: every item has every array
    """

    def __init__(
        self, what: str = "", *, field: str | None = None, index: int | None = None, path: str | None = None
    ) -> None:
        super().__init__(what, field=field, index=index, path=path)
        self.field = field
        self.index = index
        self.path = path

    def __str__(self) -> str:
        field = f"field {self.field!r}" if self.field is not None else ""
        where = ", ".join(part for part in (_where(self.path, self.index, None), field) if part)
        return f"{where}: {self.what}" if where else self.what

    def at(self, index: int) -> SpecError:
        """Return a copy of this error that names record `index`."""
        return SpecError(self.what, field=self.field, index=index, path=self.path)


class CodecError(_KeywordError, ValueError):
    """A value that its codec cannot encode or decode; the cause is chained.

    Args:
        what: What is wrong.
        codec: The codec's name.
        field: The field, or `None`.
        index: The record, or `None`.
        path: The file, or `None`.

    Example:
        >>> import dataformats, pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> with dataformats.create(folder / "x.ffr", "ffrecord", payload="json") as writer:
        ...     writer.append({1, 2})
        Traceback (most recent call last):
        ...
        dataformats.errors.CodecError: codec 'json': ...
    """

    def __init__(
        self,
        what: str = "",
        *,
        codec: str | None = None,
        field: str | None = None,
        index: int | None = None,
        path: str | None = None,
    ) -> None:
        super().__init__(what, codec=codec, field=field, index=index, path=path)
        self.codec = codec
        self.field = field
        self.index = index
        self.path = path

    def __str__(self) -> str:
        parts = [
            _where(self.path, self.index, None),
            f"field {self.field!r}" if self.field is not None else "",
            f"codec {self.codec!r}" if self.codec is not None else "",
        ]
        where = ", ".join(part for part in parts if part)
        return f"{where}: {self.what}" if where else self.what


class UnknownNameError(_KeywordError, LookupError):
    """A name that nothing is registered under.

    Args:
        kind: What sort of name: "format", "codec".
        name: The name that was asked for.
        known: The names there are.
        remedy: What else to do.

    Example:
        >>> import dataformats
        >>> dataformats.open("tests/golden/real/photos.tfrecord", format="tfrecords")
        Traceback (most recent call last):
        ...
        dataformats.errors.UnknownNameError: unknown format 'tfrecords' (nearest: tfrecord, ...)
    """

    def __init__(
        self, kind: str = "name", *, name: str = "", known: Iterable[str] = (), remedy: str | None = None
    ) -> None:
        name = str(name)
        super().__init__(kind, name=name, known=tuple(known), remedy=remedy)
        self.name = name
        self.known = tuple(known)
        self.remedy = remedy

    def __str__(self) -> str:
        near = difflib.get_close_matches(self.name, self.known, n=3)
        hint = f"nearest: {', '.join(near)}" if near else f"known: {', '.join(sorted(self.known))}"
        text = f"unknown {self.what} {self.name!r} ({hint})"
        return f"{text}. {self.remedy}" if self.remedy else text


class StateMismatchError(_KeywordError, ValueError):
    """A state, or a pickle, that belongs to other data, another seed or another plan.

    Args:
        field: Which part differs.
        expected: What the state says.
        found: What is there.
        remedy: What to do.

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

    def __init__(
        self, field: str = "", *, expected: object = None, found: object = None, remedy: str | None = None
    ) -> None:
        super().__init__(field, expected=expected, found=found, remedy=remedy)
        self.field = field
        self.expected = expected
        self.found = found
        self.remedy = remedy

    def __str__(self) -> str:
        text = f"{self.field} differs: expected {self.expected!r}, found {self.found!r}"
        return f"{text}. {self.remedy}" if self.remedy else text


class WorkerError(_KeywordError, RuntimeError):
    """A worker that died, hung or raised.

    Args:
        what: What happened.
        worker: Which worker.
        reading: What it was reading.

    Example:
        >>> import dataformats
        >>> raise dataformats.WorkerError("killed by signal 9", worker=3, reading="records 64 to 96")
        Traceback (most recent call last):
        ...
        dataformats.errors.WorkerError: worker 3 while reading records 64 to 96: killed by signal 9
    """

    def __init__(self, what: str = "", *, worker: int | None = None, reading: str | None = None) -> None:
        super().__init__(what, worker=worker, reading=reading)
        self.worker = worker
        self.reading = reading

    def __str__(self) -> str:
        reading = f" while reading {self.reading}" if self.reading else ""
        return f"worker {self.worker}{reading}: {self.what}"


class MissingExtraError(_KeywordError, ImportError):
    """A part of the package whose dependencies are not installed.

    Args:
        what: What was asked for.
        extra: The name of the extra that brings it.

    Example:
        >>> import dataformats
        >>> raise dataformats.MissingExtraError("to_torch", extra="torch")
        Traceback (most recent call last):
        ...
        dataformats.errors.MissingExtraError: to_torch needs: pip install 'dataformats[torch]'
    """

    def __init__(self, what: str = "", *, extra: str = "") -> None:
        super().__init__(what, extra=extra)
        self.extra = extra

    def __str__(self) -> str:
        return f"{self.what} needs: pip install 'dataformats[{self.extra}]'"


def _where(path: str | None, index: int | None, offset_bytes: int | None) -> str:
    record = f"record {index}" if index is not None else ""
    file = f"{path!r}" if path is not None else ""
    place = f"at byte {offset_bytes}" if offset_bytes is not None else ""
    start = f"{record} of {file}" if record and file else record or file
    return f"{start} {place}".strip()


def _show(fact: object) -> str:
    return fact if isinstance(fact, str) else repr(fact)
