"""Packed: a source of rows, in which the documents of another source lie side by side, placed before a run begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.batch import Ragged, RecordBatch, concat_columns
from dataformats.columns.masks import elements_of
from dataformats.errors import Remedy, SpecError
from dataformats.indexing.array_file import ArrayFile, facts_of_files
from dataformats.integer_arguments import checked_int
from dataformats.interfaces.capabilities import FetchesRecords
from dataformats.interfaces.declared_spec import declared_spec
from dataformats.interfaces.record_source import Fields, OnCorrupt, RecordSource
from dataformats.interfaces.source_facts import Origin, SourceFacts
from dataformats.kernels import permute
from dataformats.loaders.document_placement import Segments, place_documents, stable_order
from dataformats.loaders.pack_batch import Pack, pack
from dataformats.loaders.sequence_fields import SequenceFields
from dataformats.loaders.shuffle import key_of
from dataformats.reading.derived_source import fetch
from dataformats.reading.scan import as_indices, describe_record, digest_of
from dataformats.spec import Spec, Type
from dataformats.storage.remote.systems import is_url
from dataformats.storage.threads import for_each

__all__ = ["PackedSource", "packed"]

_VERSION = 1
_PASS_BYTES = 2**24  # that one read of the pass over all lengths may decode
_PASS_RECORDS = 2**16
_LONG = 8  # rows: of a longer document, only the part in a row is read

_Numbers = NDArray[np.int64]


def packed(
    source: RecordSource,
    *fields: str,
    length: int,
    window: int = 16_384,
    seed: int | None = None,
    value: Any = 0,
    truncate: bool = False,
    document_column: str | None = None,
) -> PackedSource:
    r"""Return a source of rows of `length` tokens: each token of each document lies in exactly one row.

    Record i is row i, with the columns of `pack`: each field `(length, ...)` in its dtype, `segment_ids` int32[length]
    and `positions` int32[length]. The documents of each window are placed by best fit, from their lengths alone. A
    document longer than `length` becomes several segments, all but the last one full. An empty document lies in no row.

    So a `Loader` of it counts rows: each batch has exactly as many rows as its batch size. The same documents share a
    row in every epoch, as if they had been packed before; the order of the rows changes with the epoch.

    The rows are planned at once, and kept in the index cache until the data change. Lengths come from the index of the
    files if it has them, as with Megatron and Syrah; else one pass reads the first field.

    Args:
        source: The documents.
        *fields: Names of fields that hold sequences of numbers, or of arrays of one shape. In each document, all of
            them are equally long. Other fields are left out.
        length: The length of every row, in `[1, 2**31)`.
        window: How many documents are placed together.
        seed: `None`: windows of consecutive documents, so that a row lies in one part of the data, as object stores and
            formats of blocks need. A number: windows of the documents in a shuffled order, for data that are sorted.
        value: The padding value; the fields' dtypes must hold it.
        truncate: Cut documents at `length` tokens, instead of splitting them.
        document_column: The name of a column int64[length] to add: the index of each token's document in `source`, or
            -1 for padding.

    Raises:
        ValueError: No field is named, or an argument is out of range.
        UnknownNameError: The source has no such field.
        SpecError: A field is not a sequence of numbers, a column would have its name, or no document has a token.
        FormatError: A document is damaged, if the pass over the lengths reads it.

    Example:
        >>> import dataformats
        >>> lines = b'{"tokens": [7, 8, 9]}\n{"tokens": [5]}\n{"tokens": [3, 4]}'
        >>> documents = dataformats.open(lines, format="jsonl", spec={"tokens": "int64[]"})
        >>> rows = dataformats.packed(documents, "tokens", length=4)
        >>> rows.read([0, 1])["tokens"]
        array([[7, 8, 9, 5],
               [3, 4, 0, 0]])
        >>> rows.documents(0), rows.efficiency
        ([(0, range(0, 3)), (1, range(0, 1))], 0.75)
    """
    collate = pack(*fields, length=length, value=value, truncate=truncate, document_column=document_column)
    if collate.length >= 2**31:
        raise ValueError(f"length: expected a whole number in [1, 2**31), found {length!r}")
    if not isinstance(source, RecordSource):
        raise TypeError(f"expected a source, found a {type(source).__name__}: open() the documents")
    return PackedSource(
        source, collate, checked_int("window", window, 1), None if seed is None else checked_int("seed", seed, 0)
    )


class PackedSource(RecordSource, FetchesRecords):
    """The source of rows that `packed` returns; see there. Thread-safe. Its pickle has no plan: the cache has it.

    Attributes:
        source: The documents.
        n_documents: How many documents there are, empty ones included.
        n_empty: How many of them have no token: they lie in no row.
        n_tokens: Tokens in all rows, padding left out.
    """

    def __init__(self, source: RecordSource, collate: Pack, window: int, seed: int | None) -> None:
        self._arguments = source, collate, window, seed
        self.source: RecordSource = source
        self._pack = collate
        self._window = window
        self._seed = seed
        self._spec = _spec_of(source, collate)
        self._lengths, self._rows = self._find_plan()
        totals: list[int] = self._rows.take("totals", slice(None)).tolist()
        self.n_documents: int = totals[0]
        self.n_empty: int = totals[1]
        self.n_tokens: int = totals[2]

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedSource, self._arguments

    # ---- the plan

    def _find_plan(self) -> tuple[ArrayFile, ArrayFile]:
        """Return the lengths of the documents, and the plan."""
        source, field = self.source, self._pack.fields[0]
        facts = [source.fingerprint, field, str(source.spec[field]), *facts_of_files(source.paths)]
        lengths = ArrayFile("packed", digest_of([repr(facts)]), lambda: {"lengths": _lengths_of(source, field)})
        key = digest_of([repr([*facts, self.fingerprint])])
        return lengths, ArrayFile("packed", key, lambda: self._new_plan(lengths))

    def _new_plan(self, lengths: ArrayFile) -> dict[str, NDArray[Any]]:
        """Place the documents of each window.

        Returns:
            starts: The first segment of each row, and the number of segments.
            segments: `part * n_documents + document` of each segment: part 0 begins at the document's first token.
            windows: The first row of each window.
            totals: `n_documents`, `n_empty`, `n_tokens`.
        """
        n, row_length = lengths.size("lengths"), self._pack.length
        places = [slice(first, min(first + self._window, n)) for first in range(0, n, self._window)]
        sizes = [_sizes(self._cut(lengths.take("lengths", here)), row_length) for here in places]
        n_segments, n_empty, n_tokens, n_parts = np.array(sizes).reshape(-1, 4).T
        if not n_segments.any():
            raise SpecError(f"none of {n} documents has a token to pack", field=self._pack.fields[0])
        segments = np.empty(n_segments.sum(), np.min_scalar_type(n * int(n_parts.max())))
        counts, end = [], 0
        for here in places:
            documents = np.arange(here.start, here.stop)
            if self._seed is not None:
                documents = permute(documents, n, key_of("packed", _VERSION, self._seed))
            placed = _in_order(place_documents(self._cut(lengths.take("lengths", documents)), row_length))
            end += len(placed.rows)
            segments[end - len(placed.rows) : end] = documents[placed.documents] + placed.begins // row_length * n
            counts.append(_narrow(np.bincount(placed.rows)))
        starts = np.zeros(sum(map(len, counts)) + 1, np.min_scalar_type(len(segments)))
        np.cumsum(np.concatenate(counts), dtype=starts.dtype, out=starts[1:])
        windows = np.cumsum([0, *map(len, counts[:-1])])
        totals = np.array([n, n_empty.sum(), n_tokens.sum()])
        return {"starts": starts, "segments": segments, "windows": windows, "totals": totals}

    def _cut(self, lengths: _Numbers) -> _Numbers:
        return np.minimum(lengths, self._pack.length) if self._pack.truncate else lengths

    def _segments(self, rows: _Numbers) -> Segments:
        """Return the segments of these rows, which are numbered from 0."""
        begin, end = self._rows.take("starts", rows), self._rows.take("starts", rows + 1)
        counts = end - begin
        numbers = np.arange(counts.sum()) + np.repeat(begin - np.cumsum(counts) + counts, counts)
        parts, documents = np.divmod(self._rows.take("segments", numbers), self.n_documents)
        begins = parts * self._pack.length
        lengths = np.minimum(self._lengths.take("lengths", documents) - begins, self._pack.length)
        return Segments(documents, begins, lengths, np.repeat(np.arange(len(rows)), counts))

    def documents(self, row: int) -> list[tuple[int, range]]:
        """Return the documents of a row, in the order of its segments: the index of each, and its tokens that lie here.

        `source[index, {"tokens": tokens}]` reads them.
        """
        found = self._segments(as_indices([row], len(self)))
        columns = (found.documents.tolist(), found.begins.tolist(), found.lengths.tolist())
        return [(document, range(begin, begin + n)) for document, begin, n in zip(*columns, strict=True)]

    @property
    def efficiency(self) -> float:
        """The share of all places in rows that hold tokens, in (0, 1]; the rest is padding."""
        return float(self.n_tokens / (len(self) * self._pack.length))

    # ---- description

    def __len__(self) -> int:
        return self._rows.size("starts") - 1

    @property
    def spec(self) -> Spec:
        return self._spec

    @property
    def fingerprint(self) -> str:
        collate = self._pack
        arguments = (_VERSION, collate.fields[0], collate.length, collate.truncate, self._window, self._seed)
        return digest_of(["packed", self.source.fingerprint, repr(arguments)])

    @property
    def facts(self) -> SourceFacts:
        return replace(self.source.facts, format=f"packed {self.source.format}")

    def record_bytes(self, indices: ArrayLike | None = None) -> float:
        return self.source.record_bytes() * self.n_documents / len(self)

    @property
    def block_starts(self) -> _Numbers | None:
        """The first row of windows, so that a window order reads each part of remote files and of blocks at once."""
        starts = self.source.block_starts
        if starts is None and any(is_url(path) for path in self.paths):
            starts = np.arange(0, self.n_documents, self._window)
        if starts is None or self._seed is not None:
            return None
        windows = self._rows.take("windows", slice(None))
        first = windows[np.unique(np.minimum(-(-starts // self._window), len(windows) - 1))]
        return np.unique(first[first < len(self)])  # windows of empty documents have no rows

    def origins(self, indices: ArrayLike, *, offsets: bool = False) -> list[Origin]:
        """Return file and index of the first document of each row: see `RecordSource.origins`."""
        rows = as_indices(indices, len(self))
        first = self._rows.take("segments", self._rows.take("starts", rows)) % self.n_documents
        return self.source.origins(first, offsets=offsets)

    # ---- reading

    def read(self, indices: ArrayLike, fields: Fields = None, on_corrupt: OnCorrupt = "raise") -> RecordBatch:
        """Return rows; see `RecordSource.read`. A row with a damaged document is damaged.

        Raises:
            SpecError: A document has another length than when the rows were planned.
        """
        rows, mask = as_indices(indices, len(self)), self.mask(fields)
        segments = self._segments(rows)
        names = [name for name in self._pack.fields if name in mask]
        sequences, placed, failed = self._read_documents(segments, names, on_corrupt)
        if failed:
            is_failed = np.isin(segments.documents, list(failed))
            errors = {int(rows[segments.rows[at]]): failed[int(segments.documents[at])]
                      for at in np.flatnonzero(is_failed).tolist()[::-1]}  # fmt: skip
            return replace(self.read(rows[~np.isin(rows, list(errors))], fields, "raise"), failed=errors)
        columns: dict[str, Any] = dict(self._pack.rows_of(sequences, placed, len(rows)))
        if (name := self._pack.document_column) is not None and name in mask:
            filled = columns["segment_ids"] > 0
            columns[name] = np.full(filled.shape, -1, np.int64)
            columns[name][filled] = np.repeat(segments.documents, segments.lengths)
        return RecordBatch({name: _part(columns[name], part, name) for name, part in mask.items()}, rows)

    def _read_documents(
        self, segments: Segments, names: Sequence[str], on_corrupt: OnCorrupt
    ) -> tuple[dict[str, Ragged], Segments, Mapping[int, Exception]]:
        """Return the tokens of documents, and the segments in them; or the errors of the damaged ones.

        Short documents are read whole, and each once; of long ones, each segment is.
        """
        is_long = self._lengths.take("lengths", segments.documents) > _LONG * self._pack.length
        whole, places = np.unique(segments.documents[~is_long], return_inverse=True)
        batches = [self.source.read(whole, names, on_corrupt)] if names else []
        numbers = np.zeros(len(is_long), np.int64)
        numbers[~is_long], numbers[is_long] = places, len(whole) + np.arange(np.count_nonzero(is_long))
        begins = np.where(is_long, 0, segments.begins)
        for at in np.flatnonzero(is_long).tolist() if names else ():
            part = range(int(segments.begins[at]), int(segments.begins[at] + segments.lengths[at]))
            batches.append(self.source.read(segments.documents[at : at + 1], dict.fromkeys(names, part), on_corrupt))
        failed = {index: error for batch in batches for index, error in batch.failed.items()}
        placed = segments._replace(documents=numbers, begins=begins)
        if failed or not names:
            return {}, placed, failed
        indices = np.concatenate([whole, segments.documents[is_long]])
        columns = {name: concat_columns([batch.columns[name] for batch in batches]) for name in names}
        sequences = SequenceFields(tuple(names), "pack").of_columns(columns, indices).sequences
        expected = np.concatenate([self._lengths.take("lengths", whole), segments.lengths[is_long]])
        self._check_lengths(sequences, indices, expected)
        return sequences, placed, {}

    def _check_lengths(self, sequences: Mapping[str, Ragged], indices: _Numbers, expected: _Numbers) -> None:
        for name, sequence in sequences.items():
            wrong = np.flatnonzero(sequence.lengths != expected)
            if len(wrong):
                at = int(wrong[0])
                place = describe_record(self.source.origins(indices[at : at + 1])[0])
                found = f"{place} has {sequence.lengths[at]} values, but {expected[at]} when its row was planned"
                remedy = "Pack only fields that are equally long in each document, and open data again that changed"
                raise SpecError(found, field=name, remedy=remedy)

    def fetch(self, indices: ArrayLike, fields: Fields = None) -> None:
        names = [name for name in self._pack.fields if name in self.mask(fields)]
        fetch(self.source, np.unique(self._segments(as_indices(indices, len(self))).documents), names)

    def close(self) -> None:
        self.source.close()


def _spec_of(source: RecordSource, collate: Pack) -> Spec:
    """Return the types of a row.

    Raises:
        UnknownNameError: The source has no such field.
        SpecError: A field is not a sequence of numbers, or has the name of an added column.
    """
    if declared_spec(source) is None:
        remedy = "Write them with convert() first, or pack batches: Loader(collate=pack(...))"
        raise SpecError("packed needs the lengths of all documents, which map() computes", remedy=remedy)
    types: dict[str, Type] = {}
    for name in source.mask(collate.fields):
        kind = source.spec[name]
        if kind.dtype is None or not kind.dims or not kind.item.fixed:
            remedy = Remedy("If they are tokens, open them with {spec}.", spec={name: "int64[]"})
            raise SpecError(f"expected sequences of numbers to pack, found {kind}", field=name, remedy=remedy)
        if name in collate.added:
            remedy = "Pass another document_column=, or rename the field with zip(rename=)"
            raise SpecError("packed gives a column the name of this field", field=name, remedy=remedy)
        types[name] = replace(kind, dims=(collate.length, *kind.dims[1:]), optional=False)
    added = {name: "int64" if name == collate.document_column else "int32" for name in collate.added}
    return Spec({**types, **{name: f"{kind}[{collate.length}]" for name, kind in added.items()}})


def _lengths_of(source: RecordSource, field: str) -> NDArray[Any]:
    """Return the length of each document, in as few bytes as each part of them needs, by all processors."""
    n = len(source)
    step = max(1, min(_PASS_RECORDS, int(_PASS_BYTES / max(1.0, source.record_bytes()))))
    parts: list[NDArray[Any]] = [np.zeros(0, np.uint8)] * -(-n // step)

    def find(number: int) -> None:
        found = source.field_lengths(np.arange(number * step, min((number + 1) * step, n)), field)
        parts[number] = _narrow(found)

    for_each(find, len(parts))
    return np.concatenate(parts) if parts else np.zeros(0, np.uint8)


def _sizes(lengths: _Numbers, row_length: int) -> tuple[int, int, int, int]:
    """Return how many segments, empty documents and tokens there are, and parts of the longest document."""
    n_parts = -(-lengths // row_length)
    return int(n_parts.sum()), int(np.count_nonzero(lengths == 0)), int(lengths.sum()), int(n_parts.max())


def _narrow(numbers: _Numbers) -> NDArray[Any]:
    """Return numbers from 0 on in as few bytes as the largest needs."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _in_order(segments: Segments) -> Segments:
    """Return the segments with rows in the order of their first documents; a row keeps its order."""
    if not len(segments.rows):
        return segments
    begins = np.flatnonzero(np.diff(segments.rows, prepend=-1))
    places = np.empty(len(begins), np.int64)
    places[np.argsort(np.minimum.reduceat(segments.documents, begins), kind="stable")] = np.arange(len(begins))
    rows = places[segments.rows]
    order = stable_order(rows, len(begins))
    return Segments(segments.documents[order], segments.begins[order], segments.lengths[order], rows[order])


def _part(column: NDArray[Any], part: bool | range, name: str) -> Any:
    return elements_of(column, part, name) if isinstance(part, range) else column
