"""The base of imported sources: converts columns as the files hold them to the declared types."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.batch import Blobs, Column, Nullable, Ragged, RecordBatch, concat_columns, take_column
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.columns.masks import elements_of, insert_missing
from dataformats.errors import CodecError, DataFormatsError, SpecError
from dataformats.interfaces.record_source import Fields, OnCorrupt
from dataformats.reading.field_operations import DecodingSource
from dataformats.reading.scan import as_indices
from dataformats.spec import Spec, SpecLike, Type

__all__ = ["ImportedSource"]

_BLOBS = ("bytes", "utf8")


class ImportedSource(DecodingSource):
    """Records of files of another program. Values that the files hold as bytes or text may have any type of a codec.

    Args:
        stored: The types of the columns as the files hold them: numbers, `bytes`, `utf8`, and what Arrow gives.
        spec: The types that the records have; `None`: as stored.

    Attributes:
        codecs: Resolves the types of the spec.
    """

    def __init__(self, stored: Spec, spec: Spec | None = None) -> None:
        self._stored = stored
        self._spec = spec or stored
        self.codecs: CodecResolver = CodecResolver(trusted=True)  # no file names a type here

    @abstractmethod
    def _stored_columns(self, indices: NDArray[np.int64], names: Sequence[str]) -> Mapping[str, Column]:
        """Return the columns of these records, in the stored types."""

    @property
    def spec(self) -> Spec:
        return self._spec

    def with_spec(self, spec: SpecLike) -> Self:
        spec = Spec(spec)
        for name in {*spec, *self._stored}:
            if name not in spec or name not in self._stored:
                raise SpecError(f"expected the fields {', '.join(self._stored)}", field=name)
            if not _can_be(self._stored[name], spec[name]):
                raise SpecError(f"stored as {self._stored[name]}, which cannot be read as {spec[name]}", field=name)
        other = copy.copy(self)
        other._spec = spec
        return other

    def with_types_of(self, spec: Spec, rename: Mapping[str, str]) -> Self:
        """Return the source with the types that new data give fields which the files hold as bytes or text."""
        wanted = {name: spec.get(rename.get(name, name), kind) for name, kind in self._spec.items()}
        typed = {
            name: kind
            for name, kind in wanted.items()
            if kind.dtype is None and self._stored[name].codec in _BLOBS and _can_be(self._stored[name], kind)
        }
        return self.with_spec({**self._spec, **typed})

    def _read_stored(self, indices: ArrayLike, fields: Fields, on_corrupt: OnCorrupt) -> RecordBatch:
        indices, mask = as_indices(indices, len(self)), self.mask(fields)
        try:
            return RecordBatch(self._columns(indices, mask), indices)
        except DataFormatsError as error:
            if len(indices) == 1 and on_corrupt == "raise":
                self._add_place(error, int(indices[0]))
                raise
        return self._one_by_one(indices, mask, on_corrupt)

    def _one_by_one(
        self, indices: NDArray[np.int64], mask: dict[str, bool | range], on_corrupt: OnCorrupt
    ) -> RecordBatch:
        found, kept = [self._columns(indices[:0], mask)], []
        failed: dict[int, Exception] = {}
        for row, index in enumerate(indices.tolist()):
            try:
                found.append(self._columns(indices[row : row + 1], mask))
                kept.append(row)
            except DataFormatsError as error:
                self._add_place(error, index)
                if on_corrupt == "raise":
                    raise
                failed[index] = error
        columns = {name: concat_columns([one[name] for one in found]) for name in mask}
        return RecordBatch(columns, indices[kept], failed)

    def _add_place(self, error: DataFormatsError, index: int) -> None:
        if isinstance(error, (SpecError, CodecError)):
            error.path, error.index = self.origin(index) or (None, index)

    def _columns(self, indices: NDArray[np.int64], mask: dict[str, bool | range]) -> dict[str, Column]:
        found = self._stored_columns(indices, list(mask))
        columns = {name: self._typed(found[name], name) for name in mask}
        parts = {name: part for name, part in mask.items() if isinstance(part, range)}
        return columns | {name: elements_of(columns[name], part, name) for name, part in parts.items()}

    def _typed(self, column: Any, name: str) -> Column:
        stored, kind = self._stored[name], self._spec[name]
        if kind == stored:
            return column  # type: ignore[no-any-return]
        present = np.ones(len(column), np.bool_)
        if getattr(column, "present", None) is not None:
            present, rows = column.present, np.flatnonzero(column.present)
            column = take_column(column.values, rows) if isinstance(column, Nullable) else column.take(rows)
        if not present.all() and not kind.optional:
            raise SpecError(f"expected {kind}, found nothing", field=name, index=int(present.argmin()))
        if kind.element != stored.element:
            column = self._decoded(replace(column, present=None), kind, name)
        return insert_missing(column, present, optional=kind.optional)

    def _decoded(self, column: Ragged, type_: Type, name: str) -> Column:
        counts = None
        if type_.dims:
            counts, column = column.lengths, column.values  # type: ignore[assignment]
        values = np.asarray(column.values)
        return self.codecs.decode(
            type_.required, Blobs(values, column.offsets[:-1], column.lengths), counts, field=name
        )


def _can_be(stored: Type, type_: Type) -> bool:
    """True if stored values can be read as a type: as the same one, or if a codec decodes their bytes."""
    decodes = type_.codec in ("bytes", "json") if stored.codec == "utf8" else stored.codec == "bytes"
    return stored.dims == type_.dims and (stored.element == type_.element or (decodes and type_.dtype is None))
