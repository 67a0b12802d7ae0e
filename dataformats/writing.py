"""From a spec and records to files: encode, lay down, cut into shards, publish."""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from dataformats.errors import CodecError, SpecError
from dataformats.fields import Codecs
from dataformats.interfaces import BlobBackend, BlobWriter, Codec, FieldsBackend, FieldsWriter, RecordCodec
from dataformats.registry import backends
from dataformats.spec import Spec, SpecLike, Type
from dataformats.storage import atomic
from dataformats.storage.targets import Target, target
from dataformats.values import exact
from dataformats.writer import RecordWriter

__all__ = ["DatasetWriter", "Encoding", "create", "refuse", "writer"]

_JOURNAL = ".shards.journal"
Encoded = bytes | Mapping[str, Sequence[bytes]]
"""A record as stored: one blob, or the blobs of each field."""
Encode = Callable[[Any], Encoded]


def create(
    path: Any,
    format: str,
    *,
    spec: SpecLike | None = None,
    payload: str | None = None,
    codecs: Mapping[str, Any] | None = None,
    shard_records: int | None = None,
    shard_bytes: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    workers: int = 0,
    storage_options: dict[str, Any] | None = None,
    **backend_options: Any,
) -> DatasetWriter:
    """Return a writer of new data.

    They grow in `PATH.partial` and get their name in one rename at `close`; what a killed writer left there is
    replaced, unless `resume=True`.

    Args:
        path: A path, a URL that fsspec knows, or a path object. With `shard_*` it is a folder.
        format: `"ffrecord"`, `"tfrecord"` or a registered name.
        spec: Field to type; records are mappings of these fields. `None`: records are values of the payload.
        payload: The codec of whole records; `None` is `"example"` with a spec and `"bytes"` without.
        codecs: Codecs for this data set, name to `(encode, decode)` or a `Codec`.
        shard_records: Begin another file after so many records.
        shard_bytes: Begin another file before one grows past so many bytes.
        resume: Go on with what an interrupted writer left; `len(writer)` says how many records are safe. An exception
            keeps what was written.
        overwrite: Replace what has the name, at `close`.
        workers: Threads that encode what `extend` is given; 0 encodes in the caller's.
        storage_options: For the fsspec file system of a URL.
        **backend_options: What the format adds, as `compression="gzip"` for TFRecord or `records=` for FFRecord.

    Raises:
        FileExistsError: Something has the name, and `overwrite` is not given.
        SpecError: The format cannot hold the spec; every offending field is named.
        UnknownNameError: No such format or codec.

    Example:
        >>> import dataformats, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "texts.ffr"
        >>> with dataformats.create(path, "ffrecord", spec={"text": "utf8", "tokens": "int64[]"}) as writer:
        ...     writer.append({"text": "héllo", "tokens": [3, 1, 2]})
        >>> dataformats.open(path)[0]
        {'text': 'héllo', 'tokens': array([3, 1, 2])}
    """
    encoding = Encoding(format, payload, None if spec is None else Spec(spec), backend_options)
    return writer(
        path,
        encoding,
        encoding.encoder(codecs),
        shard_records=shard_records,
        shard_bytes=shard_bytes,
        resume=resume,
        overwrite=overwrite,
        workers=workers,
        storage_options=storage_options,
    )


