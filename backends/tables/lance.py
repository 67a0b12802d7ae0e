"""Lance datasets (`.lance`), read by pylance, which takes any records."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.tables.common_spec import common_spec, default_types
from dataformats.batch import Column, take_column, take_rows
from dataformats.columns.arrow_columns import columns_of_arrow
from dataformats.columns.numbers import is_run, offsets_of
from dataformats.errors import DataFormatsError, FormatError, SpecError
from dataformats.fork_hooks import import_unforked
from dataformats.interfaces import Backend, BadRowsError, Folder, ReaderOptions, RowTable, SniffResult, StoredFile
from dataformats.spec import Spec, Type
from dataformats.storage.files import LocalFile

_MAGIC = b"LANC"  # the end of a manifest: lance's protos/table.proto
_VERSIONS = "_versions"
_MANIFEST = ".manifest"
_AHEAD_BYTES = 8 * 2**20  # more does not fit into the caches of processors
_DIGITS = 20  # names of the second scheme count down from 2^64 - 1


class _TakenRows(NamedTuple):
    """Consecutive rows that one call took: of each dataset, a pyarrow table."""

    begin: int
    end: int
    fields: Sequence[str]
    parts: Sequence[Any]


class LanceTable(RowTable):
    """The rows of Lance datasets, each in the version of its manifest. A field that a dataset lacks is optional.

    Args:
        manifests: The manifest of each dataset.
        declared: The types of the call: see `common_spec`.
    """

    def __init__(self, manifests: Sequence[StoredFile], declared: Spec | None) -> None:
        every: list[StoredFile] = []
        self._manifests = manifests
        self._datasets = [_opened(manifest) for manifest in manifests]
        counts, schemas = list[int](), []
        for manifest, dataset in zip(manifests, self._datasets, strict=True):
            with _damage_of(manifest):
                schemas.append(dataset.schema)
                files = [file.path for fragment in dataset.get_fragments() for file in fragment.data_files()]
                counts += [dataset.count_rows(), *(0 for _ in files)]
            every += [manifest, *(LocalFile(os.path.join(_root(manifest), "data", name)) for name in files)]
        self.files: Sequence[StoredFile] = every
        self.counts: NDArray[np.int64] = np.array(counts, np.int64)
        self.decoded_bytes: int = sum(file.size for file in every)
        nullable = {field.name for schema in schemas for field in schema if field.nullable}
        self.spec: Spec = common_spec(manifests, schemas, nullable, declared)
        self.default_types: Mapping[str, Type] = default_types(schemas, self.spec)
        self._names = [schema.names for schema in schemas]
        self._starts = offsets_of(np.array([dataset.count_rows() for dataset in self._datasets], np.int64))
        self._last = _TakenRows(0, 0, (), ())

    def read(self, records: NDArray[np.int64], fields: Sequence[str]) -> Mapping[str, Column]:
        _library()  # refuses forked processes
        order = np.argsort(records, kind="stable")  # Lance takes ascending rows up to a quarter faster
        if is_run(records):
            parts = self._in_order(int(records[0]), int(records[-1]) + 1, fields)
        else:
            parts = self._take(records[order], fields)
        columns = self._columns(parts, fields)
        if (order[1:] > order[:-1]).all():
            return columns
        places = np.argsort(order, kind="stable")
        return {name: take_column(column, places) for name, column in columns.items()}

    def _columns(self, parts: Sequence[Any], fields: Sequence[str]) -> dict[str, Column]:
        """Return the rows of several datasets, one behind the other."""
        try:
            each = [columns_of_arrow(part, self.spec, fields) for part in parts]
        except BadRowsError as error:
            raise error.failed[min(error.failed)] from None  # the source finds the rows by reading them one by one
        if len(each) == 1:
            return each[0]
        owners = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
        rows = np.concatenate([np.arange(part.num_rows) for part in parts])
        return {name: take_rows([columns[name] for columns in each], owners, rows) for name in fields}

    def _in_order(self, begin: int, end: int, fields: Sequence[str]) -> Sequence[Any]:
        """Return consecutive rows. If they continue the last ones, twice as many are taken as before."""
        last, ahead = self._last, 0  # another thread may replace it
        if fields == last.fields and last.begin <= begin <= last.end:
            if end <= last.end:
                return _rows_of(last.parts, begin - last.begin, end - last.begin)
            n, n_bytes = last.end - last.begin, sum(part.nbytes for part in last.parts)
            ahead = min(2 * n, _AHEAD_BYTES * n // max(1, n_bytes))
        stop = min(max(end, begin + ahead), int(self._starts[-1]))
        try:
            parts = self._take(np.arange(begin, stop), fields)
        except FormatError:  # perhaps those after `end` are damaged
            parts, stop = self._take(np.arange(begin, end), fields), end
        self._last = _TakenRows(begin, stop, fields, parts)
        return _rows_of(parts, 0, end - begin)

    def _take(self, ascending: NDArray[np.int64], fields: Sequence[str]) -> list[Any]:
        """Return the rows of each dataset as a pyarrow table, without the fields that the dataset lacks."""
        owner = np.searchsorted(self._starts, ascending, side="right") - 1
        parts = []
        for number in np.unique(owner).tolist() or [0]:
            rows, dataset = ascending[owner == number] - self._starts[number], self._datasets[number]
            known = [name for name in fields if name in self._names[number]] or self._names[number][:1]
            with _damage_of(self._manifests[number]):
                parts.append(dataset.take(rows.tolist(), columns=known))
        return parts


def _rows_of(parts: Sequence[Any], begin: int, end: int) -> list[Any]:
    """Return the rows `[begin, end)` of tables, one behind the other."""
    found = []
    for part in parts:
        if begin < part.num_rows and end > 0:
            found.append(part.slice(max(0, begin), end - max(0, begin)))
        begin, end = begin - part.num_rows, end - part.num_rows
    return found or [parts[0].slice(0, 0)]


def _root(manifest: StoredFile) -> str:
    return os.path.dirname(os.path.dirname(str(manifest.local)))


def _library() -> Any:
    return import_unforked("lance", "Lance", "lance")


def _opened(manifest: StoredFile) -> Any:
    library = _library()
    if manifest.local is None:
        what = f"Lance datasets are read from the local disk, found {manifest.name!r}"
        raise SpecError(what, remedy="Copy the folder to the local disk.")
    manifest.check_links_below(_root(manifest))
    with _damage_of(manifest):
        return library.dataset(_root(manifest), version=_version_of(manifest.basename))


@contextmanager
def _damage_of(manifest: StoredFile) -> Iterator[None]:
    """Raise the errors of Lance as a `FormatError`. A panic of Rust is no `Exception`."""
    try:
        yield
    except BaseException as error:
        is_panic = type(error).__name__ == "PanicException"
        if isinstance(error, DataFormatsError) or not (
            is_panic or isinstance(error, (OSError, ValueError, RuntimeError))
        ):
            raise
        raise FormatError(f"Lance cannot read it: {error}", path=manifest.name) from error


class LanceBackend(Backend):
    """Lance: a folder with `_versions` and `data`."""

    name = "lance"
    suffixes: tuple[str, ...] = (".lance",)
    in_folders = True
    has_checked_header = True

    def matches_name(self, name: str) -> bool:
        return name.endswith(_MANIFEST) and name.removesuffix(_MANIFEST).isdecimal()

    def find(self, folder: Folder) -> list[StoredFile]:
        if folder.names() or _VERSIONS not in folder.folders():
            return []
        versions = folder.folder(_VERSIONS)
        names = [name for name in versions.names() if self.matches_name(name)]
        return [versions.file(max(names, key=_version_of))] if names else []

    def sniff(self, file: StoredFile) -> SniffResult:
        if not self.matches_name(file.basename):
            return SniffResult("no", "its name is not a number with .manifest")
        is_whole = file.pread(file.size - len(_MAGIC), len(_MAGIC)) == _MAGIC
        return SniffResult("yes") if is_whole else SniffResult("damaged", "it does not end with LANC")

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> LanceTable:
        return LanceTable(files, options.spec)


def _version_of(name: str) -> int:
    number = name.removesuffix(_MANIFEST)
    return 2**64 - 1 - int(number) if len(number) == _DIGITS else int(number)


BACKEND = LanceBackend()
