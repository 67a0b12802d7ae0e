"""StoredRecords: records as a file stores them, for copying them to another file without decoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from dataformats.batch.blobs import Blobs
from dataformats.spec import VALUE

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _MissingList(tuple[bytes, ...]):
    """The type of `MISSING_LIST`."""


MISSING_LIST: Sequence[bytes] = _MissingList()
"""The blobs of a list that a record lacks, which is no empty list."""


@dataclass(frozen=True, slots=True)
class StoredRecords:
    """Several records as they are stored: read and verified, not decoded.

    Attributes:
        format: The file format that they are from.
        fields: Stored field to its blobs, record after record, and int64[n], how many of them each record has (`None`:
            one each; -1: it lacks a list). A record that is one blob has the one field `"value"`.
        checksums: uint32[n], the checksum that the index of the file holds of each record; `None` if it holds none.
        framed: True if the buffer of the blobs is a part of the file: the frame of each blob lies around it.
    """

    format: str
    fields: Mapping[str, tuple[Blobs, NDArray[np.int64] | None]]
    checksums: NDArray[np.uint32] | None = None
    framed: bool = False

    @classmethod
    def join(cls, format: str, records: Sequence[bytes | Mapping[str, Sequence[bytes]]]) -> StoredRecords:
        """Return records that are encoded one by one: each as one blob, or as the blobs of each field."""
        first = records[0] if records else b""
        if not isinstance(first, Mapping):
            return cls(format, {VALUE: (Blobs.join(records), None)})  # type: ignore[arg-type]  # all bytes
        rows: Sequence[Mapping[str, Sequence[bytes]]] = records  # type: ignore[assignment]  # as the first one
        return cls(format, {name: join_values([row[name] for row in rows]) for name in first})

    @property
    def blobs(self) -> Blobs:
        """The records, if each is one blob."""
        return self.fields[VALUE][0]

    @property
    def n_bytes(self) -> int:
        """The bytes of all blobs."""
        return sum(int(blobs.lengths.sum()) for blobs, _ in self.fields.values())

    def __len__(self) -> int:
        blobs, counts = next(iter(self.fields.values()))
        return len(blobs if counts is None else counts)

    def __getitem__(self, chosen: slice | NDArray[np.bool_]) -> StoredRecords:
        """Return some of the records, in order; nothing is copied."""
        fields = {name: _chosen(*stored, chosen) for name, stored in self.fields.items()}
        return replace(self, fields=fields, checksums=None if self.checksums is None else self.checksums[chosen])

    def __iter__(self) -> Iterator[dict[str, Sequence[bytes]]]:
        """Yield the blobs of each record by field."""
        for row in zip(*(_rows(*stored) for stored in self.fields.values()), strict=True):
            yield dict(zip(self.fields, row, strict=True))


def join_values(values: Sequence[Sequence[bytes]]) -> tuple[Blobs, NDArray[np.int64] | None]:
    """Return the blobs of a field's values, and how many each value has (`None`: one; -1: `MISSING_LIST`)."""
    lengths = (-1 if value is MISSING_LIST else len(value) for value in values)
    counts = np.fromiter(lengths, np.int64, len(values))
    blobs = Blobs.join(list(chain.from_iterable(values)))
    return blobs, None if (counts == 1).all() else counts


def _chosen(
    blobs: Blobs, counts: NDArray[np.int64] | None, chosen: slice | NDArray[np.bool_]
) -> tuple[Blobs, NDArray[np.int64] | None]:
    if counts is None:
        return Blobs(blobs.buffer, blobs.starts[chosen], blobs.lengths[chosen]), None
    kept = np.zeros(len(counts), bool)
    kept[chosen] = True
    return blobs.take(np.flatnonzero(np.repeat(kept, np.maximum(counts, 0)))), counts[chosen]


def _rows(blobs: Blobs, counts: NDArray[np.int64] | None) -> Iterator[Sequence[bytes]]:
    """Yield the blobs of each record."""
    if counts is None:
        return ((blob,) for blob in blobs)
    every = iter(blobs)
    return ([next(every) for _ in range(count)] if count >= 0 else MISSING_LIST for count in counts.tolist())
