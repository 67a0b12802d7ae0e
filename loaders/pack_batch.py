"""Pack: a collate function that places documents of different lengths side by side in rows of one length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Ragged
from dataformats.errors import SpecError
from dataformats.integer_arguments import checked_int
from dataformats.loaders.collate import row_name
from dataformats.loaders.document_placement import Segments, place_documents
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
        self.check_lengths(split.sequences, indices)
        lengths = split.sequences[self.fields[0]].lengths
        segments = place_documents(np.minimum(lengths, self.length) if self.truncate else lengths, self.length)
        if taken := [name for name in self.added if name in split.names]:
            raise SpecError(
                "pack gives a column the name of this field", field=taken[0], remedy="Rename it in transform="
            )
        rows = self.rows_of(split.sequences, segments, self._count(int(segments.rows.max(initial=-1)) + 1))
        columns = {name: rows[name] if name in rows else split.others[name] for name in split.names}
        return columns | rows

    @property
    def added(self) -> tuple[str, ...]:
        """The names of the columns that no field has."""
        return ("segment_ids", "positions", *([] if self.document_column is None else [self.document_column]))

    def rows_of(self, sequences: Mapping[str, Ragged], segments: Segments, n_rows: int) -> dict[str, NDArray[Any]]:
        """Return the fields in rows, `(n_rows, length, ...)` each, and the added columns, int32[n_rows, length].

        Args:
            sequences: Field to the tokens of each document.
            segments: Parts of these documents, with their rows in `[0, n_rows)`.
            n_rows: The number of rows.
        """
        columns = {name: self._rows(name, sequence, segments, n_rows) for name, sequence in sequences.items()}
        return {**columns, **self._added(segments, (n_rows, self.length))}

    def _count(self, n_needed: int) -> int:
        """Return the number of rows of a batch whose documents need `n_needed`."""
        if self.rows is not None and n_needed > self.rows:
            raise SpecError(
                f"the documents of this batch need {n_needed} rows of {self.length}, more than rows={self.rows}",
                field=self.fields[0],
                remedy="Pass a smaller batch_size, or a larger rows=",
            )
        return n_needed if self.rows is None else self.rows

    def check_lengths(self, sequences: Mapping[str, Ragged], indices: Indices) -> None:
        """Raise `SpecError` unless the fields of each document are equally long."""
        first, *others = sequences
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

    def _rows(self, name: str, sequence: Ragged, segments: Segments, n_rows: int) -> NDArray[Any]:
        values: Any = sequence.values
        rows = np.full((n_rows, self.length, *values.shape[1:]), fill_value(name, self.value, sequence), values.dtype)
        flat = rows.reshape(n_rows * self.length, *values.shape[1:])
        starts = (sequence.offsets[segments.documents] + segments.begins).tolist()
        for at, start, length in zip(segments.places(self.length), starts, segments.lengths.tolist(), strict=True):
            flat[at : at + length] = values[start : start + length]
        return rows

    def _added(self, segments: Segments, shape: tuple[int, int]) -> dict[str, NDArray[np.int32]]:
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
