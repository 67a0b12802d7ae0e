"""Lance datasets (`.lance`), read by pylance, which takes any records."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.tables.common_spec import json_columns
from dataformats.batch import Column, take_column
from dataformats.columns.arrow_columns import column_of_arrow, spec_of_arrow
from dataformats.columns.numbers import offsets_of
from dataformats.errors import DataFormatsError, FormatError, SpecError
from dataformats.fork_hooks import import_unforked
from dataformats.interfaces import Backend, Folder, ReaderOptions, RowTable, SniffResult, StoredFile
from dataformats.spec import Spec
from dataformats.storage.files import LocalFile

_MAGIC = b"LANC"  # the end of a manifest: lance's protos/table.proto
_VERSIONS = "_versions"
_MANIFEST = ".manifest"
_AHEAD_BYTES = 8 * 2**20  # in the files; more does not fit into the caches of processors
_DIGITS = 20  # names of the second scheme count down from 2^64 - 1


class _TakenRows(NamedTuple):
    """Consecutive rows that one call took."""

    begin: int
    end: int
    fields: Sequence[str]
    rows: Any


class LanceTable(RowTable):
    """The rows of Lance datasets that have one schema, each in the version of its manifest.

    Args:
        manifests: The manifest of each dataset.
    """

    def __init__(self, manifests: Sequence[StoredFile]) -> None:
        every: list[StoredFile] = []
        self._manifests = manifests
        self._datasets = [_opened(manifest) for manifest in manifests]
        counts = list[int]()
        for manifest, dataset in zip(manifests, self._datasets, strict=True):
            with _damage_of(manifest):
                if not dataset.schema.equals(self._datasets[0].schema):
                    raise SpecError(f"{manifests[0].name!r} and {manifest.name!r} have different schemas")
                files = [file.path for fragment in dataset.get_fragments() for file in fragment.data_files()]
                counts += [dataset.count_rows(), *(0 for _ in files)]
            every += [manifest, *(LocalFile(os.path.join(_root(manifest), "data", name)) for name in files)]
        self.files: Sequence[StoredFile] = every
        self.counts: NDArray[np.int64] = np.array(counts, np.int64)
        self.decoded_bytes: int = sum(file.size for file in every)
        self.spec: Spec = spec_of_arrow(self._datasets[0].schema)
        self.documents: frozenset[str] = json_columns([self._datasets[0].schema])
        self._starts = offsets_of(np.array([dataset.count_rows() for dataset in self._datasets], np.int64))
        self._last = _TakenRows(0, 0, (), None)
        self._most_ahead = int(_AHEAD_BYTES * self._starts[-1] / max(1, self.decoded_bytes))

    def read(self, records: NDArray[np.int64], fields: Sequence[str]) -> Mapping[str, Column]:
        _library()  # refuses forked processes
        order = np.argsort(records, kind="stable")  # Lance takes ascending rows up to a quarter faster
        if len(records) and (np.diff(records) == 1).all():
            rows = self._in_order(int(records[0]), int(records[-1]) + 1, fields)
        else:
            rows = self._take(records[order], fields)
        columns = {name: column_of_arrow(rows.column(name), self.spec[name], name) for name in fields}
        if (order[1:] > order[:-1]).all():
            return columns
        places = np.argsort(order, kind="stable")
        return {name: take_column(column, places) for name, column in columns.items()}

    def _in_order(self, begin: int, end: int, fields: Sequence[str]) -> Any:
        """Return consecutive rows. If they continue the last ones, twice as many are taken as before."""
        last, ahead = self._last, 0  # another thread may replace it
        if fields == last.fields and last.begin <= begin <= last.end:
            if end <= last.end:
                return last.rows.slice(begin - last.begin, end - begin)
            ahead = min(2 * (last.end - last.begin), self._most_ahead)
        stop = min(max(end, begin + ahead), int(self._starts[-1]))
        try:
            rows = self._take(np.arange(begin, stop), fields)
        except FormatError:  # perhaps those after `end` are damaged
            rows, stop = self._take(np.arange(begin, end), fields), end
        self._last = _TakenRows(begin, stop, fields, rows)
        return rows.slice(0, end - begin)

    def _take(self, ascending: NDArray[np.int64], fields: Sequence[str]) -> Any:
        owner = np.searchsorted(self._starts, ascending, side="right") - 1
        parts = []
        for number in np.unique(owner).tolist() or [0]:
            rows = ascending[owner == number] - self._starts[number]
            with _damage_of(self._manifests[number]):
                parts.append(self._datasets[number].take(rows.tolist(), columns=list(fields)))
        return parts[0] if len(parts) == 1 else importlib.import_module("pyarrow").concat_tables(parts)


def _root(manifest: StoredFile) -> str:
    return os.path.dirname(os.path.dirname(str(manifest.local)))


def _library() -> Any:
    return import_unforked("lance", "Lance", "lance")


def _opened(manifest: StoredFile) -> Any:
    library = _library()
    if manifest.local is None:
        what = f"Lance datasets are read from the local disk, found {manifest.name!r}"
        raise SpecError(what, remedy="Copy the folder to the local disk.")
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
        return LanceTable(files)


def _version_of(name: str) -> int:
    number = name.removesuffix(_MANIFEST)
    return 2**64 - 1 - int(number) if len(number) == _DIGITS else int(number)


BACKEND = LanceBackend()
