"""The types of columns: arrays, ragged arrays, columns with missing values, lists."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.foreign_names import RAGGED, no_attribute
from dataformats.kernels import bytes_list, gather
from dataformats.spec import is_short_float

if TYPE_CHECKING:
    from numpy.typing import NDArray


_LONG = 64  # values in an item, from which on a copy of each item is faster than a mask of all values


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """A column whose items differ in length, like Arrow's large lists.

    Attributes:
        values: All items one after the other: an ndarray `(sum, ...)`, another `Ragged`, or a list.
        offsets: int64[B+1]; item i is `values[offsets[i]:offsets[i+1]]`.
        item_kind: The kind of an item: `"array"`, or `"bytes"` or `"utf8"` over uint8 values.
        present: bool[B], False for records that lack the field (their items are empty); `None`: all have it.

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
    item_kind: str = "array"
    present: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: Any) -> Any:
        """Return an item, or for a slice a column with copies of its items."""
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        row = range(len(self))[index]
        start, stop = int(self.offsets[row]), int(self.offsets[row + 1])
        if isinstance(self.values, Ragged):
            return [self.values[inner] for inner in range(start, stop)]
        part = self.values[start:stop]
        if self.item_kind == "array" or isinstance(part, list):
            return part
        return part.tobytes() if self.item_kind == "bytes" else part.tobytes().decode()

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.values, Ragged):
            return (self[row] for row in range(len(self)))
        if self.item_kind == "bytes" and isinstance(self.values, np.ndarray):
            return iter(bytes_list(np.ascontiguousarray(self.values), self.offsets[:-1], self.lengths))
        bounds = itertools.pairwise(self.offsets.tolist())
        values: Any = self.values
        if self.item_kind == "array" or isinstance(values, list):
            return (values[start:stop] for start, stop in bounds)
        memory = np.ascontiguousarray(values).data
        return (str(memory[start:stop], "utf-8") for start, stop in bounds)

    def __dlpack__(self, **options: Any) -> Any:
        """Export the items as rows of one array. `torch.tensor` and others ask, and read item by item without it.

        Raises:
            ValueError: The items differ in length, or are no arrays.
        """
        if self.item_kind != "array" or len(set(self.lengths.tolist())) > 1:
            raise ValueError(
                f"{self!r} is not one array: its items are text, or differ in length. Take pad(), or to_torch()"
            )
        return np.array(list(self) or self.values[:0]).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # kDLCPU

    if not TYPE_CHECKING:  # type checkers report unknown attributes

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, RAGGED)

    def __repr__(self) -> str:
        kind = getattr(self.values, "dtype", type(self.values).__name__)
        return f"Ragged({len(self)} items of {kind if self.item_kind == 'array' else self.item_kind})"

    @property
    def lengths(self) -> NDArray[np.int64]:
        """int64[B], the number of values of each item."""
        return np.diff(self.offsets)

    def take(self, rows: NDArray[np.int64]) -> Ragged:
        """Return copies of the items in these rows, in this order."""
        starts = self.offsets[:-1][rows]
        lengths = self.offsets[1:][rows] - starts  # not `self.lengths`: a block may have a million items
        present = None if self.present is None else self.present[rows]
        if isinstance(self.values, np.ndarray) and self.values.dtype == np.uint8 and self.values.ndim == 1:
            values, offsets = gather(np.ascontiguousarray(self.values), starts, lengths)
            return Ragged(values, offsets, self.item_kind, present)
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        inner = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Ragged(take_column(self.values, inner), offsets, self.item_kind, present)

    def pad(self, length: int | None = None, value: Any = 0) -> NDArray[Any]:
        """Return a dense array `(B, length, ...)`; short items are filled up with `value`.

        Args:
            length: The length of every row; `None` takes the length of the longest item.
            value: The filler, of the values' dtype.

        Raises:
            ValueError: An item is longer than `length`, or the values are not an array.
        """
        if not isinstance(self.values, np.ndarray):
            raise ValueError(
                f"cannot pad a Ragged over {type(self.values).__name__}: expected an array. Pad its values first."
            )
        longest = int(self.lengths.max(initial=0))
        width = longest if length is None else length
        if longest > width:
            raise ValueError(f"item {int(self.lengths.argmax())} has {longest} values, more than length={width}")
        dense = np.full((len(self), width, *self.values.shape[1:]), value, self.values.dtype)
        bounds = self.offsets.tolist()
        if bounds[-1] - bounds[0] < _LONG * len(self):
            dense[np.arange(width) < self.lengths[:, None]] = self.values[bounds[0] : bounds[-1]]
            return dense
        for row, (start, stop) in zip(dense, itertools.pairwise(bounds), strict=True):
            row[: stop - start] = self.values[start:stop]
        return dense

    def to_torch(self) -> Any:
        """Return a jagged `torch.nested` tensor over a copy of the values; bytes and text stay lists.

        Raises:
            MissingExtraError: torch is not installed.
        """
        return _tensors().to_tensors(self, share=False)

    def to(self, device: Any, non_blocking: bool = False) -> Any:
        """Return the tensor of `to_torch` on a device; Lightning and Accelerate call this."""
        return _tensors().move_tensors(self, device, non_blocking=non_blocking)

    def to_arrow(self) -> Any:
        """Return a pyarrow array: large_list, large_binary or large_string.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        from dataformats.batch.to_arrow import to_arrow

        return to_arrow(self)


class StackedList(list[Any]):
    """A column of arrays without a declared shape that happen to have one dtype and shape: rows of one array.

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
        values: The column, with a zero (or `None` in a list) for each missing value.
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

    def __getitem__(self, index: Any) -> Any:
        """Return an item, or for a slice a column."""
        if isinstance(index, slice):
            return Nullable(self.values[index], self.present[index])
        return to_python_number(self.values[index]) if self.present[index] else None

    def __iter__(self) -> Iterator[Any]:
        return (self[row] for row in range(len(self)))

    def to(self, device: Any, non_blocking: bool = False) -> Nullable:
        """Return a copy with tensors on a device; Lightning and Accelerate call this."""
        moved: Nullable = _tensors().move_tensors(self, device, non_blocking=non_blocking)
        return moved

    def pin_memory(self) -> Nullable:
        """Return a copy with tensors in page-locked memory; PyTorch's DataLoader calls this."""
        pinned: Nullable = _tensors().map_tensors(self, lambda tensor: tensor.pin_memory())
        return pinned

    def __repr__(self) -> str:
        try:
            present = f"{int(self.present.sum())} of {len(self)} present"
        except (AttributeError, TypeError):  # JAX traces a function, or a tree has objects that are no arrays
            present = f"present: {describe_value(self.present)}"
        return f"Nullable({describe_value(self.values)}, {present})"


