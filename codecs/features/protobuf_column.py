"""Features in messages that protobuf parsed: the fallback without wire kernels, and their oracle in tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.batch import Blobs
from dataformats.batch.value_slices import ValueSlice
from dataformats.codecs.features.feature import feature_value
from dataformats.codecs.features.list_kinds import BYTES, KIND_DTYPES, KINDS, MISSING
from dataformats.codecs.features.protobuf_messages import parse
from dataformats.codecs.features.stored_feature import FeatureColumn
from dataformats.kernels.wire import ABSENT, STEPS, Shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAPS: dict[Shape, Callable[[Any], tuple[Any, ...]]] = {
    Shape.EXAMPLE: lambda message: (message.features.feature,),
    Shape.SEQUENCE_EXAMPLE: lambda message: (message.context.feature, message.feature_lists.feature_list),
    Shape.OFRECORD: lambda message: (message.feature,),
}


def maps_of(shape: Shape, message: Any) -> tuple[Any, ...]:
    """Return the maps of names in a message, by part: to `Feature`, or in part 1 to `FeatureList`."""
    return _MAPS[shape](message)


@dataclass(frozen=True, slots=True, eq=False)
class MessageColumn(FeatureColumn):
    """Features of one name as protobuf messages.

    Attributes:
        messages: `Feature` or `FeatureList` messages; `None` if a record has none.
        table: int64[2, B], kinds and counts.
        held: The kinds present, bit `kind + 1` for each.
        fewest: The fewest values of a feature that has a kind.
        most: The most values of such a feature.
    """

    messages: Sequence[Any]
    table: NDArray[np.int64]
    held: int
    fewest: int
    most: int

    @classmethod
    def of(cls, messages: Sequence[Any], *, in_lists: bool) -> MessageColumn:
        """Return the column of these messages, `FeatureList`s if `in_lists`, else `Feature`s."""
        describe = _list_row if in_lists else _feature_row
        rows = [(ABSENT, 0) if message is None else describe(message) for message in messages]
        return cls._of_table(messages, np.array(rows, np.int64).reshape(-1, 2).T)

    @classmethod
    def _of_table(cls, messages: Sequence[Any], table: NDArray[np.int64]) -> MessageColumn:
        kinds, counts = table
        counts = counts[kinds > MISSING]
        held = sum(1 << kind + 1 for kind in set(kinds.tolist()))
        return cls(messages, table, held, int(min(counts, default=0)), int(max(counts, default=0)))

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def kinds(self) -> NDArray[np.int64]:
        """int64[B], the kind of each."""
        kinds: NDArray[np.int64] = self.table[0]
        return kinds

    @property
    def counts(self) -> NDArray[np.int64]:
        counts: NDArray[np.int64] = self.table[1]
        return counts

    def take(self, rows: NDArray[np.int64]) -> MessageColumn:
        return self._of_table([self.messages[row] for row in rows.tolist()], self.table[:, rows])

    def numbers(self, kind: int) -> NDArray[Any]:
        values = [value for value in self.values() if value is not None]
        return np.concatenate([np.empty(0, KIND_DTYPES[kind]), *values])

    def blobs(self) -> Blobs:
        values = self.take(np.flatnonzero(self.kinds == BYTES)).values()
        return Blobs.join([blob for blobs in values for blob in blobs])

    def steps(self) -> MessageColumn:
        lists = [message.feature for message in self.messages if message is not None]
        return self.of([step for steps in lists for step in steps], in_lists=False)

    def values(self) -> list[Any]:
        return [None if message is None else feature_value(message) for message in self.messages]

    def value_slice(self, blobs: Blobs) -> ValueSlice | None:
        """Return `None`: without kernels, records are read whole."""
        return None


def find_in_messages(
    shape: Shape,
    message: Any,
    blobs: Blobs,
    wanted: Sequence[tuple[int, str]],
    check: Callable[[Any, int], None] | None = None,
) -> list[MessageColumn]:
    """Return the features of each wanted name.

    Args:
        shape: The message type of the records.
        message: Their protobuf class.
        blobs: The records.
        wanted: Parts and names, none twice; the part is 0, or 1 in feature lists.
        check: Called with the message and the row of each record.

    Raises:
        CorruptRecordError: A record does not parse; `index` is its row.
    """
    messages = [parse(message, blobs.view(index), index) for index in range(len(blobs))]
    if check is not None:
        for index, parsed in enumerate(messages):
            check(parsed, index)
    maps = [maps_of(shape, parsed) for parsed in messages]
    return [
        MessageColumn.of([_entry(record[part], name) for record in maps], in_lists=part == 1) for part, name in wanted
    ]


def _entry(features: Any, name: str) -> Any:
    return features[name] if name in features else None  # noqa: SIM401  # protobuf's get() makes a default


def _feature_row(feature: Any) -> tuple[int, int]:
    kind = feature.WhichOneof("kind")
    return KINDS[kind], 0 if kind is None else len(getattr(feature, kind).value)


def _list_row(steps: Any) -> tuple[int, int]:
    return STEPS, len(steps.feature)