class Encoding:
    """What records are encoded as.

    Args:
        format: The file format.
        payload: The codec of whole records; `None` is the format's for this spec.
        spec: The fields; `None` where records are single values, or where a reader infers them.
        options: The format's own.

    Attributes:
        stored: For formats that store fields apart, the types under which they are stored; else `None`.

    Raises:
        SpecError: The format cannot hold the spec; every offending field is named.
    """

    def __init__(self, format: str, payload: str | None, spec: Spec | None, options: Mapping[str, Any]) -> None:
        self.backend = backends.get(format)
        self.spec = spec
        self.options = dict(options)
        self.stored: Spec | None = None
        self.payload: str | None = payload or "bytes"
        if isinstance(self.backend, FieldsBackend) and spec is not None:
            if payload is not None:
                raise SpecError(f"{format} stores fields apart: leave out payload={payload!r}")
            self.stored = self.backend.stored_spec(spec, **options)
            self.payload = None
        elif isinstance(self.backend, BlobBackend) and payload is None and spec is not None:
            self.payload = self.backend.payload_for(spec)

    def encoder(self, codecs: Mapping[str, Any] | None, spec: Spec | None = None, *, trusted: bool = True) -> Encode:
        """Return what turns a record into its bytes, or into the blobs of its fields.

        Args:
            codecs: As in `create`.
            spec: Types that records come in, where they differ from the declared ones: `bytes` for blobs that are
                encoded already.
            trusted: False where a file named the types.

        Raises:
            SpecError: The payload needs a spec, or holds none, or cannot hold this one.
        """
        resolver = Codecs(codecs, trusted=trusted)
        given = spec if spec is not None else self.spec
        if self.stored is not None and given is not None:
            return FieldsEncoder(given, self.stored, resolver)
        codec = resolver.codec(Type.parse(str(self.payload)))
        if isinstance(codec, RecordCodec):
            if given is None:
                raise SpecError(f"the payload {self.payload!r} needs spec=, as {{'image': 'jpg', 'label': 'int64'}}")
            return codec.bind(given, resolver).encode
        if given is not None:
            raise SpecError(f"the payload {self.payload!r} holds single values, no fields; leave out spec= or payload=")
        return _guarded(codec)

    def create(self, partial: Path, resume: bool) -> BlobWriter | FieldsWriter:
        """Return a writer of one file or folder."""
        if isinstance(self.backend, FieldsBackend):
            # Without a spec it is a file of single values, where the format has such.
            stored = self.stored if self.stored is not None else Spec()
            return self.backend.create(partial, stored=stored, resume=resume, **self.options)
        assert isinstance(self.backend, BlobBackend)  # there is no third kind; for the type checker
        return self.backend.create(partial, resume=resume, **self.options)

    def facts(self) -> dict[str, Any] | None:
        """Return what a reader cannot tell from the files; `None` where there is nothing."""
        told = not isinstance(self.backend, BlobBackend) or self.backend.guess_payload([]) == "bytes"
        if told and self.spec is None and self.payload == "bytes":
            return None
        tells = isinstance(self.backend, FieldsBackend) and self.backend.tells_spec
        if tells and self.spec is not None and self.spec == self.stored:
            return None
        spec = {} if self.spec is None else {"spec": self.spec.to_json()}
        payload = {} if self.payload is None else {"payload": self.payload}
        return {"format": self.backend.name, **payload, **spec}


class FieldsEncoder:
    """Turns a record into the blobs of its fields, all or none.

    Args:
        given: The types that values come in.
        stored: The types under which they are stored.
        codecs: From types to codecs.
    """

    def __init__(self, given: Spec, stored: Spec, codecs: Codecs) -> None:
        self._given = given
        self._stored = stored
        self._codecs = codecs
        for kind in given.values():
            codecs.codec(kind)  # an unknown one is refused here, before anything is written

    def __call__(self, record: Any) -> dict[str, list[bytes]]:
        """Return field to blobs.

        Raises:
            SpecError: A field is missing, unknown, or does not fit its type.
            CodecError: A value does not encode.
        """
        if not isinstance(record, Mapping):
            raise SpecError(f"expected a mapping of fields, found {type(record).__name__}")
        for name in record:
            if name not in self._given:
                raise SpecError("the spec has no such field", field=str(name))
        for name in self._given:
            if name not in record:
                raise SpecError("the record lacks this field; the format holds every field of every record", field=name)
        return {name: self._blobs(name, kind, record[name]) for name, kind in self._given.items()}

    def _blobs(self, name: str, given: Type, value: Any) -> list[bytes]:
        stored = self._stored[name]
        if given == stored or given.dtype is None:
            return self._codecs.encode(given, value, field=name)
        return self._codecs.encode(stored, exact(given, value, field=name), field=name)


def writer(
    path: Any,
    encoding: Encoding,
    encode: Encode,
    *,
    shard_records: int | None = None,
    shard_bytes: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    workers: int = 0,
    storage_options: dict[str, Any] | None = None,
) -> DatasetWriter:
    """Return a writer whose records `encode` turns into bytes; for the arguments see `create`."""
    for name, most in (("shard_records", shard_records), ("shard_bytes", shard_bytes)):
        if most is not None and most < 1:
            raise ValueError(f"{name} must be at least 1, found {most}")
    place = target(path, storage_options)
    one = shard_records is None and shard_bytes is None
    final = place.final if resume else None
    fields = encoding.backend if one and not overwrite and isinstance(encoding.backend, FieldsBackend) else None
    if final is not None and fields is not None and fields.continues(final, **encoding.options):
        place = place.in_place()
    elif place.exists() and not overwrite:
        raise FileExistsError(f"{place.name!r} exists; pass overwrite=True to replace it")
    if not resume:
        atomic.remove(place.partial)
    files: _Files
    if shard_records is None and shard_bytes is None:
        files = _OneFile(encoding, place, resume)
    else:
        files = _Shards(encoding, place, shard_records, shard_bytes, resume)
    return DatasetWriter(place, encoding, encode, files, keep=resume, workers=workers)


