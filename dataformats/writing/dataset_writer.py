"""DatasetWriter: encodes records, appends them to files that grow, and publishes these when they are complete."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dataformats.batch import StoredRecords
from dataformats.errors import CodecError, SpecError
from dataformats.fork_hooks import after_fork
from dataformats.interfaces.record_writer import RecordWriter
from dataformats.staging.area import Publication
from dataformats.staging.paths import add_name
from dataformats.writing.encoding import Encode, encode_chunks, encode_in_threads
from dataformats.writing.output_schema import OutputSchema
from dataformats.writing.shard_writer import ShardWriter
from dataformats.writing.tables import TableRecords, is_table

_LOG = logging.getLogger("dataformats")


class DatasetWriter(RecordWriter):
    """The writer that `create` returns: one dataset, in one file or in shards. Not thread-safe.

    Example:
        >>> import dataformats, tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp()) / "words"
        >>> with dataformats.create(folder, "tfrecord", payload="utf8", shard_records=100) as writer:
        ...     writer.extend(["one", "two"])
        ...     writer.next_shard()
        ...     writer.append_bytes(b"three")
        ...     len(writer)
        3
        >>> source = dataformats.open(folder)
        >>> list(source), len(source.paths)
        (['one', 'two', 'three'], 2)
    """

    def __init__(
        self,
        schema: OutputSchema,
        encode: Encode,
        shard_writer: ShardWriter,
        *,
        resumable: bool,
        workers: int,
        codecs: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin to write; the public constructor is `create`.

        Args:
            schema: The format, payload and spec.
            encode: Converts a record to its bytes.
            shard_writer: The files.
            resumable: True if `abort` keeps the partial data.
            workers: Threads that encode in `extend`.
            codecs: See `create`.
        """
        self._schema = schema
        self._encode = encode
        self.shard_writer: ShardWriter = shard_writer
        self.resumable: bool = resumable
        self._workers = workers
        self._codecs = codecs
        self._complete: Publication | None = None
        self._is_unsent = False
        self._open = True
        self._closed_by = ""
        after_fork(self, "_forget")

    def append(self, record: Any) -> None:
        self._require_open()
        try:
            self.shard_writer.append(self._encode(record))
        except (OSError, SpecError, CodecError) as error:
            self._add_place(error)
            raise

    def append_bytes(self, blob: bytes) -> None:
        """Append one encoded record; only if the format stores one blob per record."""
        self._require_open()
        try:
            self.shard_writer.append(blob)
        except (OSError, SpecError) as error:
            self._add_place(error)
            raise

    def append_stored(self, records: StoredRecords) -> None:
        """Append records as a file of the format stores them."""
        self._require_open()
        try:
            self.shard_writer.append_stored(records)
        except (OSError, SpecError) as error:
            self._add_place(error)
            raise

    def next_shard(self) -> None:
        """Complete the current shard, and start another one; only for data in shards."""
        self._require_open()
        self.shard_writer.next_shard()

    def extend(self, records: Iterable[Any]) -> None:
        """Append several records, in order: from an iterable, or the rows of a table with a column for each field.

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
            self._extend(records, self._encode)
            return
        table = TableRecords(records, self._schema, self._codecs)
        try:
            for batch in table:
                stored = table.stored(batch)
                self._extend(list(batch), table.encode) if stored is None else self.append_stored(stored)
        except SpecError as error:
            self._add_place(error)
            raise

    def _extend(self, records: Iterable[Any], encode: Encode) -> None:
        if self._workers:
            chunks = encode_in_threads(encode, records, self._workers)
        elif isinstance(records, (list, tuple)):
            chunks = encode_chunks(encode, records, self._schema.backend.name)
        else:  # an iterator may change a record when it gives the next one
            super().extend(records)
            return
        with contextlib.closing(chunks):  # no thread encodes after an error, either
            for encoded, failure in chunks:
                try:
                    if isinstance(encoded, StoredRecords):
                        self.shard_writer.append_stored(encoded)
                    else:
                        self.shard_writer.extend(encoded)
                    if failure is not None:
                        raise failure
                except (OSError, SpecError, CodecError) as error:
                    self._add_place(error)
                    raise

    def flush(self, sync: bool = False) -> None:
        self._require_open()
        try:
            self.shard_writer.flush(sync)
        except OSError as error:
            add_name(error, self.shard_writer.name)
            raise

    def __len__(self) -> int:
        return self.shard_writer.n_records

    def complete(self) -> Sequence[Mapping[str, Any]]:
        """Complete the files under their partial names, and return their entries; only `close` can follow."""
        if self._complete is None:
            self._require_open()
            self._complete = self.shard_writer.finish()
        files: Sequence[Mapping[str, Any]] = self._complete.metadata["files"]
        return files

    def announce(self, others: Mapping[str, Any]) -> None:
        """Note that data of other names, which are complete, get them before these: `StagingArea.announce`."""
        self.complete()
        self.shard_writer.area.announce(others)

    def close(self) -> None:
        if not self._open:
            return
        try:
            self._publish()
        except BaseException as error:
            if self.shard_writer.area.can_retry(error):
                self._is_unsent = True
                raise
            try:
                self.abort()
            except OSError as other:
                _LOG.warning("could not abort the writer of %s: %s", self.shard_writer.name, other)
            add_name(error, self.shard_writer.name)
            raise
        self._open = False

    def _publish(self) -> None:
        files = self.complete()
        sidecar = self._schema.sidecar()
        metadata = {"format": self._schema.backend.name, **(sidecar or {}), "files": files}
        if self._complete is not None:
            self.shard_writer.publish(replace(self._complete, metadata=metadata, keep=sidecar is not None))

    def abort(self) -> None:
        if not self._open:
            return
        self._open = False
        self.shard_writer.abort(keep=self.resumable)

    def __del__(self) -> None:
        if getattr(self, "_open", False) and not self._is_unsent:
            try:
                warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)
            finally:
                self.abort()

    def _add_place(self, error: BaseException) -> None:
        """Name the record that comes next in an error because of it."""
        if isinstance(error, (SpecError, CodecError)) and error.index is None:
            error.index = len(self)
        add_name(error, self.shard_writer.name)

    def _forget(self) -> None:
        """In a forked child, leave everything to the parent."""
        self._open, self._closed_by = False, " in a forked process; only the process that created it can use it"

    def _require_open(self) -> None:
        if not self._open or self._complete is not None:
            raise ValueError(f"the writer of {self.shard_writer.name!r} is closed{self._closed_by}")

    def __repr__(self) -> str:
        return f"<writer of {self.shard_writer.name!r}: {self._schema.backend.name}, {len(self)} records>"
