"""Write records to new data that are published when they are complete."""

from __future__ import annotations

import contextlib
import itertools
import logging
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from dataformats.batch import StoredRecords
from dataformats.errors import CodecError, Remedy, SpecError, TargetExistsError
from dataformats.fork_hooks import after_fork
from dataformats.integer_arguments import checked_int
from dataformats.interfaces import AppendsInPlace, Backend
from dataformats.interfaces.record_writer import RecordWriter
from dataformats.registry import backends
from dataformats.spec import Spec, SpecLike
from dataformats.writing.destination import Destination, InPlace, SharedFolder, destination
from dataformats.writing.encoding import Encode, Encoded, FieldsEncoder, WriteSchema, format_of
from dataformats.writing.extension import FinishedData
from dataformats.writing.numbered_shards import NumberedShards
from dataformats.writing.shards import Output, ShardedFiles, ShardLimits, SingleFile
from dataformats.writing.tables import TableRecords, is_table

__all__ = ["DatasetWriter", "create", "writer"]

_LOG = logging.getLogger("dataformats")
_CHUNK_RECORDS = 64  # encoded together: more would not stay in the processor's cache
_FIELDS_RECORDS, _FIELDS_BYTES = 256, 2**20  # likewise, if fields are encoded one after the other


def create(
    path: Any,
    format: str | None = None,
    *,
    spec: SpecLike | None = None,
    payload: str | None = None,
    codecs: Mapping[str, Any] | None = None,
    shard_records: int | None = None,
    shard_bytes: int | None = None,
    shard_start: int | None = None,
    shard_step: int = 1,
    append: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    workers: int = 0,
    storage_options: dict[str, Any] | None = None,
    **backend_options: Any,
) -> DatasetWriter:
    """Create a dataset and return its writer.

    The data grow in `PATH.partial` and are published by one rename at `close`. A new writer replaces the partial data
    of an interrupted one, unless `resume=True`. A name has one writer at a time. A writer that is dropped without
    `close` is aborted. Data behind a URL are built in a temporary folder and sent at `close`: see "Object stores" in
    the documentation.

    Args:
        path: A path, a URL that fsspec knows, or a path object. With `shard_*` it is a folder.
        format: `"ffrecord"`, `"tfrecord"` or another registered name; `None` takes it from the name of `path`.
        spec: Field to type; records are mappings of these fields. `None`: records are values of the payload.
        payload: The codec of whole records; `None` is `"example"` with a spec and `"bytes"` without.
        codecs: Codecs for this dataset, name to `(encode, decode)` or a `Codec`.
        shard_records: Start a new file after this many records; at least 1.
        shard_bytes: Start a new file before one exceeds this many bytes; at least 1. A longer record gets its own file.
        shard_start: The number of this writer's first shard, if several writers fill one folder independently. Each
            shard has its final name as soon as it is complete, and a reader of the folder sees the complete ones.
        shard_step: The number of these writers: this one writes shard `shard_start`, and then every `shard_step`-th.
        append: Extend the data that have the name, if there are any: a plain TFRecord or OFRecord file, a Granular
            dataset of generation 3, or a folder of shards, which gets further shards. The data stay as they are until
            `close`, and after an error or a crash; only the Granular dataset grows in place, whole row by whole row.
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
        StateMismatchError: `resume=True` or `append=True`, and the data there have another payload or spec.
        TargetExistsError: Something has the name, and neither `overwrite` nor `append` is given; or it cannot be
            extended; or it is a folder that holds anything but data; or something else than partial data has the name
            `PATH.partial`.
        TargetInUseError: Another writer has the name, in this process or another one. File systems without `flock`
            cannot tell.
        TypeError: The format has no such option.
        UnknownNameError: No such format or codec; or the name of `path` names no format.
        ValueError: A shard size below 1; `append=True` together with `overwrite=True`, or one of them with
            `shard_start`; `resume`, `append` or `shard_start` with a path that is not local; or a name that ends as the
            files do that a writer makes beside its data, such as `.partial`.

    Example:
        >>> import dataformats, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "texts.ffr"
        >>> with dataformats.create(path, spec={"text": "utf8", "tokens": "int64[]"}) as writer:
        ...     writer.append({"text": "héllo", "tokens": [3, 1, 2]})
        >>> dataformats.open(path)[0]
        {'text': 'héllo', 'tokens': array([3, 1, 2])}

        Extend a file, and a folder that two writers fill:

        >>> for text in (b"one", b"two"):
        ...     with dataformats.create(path.with_name("log.tfrecord"), append=True) as writer:
        ...         writer.append(text)
        >>> list(dataformats.open(path.with_name("log.tfrecord")))
        [b'one', b'two']
        >>> for k in range(2):
        ...     with dataformats.create(path.with_name("parts"), "ffrecord", shard_start=k, shard_step=2) as writer:
        ...         writer.append(b"from writer %d" % k)
        >>> list(dataformats.open(path.with_name("parts")))
        [b'from writer 0', b'from writer 1']
    """
    if format is not None and str(path) in backends and format not in backends:
        raise TypeError(f"the path comes before the format: create({str(format)!r}, {str(path)!r})")
    schema = WriteSchema(format or format_of(path), payload, None if spec is None else Spec(spec), backend_options)
    return writer(
        path,
        schema,
        schema.encoder(codecs),
        codecs=codecs,
        shard_records=shard_records,
        shard_bytes=shard_bytes,
        shard_start=shard_start,
        shard_step=shard_step,
        append=append,
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
    codecs: Mapping[str, Any] | None = None,
    shard_records: int | None = None,
    shard_bytes: int | None = None,
    shard_start: int | None = None,
    shard_step: int = 1,
    append: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    workers: int = 0,
    storage_options: dict[str, Any] | None = None,
    plan: Mapping[str, Any] | None = None,
    make_output: Callable[[WriteSchema, Destination, bool], Output] | None = None,
    shared: bool = False,
) -> DatasetWriter:
    """Return a writer whose records `encode` turns into bytes; for the other arguments see `create`.

    Args:
        plan: Of a conversion, which only an equal one resumes; kept in the sidecar.
        make_output: Returns the files from the schema, the destination and `resume`; `None`: those of `create`.
        shared: Resume together with other such writers, none of which closes: each ends with `abort`. `make_output`
            calls `Destination.share`.
    """
    for name, number, least in (
        ("shard_records", shard_records, 1),
        ("shard_bytes", shard_bytes, 1),
        ("shard_start", shard_start, 0),
        ("shard_step", shard_step, 1),
        ("workers", workers, 0),
    ):
        if number is not None:
            checked_int(name, number, least)
    if append + overwrite + (shard_start is not None) > 1:
        raise ValueError("append=True, overwrite=True and shard_start= exclude each other: pass one of them")
    limits = ShardLimits(shard_records, shard_bytes)
    target = destination(path, storage_options)
    if append or shard_start is not None:
        target = destination(target.final.resolve())  # if it is a link, the data that it names grow
    final = target.final if append or (resume and make_output is None) else None
    can_grow = limits == ShardLimits() and not overwrite and plan is None
    if shard_start is not None:
        target = SharedFolder(target.final)
    elif final is not None and can_grow and _grows(schema.backend, final):
        target, resume = InPlace(target.final.resolve()), True
    extends = append and not target.grows and target.exists()
    more = {} if plan is None else {"plan": plan}
    facts = {"format": schema.backend.name, **(schema.sidecar() or {}), **more}
    is_begun = False
    try:
        target.lock(overwrite or extends, shared=shared)
        if not target.grows:
            _check_free(target, overwrite or extends, facts if resume else None)
        finished = FinishedData.of(target.final, schema, limits) if extends else None
        target.begin(facts if finished is None else {**facts, "extends": finished.digest}, schema.backend, resume)
        is_begun = True
        if shard_start is not None:
            numbers = itertools.count(shard_start, shard_step)
            output: Output = NumberedShards(schema, target.final, facts, limits, numbers=numbers, resume=resume)
        elif make_output is not None:
            output = make_output(schema, target, resume)
        else:
            output = _output(schema, target, limits, resume, finished)
    except BaseException:
        with contextlib.suppress(OSError):
            if is_begun and not resume:
                target.discard()
        target.release()
        raise
    resumable = resume or (plan is not None and target.keeps_partial)
    return DatasetWriter(
        target, schema, encode, output, resumable=resumable, workers=workers, facts=more, codecs=codecs
    )