Column = np.ndarray[Any, np.dtype[Any]] | Ragged | Nullable | list[Any]
"""One field of a batch. Its type and shape follow from the spec alone."""


def take_column(column: Any, rows: NDArray[np.int64]) -> Any:
    """Return these rows of a column, in this order."""
    if isinstance(column, Nullable):
        return Nullable(take_column(column.values, rows), column.present[rows])
    if isinstance(column, Ragged):
        return column.take(rows)
    return [column[row] for row in rows] if isinstance(column, list) else column[rows]


def concat_columns(columns: Sequence[Any]) -> Any:
    """Concatenate columns of the same type."""
    first = columns[0]
    if len(columns) == 1:
        return first
    if isinstance(first, Nullable):
        return Nullable(
            concat_columns([column.values for column in columns]),
            np.concatenate([column.present for column in columns]),
        )
    if isinstance(first, Ragged):
        parts = [column if _is_compact(column) else column.take(np.arange(len(column))) for column in columns]
        lengths = np.concatenate([part.lengths for part in parts])
        present = None
        if any(part.present is not None for part in parts):
            present = np.concatenate([np.ones(len(p), bool) if p.present is None else p.present for p in parts])
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        return Ragged(concat_columns([part.values for part in parts]), offsets, first.item_kind, present)
    return list(itertools.chain(*columns)) if isinstance(first, list) else np.concatenate(columns)


def _is_compact(column: Ragged) -> bool:
    """True if the items fill the values, one behind the other."""
    return bool(column.offsets[0] == 0 and column.offsets[-1] == len(column.values))


def nbytes_of(value: Any) -> int:
    """Return the bytes of the arrays in a column, or in a batch."""
    n_bytes, level = 0, [value]
    while level:  # level by level: documents have many small values
        inner: list[Any] = []
        kinds = set(map(type, level))
        for kind in kinds:
            values: list[Any] = level if len(kinds) == 1 else [one for one in level if type(one) is kind]
            if issubclass(kind, Mapping):
                inner += itertools.chain.from_iterable([one.values() for one in values])
            elif issubclass(kind, (list, tuple)):
                inner += itertools.chain.from_iterable(values)
            elif issubclass(kind, (bytes, str)):
                n_bytes += sum(map(len, values))
            elif kind is Ragged:
                inner += [part for one in values for part in (one.values, one.offsets)]
            elif kind is Nullable:
                inner += [part for one in values for part in (one.values, one.present)]
            elif kind is np.ndarray or hasattr(kind, "nbytes"):
                n_bytes += sum(one.nbytes for one in values)
        level = inner
    return n_bytes


def describe_value(column: Any) -> str:
    """Return dtype and shape of an array or tensor, the length of a list, or the `repr` of another column."""
    if hasattr(column, "dtype") and hasattr(column, "shape"):
        return f"{column.dtype}{list(column.shape)}"
    return f"list[{len(column)}]" if isinstance(column, list) else repr(column)


def to_python_number(value: Any) -> Any:
    """Return a numpy number as a Python number, and everything else unchanged."""
    is_number = isinstance(value, np.generic) and (value.dtype.kind in "biuf" or is_short_float(value.dtype))
    return value.item() if is_number else value


def items_of(column: Any) -> Iterable[Any]:
    """Return the items of a column as records have them: numpy numbers as Python numbers."""
    if isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "biuf":
        items: list[Any] = column.tolist()
        return items
    if isinstance(column, Nullable):
        pairs = zip(items_of(column.values), column.present.tolist(), strict=True)
        return [value if present else None for value, present in pairs]
    return map(to_python_number, column) if isinstance(column, list | np.ndarray) else column


def _tensors() -> Any:
    """Return the module `tensors`, which imports this one."""
    from dataformats.batch import tensors

    return tensors
