"""Pack: a collate function that places documents of different lengths side by side in rows of one length."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Ragged
from dataformats.errors import SpecError
from dataformats.integer_arguments import checked_int
from dataformats.loaders.collate import row_name
from dataformats.loaders.sequence_fields import Indices, SequenceFields, Split, check_text, field_names, fill_value

__all__ = ["Pack", "pack"]


def pack(
    *fields: str,
    length: int,
    rows: int | None = None,
    value: Any = 0,
    truncate: bool = False,
    document_column: str | None = None,
) -> Pack:
    """Return a collate function that packs the documents of a batch into rows of `length` tokens.

    The batch gets, in place of the fields, arrays of n rows: each field `(n, length, ...)` in its dtype, `segment_ids`
    int32[n, length] (1, 2, ... in each row, 0 for padding) and `positions` int32[n, length] (0, 1, ... in each segment,
    0 for padding). A document longer than `length` becomes several segments, all but the last one full, so that no
    token is lost. Segments are placed longest first, each into the row that it fills best.

    The rows hold the documents of that batch and no others: each document comes once an epoch, and a run resumes
    exactly, also with other ranks, workers or batch size. So `batch_size` counts documents, and the number of rows
    depends on their lengths, unless `rows` is given.

    Other fields keep one value for each document, in the order of `batch.positions`; `document_column` adds the
    document of each token.

    Args:
        *fields: Names of fields that hold sequences of numbers, or of arrays of one shape. In each document, all of
            them are equally long.
        length: The length of every row, at least 1.
        rows: The number of rows of every batch: missing ones are padding, and documents that need more rows raise.
            `None`: as many as the documents need. A rank without documents in the last step gets no rows either way.
        value: The padding value; the fields' dtypes must hold it.
        truncate: Cut documents at `length` tokens, instead of splitting them.
        document_column: The name of a column int32[n, length] to add: the row of each token's document in the batch, or
            -1 for padding.

    Raises:
        ValueError: No field is named, or an argument is out of range.

    Example:
        >>> import dataformats
        >>> collate = dataformats.pack("tokens", length=4)
        >>> batch = collate([{"tokens": [7, 8, 9]}, {"tokens": [5]}, {"tokens": [3, 4]}])
        >>> batch["tokens"]
        array([[7, 8, 9, 5],
               [3, 4, 0, 0]])
        >>> batch["segment_ids"].tolist(), batch["positions"].tolist()
        ([[1, 1, 1, 2], [1, 1, 0, 0]], [[0, 1, 2, 0], [0, 1, 0, 0]])
    """
    check_text(
        "document_column", document_column, "the name of a column of its own", refused=("segment_ids", "positions")
    )
    rows = None if rows is None else checked_int("rows", rows, 1)
    return Pack(field_names(fields, "pack"), checked_int("length", length, 1), rows, value, truncate, document_column)


@dataclass(frozen=True, slots=True)
class Pack:
    """The collate function that `pack` returns; see there. Pickles.

    Attributes:
        fields: The names of the fields to pack.
        length: The length of every row.
        rows: The number of rows; `None`: as many as needed.
        value: The padding value.
        truncate: True if longer documents are cut.
        document_column: The name of the column of documents, or `None`.
    """

    fields: tuple[str, ...]
    length: int
    rows: int | None
    value: Any
    truncate: bool
    document_column: str | None

    def __call__(
        self, records: Sequence[Any], indices: Indices = None, like: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the columns of some records, which are dicts; a record that lacks a field is an empty document.

        Args:
            records: Some records.
            indices: Their indices, for errors.
            like: The columns that they had before a transform: other fields keep their types.

        Raises:
            SpecError: The documents need more than `rows`; a document's fields differ in length; or a value cannot be
                packed, or differs in shape or dtype from the others.
        """
        return self._packed(self._fields.of_records(records, indices, like), indices) if records else {}

    def of_columns(self, columns: Mapping[str, Any], indices: Indices = None) -> dict[str, Any]:
        """Return the same as a call with the records of these columns, without creating them; same errors."""
        return self._packed(self._fields.of_columns(columns, indices), indices)

    @property
    def _fields(self) -> SequenceFields:
        return SequenceFields(self.fields, "pack")

    def _packed(self, split: Split, indices: Indices) -> dict[str, Any]:
        self._check_lengths(split.sequences, indices)
        segments = _segments(split.sequences[self.fields[0]].lengths, self.length, truncate=self.truncate)
        n_rows = self._count(int(segments.rows.max(initial=-1)) + 1)
        added = self._added(segments, (n_rows, self.length))
        if taken := [name for name in added if name in split.others or name in split.sequences]:
            raise SpecError(
                "pack gives a column the name of this field", field=taken[0], remedy="Rename it in transform="
            )
        columns: dict[str, Any] = {}
        for name in split.names:
            sequence = split.sequences.get(name)
            columns[name] = split.others[name] if sequence is None else self._rows(name, sequence, segments, n_rows)
        return columns | added

    def _count(self, n_needed: int) -> int:
        """Return the number of rows of a batch whose documents need `n_needed`."""
        if self.rows is not None and n_needed > self.rows:
            raise SpecError(
                f"the documents of this batch need {n_needed} rows of {self.length}, more than rows={self.rows}",
                field=self.fields[0],
                remedy="Pass a smaller batch_size, or a larger rows=",
            )
        return n_needed if self.rows is None else self.rows

    def _check_lengths(self, sequences: Mapping[str, Ragged], indices: Indices) -> None:
        first, *others = self.fields
        lengths = sequences[first].lengths
        for name in others:
            wrong = np.flatnonzero(sequences[name].lengths != lengths)
            if len(wrong):
                row = int(wrong[0])
                found = f"{sequences[name].lengths[row]} values, but {lengths[row]} of {first!r}"
                raise SpecError(
                    f"{row_name(indices, row)} has {found}",
                    field=name,
                    remedy="Pack only fields that are equally long in each document",
                )

    def _rows(self, name: str, sequence: Ragged, segments: _Segments, n_rows: int) -> NDArray[Any]:
        values: Any = sequence.values
        rows = np.full((n_rows, self.length, *values.shape[1:]), fill_value(name, self.value, sequence), values.dtype)
        flat = rows.reshape(n_rows * self.length, *values.shape[1:])
        starts = (sequence.offsets[segments.documents] + segments.begins).tolist()
        for at, start, length in zip(segments.places(self.length), starts, segments.lengths.tolist(), strict=True):
            flat[at : at + length] = values[start : start + length]
        return rows

    def _added(self, segments: _Segments, shape: tuple[int, int]) -> dict[str, NDArray[np.int32]]:
        """Return `segment_ids`, `positions`, and the column of documents if it is wanted."""
        ids, positions = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        added = {"segment_ids": ids, "positions": positions}
        documents = np.full(shape if self.document_column is not None else 0, -1, np.int32)
        if self.document_column is not None:
            added[self.document_column] = documents
        columns, ramp = [column.reshape(-1) for column in added.values()], np.arange(self.length, dtype=np.int32)
        numbers = zip(segments.numbers.tolist(), segments.documents.tolist(), strict=True)
        for at, length, (number, document) in zip(
            segments.places(self.length), segments.lengths.tolist(), numbers, strict=True
        ):
            columns[0][at : at + length] = number
            columns[1][at : at + length] = ramp[:length]
            if self.document_column is not None:
                columns[2][at : at + length] = document
        return added


