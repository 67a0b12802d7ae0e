"""DatasetWriter: encodes records, appends them to files that grow, and publishes these when they are complete."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dataformats.batch import StoredRecords
from dataformats.errors import CodecError, SpecError
from dataformats.fork_hooks import after_fork
from dataformats.interfaces.record_writer import RecordWriter
from dataformats.writing.destination import Destination, add_name
from dataformats.writing.encoding import Encode, encode_chunks, encode_in_threads
from dataformats.writing.schema import WriteSchema
from dataformats.writing.shards import Output
from dataformats.writing.tables import TableRecords, is_table

__all__ = ["DatasetWriter"]

_LOG = logging.getLogger("dataformats")


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
        with contextlib.closing(chunks):  # after an error, too, no thread encodes
            for encoded, failure in chunks:
                try:
                    if isinstance(encoded, StoredRecords):
                        self._output.append_stored(encoded)
                    else:
                        self._output.extend(encoded)
                    if failure is not None:
                        raise failure
                except (OSError, SpecError, CodecError) as error:
                    self._add_place(error)
                    raise

    @property
    def flush_adds_bytes(self) -> bool:
        """True if each `flush` adds bytes to the complete files."""
        return self._output.file.flush_adds_bytes

    def flush(self, sync: bool = False) -> None:
        self._require_open()
        try:
            self._output.flush(sync)
        except OSError as error:
            add_name(error, self._target.name)
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
            add_name(error, self._target.name)
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
        add_name(error, self._target.name)

    def _forget(self) -> None:
        """In a forked child, leave everything to the parent."""
        self._open, self._closed_by = False, " in a forked process; only the process that created it can use it"

    def _require_open(self) -> None:
        if not self._open:
            raise ValueError(f"the writer of {self._target.name!r} is closed{self._closed_by}")

    def __repr__(self) -> str:
        return f"<writer of {self._target.name!r}: {self._schema.backend.name}, {len(self)} records>"
