"""The dataset that the viewer shows: its index is built in the background, its records are read a page at a time."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from dataformats.batch import RecordBatch
from dataformats.cli.exit_codes import in_lines
from dataformats.display.cells import Cell, CellLimits, cell, items_within
from dataformats.display.text import escape_text
from dataformats.errors import DataFormatsError
from dataformats.inspecting.description import shown_path
from dataformats.interfaces import SequentialReader
from dataformats.interfaces.record_source import RecordSource
from dataformats.reading.opening import arguments_of
from dataformats.reading.partitions import PartitionedSource
from dataformats.reading.scan import split_by_bytes
from dataformats.reading.undecoded import leave_undecoded
from dataformats.spec import NUMBER_TYPES, Spec

_SHOWN_FILES = 200
_WATCHED_FILES = 64
_FAILURES = 100  # damaged records between two looks at the files
_READERS = 2  # threads that read records: each holds some megabytes, or one large record
_PREVIEW = 500  # records that are shown while the index is built
_ORDERED = {"int", "i64", "u64", "utf8", "bytes", *NUMBER_TYPES} - {"float16", "float128"}  # Arrow cannot sort these


def in_words(error: BaseException) -> Cell:
    """Return an error as the page shows it; a plain `ValueError` or `LookupError` is about the request."""
    is_of_request = isinstance(error, (ValueError, LookupError)) and not isinstance(error, DataFormatsError)
    text = in_lines(error) if isinstance(error, Exception) and not is_of_request else escape_text(str(error))
    return {"type": type(error).__name__, "text": text[:2000]}


class ViewedDataset:
    """A dataset, opened for the viewer. Thread-safe.

    Args:
        path: See `open`.
        **options: Arguments of `open`.

    Attributes:
        path: The argument.
        options: The arguments of `open`.
        source: The records, with images and videos as they are stored.
        decoded: The records, with images and videos decoded.
        fields: The names of the fields; the page names them by position.
    """

    def __init__(self, path: Any, **options: Any) -> None:
        self.path: Any = path
        self.options: dict[str, Any] = options
        self._progress = (0, 0)
        self._error: Exception | None = None
        self._ready = threading.Event()
        self._reading = threading.Semaphore(_READERS)
        opened = arguments_of(path, progress=self._report, **options).open_with_partitions()
        self._opaque = opened.spec_facts.opaque_fields
        self._spec = opened.spec
        self.decoded: RecordSource = opened
        self.source: RecordSource = leave_undecoded(opened)
        self._reader = (opened.files if isinstance(opened, PartitionedSource) else opened).reader
        self.fields: tuple[str, ...] = tuple(opened.spec)
        self._is_inferred = opened.spec_facts.provenance == "inferred"
        self._stamps = dict(_stamps(self.source.paths))
        threading.Thread(target=self._count, name="index", daemon=True).start()

    def opened_again(self) -> ViewedDataset:
        """Return the same dataset as its files are now."""
        return ViewedDataset(self.path, **self.options)

    def _report(self, done: int, total: int) -> None:
        self._progress = (done, total)

    def _count(self) -> None:
        try:
            len(self.source)
        except Exception as error:  # the page shows it
            self._error = error
        self._ready.set()

    def wait(self, seconds: float) -> bool:
        """Return True if the index is there, after at most these seconds."""
        return self._ready.wait(seconds) and self._error is None

    @property
    def state(self) -> Cell:
        """`state` (`indexing`, `ready` or `failed`), the number of records, and how far the index is."""
        if not self._ready.is_set():
            done, total = self._progress
            return {"state": "indexing", "done": done, "total": total, "previews": self._previews}
        if self._error is not None:
            return {"state": "failed", "error": in_words(self._error)}
        return {"state": "ready", "records": len(self.source), "changed": self._changed()}

    def _changed(self) -> str | None:
        """Return the first file that changed since it was opened."""
        return next((name for name, stamp in _stamps(self._stamps) if stamp != self._stamps[name]), None)

    def check_failure(self, n_failed: int) -> None:
        """Raise an error if files have changed, because then each record fails; looks at some failures only.

        Args:
            n_failed: The records that failed, with this one.

        Raises:
            ValueError: A file has changed.
        """
        if n_failed % _FAILURES == 1 and (name := self._changed()):
            raise ValueError(f"{name} has changed since it was opened: open it again")

    @property
    def _previews(self) -> bool:
        return isinstance(self._reader, SequentialReader)

    def facts(self) -> Cell:
        """Return the facts that need no records: format, sizes, fields, files."""
        source = self.source
        facts: dict[str, Any] = {
            "path": shown_path(self.path),
            "name": PurePosixPath(source.paths[0] if isinstance(self.path, list) else shown_path(self.path)).name,
            "format": source.format,
            "payload": source.payload,
            "nbytes": source.nbytes,
            "is_inferred": self._is_inferred,
            "metadata": self._reader.metadata(),
            "fields": [
                {"name": name, "type": str(kind), "opaque": name in self._opaque, "ordered": self.is_ordered(name)}
                for name, kind in self._spec.items()
            ],
            "n_files": len(source.paths),
        }
        if self.wait(0):
            summaries = self._reader.file_summaries()[:_SHOWN_FILES]
            facts["files"] = [{"name": name, "records": records, "nbytes": size} for name, records, size in summaries]
        return facts | self.state

    def is_ordered(self, name: str) -> bool:
        """Return True if records can be sorted by a field."""
        kind = self._spec[name]
        return kind.codec in _ORDERED and not kind.dims and name not in self._opaque

    # ---- records

    def rows(self, indices: Sequence[int], fields: Sequence[int], limits: CellLimits) -> list[Cell]:
        """Return the records with these indices: `record`, and either `cells` by field or `error`.

        Numbers that are out of range are left out. Memory holds a few megabytes of records at a time.
        """
        names = [self.fields[position] for position in fields]
        if not self._ready.is_set():
            return list(self._first(indices, names, limits))
        wanted = np.array([index for index in indices if 0 <= index < len(self.source)], np.int64)
        rows: list[Cell] = []
        for part in split_by_bytes(self.source, wanted):
            with self._reading:
                rows += self._read(part.tolist(), names, limits)
        return rows

    def _read(self, indices: list[int], names: list[str], limits: CellLimits) -> list[Cell]:
        try:
            batch = self.source.read(indices, names, "omit")
        except Exception as error:
            if len(indices) == 1:
                return [{"record": indices[0], "error": in_words(error)}]
            return [row for index in indices for row in self._read([index], names, limits)]
        found = {row["record"]: row for row in _rows(batch, limits, self._spec)}
        found |= {index: {"record": index, "error": in_words(why)} for index, why in batch.failed.items()}
        return [found[index] for index in indices]

    def _first(self, indices: Sequence[int], names: list[str], limits: CellLimits) -> Iterator[Cell]:
        """Yield records of the beginning, which needs no index."""
        wanted = {index for index in indices if 0 <= index < _PREVIEW}
        if not self._previews or not wanted:
            return
        n = 0
        with closing(self.source.scan(names)) as batches:  # type: ignore[type-var]  # it is a generator
            try:
                for batch in batches:
                    n += len(batch)
                    yield from (row for row in _rows(batch, limits, self._spec) if row["record"] in wanted)
                    if n > max(wanted):
                        return
            except Exception as error:
                yield {"record": n, "error": in_words(error)}

    def value(self, index: int, field: int, item: int | None = None) -> Any:
        """Return a value of a record, whole; or an item of it, if it is a list.

        Raises:
            LookupError: There is no such record, field, item or value.
        """
        if not 0 <= field < len(self.fields):
            raise IndexError(f"there is no field {field}")
        name = self.fields[field]
        if not self._ready.is_set():
            return self._early_value(index, name, item)
        if not 0 <= index < len(self.source):
            raise IndexError(f"there is no record {index}")
        batch = self.source.read([index], [name])
        return _value(batch, 0, name, item)

    def _early_value(self, index: int, name: str, item: int | None) -> Any:
        if not self._previews or not 0 <= index < _PREVIEW:
            raise IndexError(f"record {index} is not known before the index is built")
        with closing(self.source.scan([name])) as batches:  # type: ignore[type-var]  # it is a generator
            for batch in batches:
                if batch.indices[-1] >= index:
                    return _value(batch, index - int(batch.indices[0]), name, item)
        raise IndexError(f"there is no record {index}")


def _stamps(names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield size and time of the first files that lie on a disk."""
    for name in itertools.islice(names, _WATCHED_FILES):
        try:
            facts = os.stat(name)
            yield name, (facts.st_size, facts.st_mtime_ns)
        except OSError:
            yield name, None


def _value(batch: RecordBatch, row: int, name: str, item: int | None) -> Any:
    column: Any = batch.columns[name]
    present = getattr(column, "present", None)
    if present is not None and not present[row]:
        raise LookupError(f"record {int(batch.indices[row])} has no {name!r}")
    value = column[row]
    return value if item is None else items_within(value)[item]


def _rows(batch: RecordBatch, limits: CellLimits, spec: Spec) -> Iterator[Cell]:
    columns: Mapping[str, Any] = batch.columns
    for row, index in enumerate(batch.indices.tolist()):
        cells = [_cell(column, row, limits, spec[name].class_names) for name, column in columns.items()]
        yield {"record": index, "cells": cells}


def _cell(column: Any, row: int, limits: CellLimits, class_names: Sequence[str]) -> Cell:
    present = getattr(column, "present", None)
    if present is not None and not present[row]:
        return {"kind": "missing"}
    try:
        return cell(column[row], limits, class_names)
    except Exception as error:  # one value failed: the page shows all others
        return {"kind": "error", **in_words(error)}
