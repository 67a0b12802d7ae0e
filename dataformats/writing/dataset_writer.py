"""From records to new data that appear whole."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from dataformats.interfaces import AppendsInPlace
from dataformats.interfaces.writer import RecordWriter
from dataformats.registry import backends
from dataformats.spec import Spec, SpecLike
from dataformats.writing.destination import Destination, target
from dataformats.writing.encoding import Encode, Encoded, WriteSchema
from dataformats.writing.shards import Output, ShardedFiles, SingleFile

__all__ = ["DatasetWriter", "create", "writer"]


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
    encoding = WriteSchema(format, payload, None if spec is None else Spec(spec), backend_options)
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


def writer(
    path: Any,
    encoding: WriteSchema,
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
    backend = encoding.backend if one and not overwrite else None
    if final is not None and isinstance(backend, AppendsInPlace) and backend.can_append_in_place(final):
        place = place.in_place()
    elif place.exists() and not overwrite:
        done = "is complete: there is nothing to resume" if resume else "exists"
        raise FileExistsError(f"{place.name!r} {done}; pass overwrite=True to replace it")
    elif overwrite:
        foreign = place.unrelated_file(
            lambda folder: [file for name in backends for file in backends.get(name).find(folder)]
        )
        if foreign is not None:
            raise FileExistsError(f"{place.name!r} is a folder with more than data in it, as {foreign!r}: not replaced")
    if not resume:
        place.discard_partial()
    elif place.partial != final:
        place.check_resume_plan({"format": encoding.backend.name, **(encoding.facts() or {})})
    files: Output
    try:
        if shard_records is None and shard_bytes is None:
            files = SingleFile(encoding, place, resume)
        else:
            files = ShardedFiles(encoding, place, shard_records, shard_bytes, resume)
    except BaseException:
        if not resume:
            place.discard()
        raise
    return DatasetWriter(place, encoding, encode, files, keep=resume, workers=workers)


class DatasetWriter(RecordWriter):
    """Writes one data set, in one file or in shards."""

    def __init__(
        self, place: Destination, encoding: WriteSchema, encode: Encode, files: Output, *, keep: bool, workers: int
    ) -> None:
        self._place = place
        self._encoding = encoding
        self._encode = encode
        self._files = files
        self._keep = keep
        self._workers = workers
        self._owned = place.inode()
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
            super().extend(records)
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
            if self._place.inode() != self._owned:
                raise RuntimeError(f"another writer has taken {str(self._place.partial)!r}; what it grows there stays")
            manifest = self._files.finish()
            facts = self._encoding.facts()
            self._place.publish(None if facts is None else facts | {"files": manifest}, self._files.sidecars())
            self._files.forget()
        except BaseException:
            self.abort()
            raise
        self._open = False

    def abort(self) -> None:
        if not self._open:
            return
        self._open = False
        if self._keep or self._place.inode() != self._owned:
            self._files.suspend()
        else:
            self._files.discard()
            self._place.discard()

    def _require_open(self) -> None:
        if not self._open:
            raise ValueError(f"the writer of {self._place.name!r} is closed")

    def __repr__(self) -> str:
        return f"<writer of {self._place.name!r}: {self._encoding.backend.name}, {len(self)} records>"


def _in_order(threads: ThreadPoolExecutor, encode: Encode, records: Iterable[Any], ahead: int) -> Iterable[Encoded]:
    """Yield the encoded records in order, with a bounded number of them under way."""
    pending: deque[Future[Encoded]] = deque()
    for record in records:
        pending.append(threads.submit(encode, record))
        if len(pending) >= ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()
