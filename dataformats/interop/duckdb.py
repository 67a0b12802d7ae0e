"""Conditions in SQL: the indices of the records for which an expression of DuckDB is true."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import MissingExtraError, UnknownNameError
from dataformats.interfaces.record_source import RecordSource
from dataformats.reading.arrow_stream import ArrowRows, join_batches, parts_of
from dataformats.reading.scan import scan_sound
from dataformats.spec import Spec

try:
    import duckdb
    import pyarrow
except ImportError as error:
    raise MissingExtraError("dataformats.interop.duckdb", extra="duckdb") from error

__all__ = ["matching"]

_NUMBER = "record"
_SHOWN = 200  # characters of a condition in an error
_SETTINGS: dict[str, Any] = {
    "enable_external_access": False,  # no files, no URLs, no extensions
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # a name is never a variable of Python
    "memory_limit": "256MB",
    "temp_directory": "",
    "threads": 1,
    "lock_configuration": True,
}
_QUOTES = "Double quotes stand around names of fields that are no SQL identifiers, single quotes around text"
_REFUSED = {
    "SUBQUERY": "a subquery",
    "STAR": "* or COLUMNS(...)",
    "POSITIONAL_REFERENCE": "a column by its position",
    "PARAMETER": "a parameter",
}
_UNBOUNDED = {  # the size or time of their result is a number in the condition, and no limit of DuckDB holds for them
    *("range", "generate_series", "repeat", "lpad", "rpad", "list_resize", "array_resize", "format", "printf"),
    *("to_base", "sleep_ms"),
}


def matching(
    source: RecordSource,
    condition: str,
    batch_size: int | None = None,
    failed: Callable[[int, Exception], object] | None = None,
) -> Iterator[NDArray[np.int64]]:
    """Yield the indices of the records for which a condition is true, in order: an int64[n] for each part that is read.

    The condition is one expression of DuckDB's SQL, such as `label = 3 and width > 100 and name like 'a%'`. Only the
    fields that it names are decoded. `record` is the index of the record, unless a field has this name. Names that are
    no SQL identifiers stand in double quotes: `"image/width" > 100`. A condition that is null is not true. It has no
    subqueries, no function that makes values of any size, such as `range` or `repeat`, and reads no file. Types equal
    the types of `to_batches`.

    Records are read when the iterator asks for them. An array may be empty, so that a caller can stop a long search.
    `close` of the iterator ends it, and its thread.

    Args:
        source: The records.
        condition: The expression.
        batch_size: Records for which it is computed at once; `None` is up to some thousand.
        failed: Called with index and error of each record that cannot be read, which is then left out. `None` raises
            the error of the first one, after all matches before it.

    Raises:
        UnknownNameError: There is no field of a name in the condition.
        ValueError: The condition does not parse, is not true or false, or its types do not fit. If a value does not
            convert, as in `name::int`, the iterator raises it.
        SpecError: The records have no spec.

    Example:
        >>> import dataformats
        >>> from dataformats.interop.duckdb import matching
        >>> digits = dataformats.open("tests/golden/real/digits-*.tfrecord")
        >>> next(matching(digits, "label = 3 and record < 40"))
        array([ 3, 13, 23])
    """
    query = _BoundCondition(source, condition)
    if batch_size is None:
        return query.indices(None, failed)
    return query.indices(parts_of(len(source), batch_size), failed)


class _BoundCondition:
    """A condition that was checked for a source.

    Attributes:
        rows: The fields of the condition.
    """

    def __init__(self, source: RecordSource, condition: str) -> None:
        condition.encode()  # DuckDB has no message for a lone surrogate
        self._condition = condition
        self._number = _NUMBER
        while self._number in map(str.lower, source.spec):
            self._number += "_"
        with ExitStack() as stack:
            self._connection = stack.enter_context(closing(duckdb.connect(":memory:", config=_SETTINGS)))
            self.rows = ArrowRows(source, _fields(self._parsed(), source.spec, self._number))
            self._bind()
            stack.pop_all()

    def _parsed(self) -> list[dict[str, Any]]:
        """Return all nodes of the syntax tree."""
        try:
            self._expression = duckdb.SQLExpression(self._condition)
            duckdb.SQLExpression(f"({self._condition}\n)")  # older versions drop text that follows an expression
            query = self._connection.execute("select json_serialize_sql(?)", [f"select {self._expression}"])
            ((text,),) = query.fetchall()
            tree = _nodes(json.loads(text)["statements"][0]["node"]["select_list"])
        except (duckdb.Error, RecursionError, LookupError) as error:
            raise self._error(f"does not parse: {_first_line(error)}") from error
        for node in tree:
            if node["class"] in _REFUSED:
                raise self._error(f"has {_REFUSED[node['class']]}. Write one expression of fields")
            if str(node.get("function_name")).lower() in _UNBOUNDED:
                raise self._error(f"calls {node['function_name']}, whose result may fill the memory. Use fields alone")
        return tree

    def _bind(self) -> None:
        """Raise an error if the types of the condition do not fit."""
        empty = [pyarrow.array([], kind) for kind in self.rows.schema.types]
        with self._explained():
            rows = self._connection.from_arrow(_BatchStream(self._table(empty, [])))
            (kind,) = rows.filter(self._expression).project(self._expression).types  # `filter` refuses aggregates
        if str(kind) != "BOOLEAN":
            raise self._error(f"has the type {kind}: expected an expression that is true or false, such as label > 0")

    def indices(
        self, parts: Iterator[range] | None, failed: Callable[[int, Exception], object] | None
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the indices of the matching records of each part; `None` is all records, some thousand at once."""
        found = scan_sound(self.rows.source, parts, self.rows.schema.names, failed)
        tables = (self._table(self.rows.arrays(batch), batch.indices) for batch in found)
        with closing(self._connection), closing(tables):
            for table in join_batches(tables) if parts is None else tables:
                with self._explained():
                    rows = self._connection.from_arrow(_BatchStream(table)).filter(self._expression)
                    indices = rows.project(self._number).fetchnumpy()[self._number]
                yield indices

    def _table(self, columns: Iterable[Any], indices: Any) -> Any:
        """Return a batch of these columns and the indices of the records."""
        names = [self._number, *self.rows.schema.names]
        return pyarrow.RecordBatch.from_arrays([pyarrow.array(indices, pyarrow.int64()), *columns], names)

    def _error(self, what: str) -> ValueError:
        shown = self._condition if len(self._condition) <= _SHOWN else f"{self._condition[:_SHOWN]}..."
        return ValueError(f"the condition {shown!r} {what}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Name the types of the fields if DuckDB raises an error."""
        try:
            yield
        except duckdb.Error as error:
            types = "".join(f". Field {field.name!r} is {field.type}" for field in self.rows.schema)
            remedy = (
                "try_cast(name as double) converts; of binary, decode(name) is the text, octet_length(name) the size"
            )
            raise self._error(f"fails: {_first_line(error)}{types}. {remedy}") from error


class _BatchStream:
    """A batch as a plain stream: conditions on other objects may run in pyarrow, where NaN compares differently."""

    def __init__(self, batch: Any) -> None:
        self._table = pyarrow.Table.from_batches([batch])

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def _nodes(tree: Any) -> list[dict[str, Any]]:
    """Return all nodes of a syntax tree; it may be deep."""
    nodes: list[dict[str, Any]] = []
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
            nodes += [one] if "class" in one else []
        elif isinstance(one, list):
            waiting += one
    return nodes


def _columns(tree: list[dict[str, Any]]) -> set[str]:
    """Return the names of columns, without the names of their parts."""
    return {node["column_names"][0] for node in tree if node["class"] == "COLUMN_REF"}


def _fields(tree: list[dict[str, Any]], spec: Spec, number: str) -> list[str]:
    """Return the fields that a tree names; like SQL, it may write their names in another case.

    Raises:
        UnknownNameError: There is no such field.
        ValueError: The names of two of these fields differ in case only.
    """
    variables = {name for node in tree if node["class"] == "LAMBDA" for name in _columns(_nodes(node["lhs"]))}
    found: dict[str, str] = {}
    for name in sorted(_columns(tree)):
        fields = [name] if name in spec else [field for field in spec if field.lower() == name.lower()]
        if not fields and name.lower() != number and name not in variables:
            raise UnknownNameError("field", name=name, known=[*spec, number], remedy=_QUOTES)
        for field in fields:
            if found.setdefault(field.lower(), field) != field:
                raise ValueError(
                    f"the fields {found[field.lower()]!r} and {field!r} have one name in SQL: name one of them"
                )
    return list(found.values())


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".!")