def refuse(record: Any) -> bytes:
    """Refuse a record: a writer that copies stored bytes encodes nothing."""
    raise TypeError("this writer copies stored bytes")


class DatasetWriter(RecordWriter):
    """Writes one data set, in one file or in shards."""

    def __init__(
        self, place: Target, encoding: Encoding, encode: Encode, files: _Files, *, keep: bool, workers: int
    ) -> None:
        self._place = place
        self._encoding = encoding
        self._encode = encode
        self._files = files
        self._keep = keep
        self._workers = workers
        self._open = True

    def append(self, record: Any) -> None:
        self._require_open()
        self._files.append(self._encode(record))

    def append_bytes(self, blob: bytes) -> None:
        """Append a record that is encoded already."""
        self._require_open()
        self._files.append(blob)

    def extend(self, records: Iterable[Any]) -> None:
        self._require_open()
        if self._workers < 1:
            for record in records:
                self._files.append(self._encode(record))
            return
        with ThreadPoolExecutor(self._workers) as threads:
            for blob in _in_order(threads, self._encode, records, 4 * self._workers):
                self._files.append(blob)

    def flush(self, sync: bool = False) -> None:
        self._require_open()
        self._files.flush(sync)

    def __len__(self) -> int:
        return self._files.n_records

    def close(self) -> None:
        if not self._open:
            return
        try:
            manifest = self._files.finish()
            facts = self._encoding.facts()
            self._place.publish(None if facts is None else facts | {"files": manifest}, self._files.companions())
            self._files.forget()
        except BaseException:
            self.abort()
            raise
        self._open = False

    def abort(self) -> None:
        if not self._open:
            return
        self._open = False
        if self._keep:
            self._files.leave()
        else:
            self._files.discard()
            self._place.discard()

    def _require_open(self) -> None:
        if not self._open:
            raise ValueError(f"the writer of {self._place.name!r} is closed")

    def __repr__(self) -> str:
        return f"<writer of {self._place.name!r}: {self._encoding.backend.name}, {len(self)} records>"


class _Files(ABC):
    """Where blobs go: one file, or one shard after the other."""

    @property
    @abstractmethod
    def n_records(self) -> int:
        """Records appended, those found on resuming included."""

    @abstractmethod
    def append(self, encoded: Encoded) -> None: ...

    @abstractmethod
    def flush(self, sync: bool) -> None: ...

    @abstractmethod
    def finish(self) -> list[dict[str, Any]]:
        """Complete everything under the partial name; return name, records and bytes of each file."""

    def companions(self) -> Mapping[str, Path | None]:
        """Return what belongs beside the finished data: `FileWriter.companions`."""
        return {}

    def forget(self) -> None:  # noqa: B027  # most keep nothing
        """Delete what was kept for a resume; the data have their name now."""

    @abstractmethod
    def leave(self) -> None: ...

    @abstractmethod
    def discard(self) -> None: ...


class _OneFile(_Files):
    def __init__(self, encoding: Encoding, place: Target, resume: bool) -> None:
        self._place = place
        self._file = encoding.create(place.partial, resume)

    @property
    def n_records(self) -> int:
        return self._file.n_records

    def append(self, encoded: Encoded) -> None:
        self._file.append(encoded)  # type: ignore[arg-type]  # the encoder and the file are of one backend

    def flush(self, sync: bool) -> None:
        self._file.flush(sync=sync)

    def finish(self) -> list[dict[str, Any]]:
        self._file.close()
        return [_entry(self._place.name.rsplit("/", 1)[-1], self._file.n_records, self._place.partial)]

    def companions(self) -> Mapping[str, Path | None]:
        return self._file.companions()

    def leave(self) -> None:
        self._file.leave()

    def discard(self) -> None:
        self._file.discard()


