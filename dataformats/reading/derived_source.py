"""Sources whose records are made from records of other sources."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.interfaces.capabilities import FetchesRecords
from dataformats.interfaces.record_source import Fields, RecordSource
from dataformats.interfaces.source_facts import Origin
from dataformats.reading.field_operations import DecodingSource
from dataformats.reading.scan import as_indices


class SourceRecords(NamedTuple):
    """Records of one source, from which records of a derived source are made.

    Attributes:
        source: The source.
        rows: int64[n], the rows of the derived records among those that were asked for.
        indices: int64[n], the index in the source for each of these rows.
        fields: The fields in the source; `None` is every field.
    """

    source: RecordSource
    rows: NDArray[np.int64]
    indices: NDArray[np.int64]
    fields: Fields


class DerivedSource(DecodingSource):
    """A source whose records are made from records of other sources: a view, or a combination of sources.

    Args:
        *sources: The other sources.
    """

    def __init__(self, *sources: RecordSource) -> None:
        self.sources: tuple[RecordSource, ...] = sources

    @abstractmethod
    def made_from(self, indices: ArrayLike, fields: Fields = None) -> Iterator[SourceRecords]:
        """Yield the records of other sources from which these records are made; reads none."""

    @property
    def joined(self) -> tuple[RecordSource, ...]:
        """The sources from which each record is joined: see `joined_sources`."""
        return tuple(part for source in self.sources for part in joined_sources(source))

    def origins(self, indices: ArrayLike, *, offsets: bool = False) -> list[Origin]:
        numbers = as_indices(indices, len(self))
        found = [Origin("", index) for index in numbers.tolist()]
        for part in self.made_from(numbers):
            origins = part.source.origins(part.indices, offsets=offsets)
            for row, origin in zip(part.rows.tolist(), origins, strict=True):
                found[row] = origin if origin.path else found[row]
        return found

    def record_bytes(self, indices: ArrayLike | None = None) -> float:
        if indices is None:
            return sum(source.record_bytes() for source in self.sources)
        numbers = as_indices(indices, len(self))
        parts = self.made_from(numbers)
        return sum(len(part.rows) * part.source.record_bytes(part.indices) for part in parts) / max(1, len(numbers))

    def field_lengths(self, indices: ArrayLike, field: str) -> NDArray[np.int64]:
        numbers = as_indices(indices, len(self))
        lengths = np.zeros(len(numbers), np.int64)
        for part in self.made_from(numbers, [field]):
            lengths[part.rows] = part.source.field_lengths(part.indices, next(iter(part.fields or [field])))
        return lengths

    def close(self) -> None:
        for source in self.sources:
            source.close()


def joined_sources(source: RecordSource) -> tuple[RecordSource, ...]:
    """Return the sources from which each record of a source is joined: several for one that `zip` returned."""
    return source.joined if isinstance(source, DerivedSource) else (source,)


def stored_records(source: RecordSource, indices: ArrayLike, fields: Fields = None) -> Iterator[SourceRecords]:
    """Yield the records from which these records are made, in sources that are made from no others; reads none."""
    if not isinstance(source, DerivedSource):
        numbers = as_indices(indices, len(source))
        yield SourceRecords(source, np.arange(len(numbers)), numbers, fields)
        return
    for part in source.made_from(indices, fields):
        for stored in stored_records(part.source, part.indices, part.fields):
            yield stored._replace(rows=part.rows[stored.rows])


def fetch(source: RecordSource, indices: ArrayLike, fields: Fields = None) -> None:
    """Prepare a `read` of these records, as far as their sources can."""
    for part in stored_records(source, indices, fields):
        if isinstance(part.source, FetchesRecords):
            part.source.fetch(part.indices, part.fields)
