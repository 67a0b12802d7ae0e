"""Some records of a source, as columns."""

from __future__ import annotations

import operator
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.batch.column_types import Column, describe_value, items_of, to_python_number
from dataformats.batch.tensors import to_tensors
from dataformats.batch.to_arrow import pyarrow, to_arrow
from dataformats.errors import UnknownNameError
from dataformats.foreign_names import BATCH, no_attribute
from dataformats.spec import VALUE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dataformats.display.record_table import NotebookTable, TableLimits


@dataclass(frozen=True, slots=True, eq=False)
class RecordBatch:
    """Some records of a source, as columns.

    `len(batch)` is records; `batch[i]` and iteration give records. `batch["label"]` is a column; `in`, `keys`,
    `values`, `items` and `get` are about columns, as in a dict of columns. A source of single values has one column,
    `"value"`, and its records are the values.

    Attributes:
        columns: Field name to column; a fixed type is an ndarray `(B, ...)`, `[]`, `bytes` and `utf8` a `Ragged`,
            a codec without a declared shape a list, `T?` a `Nullable`.
        indices: int64[B], the records' indices in the source.
        failed: The records that `on_corrupt="omit"` left out: index to error.
        single: True if records are single values.

    Example:
        >>> import numpy as np
        >>> from dataformats import RecordBatch
        >>> batch = RecordBatch({"label": np.array([4, 2])}, indices=np.array([7, 9]))
        >>> len(batch), batch[1]
        (2, {'label': 2})
        >>> "label" in batch, [name for name, column in batch.items()], batch.get("title")
        (True, ['label'], None)
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

    def values(self) -> ValuesView[Column]:
        """Return the columns."""
        return self.columns.values()

    def items(self) -> ItemsView[str, Column]:
        """Return the names of the fields with their columns."""
        return self.columns.items()

    def get(self, name: str, default: Any = None) -> Any:
        """Return the column of a field; `default` if there is no such field."""
        return self.columns.get(name, default)

    def __contains__(self, name: object) -> bool:
        if isinstance(name, str):
            return name in self.columns
        raise TypeError(f"`in` asks for the name of a field, found {type(name).__name__}: for records use list(batch)")

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, str):
            if key not in self.columns:
                raise UnknownNameError("field", name=key, known=self.columns)
            return self.columns[key]
        try:
            row = range(len(self))[operator.index(key)]
        except TypeError:
            raise TypeError(
                f"expected the name of a field or the row of a record, found {key!r:.80}: "
                'slice or index a column, as batch["label"][:2]'
            ) from None
        if self.single:
            return to_python_number(self.columns[VALUE][row])
        return {name: to_python_number(column[row]) for name, column in self.columns.items() if _has(column, row)}

    def __iter__(self) -> Iterator[Any]:
        if self.single:
            return iter(items_of(self.columns[VALUE]))
        names = tuple(self.columns)
        if not names:
            return ({} for _ in range(len(self)))
        rows = zip(*map(items_of, self.columns.values()), strict=True)
        held = [getattr(column, "present", None) for column in self.columns.values()]
        if all(present is None for present in held):
            return map(dict, map(partial(zip, names), rows))  # no Python code for each record
        everywhere = np.ones(len(self), np.bool_)
        masks = zip(*[(everywhere if present is None else present).tolist() for present in held], strict=True)
        return (
            {name: value for name, value, has in zip(names, row, mask, strict=True) if has}
            for row, mask in zip(rows, masks, strict=True)
        )

    if not TYPE_CHECKING:  # type checkers report unknown attributes

        def __getattr__(self, name: str) -> Any:
            if name != "columns" and name in self.columns:  # a batch that is being unpickled has no columns yet
                raise AttributeError(f"the column is batch[{name!r}]", name=name, obj=self)
            raise no_attribute(self, name, BATCH)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {describe_value(column)}" for name, column in self.columns.items())
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"RecordBatch({len(self)} records{failed}; {columns})"

    def view(self, n: int = 20) -> NotebookTable:
        """Return the first `n` records as a table for notebooks, with pictures.

        Example:
            >>> import dataformats
            >>> dataformats.open("tests/golden/real/photos.tfrecord").read(range(7)).view()
            <NotebookTable of RecordBatch: 7 records>
        """
        from dataformats.display.record_table import VIEW

        return self._table(n, VIEW)

    def _repr_html_(self) -> str:
        """Return a table of the first records for notebooks, with pictures."""
        from dataformats.display.record_table import SUMMARY, SUMMARY_RECORDS, error_html

        try:
            return self._table(SUMMARY_RECORDS, SUMMARY).html
        except Exception as error:  # a notebook shows what it can
            return error_html(error)

    def _table(self, n: int, limits: TableLimits) -> NotebookTable:
        from dataformats.display.record_table import NotebookTable

        failed = f", {len(self.failed)} failed" if self.failed else ""
        types = {name: describe_value(column) for name, column in self.columns.items()}
        indices, n = self.indices, min(len(self), max(0, n))
        title = f"RecordBatch: {len(self)} records{failed}"
        return NotebookTable.of(title, types, n, lambda row: (int(indices[row]), self[row]), limits)

    def to_torch(self) -> dict[str, Any]:
        """Return the columns as tensors (numbers, jagged for `[]`) and lists (everything else), all copied.

        Raises:
            MissingExtraError: torch is not installed.
        """
        return {name: to_tensors(column, share=False) for name, column in self.columns.items()}

    def to_arrow(self) -> Any:
        """Return a `pyarrow.RecordBatch`; a fixed shape is a fixed-size list.

        A batch knows no spec: the type of a column that is a list follows from its values. The types of
        `RecordSource.to_batches` are the same for all batches.

        Raises:
            MissingExtraError: pyarrow is not installed.
            SpecError: The values of a list have no common Arrow type.
        """
        arrow = pyarrow()
        arrays = [to_arrow(column) for column in self.columns.values()]
        return arrow.RecordBatch.from_arrays(arrays, names=list(self.columns))


def _has(column: Any, row: int) -> bool:
    present = getattr(column, "present", None)
    return present is None or bool(present[row])