class _Shards(_Files):
    """Files `00000`, `00001`, ... in the partial folder, which get the format's own names at the end."""

    def __init__(
        self,
        encoding: Encoding,
        place: Target,
        most_records: int | None,
        most_bytes: int | None,
        resume: bool,
    ) -> None:
        self._encoding = encoding
        self._place = place
        self._most_records = most_records
        self._most_bytes = most_bytes
        self._folder = place.partial
        # Beside the folder, so that it outlives the last renaming inside and is never published.
        self._journal = place.partial.with_name(place.partial.name + _JOURNAL)
        if not resume:
            self._journal.unlink(missing_ok=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._done: list[int] = self._finished() if resume else []  # records of each complete shard
        self._file = self._create(resume)

    @property
    def n_records(self) -> int:
        return sum(self._done) + self._file.n_records

    def append(self, encoded: Encoded) -> None:
        if self._full(_size(encoded)):
            self._complete()
            self._file = self._create(resume=False)
        self._file.append(encoded)  # type: ignore[arg-type]  # the encoder and the file are of one backend

    def flush(self, sync: bool) -> None:
        self._file.flush(sync=sync)
        if sync:
            atomic.sync(self._folder)

    def finish(self) -> list[dict[str, Any]]:
        if self._file.n_records or not self._done:
            self._complete()
        else:
            self._file.discard()
        names = self._names(len(self._done))
        for number, name in enumerate(names):
            (self._folder / f"{number:05d}").rename(self._folder / name)
        atomic.sync(self._folder)
        return [_entry(name, n, self._folder / name) for name, n in zip(names, self._done, strict=True)]

    def leave(self) -> None:
        self._file.leave()

    def discard(self) -> None:
        self._file.discard()
        self.forget()

    def forget(self) -> None:
        self._journal.unlink(missing_ok=True)

    def _full(self, more: int) -> bool:
        n, size = self._file.n_records, self._file.n_bytes
        records = self._most_records is not None and n >= self._most_records
        return records or (self._most_bytes is not None and n > 0 and size + more > self._most_bytes)

    def _names(self, count: int) -> list[str]:
        return self._encoding.backend.shard_names(self._place.name.rstrip("/").rsplit("/", 1)[-1], count)

    def _path(self) -> Path:
        return self._folder / f"{len(self._done):05d}"

    def _create(self, resume: bool) -> BlobWriter | FieldsWriter:
        return self._encoding.create(self._path().with_suffix(".partial"), resume)

    def _complete(self) -> None:
        self._file.close()
        path = self._path()
        # Counted before it is renamed: a complete shard that still has its partial name is gone on with.
        self._done.append(self._file.n_records)
        atomic.write_bytes(self._journal, json.dumps(self._done).encode())
        path.with_suffix(".partial").rename(path)

    def _finished(self) -> list[int]:
        """Return the records of the complete shards that an interrupted writer left."""
        try:
            counts = json.loads(self._journal.read_bytes())
        except FileNotFoundError:
            counts = []
        for number, name in enumerate(self._names(len(counts))):  # it may have died while it gave them their names
            if (self._folder / name).exists():
                (self._folder / name).rename(self._folder / f"{number:05d}")
        there = itertools.takewhile(lambda number: (self._folder / f"{number:05d}").exists(), range(len(counts)))
        return [int(counts[number]) for number in there]


def _entry(name: str, records: int, path: Path) -> dict[str, Any]:
    files = [path] if path.is_file() else [part for part in path.rglob("*") if part.is_file()]
    return {"name": name, "records": records, "bytes": sum(file.stat().st_size for file in files)}


def _size(encoded: Encoded) -> int:
    if isinstance(encoded, bytes):
        return len(encoded)
    return sum(len(blob) for blobs in encoded.values() for blob in blobs)


def _guarded(codec: Codec) -> Encode:
    def encode(value: Any) -> bytes:
        try:
            return codec.encode(value)
        except (CodecError, SpecError):
            raise
        except Exception as error:
            raise CodecError(f"cannot encode {type(value).__name__}: {error}", codec=codec.name) from error

    return encode


def _in_order(threads: ThreadPoolExecutor, encode: Encode, records: Iterable[Any], ahead: int) -> Iterable[Encoded]:
    """Yield the encoded records in order, with a bounded number of them under way."""
    pending: deque[Future[Encoded]] = deque()
    for record in records:
        pending.append(threads.submit(encode, record))
        if len(pending) >= ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()
