"""What a read gives: blobs as stored, columns, and the batch of records made of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.errors import MissingExtraError
from dataformats.kernels import gather
from dataformats.spec import VALUE

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Blobs", "Column", "Nullable", "Ragged", "RecordBatch", "StackedList", "concat_columns", "take_column"]


@dataclass(slots=True, eq=False)  # not frozen: that takes three times as long to make, several times a batch
class Blobs:
    """Stored bytes of several values, lying anywhere in one buffer.

    Attributes:
        buffer: uint8[size]; nobody writes to it any more.
        starts: int64[n], where each blob begins in `buffer`.
        lengths: int64[n], bytes of each blob.
        offsets: int64[n+1], where they begin and end if they lie back to back in a buffer that is theirs alone, so
            that whoever decodes them may keep it; `None` where they do not.
    """

    buffer: NDArray[np.uint8]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    offsets: NDArray[np.int64] | None = None

    @classmethod
    def join(cls, blobs: Sequence[bytes]) -> Blobs:
        """Return these bytes, copied into one buffer."""
        lengths = np.fromiter((len(blob) for blob in blobs), np.int64, len(blobs))
        buffer = np.frombuffer(b"".join(blobs), np.uint8)
        return cls(buffer, np.cumsum(lengths) - lengths, lengths)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, position: int) -> bytes:
        return bytes(self.view(position))

    def __iter__(self) -> Iterator[bytes]:
        memory = self.buffer.data
        for start, length in zip(self.starts.tolist(), self.lengths.tolist(), strict=True):
            yield bytes(memory[start : start + length])

    def view(self, position: int) -> memoryview:
        """Return the bytes of one blob without a copy."""
        start = int(self.starts[position])
        return self.buffer.data[start : start + int(self.lengths[position])]

    def take(self, positions: NDArray[np.int64] | slice) -> Blobs:
        """Return the blobs at these positions, in this order; nothing is copied."""
        return Blobs(self.buffer, self.starts[positions], self.lengths[positions])

    def contiguous(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the blobs back to back: (values uint8[sum], offsets int64[n+1]), writable."""
        if self.offsets is not None:
            return self.buffer, self.offsets
        return gather(self.buffer, self.starts, self.lengths)

    def rows(self, width: int) -> NDArray[np.uint8]:
        """Return uint8[n, width], a copy; every blob must be `width` bytes long."""
        values, _ = self.contiguous()
        return values.reshape(len(self), width)

    def packed(self, width: int) -> NDArray[np.uint8] | None:
        """Return the blobs back to back, uint8[n * width], writable; `None` unless each has `width` bytes."""
        lengths = self.lengths
        # Most batches have few blobs, whose lengths are compared as bytes in a third of the time that arrays take.
        if len(lengths) and (lengths.item(0) != width or lengths.tobytes() != lengths[:1].tobytes() * len(lengths)):
            return None
        return self.contiguous()[0]


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """A column whose items differ in length, as Arrow's large lists.

    Attributes:
        values: All items one after the other: an ndarray `(sum, ...)`, another `Ragged`, or a list.
        offsets: int64[B+1]; item i is `values[offsets[i]:offsets[i+1]]`.
        item: What an item is: `"array"`, or `"bytes"` or `"utf8"` over uint8 values.
        present: bool[B], False where a record lacks the field (its item is empty); `None`: none lacks it.

    Example:
        >>> import numpy as np
        >>> from dataformats import Ragged
        >>> column = Ragged(np.arange(5), np.array([0, 2, 2, 5]))
        >>> column[2]
        array([2, 3, 4])
        >>> column.pad(value=-1)
        array([[ 0,  1, -1],
               [-1, -1, -1],
               [ 2,  3,  4]])
    """

    values: NDArray[Any] | Ragged | list[Any]
    offsets: NDArray[np.int64]
    item: str = "array"
    present: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Any:
        position = range(len(self))[index]
        start, stop = int(self.offsets[position]), int(self.offsets[position + 1])
        if isinstance(self.values, Ragged):
            return [self.values[inner] for inner in range(start, stop)]
        part = self.values[start:stop]
        if self.item == "array" or isinstance(part, list):
            return part
        return part.tobytes() if self.item == "bytes" else part.tobytes().decode()

    def __iter__(self) -> Iterator[Any]:
        return (self[position] for position in range(len(self)))

    def __repr__(self) -> str:
        kind = getattr(self.values, "dtype", type(self.values).__name__)
        return f"Ragged({len(self)} items of {kind if self.item == 'array' else self.item})"

    @property
    def lengths(self) -> NDArray[np.int64]:
        """int64[B], how many values each item has."""
        return np.diff(self.offsets)

    def take(self, positions: NDArray[np.int64]) -> Ragged:
        """Return the items at these positions, in this order, copied."""
        lengths = self.lengths[positions]
        offsets = np.zeros(len(positions) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        inner = np.repeat(self.offsets[:-1][positions] - offsets[:-1], lengths) + np.arange(offsets[-1])
        present = None if self.present is None else self.present[positions]
        return Ragged(take_column(self.values, inner), offsets, self.item, present)

    def pad(self, to: int | None = None, value: Any = 0) -> NDArray[Any]:
        """Return a dense array `(B, to, ...)`, short items filled up with `value`.

        Args:
            to: The length of every row; `None` takes the longest item's.
            value: The filler, of the values' dtype.

        Raises:
            ValueError: An item is longer than `to`, or the values are no array.
        """
        if not isinstance(self.values, np.ndarray):
            raise ValueError("only a Ragged over an array can be padded; pad its values first")
        longest = int(self.lengths.max(initial=0))
        width = longest if to is None else to
        if longest > width:
            raise ValueError(f"item {int(self.lengths.argmax())} has {longest} values, more than to={width}")
        dense = np.full((len(self), width, *self.values.shape[1:]), value, self.values.dtype)
        first, last = int(self.offsets[0]), int(self.offsets[-1])
        dense[np.arange(width) < self.lengths[:, None]] = self.values[first:last]
        return dense

    def to_torch(self) -> Any:
        """Return a jagged `torch.nested` tensor over a copy of the values; bytes and text stay lists.

        Raises:
            MissingExtraError: torch is not installed.
        """
        return _tensors().to_tensors(self, share=False)

    def to(self, device: Any, non_blocking: bool = False) -> Any:
        """Return it as `to_torch` does, on a device; Lightning and Accelerate call this."""
        return _tensors().moved(self, device, non_blocking=non_blocking)

    def to_arrow(self) -> Any:
        """Return a pyarrow array: large_list, large_binary or large_string.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        arrow = _pyarrow()
        mask = None if self.present is None else arrow.array(~self.present)
        if self.item != "array":
            return arrow.array(
                [value if self._has(row) else None for row, value in enumerate(self)],
                arrow.large_binary() if self.item == "bytes" else arrow.large_string(),
            )
        return arrow.LargeListArray.from_arrays(self.offsets, _arrow_column(self.values), mask=mask)

    def _has(self, row: int) -> bool:
        return self.present is None or bool(self.present[row])


class StackedList(list[Any]):
    """The column of a codec without a declared shape whose arrays happen to be alike: they are rows of one.

    Attributes:
        stacked: The array (B, ...).
    """

    def __init__(self, stacked: NDArray[Any]) -> None:
        super().__init__(stacked)
        self.stacked = stacked


@dataclass(frozen=True, slots=True, eq=False)
class Nullable:
    """The column of a field that records may lack.

    Attributes:
        values: The column, with a zero (or `None` in a list) where the field is missing.
        present: bool[B].

    Example:
        >>> import numpy as np
        >>> from dataformats.batch import Nullable
        >>> column = Nullable(np.array([7, 0]), np.array([True, False]))
        >>> column[0], column[1]
        (7, None)
    """

    values: NDArray[Any] | list[Any]
    present: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.present)

    def __getitem__(self, index: int) -> Any:
        return _plain(self.values[index]) if self.present[index] else None

    def __iter__(self) -> Iterator[Any]:
        return (self[position] for position in range(len(self)))

    def to(self, device: Any, non_blocking: bool = False) -> Nullable:
        """Return it with tensors on a device; Lightning and Accelerate call this."""
        moved: Nullable = _tensors().moved(self, device, non_blocking=non_blocking)
        return moved

    def pin_memory(self) -> Nullable:
        """Return it with its tensors in page-locked memory, as PyTorch's DataLoader asks."""
        pinned: Nullable = _tensors().map_tensors(self, lambda tensor: tensor.pin_memory())
        return pinned

    def __repr__(self) -> str:
        return f"Nullable({described(self.values)}, {int(self.present.sum())} of {len(self)} present)"


Column = np.ndarray[Any, np.dtype[Any]] | Ragged | Nullable | list[Any]
"""One field of a batch: see DESIGN's rule that columns follow the spec alone."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordBatch:
    """Some records of a source, as columns.

    `len(batch)` is records; `batch[i]` and iteration give records; `batch["label"]` a column. A source of single
    values has one column, `"value"`, and its records are the values.

    Attributes:
        columns: Field name to column; a fixed type is an ndarray `(B, ...)`, `[]`, `bytes` and `utf8` a `Ragged`,
            a codec without a declared shape a list, `T?` a `Nullable`.
        indices: int64[B], the records' numbers in the source that was asked.
        failed: What `on_corrupt="omit"` left out: record number to error.
        single: True where records are single values.

    Example:
        >>> import numpy as np
        >>> from dataformats import RecordBatch
        >>> batch = RecordBatch({"label": np.array([4, 2])}, indices=np.array([7, 9]))
        >>> len(batch), batch[1]
        (2, {'label': 2})
    """

    columns: Mapping[str, Column]
    indices: NDArray[np.int64]
    failed: Mapping[int, Exception] = field(default_factory=dict)
    single: bool = False

    def __len__(self) -> int:
        return len(self.indices)

    def keys(self) -> tuple[str, ...]:
        """Return the names of the fields."""
        return tuple(self.columns)

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, str):
            return self.columns[key]
        if isinstance(key, slice):
            raise TypeError("expected the name of a field or the position of a record, found a slice: slice a column")
        position = range(len(self))[key]
        if self.single:
            return _plain(self.columns[VALUE][position])
        return {name: _plain(column[position]) for name, column in self.columns.items() if _has(column, position)}

    def __iter__(self) -> Iterator[Any]:
        return (self[position] for position in range(len(self)))

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {described(column)}" for name, column in self.columns.items())
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"RecordBatch({len(self)} records{failed}; {columns})"

    def to_torch(self) -> dict[str, Any]:
        """Return the columns as tensors (numbers, jagged for `[]`) and lists (everything else), all copied.

        Raises:
            MissingExtraError: torch is not installed.
        """
        return {name: _tensors().to_tensors(column, share=False) for name, column in self.columns.items()}

    def to_arrow(self) -> Any:
        """Return a `pyarrow.RecordBatch`; a fixed shape is a fixed-size list.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        arrow = _pyarrow()
        arrays = [_arrow_column(column) for column in self.columns.values()]
        return arrow.RecordBatch.from_arrays(arrays, names=list(self.columns))


def take_column(column: Any, positions: NDArray[np.int64]) -> Any:
    """Return the rows of a column at these positions, in this order."""
    if isinstance(column, Nullable):
        return Nullable(take_column(column.values, positions), column.present[positions])
    if isinstance(column, Ragged):
        return column.take(positions)
    return [column[position] for position in positions] if isinstance(column, list) else column[positions]


def concat_columns(columns: Sequence[Any]) -> Any:
    """Return one column with the rows of several of the same type, one after the other."""
    first = columns[0]
    if len(columns) == 1:
        return first
    if isinstance(first, Nullable):
        return Nullable(
            concat_columns([column.values for column in columns]),
            np.concatenate([column.present for column in columns]),
        )
    if isinstance(first, Ragged):
        parts = [column.take(np.arange(len(column))) for column in columns]
        lengths = np.concatenate([part.lengths for part in parts])
        present = None
        if any(part.present is not None for part in parts):
            present = np.concatenate([np.ones(len(p), bool) if p.present is None else p.present for p in parts])
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        return Ragged(concat_columns([part.values for part in parts]), offsets, first.item, present)
    return list(itertools.chain(*columns)) if isinstance(first, list) else np.concatenate(columns)


def _has(column: Any, position: int) -> bool:
    present = getattr(column, "present", None)
    return present is None or bool(present[position])


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) and value.dtype.kind in "biuf" else value