def _grows(backend: Backend, path: Path) -> bool:
    """Return True if there are data to which the format appends under their final name."""
    return isinstance(backend, AppendsInPlace) and backend.can_append_in_place(path)


def _output(
    schema: WriteSchema, target: Destination, limits: ShardLimits, resume: bool, finished: FinishedData | None
) -> Output:
    if finished is not None:
        finished.begin(target.partial)
    if limits != ShardLimits() or (finished is not None and finished.shards is not None):
        return ShardedFiles(schema, target, limits, resume or finished is not None)
    output = SingleFile(schema, target, resume or finished is not None)
    try:
        if finished is not None:
            finished.check_resumed(target.partial)
    except BaseException:
        output.suspend()
        raise
    return output


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
        if resumed is not None and target.keeps_partial and target.partial.exists():
            problem = f"exists, and so do the partial data {str(target.partial)!r} of a writer that was to replace it"
            remedy = Remedy("Pass {overwrite} to resume that writer", overwrite=True)
        elif resumed is not None and target.complete(resumed):
            problem = "is complete: there is nothing to resume"
            remedy = Remedy("Pass {append} to extend it, or {overwrite} to replace it", append=True, overwrite=True)
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
        facts: What the sidecar says besides format, payload, spec and files.
        codecs: As in `create`.

    Attributes:
        resumable: As given.
        facts: As given; may be added to until `close`.
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
        facts: Mapping[str, Any],
        codecs: Mapping[str, Any] | None = None,
    ) -> None:
        self._target = target
        self._schema = schema
        self._encode = encode
        self._output = output
        self.resumable: bool = resumable
        self.facts: dict[str, Any] = dict(facts)
        self._workers = workers
        self._codecs = codecs
        self._files: list[dict[str, Any]] | None = None  # once they are complete
        self._open = True
        self._closed_by = ""
        after_fork(self, "_forget")

    def append(self, record: Any) -> None:
        self._require_open()
        try:
            self._output.append(self._encode(record))
        except (OSError, SpecError, CodecError) as error:
            self._add_place(error)
            raise

    def append_bytes(self, blob: bytes) -> None:
        """Append one encoded record; only if the format stores one blob per record."""
        self._require_open()
        try:
            self._output.append(blob)
        except (OSError, SpecError) as error:
            self._add_place(error)
            raise

    def append_stored(self, records: StoredRecords) -> None:
        """Append records as a file of the format stores them."""
        self._require_open()
        try:
            self._output.append_stored(records)
        except (OSError, SpecError) as error:
            self._add_place(error)
            raise

    def next_shard(self) -> None:
        """Complete the current shard, and start another one; only for data in shards."""
        self._require_open()
        self._output.next_shard()

    def extend(self, records: Iterable[Any]) -> None:
        """Append several records, in order: of an iterable, or the rows of a table with a column for each field.

        A table is anything that gives an Arrow stream: a table or a reader of pyarrow, a frame of Polars or pandas.
        Its values are as `RecordSource.to_arrow` gives them, and nulls are missing values. With `workers=`, records are
        encoded in parallel.

        Raises:
            SpecError: A record does not fit the spec.
            CodecError: A value does not encode.
            MissingExtraError: A table, and pyarrow is not installed.

        Example:
            >>> import dataformats, tempfile, pathlib
            >>> import pyarrow
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "x.ffr"
            >>> with dataformats.create(path, spec={"n": "int64", "name": "utf8?"}) as writer:
            ...     writer.extend(pyarrow.table({"n": [1, 2], "name": ["one", None]}))
            >>> list(dataformats.open(path))
            [{'n': 1, 'name': 'one'}, {'n': 2}]
        """
        self._require_open()
        if isinstance(records, Mapping):
            raise TypeError(
                "extend takes records or a table, found one dict: append takes a record; for columns pass "
                "dataformats.RecordBatch(columns, indices=numpy.arange(n))"
            )
        if not is_table(records):
            self._extend_records(records)
            return
        table = TableRecords(records, self._schema, self._codecs)
        encode, self._encode = self._encode, table.encode
        try:
            for batch in table:
                stored = table.stored(batch)
                self._extend_records(list(batch)) if stored is None else self.append_stored(stored)
        except SpecError as error:
            self._add_place(error)
            raise
        finally:
            self._encode = encode

    def _extend_records(self, records: Iterable[Any]) -> None:
        if self._workers < 1:
            if not isinstance(records, (list, tuple)):  # an iterator may change a record when it gives the next one
                super().extend(records)
                return
            self._extend_all(records)
            return
        with ThreadPoolExecutor(self._workers) as threads:
            for encoded in _in_order(threads, self._encode, records, 4 * self._workers):
                try:
                    self._output.append(encoded.result())
                except (OSError, SpecError, CodecError) as error:
                    self._add_place(error)
                    raise

    def _extend_all(self, records: Sequence[Any]) -> None:
        begin, size = 0, 1 if isinstance(self._encode, FieldsEncoder) else _CHUNK_RECORDS
        while begin < len(records):
            chunk = records[begin : begin + size]
            begin += len(chunk)
            if isinstance(self._encode, FieldsEncoder):
                n_bytes = self._extend_fields(self._encode, chunk)
                size = max(1, min(_FIELDS_RECORDS, _FIELDS_BYTES * len(chunk) // max(1, n_bytes)))
            else:
                self._extend(chunk)

    def _extend_fields(self, encode: FieldsEncoder, records: Sequence[Any]) -> int:
        """Do as `_extend`, but encode one field of all records after the other; return the bytes of the records."""
        stored, failure = encode.rows(self._schema.backend.name, records)
        self.append_stored(stored)
        if failure is not None:
            self._add_place(failure)
            raise failure
        return stored.n_bytes

    def _extend(self, records: Sequence[Any]) -> None:
        """Append the records before the first that does not encode; then raise its error."""
        encode, encoded, failure = self._encode, [], None
        try:
            for record in records:
                encoded.append(encode(record))  # noqa: PERF401  # an error keeps those before it
        except BaseException as error:
            failure = error
        try:
            self._output.extend(encoded)
            if failure is not None:
                raise failure
        except (OSError, SpecError, CodecError) as error:
            self._add_place(error)
            raise

    def flush(self, sync: bool = False) -> None:
        self._require_open()
        try:
            self._output.flush(sync)
        except OSError as error:
            self._add_name(error)
            raise

    def __len__(self) -> int:
        return self._output.n_records

    @property
    def partial(self) -> Path:
        """The local path of the growing file or folder."""
        return self._target.partial

    def complete(self) -> tuple[list[dict[str, Any]], dict[str, Path]]:
        """Complete the files under their partial names; only `close` can follow.

        Returns:
            The entries of the sidecar's `files`, which may be changed until `close`; and final name to present path of
            the file, or the folder, and of those that belong beside it.
        """
        self._require_open()
        if self._files is None:
            self._target.check_owned()
            self._files = self._output.finish()
        beside = {name: path for name, path in self._output.sidecars().items() if path is not None}
        return self._files, {self._target.name.rstrip("/").rsplit("/", 1)[-1]: self._target.partial, **beside}

    def close(self) -> None:
        if not self._open:
            return
        try:
            manifest, _ = self.complete()
            self._target.check_owned()
            sidecar = self._schema.sidecar()
            facts = {"format": self._schema.backend.name, **(sidecar or {}), **self.facts, "files": manifest}
            is_kept = sidecar is not None or bool(self.facts)
            self._target.publish(facts, keep=is_kept, sidecars=self._output.sidecars())
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
            if self.resumable or not self._target.is_owned:
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

    def _add_place(self, error: BaseException) -> None:
        """Name the record that comes next in an error because of it."""
        if isinstance(error, (SpecError, CodecError)) and error.index is None:
            error.index = len(self)
        self._add_name(error)

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


def _in_order(
    threads: ThreadPoolExecutor, encode: Encode, records: Iterable[Any], ahead: int
) -> Iterable[Future[Encoded]]:
    """Yield the encoded records in order; at most `ahead` are submitted at a time."""
    pending: deque[Future[Encoded]] = deque()
    for record in records:
        pending.append(threads.submit(encode, record))
        if len(pending) >= ahead:
            yield pending.popleft()
    yield from pending
