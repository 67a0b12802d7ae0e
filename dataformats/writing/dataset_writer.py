"""Write records to new data that are published when they are complete."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from dataformats.errors import Remedy, TargetExistsError
from dataformats.fork_hooks import after_fork
from dataformats.interfaces import AppendsInPlace
from dataformats.interfaces.record_writer import RecordWriter
from dataformats.spec import Spec, SpecLike
from dataformats.writing.destination import Destination, destination
from dataformats.writing.encoding import Encode, Encoded, WriteSchema
from dataformats.writing.shards import Output, ShardedFiles, SingleFile

__all__ = ["DatasetWriter", "create", "writer"]

_LOG = logging.getLogger("dataformats")


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
    """Create a dataset and return its writer.

    The data grow in `PATH.partial` and are published by one rename at `close`. A new writer replaces the partial data
    of an interrupted one, unless `resume=True`. A name has one writer at a time. A writer that is dropped without
    `close` is aborted.

    Args:
        path: A path, a URL that fsspec knows, or a path object. With `shard_*` it is a folder.
        format: `"ffrecord"`, `"tfrecord"` or another registered name.
        spec: Field to type; records are mappings of these fields. `None`: records are values of the payload.
        payload: The codec of whole records; `None` is `"example"` with a spec and `"bytes"` without.
        codecs: Codecs for this dataset, name to `(encode, decode)` or a `Codec`.
        shard_records: Start a new file after this many records; at least 1.
        shard_bytes: Start a new file before one exceeds this many bytes; at least 1. A longer record gets its own file.
        resume: Continue the data of an interrupted writer; `len(writer)` is the number of records that are safe. An
            exception then keeps the partial data.
        overwrite: Replace an existing file or folder of that name, at `close`.
        workers: Threads in which `extend` encodes records; 0 encodes in the calling thread.
        storage_options: For the fsspec file system of a URL.
        **backend_options: Options of the format: `compression="gzip"` for TFRecord, `records=` for FFRecord.

    Returns:
        The writer. It is not thread-safe.

    Raises:
        FormatError: `resume=True`, and the partial data cannot be resumed: a journal or sidecar is damaged or missing.
        SpecError: The format cannot hold the spec; every offending field is named.
        StateMismatchError: `resume=True`, and the partial data have another payload or spec.
        TargetExistsError: Something has the name, and `overwrite` is not given; or it is a folder that holds anything
            but data; or something else than partial data has the name `PATH.partial`.
        TargetInUseError: Another writer has the name, in this process or another one. File systems without `flock`
            cannot tell.
        TypeError: The format has no such option.
        UnknownNameError: No such format or codec.
        ValueError: A shard size below 1, `resume=True` with a path that is not local, or a name that ends as the files
            do that a writer makes beside its data, such as `.partial`.

    Example:
        >>> import dataformats, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "texts.ffr"
        >>> with dataformats.create(path, "ffrecord", spec={"text": "utf8", "tokens": "int64[]"}) as writer:
        ...     writer.append({"text": "héllo", "tokens": [3, 1, 2]})
        >>> dataformats.open(path)[0]
        {'text': 'héllo', 'tokens': array([3, 1, 2])}
    """
    schema = WriteSchema(format, payload, None if spec is None else Spec(spec), backend_options)
    return writer(
        path,
        schema,
        schema.encoder(codecs),
        shard_records=shard_records,
        shard_bytes=shard_bytes,
        resume=resume,
        overwrite=overwrite,
        workers=workers,
        storage_options=storage_options,
    )


def writer(
    path: Any,
    schema: WriteSchema,
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
    for name, limit in (("shard_records", shard_records), ("shard_bytes", shard_bytes)):
        if limit is not None and limit < 1:
            raise ValueError(f"{name} must be at least 1, found {limit}")
    is_sharded = shard_records is not None or shard_bytes is not None
    target = destination(path, storage_options)
    final = target.final if resume else None
    backend = schema.backend if not is_sharded and not overwrite else None
    in_place = final is not None and isinstance(backend, AppendsInPlace) and backend.can_append_in_place(final)
    target = target.in_place() if in_place else target
    metadata = {"format": schema.backend.name, **(schema.sidecar() or {})}
    is_begun = False
    try:
        target.lock(overwrite)
        if not in_place:
            _check_free(target, overwrite, metadata if resume else None)
        target.begin(metadata, schema.backend, resume)
        is_begun = True
        output: Output
        if is_sharded:
            output = ShardedFiles(schema, target, shard_records, shard_bytes, resume)
        else:
            output = SingleFile(schema, target, resume)
    except BaseException:
        with contextlib.suppress(OSError):
            if is_begun and not resume:
                target.discard()
        target.release()
        raise
    return DatasetWriter(target, schema, encode, output, resumable=resume, workers=workers)


def _check_free(target: Destination, overwrite: bool, resumed: Mapping[str, Any] | None) -> None:
    """Raise `TargetExistsError` if publishing would delete something that the call did not ask to replace.

    Args:
        target: The destination.
        overwrite: See `create`.
        resumed: Format, payload and spec with `resume=True`, else `None`.
    """
    if not overwrite:
        if not target.exists():
            return
        problem, remedy = "exists", Remedy("Pass {overwrite} to replace it", overwrite=True)
        if resumed is not None and target.partial.exists():
            problem = f"exists, and so do the partial data {str(target.partial)!r} of a writer that was to replace it"
            remedy = Remedy("Pass {overwrite} to resume that writer", overwrite=True)
        elif resumed is not None and target.complete(resumed):
            problem = "is complete: there is nothing to resume"
        elif resumed is not None:
            problem = "exists, with another format, payload or spec, or with other files than its sidecar lists"
        raise TargetExistsError(f"{target.name!r} {problem}", remedy=remedy)
    unrelated = target.unrelated_entry()
    if unrelated is not None:
        what = f"{target.name!r} is not replaced: the folder holds other files than data, such as {str(unrelated)!r}"
        raise TargetExistsError(what, remedy="Move them, or delete the folder")


class DatasetWriter(RecordWriter):
    """Writes one dataset, in one file or in shards. Not thread-safe.

    Args:
        target: Where the dataset is published.
        schema: Its format, payload and spec.
        encode: From a record to its bytes.
        output: The files.
        resumable: True if `abort` keeps the partial data.
        workers: Threads that encode in `extend`.
    """

    def __init__(
        self,
        target: Destination,
        schema: WriteSchema,
        encode: Encode,
        output: Output,
        *,
        resumable: bool,
        workers: int,
    ) -> None:
        self._target = target
        self._schema = schema
        self._encode = encode
        self._output = output
        self._resumable = resumable
        self._workers = workers
        self._open = True
        self._closed_by = ""
        after_fork(self, "_forget")

    def append(self, record: Any) -> None:
        self._require_open()
        blob = self._encode(record)
        try:
            self._output.append(blob)
        except OSError as error:
            self._add_name(error)
            raise

    def append_bytes(self, blob: bytes) -> None:
        """Append one encoded record; only if the format stores one blob per record."""
        self._require_open()
        self._output.append(blob)

    def extend(self, records: Iterable[Any]) -> None:
        self._require_open()
        if self._workers < 1:
            super().extend(records)
            return
        with ThreadPoolExecutor(self._workers) as threads:
            for blob in _in_order(threads, self._encode, records, 4 * self._workers):
                self._output.append(blob)

    def flush(self, sync: bool = False) -> None:
        self._require_open()
        try:
            self._output.flush(sync)
        except OSError as error:
            self._add_name(error)
            raise

    def __len__(self) -> int:
        return self._output.n_records

    def close(self) -> None:
        if not self._open:
            return
        try:
            self._target.check_owned()
            manifest = self._output.finish()
            sidecar = self._schema.sidecar()
            facts = {"format": self._schema.backend.name, **(sidecar or {}), "files": manifest}
            self._target.publish(facts, keep=sidecar is not None, sidecars=self._output.sidecars())
        except BaseException as error:
            try:
                self.abort()
            except OSError as other:
                _LOG.warning("could not abort the writer of %s: %s", self._target.name, other)
            self._add_name(error)
            raise
        self._open = False
        self._target.release()

    def abort(self) -> None:
        if not self._open:
            return
        self._open = False
        try:
            if self._resumable or not self._target.is_owned:
                self._output.suspend()
                return
            try:
                self._output.discard()
            finally:
                self._target.discard()
        finally:
            self._target.release()

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            try:
                warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)
            finally:
                self.abort()

    def _add_name(self, error: BaseException) -> None:
        """Name the data in an error of the file system, such as a full disk, that names no file."""
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = self._target.name

    def _forget(self) -> None:
        """In a forked child, leave everything to the parent."""
        self._open, self._closed_by = False, " in a forked process; only the process that created it can use it"

    def _require_open(self) -> None:
        if not self._open:
            raise ValueError(f"the writer of {self._target.name!r} is closed{self._closed_by}")

    def __repr__(self) -> str:
        return f"<writer of {self._target.name!r}: {self._schema.backend.name}, {len(self)} records>"


def _in_order(threads: ThreadPoolExecutor, encode: Encode, records: Iterable[Any], ahead: int) -> Iterable[Encoded]:
    """Yield the encoded records in order; at most `ahead` are submitted at a time."""
    pending: deque[Future[Encoded]] = deque()
    for record in records:
        pending.append(threads.submit(encode, record))
        if len(pending) >= ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()
