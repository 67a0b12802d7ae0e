"""Fields from the names of folders, such as `year=2020/part-0.parquet`, as Hive, Spark and pyarrow write them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.batch import Column, RecordBatch, take_column
from dataformats.columns.masks import insert_missing
from dataformats.errors import SpecError
from dataformats.fork_hooks import cached_property
from dataformats.interfaces.record_source import Fields, OnCorrupt, RecordSource
from dataformats.interfaces.source_facts import SourceFacts, SpecFacts
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.reading.file_source import FileSource
from dataformats.reading.joined import FieldPlace, JoinedSource
from dataformats.reading.scan import as_indices, digest_of
from dataformats.spec import Spec, SpecLike, Type
from dataformats.storage.paths import is_local
from dataformats.storage.selected_files import GlobFolder
from dataformats.storage.threads import concurrent_map

_NULL = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"-?\d{1,10}")
_DEPTH = 16
_EVERY = "/**"

Values = Mapping[str, Sequence[str | None]]
"""Field to the text of each file; `None`: the file has none."""


def partition_files(entries: Sequence[StoredFile | Folder]) -> Sequence[StoredFile | Folder]:
    """Return the files below a folder that has only folders called `name=value`, as one entry; else the entries."""
    folder = entries[0]
    if len(entries) > 1 or not isinstance(folder, Folder) or folder.explicit:
        return entries
    files = [] if any(map(_is_data, folder.names())) else _files_below(folder, _DEPTH)
    return [GlobFolder(folder.name.rstrip("/") + _EVERY, {file.name: file for file in files})] if files else entries


def partition_values(entries: Sequence[StoredFile | Folder], files: Sequence[StoredFile]) -> Values:
    """Return the fields that the names of folders give these files, below a folder or the first `*` of a glob."""
    globs = [entry.name for entry in entries if isinstance(entry, Folder) and entry.explicit]
    if len(entries) != 1 or not globs:
        return {}
    root = re.split(r"[*?\[]", globs[0])[0].rpartition("/")[0] + "/"
    found = []
    for file in files:
        parts = [part.partition("=") for part in file.name.removeprefix(root).split("/")[:-1] if "=" in part]
        found.append({unquote(name): None if text == _NULL else unquote(text) for name, _, text in parts if name})
    names = dict.fromkeys(name for of_file in found for name in of_file)
    return {name: [of_file.get(name) for of_file in found] for name in names}


class PartitionFields(RecordSource):
    """The fields of records that the names of their folders tell.

    Args:
        files: The records in the files.
        values: The text of each field for each file of their reader.
        spec: The types of the fields.
    """

    def __init__(self, files: FileSource, values: Values, spec: Spec) -> None:
        self._files = files
        self._values = values
        self._spec = spec
        self._of_files = {name: _column(values[name], kind, name) for name, kind in spec.items()}

    @property
    def spec(self) -> Spec:
        return self._spec

    def __len__(self) -> int:
        return len(self._files)

    @property
    def facts(self) -> SourceFacts:
        return SourceFacts(self._files.format, self._files.paths, files_per_record=0)

    @property
    def spec_facts(self) -> SpecFacts:
        return SpecFacts(provenance="files")

    @property
    def fingerprint(self) -> str:
        values = [[name, *map(str, texts)] for name, texts in self._values.items()]
        return digest_of(["partitions", repr(values)], self._files.reader.counts.astype("<i8").tobytes())

    def record_bytes(self, indices: ArrayLike | None = None) -> float:
        return 0.0

    def with_spec(self, spec: SpecLike) -> PartitionFields:
        return PartitionFields(self._files, self._values, Spec({**self._spec, **Spec(spec)}))

    def read(self, indices: ArrayLike, fields: Fields = None, on_corrupt: OnCorrupt = "raise") -> RecordBatch:
        records = as_indices(indices, len(self))
        file = np.searchsorted(self._ends, records, side="right")
        return RecordBatch({name: take_column(self._of_files[name], file) for name in self.mask(fields)}, records)

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum(self._files.reader.counts)


class PartitionedSource(JoinedSource):
    """The records of files, with the fields that the names of their folders tell."""

    @property
    def files(self) -> FileSource:
        """The records without these fields."""
        return self.sources[0]  # type: ignore[return-value]  # `with_partitions` makes it


def with_partitions(source: FileSource, spec: Spec) -> FileSource | PartitionedSource:
    """Return a source with the fields of its `partitions`; fields that the files have themselves are theirs.

    Args:
        source: The records of the files.
        spec: The types that the call declares for these fields.
    """
    if not source.partitions:
        return source
    values, stored = source.partitions, source.spec
    names = [name for name in values if name not in stored]
    if len(spec.keys() - names):
        source = source.with_spec({name: kind for name, kind in spec.items() if name in stored})
    if not names:
        return source
    fields = PartitionFields(source, {n: values[n] for n in names}, Spec({n: _type_of(values[n]) for n in names}))
    fields = fields.with_spec({name: spec[name] for name in names if name in spec})
    places = {name: FieldPlace(0, name) for name in stored} | {name: FieldPlace(1, name) for name in names}
    return PartitionedSource([source, fields], places)


def _files_below(folder: Folder, depth: int) -> list[StoredFile]:
    folders = folder.folders()
    if not folders or not depth or not all("=" in name.strip("=") for name in folders):
        return []
    inside = [folder.folder(name) for name in folders]

    def files_of(one: Folder) -> list[StoredFile]:
        return _files_below(one, depth - 1) or one.files([*filter(_is_data, one.names())])

    return [file for files in concurrent_map(files_of, inside, local=is_local(folder.name)) for file in files]


def _is_data(name: str) -> bool:
    return not name.startswith("_") and not name.endswith(".md")


def _type_of(texts: Sequence[str | None]) -> Type:
    """Return int32 if all values are such numbers, else text, as pyarrow does."""
    known = [text for text in texts if text is not None]
    is_number = all(_INTEGER.fullmatch(text) and -(2**31) <= int(text) < 2**31 for text in known)
    return Type("int32" if known and is_number else "utf8", optional=None in texts)


def _column(texts: Sequence[str | None], kind: Type, name: str) -> Column:
    """Return the value of each file."""
    known = [text for text in texts if text is not None]
    present = np.array([text is not None for text in texts], np.bool_)
    if len(known) < len(texts) and not kind.optional:
        raise SpecError(f"expected {kind}, found a folder without it", field=name)
    if kind.required == Type("utf8"):
        return insert_missing(known, present, optional=kind.optional)
    if kind.dtype is None or kind.dims:
        raise SpecError(f"expected utf8 or a number type for the name of a folder, found {kind}", field=name)
    try:
        numbers = np.array([kind.dtype.type(text) for text in known], kind.dtype)
    except (ValueError, OverflowError) as error:
        raise SpecError(f"expected {kind}, found the name of a folder: {error}", field=name) from error
    return insert_missing(numbers, present, optional=kind.optional)