def described(column: Any) -> str:
    """Return dtype and shape of an array or tensor, the length of a list, or what a column of ours says of itself."""
    if hasattr(column, "dtype") and hasattr(column, "shape"):
        return f"{column.dtype}{list(column.shape)}"
    return f"list[{len(column)}]" if isinstance(column, list) else repr(column)


def _arrow_column(column: Any) -> Any:
    arrow = _pyarrow()
    if isinstance(column, Nullable):
        if isinstance(column.values, list):
            return _arrow_list(list(column))
        rows = _arrow_column(column.values)
        return arrow.compute.if_else(arrow.array(column.present), rows, arrow.scalar(None, rows.type))
    if isinstance(column, Ragged):
        return column.to_arrow()
    if isinstance(column, list):
        return _arrow_list(column)
    if column.ndim == 1:
        return arrow.array(column)
    array = arrow.array(np.ascontiguousarray(column).reshape(-1))
    for size in reversed(column.shape[1:]):
        array = arrow.FixedSizeListArray.from_arrays(array, size)
    return array


def _arrow_list(values: list[Any]) -> Any:
    """Return a pyarrow array of any values; arrays of several dimensions are lists of lists of their dtype."""
    arrow = _pyarrow()
    deep = [value for value in values if isinstance(value, np.ndarray) and value.ndim > 1]
    if not deep:
        return arrow.array(values)
    kind = arrow.from_numpy_dtype(deep[0].dtype)
    for _ in range(deep[0].ndim):
        kind = arrow.list_(kind)
    return arrow.array([None if value is None else value.tolist() for value in values], kind)


def _tensors() -> Any:
    """Return the room that makes tensors; it needs this one, so it is not imported with it."""
    from dataformats.batch import tensors

    return tensors


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError as error:
        raise MissingExtraError("to_arrow", extra="arrow") from error
    return pyarrow