# ---- which segment goes where


class _Segments(NamedTuple):
    """Parts of documents, and their places.

    Attributes:
        documents: int64[s], the document of each.
        begins: int64[s], its first token there.
        lengths: int64[s].
        rows: int64[s], its row.
        columns: int64[s], its first column there.
        numbers: int64[s], its number in the row, from 1.
    """

    documents: NDArray[np.int64]
    begins: NDArray[np.int64]
    lengths: NDArray[np.int64]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    numbers: NDArray[np.int64]

    def places(self, length: int) -> list[int]:
        """Return the place of each in the rows of `length` tokens, one after the other."""
        places: list[int] = (self.rows * length + self.columns).tolist()
        return places


def _segments(lengths: NDArray[np.int64], length: int, *, truncate: bool) -> _Segments:
    """Return the segments of documents of these lengths, with their places."""
    lengths = np.minimum(lengths, length) if truncate else lengths
    n_parts = -(-lengths // length)
    documents = np.repeat(np.arange(len(lengths)), n_parts)
    begins = (np.arange(len(documents)) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)) * length
    parts = np.minimum(lengths[documents] - begins, length)
    order = np.argsort(-parts, kind="stable")
    return _Segments(documents[order], begins[order], parts[order], *_best_fit(parts[order].tolist(), length))


def _best_fit(lengths: list[int], row_length: int) -> NDArray[np.int64]:
    """Return rows, columns and numbers, int64[3, s]: each segment goes into the fullest row that has room for it."""
    places: list[tuple[int, int, int]] = []
    free: list[tuple[int, int]] = []  # free columns and number of each row that is not full
    counts: list[int] = []
    for length in lengths:
        fullest = bisect_left(free, (length, 0))
        if fullest < len(free):
            space, row = free.pop(fullest)
        else:
            space, row = row_length, len(counts)
            counts.append(0)
        counts[row] += 1
        places.append((row, row_length - space, counts[row]))
        if space > length:
            insort(free, (space - length, row))
    return np.array(places, np.int64).reshape(-1, 3).T
