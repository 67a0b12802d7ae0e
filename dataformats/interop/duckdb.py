"""Conditions in SQL: the indices of the records for which an expression of DuckDB is true."""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import MissingExtraError, SpecError, UnknownNameError
from dataformats.interfaces.record_source import RecordSource
from dataformats.interop.json_fields import JSON_FACTS, JSON_FUNCTIONS, JsonFields
from dataformats.interop.sql_tree import Node, children, constant_of, name_of, path_of
from dataformats.reading.arrow_stream import ArrowRows, join_batches, parts_of
from dataformats.reading.scan import scan_sound, split_by_bytes
from dataformats.spec import Spec

try:
    import duckdb
    import pyarrow
except ImportError as error:
    raise MissingExtraError("dataformats.interop.duckdb", extra="duckdb") from error

__all__ = ["Matches", "matching"]

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
}
_QUOTES = "Double quotes stand around names of fields that are no SQL identifiers, single quotes around text"
_INTERRUPTED_EVERY_S = 0.01
_CHUNK_BYTES = 32 * 2**20  # the values that a condition may make at once
_RECORD_BYTES = 256 * 2**20  # the values that it may make of one record
_JSON_COPIES = 4  # the values and types of JSON, for each byte of its text
_SYNTAX = {
    *("BETWEEN", "CASE", "CAST", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "LAMBDA"),
    *("OPERATOR", "TYPE"),
}
_REFUSED = {  # the names of all other syntax
    "COLLATE": "a collation",
    "DEFAULT": "a default",
    "PARAMETER": "a parameter",
    "POSITIONAL_REFERENCE": "a column by its position",
    "STAR": "* or COLUMNS(...)",
    "SUBQUERY": "a subquery",
    "WINDOW": "a window",
}
_OPERATORS = {
    *("OPERATOR_NOT", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL", "OPERATOR_COALESCE", "OPERATOR_NULLIF"),
    *("COMPARE_IN", "COMPARE_NOT_IN", "ARRAY_EXTRACT", "ARRAY_SLICE", "STRUCT_EXTRACT"),
}
_TYPE_NAMES = """
    bool boolean tinyint smallint integer int bigint hugeint utinyint usmallint uinteger ubigint uhugeint
    int1 int2 int4 int8 int16 int32 int64 uint8 uint16 uint32 uint64 short long signed
    float float4 float8 real double decimal numeric varchar text string char bpchar blob bytea binary varbinary
    date time timestamp datetime timestamp_s timestamp_ms timestamp_ns interval uuid
"""
_TYPES = set(_TYPE_NAMES.split())  # no list, struct, json or bit: their text may double with each cast
_COPIES = {  # their result is as large as all their arguments together, at most
    *("||", "concat", "lower", "lcase", "upper", "ucase", "trim", "ltrim", "rtrim", "substring", "substr", "left"),
    *("right", "reverse", "decode", "encode", "regexp_extract", "list_slice", "array_slice", "ARRAY_SLICE"),
    *JSON_FUNCTIONS,
}
_SEARCHES = {"regexp_matches", "regexp_full_match", "regexp_extract"}
_MAX_STATES = 1000  # in a regular expression; each character of a value may cost as many steps, without interruption
_FIXED_SIZE = """
    + - * / // % ** ^ & | ~ << >> xor abs sign ceil ceiling floor round trunc even sqrt cbrt exp ln log log2 log10
    pow power mod divide fdiv fmod gcd lcm sin cos tan asin acos atan atan2 pi degrees radians isnan isinf isfinite
    greatest least if ifnull nullif coalesce hash md5
    ~~ !~~ ~~* !~~* like_escape not_like_escape ilike_escape not_ilike_escape ^@ contains starts_with prefix suffix
    ends_with regexp_matches regexp_full_match length len strlen char_length character_length octet_length bit_length
    instr position strpos ascii unicode ord
    list_contains list_has array_contains array_has list_has_any list_has_all list_position list_indexof
    list_extract list_element array_extract array_length struct_extract list_min list_max list_sum list_avg list_count
    date_part datepart year month day hour minute second date_diff datediff to_years to_months to_days to_hours
    to_minutes to_seconds
"""
_FUNCTIONS = _COPIES | JSON_FACTS | set(_FIXED_SIZE.split())  # the results of the others have a fixed size


def matching(
    source: RecordSource,
    condition: str,
    batch_size: int | None = None,
    failed: Callable[[int, Exception], object] | None = None,
    timeout_s: float | None = None,
) -> Matches:
    """Yield the indices of the records for which a condition is true, in order: an int64[n] for each part that is read.

    The condition is one expression of DuckDB's SQL, such as `label = 3 and width > 100 and name like 'a%'`. Only the
    fields that it names are decoded. `record` is the index of the record, unless a field has this name. Names that are
    no SQL identifiers stand in double quotes: `"image/width" > 100`. A condition that is null is not true. It has no
    subqueries and no lambdas, and calls only functions of a list, whose results are no larger than their arguments: it
    reads no file, and adds less than 512 MB to the memory. Types equal the types of `to_batches`.

    Records are read when the iterator asks for them. An array may be empty, so that a caller can stop a long search.
    `close` of the iterator ends it, and its thread; `cancel` ends it from another thread.

    Args:
        source: The records.
        condition: The expression.
        batch_size: Records for which it is computed at once; `None` is up to some thousand.
        failed: Called with index and error of each record that cannot be read, which is then left out. `None` raises
            the error of the first one, after all matches before it.
        timeout_s: Seconds in which DuckDB must compute the condition for one batch; `None` is no limit. Reading the
            records does not count.

    Raises:
        UnknownNameError: There is no field of a name in the condition.
        SpecError: The records have no spec; or the condition does not parse, calls a function that is not allowed, is
            not true or false, or its types do not fit. If a value does not convert, as in `name::int`, or the values
            that the condition makes of one record are larger than 256 MiB, the iterator raises it.
        TimeoutError: From the iterator, after `timeout_s`.

    Example:
        >>> import dataformats
        >>> from dataformats.interop.duckdb import matching
        >>> digits = dataformats.open("tests/golden/real/digits-*.tfrecord")
        >>> next(matching(digits, "label = 3 and record < 40"))
        array([ 3, 13, 23])
    """
    query = _BoundCondition(source, condition, timeout_s)
    return Matches(query, None if batch_size is None else parts_of(len(source), batch_size), failed)


class Matches(Iterator[NDArray[np.int64]]):
    """The indices of the matching records, as an iterator of int64[n]: see `matching`."""

    def __init__(
        self,
        query: _BoundCondition,
        parts: Iterator[range] | None,
        failed: Callable[[int, Exception], object] | None,
    ) -> None:
        self._query = query
        self._indices = query.indices(parts, failed)

    def __next__(self) -> NDArray[np.int64]:
        return next(self._indices)

    def close(self) -> None:
        """End the iterator and its thread."""
        self._indices.close()

    def cancel(self) -> None:
        """End a search that runs in another thread: the iterator raises `CancelledError`, between two batches."""
        self._query.cancel()


class _BoundCondition:
    """A condition that was checked for a source.

    Attributes:
        rows: The fields of the condition.
    """

    def __init__(self, source: RecordSource, condition: str, timeout_s: float | None) -> None:
        self._condition = condition
        self._timeout_s = timeout_s
        self._is_canceled = False
        self._is_idle = threading.Event()
        self._is_idle.set()
        self._number = _NUMBER
        while self._number in map(str.lower, source.spec):
            self._number += "_"
        with ExitStack() as stack:
            self._connection = stack.enter_context(closing(duckdb.connect(":memory:", config=_SETTINGS)))
            self._connection.execute("set enable_progress_bar = false")  # it would go to stdout
            self._connection.execute("set lock_configuration = true")
            tree = self._parsed()
            self.rows: ArrowRows = ArrowRows(source, _fields(tree, source.spec, self._number))
            self._copies, self._constant_bytes = _sizes(tree)
            self._json = self._json_fields([node for node, _ in tree], source.spec)
            self._bind()
            stack.pop_all()

    def _parsed(self) -> list[_Copied]:
        """Return all nodes of the syntax tree."""
        try:
            self._condition.encode()  # DuckDB has no message for a lone surrogate
            self._expression = duckdb.SQLExpression(self._condition)
            duckdb.SQLExpression(f"({self._condition}\n)")  # older versions drop text that follows an expression
            query = self._connection.execute("select json_serialize_sql(?)", [f"select {self._expression}"])
            ((text,),) = query.fetchall()
            (expression,) = json.loads(text)["statements"][0]["node"]["select_list"]
            tree = _nodes(expression)
        except (duckdb.Error, RecursionError, LookupError, UnicodeError) as error:
            raise self._error(f"does not parse: {_first_line(error)}") from error
        for node, _ in tree:
            self._check(node)
        return tree

    def _check(self, node: dict[str, Any]) -> None:
        """Raise an error if a node has syntax, an operator, a function or a type that is not allowed."""
        kind, name = node["class"], name_of(node)
        if kind not in _SYNTAX or (kind == "OPERATOR" and name not in _OPERATORS):
            raise self._error(f"has {_REFUSED.get(kind, name)}. Write one expression of fields")
        if kind == "FUNCTION" and name not in _FUNCTIONS:
            raise self._error(f"calls {name}, which conditions may not call: a function of Python can compute it")
        if name in JSON_FUNCTIONS | JSON_FACTS and not _is_simple_path(node):
            raise self._error(
                f"has {name} with a path that is no constant without * and .. Parentheses help: (meta->'n') > 1"
            )
        if name in _SEARCHES and not _is_small(node):
            raise self._error(
                f"has a regular expression that is no text of at most {_MAX_STATES} characters, with its repetitions"
            )
        if kind in ("CAST", "TYPE") and name not in _TYPES:
            raise self._error(f"converts to {name}. Convert to a type of numbers, text or dates")

    def _json_fields(self, tree: list[Node], spec: Spec) -> JsonFields:
        """Return the JSON fields, with the types of the first records."""
        names = [name for name in self.rows.schema.names if spec[name].codec == "json"]
        for node in tree:
            whole, steps = path_of(node)
            lists = [name for name in names if spec[name].dims and name.lower() == _column_of(whole)]
            if steps and lists:
                what = f"takes a part of {lists[0]!r}, whose type is {spec[lists[0]]}"
                raise self._error(f"{what}: a function of Python can compute it")
        found = JsonFields(tree, [name for name in names if not spec[name].dims], self._error)
        self._copies.update(dict.fromkeys(map(str.lower, found.names), _JSON_COPIES))
        if found.has_types:
            first = itertools.islice(split_by_bytes(self.rows.source, range(len(self.rows.source))), 1)
            for batch in scan_sound(self.rows.source, first, self.rows.schema.names, lambda *_: None):
                for table in self._chunks(self._table(self.rows.arrays(batch), batch.indices)):
                    rows = functools.partial(self._relation, table)
                    with self._explained():
                        found.observe(rows)
                        found.check_names(rows)
        return found

    def _bind(self) -> None:
        """Raise an error if the types of the condition do not fit."""
        empty = [pyarrow.array([], kind) for kind in self.rows.schema.types]
        with self._explained():
            rows = self._json.typed(self._relation(self._table(empty, [])))
            (kind,) = rows.filter(self._expression).project(self._expression).types  # `filter` refuses aggregates
        if str(kind) != "BOOLEAN":
            raise self._error(f"has the type {kind}: expected an expression that is true or false, such as label > 0")

    def indices(
        self, parts: Iterator[range] | None, failed: Callable[[int, Exception], object] | None
    ) -> Generator[NDArray[np.int64]]:
        """Yield the indices of the matching records of each part; `None` is all records, some thousand at once."""
        found = scan_sound(self.rows.source, parts, self.rows.schema.names, failed)
        tables = (self._table(self.rows.arrays(batch), batch.indices) for batch in found)
        with closing(self._connection), closing(found), closing(tables):  # type: ignore[type-var]  # a generator
            for table in join_batches(tables) if parts is None else tables:
                rows = functools.partial(self._relation, *self._chunks(table))
                with self._explained(), self._interrupted():
                    self._json.observe(rows)
                    chosen = self._json.typed(rows()).filter(self._expression)
                    indices = chosen.project(self._number).fetchnumpy()[self._number]
                yield indices

    def cancel(self) -> None:
        """Interrupt the condition; it computes nothing more."""
        self._is_canceled = True
        threading.Thread(target=self._interrupt, daemon=True).start()

    def _interrupt(self) -> None:
        """Interrupt DuckDB, which stops between two chunks, until it computes nothing: it forgets early interrupts."""
        with suppress(duckdb.ConnectionException):  # closed just now
            while not self._is_idle.wait(_INTERRUPTED_EVERY_S):
                self._connection.interrupt()

    @contextmanager
    def _interrupted(self) -> Iterator[None]:
        """Interrupt DuckDB after the timeout."""
        self._is_idle.clear()
        timer = threading.Timer(self._timeout_s or 0, self._interrupt)
        timer.daemon = True
        begin = time.monotonic()
        try:
            if self._is_canceled:
                raise CancelledError
            if self._timeout_s is not None:
                timer.start()
            yield
            if self._timeout_s is not None and time.monotonic() - begin > self._timeout_s:
                raise duckdb.InterruptException  # it ended before the interrupt arrived
        except duckdb.InterruptException:
            if self._is_canceled:
                raise CancelledError from None
            raise TimeoutError(
                f"the condition {self._shown!r} takes over {self._timeout_s} s for one batch. Write a shorter one"
            ) from None
        finally:
            timer.cancel()
            self._is_idle.set()

    def _chunks(self, table: Any) -> Iterator[Any]:
        """Yield parts of a batch of which the condition makes few bytes: DuckDB keeps all values of a part."""
        n_bytes = table.num_rows * self._constant_bytes
        n_bytes += sum(self._copies[name.lower()] * table.column(name).nbytes for name in table.schema.names)
        if n_bytes <= _CHUNK_BYTES or (table.num_rows == 1 and n_bytes <= _RECORD_BYTES):
            yield table
        elif table.num_rows > 1:
            half = table.num_rows // 2
            yield from self._chunks(table[:half])
            yield from self._chunks(table[half:])
        else:
            raise self._error(
                f"makes {n_bytes} bytes of record {table.column(self._number)[0]}: at most {_RECORD_BYTES} are allowed."
                " Call fewer functions in one another"
            )

    def _table(self, columns: Iterable[Any], indices: Any) -> Any:
        """Return a batch of these columns and the indices of the records."""
        names = [self._number, *self.rows.schema.names]
        return pyarrow.RecordBatch.from_arrays([pyarrow.array(indices, pyarrow.int64()), *columns], names)

    def _relation(self, *batches: Any) -> Any:
        """Return the rows of batches, for one query."""
        return self._connection.from_arrow(_BatchStream(*batches))

    def _error(self, what: str) -> SpecError:
        return SpecError(f"the condition {self._shown!r} {what}")

    @property
    def _shown(self) -> str:
        return self._condition if len(self._condition) <= _SHOWN else f"{self._condition[:_SHOWN]}..."

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Name the types of the fields if DuckDB raises an error."""
        try:
            yield
        except duckdb.Error as error:
            types = "".join(f". Field {field.name!r} is {field.type}" for field in self.rows.schema)
            remedy = (
                "try_cast(name as double) converts; of binary, decode(name) is the text, octet_length(name) the size;"
                " of a list, name[1] is the first item, list_max(name) the largest"
            )
            if "Cannot extract field" in str(error):
                remedy = "If text is JSON, write name->>'key', or open it with the type json"
            raise self._error(f"fails: {_first_line(error)}{types}. {remedy}") from error


class _BatchStream:
    """Batches as a plain stream: conditions on other objects may run in pyarrow, where NaN compares differently."""

    def __init__(self, *batches: Any) -> None:
        self._table = pyarrow.Table.from_batches(batches)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


_Copied: TypeAlias = tuple[Node, int]  # a node of a syntax tree, and how many functions copy its value


def _nodes(tree: Any) -> list[_Copied]:
    """Return all nodes of a syntax tree, the whole expression first; it may be deep."""
    nodes: list[_Copied] = []
    waiting: list[tuple[Node, int]] = [(tree, 0)]
    while waiting:
        node, copies = waiting.pop()
        nodes.append((node, copies))
        copies += node["class"] == "CAST" or name_of(node) in _COPIES
        waiting += ((child, copies) for child in children(node))
    return nodes


def _is_small(search: dict[str, Any]) -> bool:
    """Return True if the regular expression of a call is a constant that is small, with its repetitions written out."""
    arguments = children(search)
    text = constant_of(arguments[1]) if len(arguments) > 1 else None
    if text is None:
        return False
    return len(text) * math.prod(max(1, int(n)) for n in re.findall(r"(\d+)\}", text)) <= _MAX_STATES


def _is_simple_path(node: Node) -> bool:
    """Return True if a function of JSON has no path, or a constant one that leads to one value."""
    paths = map(constant_of, children(node)[1:])
    return all(path is not None and "*" not in path and ".." not in path for path in paths)


def _column_of(node: Node) -> str:
    return str(node["column_names"][0]).lower() if node["class"] == "COLUMN_REF" else ""


def _sizes(tree: list[_Copied]) -> tuple[Counter[str], int]:
    """Return how often each column is copied, by its name in lower case, and the bytes copied of all constants."""
    copies: Counter[str] = Counter()
    constant_bytes = 0
    for node, n in tree:
        if node["class"] == "COLUMN_REF":
            copies[node["column_names"][0].lower()] += n
        elif node["class"] == "CONSTANT":
            constant_bytes += n * len(str(node.get("literal", node.get("value"))))
    return copies, constant_bytes


def _columns(tree: list[_Copied]) -> set[str]:
    """Return the names of columns, without the names of their parts."""
    return {node["column_names"][0] for node, _ in tree if node["class"] == "COLUMN_REF"}


def _fields(tree: list[_Copied], spec: Spec, number: str) -> list[str]:
    """Return the fields that a tree names; like SQL, it may write their names in another case.

    Raises:
        UnknownNameError: There is no such field.
        SpecError: The names of two of these fields differ in case only.
    """
    found: dict[str, str] = {}
    for name in sorted(_columns(tree)):
        fields = [name] if name in spec else [field for field in spec if field.lower() == name.lower()]
        if not fields and name.lower() != number:
            raise UnknownNameError("field", name=name, known=[*spec, number], remedy=_QUOTES)
        for field in fields:
            if found.setdefault(field.lower(), field) != field:
                raise SpecError(
                    f"the fields {found[field.lower()]!r} and {field!r} have one name in SQL: name one of them"
                )
    return list(found.values())


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".!")
