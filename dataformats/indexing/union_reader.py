"""Reads files that differ in fields: a reader of each run of files with the same fields, one behind the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs
from dataformats.columns.common_type import union_types
from dataformats.columns.exact_cast import cast_numbers
from dataformats.columns.masks import check_part
from dataformats.errors import CorruptRecordError, DataFormatsError, FormatError, SpecError
from dataformats.fork_hooks import cached_property
from dataformats.indexing.fields_reader import FieldsReader
from dataformats.indexing.lookup import file_of
from dataformats.interfaces import Extents, FilesPerField, Located, OpenedFiles, Reader, ReaderOptions, Table
from dataformats.interfaces.stored_file import StoredFile
from dataformats.spec import Spec, Type
from dataformats.storage.native.file_set import FileSet, open_files
from dataformats.storage.reference_read import read_blobs

T = TypeVar("T")

_ANY = 2**62  # elements: the value tells


def open_union(
    files: Sequence[T], fields: Callable[[T], Any], read: Callable[[Sequence[T]], Reader], options: ReaderOptions
) -> Reader:
    """Return a reader of files that may differ in fields: a field that a file lacks is optional.

    Args:
        files: The files, in reading order, with what the backend knows about each.
        fields: Returns the fields of a file, to compare.
        read: Returns a reader of consecutive files with the same fields.
        options: The options of `open`.

    Raises:
        SpecError: The type of a field differs, and no type has the values of all files.
    """
    return union_of_readers([read(list(run)) for _, run in groupby(files, fields)] or [read(files)], options)


def union_of_readers(readers: Sequence[Reader], options: ReaderOptions) -> Reader:
    """Return a reader of the records of one reader or more, one behind the other: see `UnionReader`."""
    if len(readers) == 1:
        return readers[0]
    return (_UnionPerField if isinstance(readers[0], FilesPerField) else UnionReader)(readers, options)


def open_indexed_union(
    files: Sequence[StoredFile],
    read: Callable[[Sequence[StoredFile]], FieldsReader],
    fact: str,
    options: ReaderOptions,
) -> Reader:
    """Return a reader of files that may differ in fields, as the indexes of the files tell them.

    Args:
        files: The files, in reading order.
        read: Returns a reader of some files. Its types are right if the files have the same.
        fact: The metadata of indexes that have the types.
        options: The options of `open`.

    Raises:
        SpecError: The type of a field differs, and no type has the values of all files.
    """
    reader = read(files)
    types = [index.metadata[fact] for index in reader.file_indexes]
    if all(one == types[0] for one in types):
        return reader
    shards = list(zip(reader.files, types, strict=True))
    return open_union(shards, lambda one: one[1], lambda run: read([file for file, _ in run]), options)


class UnionReader(Reader):
    """The records of several readers of one format, one reader behind the other, with the fields of all.

    A field that a reader lacks is optional, or, if it is a sequence of blobs, empty there. Numbers of several types
    are cast to one type when they are read: a declared one, else the smallest one that holds all.

    Args:
        parts: The readers, which store fields apart; two or more.
        options: The options of `open`.

    Raises:
        SpecError: The type of a field differs, and no type has the values of all readers.
    """

    def __init__(self, parts: Sequence[Reader], options: ReaderOptions) -> None:
        self._parts = parts
        self._max_bytes = options.max_record_bytes
        self.files: Sequence[StoredFile] = [file for part in parts for file in part.files]
        self._first_files = np.cumsum([0, *(len(part.files) for part in parts)])
        self._specs = [part.spec or Spec({}) for part in parts]
        self.left_out: Mapping[str, DataFormatsError] = {n: e for part in parts for n, e in part.left_out.items()}
        paths = [part.files[0].name for part in parts]
        kinds = union_types(list(zip(paths, self._specs, strict=True)), options.spec)
        kinds = {name: kind for name, kind in kinds.items() if name not in self.left_out}
        self._cast = {n for n, kind in kinds.items() if any(kind.required != one.required for one in self._types(n))}
        for name in self._cast:
            if any(kind.dtype is None for kind in self._types(name)):
                raise SpecError("the files store the field in several ways; open them apart", field=name)
        self.warnings: Sequence[str] = column_notes(self._specs, parts)
        self._lacking = {name for name in kinds if len(self._types(name)) < len(parts)}
        self.spec: Spec | None = Spec(
            {name: replace(kind, optional=self._is_optional(name)) for name, kind in kinds.items()}
        )

    def _types(self, field: str) -> list[Type]:
        return [spec[field] for spec in self._specs if field in spec]

    def _is_optional(self, field: str) -> bool:
        """True if records may lack a field, unless it is a sequence of blobs."""
        types = self._types(field)
        if field not in self._lacking or any(kind.optional for kind in types):
            return any(kind.optional for kind in types)
        having = next(part for part, spec in zip(self._parts, self._specs, strict=True) if field in spec)
        is_list = types[0].dims[:1] == (None,)
        return not is_list or having.locate(np.zeros(0, np.int64), {field: True})[field].counts is None

    # ---- extents

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.concatenate([part.counts for part in self._parts])

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(int(part.counts.sum()) for part in self._parts)])

    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        owners = file_of(self._starts, indices)
        rows = {number: np.flatnonzero(owners == number) for number in np.unique(owners).tolist()}
        found: dict[int, dict[str, Located]] = {}
        for number, here in rows.items():
            known = {name: part for name, part in fields.items() if name in self._specs[number]}
            found[number] = self._parts[number].locate(indices[here] - self._starts[number], known)
        return {name: self._located(name, part, rows, found, len(indices)) for name, part in fields.items()}

    def _located(
        self,
        field: str,
        part: bool | range,
        rows: Mapping[int, NDArray[np.int64]],
        found: Mapping[int, Mapping[str, Located]],
        n: int,
    ) -> Located:
        """Return the extents of a field in all parts as a single reader would, record after record.

        Args:
            field: The field.
            part: Its elements.
            rows: The number of each part to the rows of its records.
            found: The number of each part to the extents of its fields.
            n: Number of records.
        """
        pieces = [(number, here, found[number][field]) for number, here in rows.items() if field in found[number]]
        counts, has_field = np.zeros(n, np.int64), np.zeros(n, np.bool_)
        for _, here, one in pieces:
            has_field[here], counts[here] = True, 1 if one.counts is None else one.counts
        if isinstance(part, range) and not self._kind(field).optional:
            check_part(part, np.where(has_field, _ANY, 0), field)
        begin, total = np.cumsum(counts) - counts, int(counts.sum())
        file, offset, length = np.zeros(total, np.int32), np.zeros(total, np.int64), np.zeros(total, np.int64)
        stored = np.zeros(total, np.uint32) if any(one.extents.stored is not None for _, _, one in pieces) else None
        problems: dict[int, FormatError] = {}
        for number, here, one in pieces:
            extents, each = one.extents, counts[here]
            places = np.repeat(begin[here] - np.cumsum(each) + each, each) + np.arange(len(extents))
            file[places], offset[places] = extents.file + self._first_files[number], extents.offset
            length[places] = extents.length
            if stored is not None and extents.stored is not None:
                stored[places] = extents.stored
            problems |= {int(places[row]): error for row, error in extents.problems.items()}
        joined = Extents(file, offset, length, stored=stored, problems=problems)
        if pieces:
            first = pieces[0][2].extents
            joined = replace(joined, head=first.head, tail=first.tail, check=first.check)
        if field in self._cast:
            joined = replace(joined, fetch=partial(self._fetch_cast, field))
        is_plain = all(one.counts is None for _, _, one in pieces) and (counts == 1).all()
        return Located(joined, None if is_plain else counts)

    def _fetch_cast(self, field: str, extents: Extents) -> tuple[Blobs, dict[int, FormatError]]:
        """Return the blobs of a field with the numbers of its common type."""
        (read,) = read_blobs(self._file_set, [replace(extents, fetch=None)], max_bytes=self._max_bytes)
        owners = np.searchsorted(self._first_files, extents.file, side="right") - 1
        parts, problems = list[Blobs](), read.problems
        order = np.argsort(owners, kind="stable")
        for number in np.unique(owners).tolist():
            rows = np.flatnonzero(owners == number)
            blobs, failed = _cast(read.blobs.take(rows), self._specs[number][field], self._kind(field), field)
            parts.append(blobs)
            for row, error in failed.items():
                path = self.files[int(extents.file[rows[row]])].name
                problems[int(rows[row])] = CorruptRecordError(str(error), path=path)
        every = parts[0] if len(parts) == 1 else Blobs.join([blob for part in parts for blob in part])
        return every.take(np.argsort(order, kind="stable")), problems

    @cached_property
    def _file_set(self) -> FileSet:
        return open_files(self.files, "auto")

    def range_of(self, field: str, first: int, n: int) -> tuple[int, int, int] | None:
        number = int(file_of(self._starts, np.array([first]))[0])
        is_inside = first + n <= self._starts[number + 1]
        if not is_inside or self._kind(field).optional or field in self._lacking | self._cast:
            return None
        found = self._parts[number].range_of(field, first - int(self._starts[number]), n)
        return None if found is None else (found[0] + int(self._first_files[number]), *found[1:])

    def present_fields(self, index: int) -> dict[str, bool | range]:
        """Return the fields that a record has."""
        number = int(file_of(self._starts, np.array([index]))[0])
        found = self._parts[number].present_fields(index - int(self._starts[number]))
        present: dict[str, bool | range] = dict.fromkeys(self._specs[number], True) if found is None else found
        return {name: present[name] for name in self.spec or () if name in present}

    # ---- description

    def _kind(self, field: str) -> Type:
        assert self.spec is not None  # set in the constructor; for the type checker
        return self.spec[field]

    def digest(self, update: Callable[[bytes], None]) -> None:
        for part, spec in zip(self._parts, self._specs, strict=True):
            update(repr(spec.to_text()).encode())
            part.digest(update)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def file_summaries(self) -> list[tuple[str, int, int]]:
        return [one for part in self._parts for one in part.file_summaries()]

    @property
    def stored_spec(self) -> Spec:
        assert self.spec is not None  # set in the constructor; for the type checker
        kinds = union_types([(self.files[0].name, part.stored_spec or Spec({})) for part in self._parts], self.spec)
        return Spec({name: replace(kinds[name], optional=kind.optional) for name, kind in self.spec.items()})

    def stored_type_for(self, field: str, declared: Type) -> Type:
        if field in self._cast:
            if declared == Type("bytes") or declared.codec == self._kind(field).codec:
                return declared
            raise SpecError(f"stored as {self._kind(field)}, which cannot be read as {declared}", field=field)
        may_lack = self._kind(field).optional
        if may_lack and not declared.optional and declared.dims[:1] == (None,):
            raise SpecError(f"expected {declared}?, because some files lack the field, found {declared}", field=field)
        is_optional = declared.optional and may_lack
        wanted = declared.required if is_optional else declared
        having = (part for part, spec in zip(self._parts, self._specs, strict=True) if field in spec)
        kinds = [part.stored_type_for(field, wanted) for part in having]
        if any(kind.required != kinds[0].required for kind in kinds):
            raise SpecError("the files store the field in several ways; open them apart", field=field)
        return replace(kinds[0], optional=True) if is_optional else kinds[0]

    def metadata(self) -> dict[str, str]:
        return union_metadata(self._parts)


def column_notes(fields: Sequence[Iterable[str]], parts: Sequence[Reader | Table]) -> list[str]:
    """Return the note on shards that look like columns of one table: each has other fields, and as many records.

    Files whose names differ in numbers alone are shards.
    """
    names = [name for of_shard in fields for name in of_shard]
    is_apart = len({*names}) == len(names) > 1
    shards = [shard for part in parts for shard in part.file_summaries()] if is_apart else []
    if len(shards) != len(fields) or len({n for _, n, _ in shards}) > 1 or not shards[0][1]:
        return []
    stems = [PurePosixPath(path).stem for path, _, _ in shards]
    if len({re.sub(r"\d+", "", stem) for stem in stems}) < len(stems):
        return []
    call = f"dataformats.zip({{{stems[0]!r}: dataformats.open({shards[0][0]!r}), ...}})"
    return [f"the rows of {', '.join(map(repr, stems))} follow each other: to join columns, call {call}"]


def union_metadata(parts: Sequence[OpenedFiles]) -> dict[str, str]:
    """Return the facts of several readers or tables; those that differ one behind the other."""
    found: dict[str, dict[str, None]] = {}
    for part in parts:
        for name, text in part.metadata().items():
            found.setdefault(name, {})[text] = None
    return {name: ", ".join(texts) for name, texts in found.items()}


class _UnionPerField(UnionReader, FilesPerField):
    """A union of readers whose fields have separate files."""

    def files_of(self, field: str) -> Sequence[int]:
        found = []
        for part, spec, first in zip(self._parts, self._specs, self._first_files.tolist(), strict=False):
            if field in spec:
                assert isinstance(part, FilesPerField)
                found += [first + number for number in part.files_of(field)]
        return found


def _cast(blobs: Blobs, stored: Type, wide: Type, field: str) -> tuple[Blobs, dict[int, SpecError]]:
    """Return blobs of numbers with another type, and the errors of those whose numbers do not fit: they are empty."""
    assert stored.dtype is not None
    assert wide.dtype is not None
    if stored.codec == wide.codec:
        return blobs, {}
    size = stored.dtype.itemsize
    if not (blobs.lengths % size).any():
        with suppress(SpecError):
            values = cast_numbers(wide, blobs.contiguous()[0].view(stored.dtype), field=field)
            return Blobs.back_to_back(values, blobs.lengths // size * wide.dtype.itemsize), {}
    found, failed = [b""] * len(blobs), dict[int, SpecError]()
    for row, blob in enumerate(blobs):
        whole = len(blob) // size * size
        try:
            values = cast_numbers(wide, np.frombuffer(blob[:whole], stored.dtype), field=field)
            found[row] = values.tobytes() + blob[whole:]
        except SpecError as error:
            failed[row] = error
    return Blobs.join(found), failed
