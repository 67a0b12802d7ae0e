"""Find the records of one source that have the keys of another one's records."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Ragged, concat_columns
from dataformats.batch.to_arrow import pyarrow, to_arrow
from dataformats.errors import SpecError
from dataformats.indexing.array_file import ArrayFile, facts_of_files
from dataformats.interfaces.record_source import RecordSource
from dataformats.reading.scan import describe_record, digest_of
from dataformats.reading.views import TakeView
from dataformats.spec import SpecLike

KeyField = tuple[RecordSource, str]
"""A source, and the field of its keys."""


class MatchedView(TakeView):
    """The records of a source that have the keys of another one, in its order. A pickle has no order: the cache has it.

    Args:
        parent: The source.
        wanted: The keys to find.
        given: The keys of the source's records.
        order: The result of `match_keys`, if it is known.
    """

    def __init__(
        self, parent: RecordSource, wanted: KeyField, given: KeyField, order: NDArray[np.int64] | None = None
    ) -> None:
        self._made_of = parent, wanted, given
        self._matched: NDArray[np.int64] = match_keys(wanted, given) if order is None else order
        n = len(self._matched)
        first = int(self._matched[0]) if n else 0
        is_range = np.array_equal(self._matched, np.arange(first, first + n))
        super().__init__(parent, range(first, first + n) if is_range else self._matched)

    def with_spec(self, spec: SpecLike) -> MatchedView:
        parent, wanted, given = self._made_of
        return MatchedView(parent.with_spec(spec), wanted, given, self._matched)

    def __reduce__(self) -> tuple[Any, ...]:
        return MatchedView, self._made_of


def match_keys(wanted: KeyField, given: KeyField) -> NDArray[np.int64]:
    """Return for each record of `wanted` the record of `given` with the same key.

    The result is kept in the cache of indexes, by the fingerprints of both sources and the times of their local files.

    Raises:
        MissingExtraError: pyarrow is not installed.
        SpecError: A key is missing in `given`, or repeated, or no integer or text.
    """
    facts = [(source.fingerprint, name, *facts_of_files(source.paths)) for source, name in (wanted, given)]
    found = ArrayFile("joins", digest_of([repr(facts)]), lambda: {"records": _matched(wanted, given)})
    return found.take("records", slice(None))


class Keys:
    """The keys of a source, read once, as an array of Arrow: integers or bytes.

    Args:
        source: The source.
        name: The field of its keys.
        caller: The function that errors name.
    """

    def __init__(self, source: RecordSource, name: str, caller: str) -> None:
        self.source, self.name, self._caller = source, name, caller
        columns = [batch.columns[name] for batch in source.scan([name])]
        column: Any = concat_columns(columns) if columns else np.zeros(0, np.int64)
        arrow = pyarrow()
        is_number = isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "iu"
        is_ragged = isinstance(column, Ragged) and column.item_kind in ("bytes", "utf8") and column.present is None
        if isinstance(column, list) and all(isinstance(one, (str, bytes)) for one in column):
            array = arrow.array([one.encode() if isinstance(one, str) else one for one in column], arrow.binary())
        elif is_number or is_ragged:
            array = to_arrow(column)
        else:
            what = f"{caller}: keys are integers or text that no record lacks, found {source.spec[name]}"
            raise SpecError(what, field=name)
        is_uint64 = isinstance(column, np.ndarray) and column.dtype == np.uint64
        self.kind: str = "uint64" if is_uint64 else "integers" if is_number else "text"
        type_ = array.type if is_uint64 else arrow.int64() if is_number else arrow.large_binary()
        self._array: Any = array.cast(type_)

    def find(self, keys: Keys) -> NDArray[np.int64]:
        """Return for each of these keys the first record that has it; -1 if none has."""
        found = importlib.import_module("pyarrow.compute").index_in(keys._array, value_set=self._array)
        return found.fill_null(-1).to_numpy().astype(np.int64)  # type: ignore[no-any-return]

    def octets(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the bytes of all keys, and where each begins; integers have 8 bytes."""
        if self.kind != "text":
            values = self._array.to_numpy().astype(self._array.type.to_pandas_dtype(), copy=False)
            return values.view(np.uint8), np.arange(0, 8 * len(values) + 1, 8)
        _, offsets, values = self._array.buffers()
        first = self._array.offset
        starts = np.frombuffer(offsets, np.int64)[first : first + len(self._array) + 1]
        return np.frombuffer(values or b"", np.uint8), starts

    def check_unique(self) -> None:
        """Raise `SpecError` if two records have one key."""
        first = self.find(self)
        again = np.flatnonzero(first != np.arange(len(first)))
        if len(again):
            row = int(again[0])
            found = f"{self.place(int(first[row]))} and {self.place(row)} have {self.shown(row)}"
            more = f", and {len(again) - 1} more are repeated" if len(again) > 1 else ""
            raise SpecError(f"{self._caller}: a key is not unique: {found}{more}", field=self.name, index=row)

    def shown(self, row: int) -> str:
        """Return a key as text."""
        key = self._array[row].as_py()
        return repr(key.decode(errors="replace")) if isinstance(key, bytes) else str(key)

    def place(self, row: int) -> str:
        """Return the name of a record."""
        return describe_record(self.source.origins([row])[0])


def _matched(wanted_field: KeyField, given_field: KeyField) -> NDArray[np.int64]:
    wanted, given = Keys(*wanted_field, "zip"), Keys(*given_field, "zip")
    if wanted.kind != given.kind and len(wanted.source) and len(given.source):
        what = f"zip: the keys are {wanted.kind} in {wanted.name!r}, and {given.kind} in {given.name!r}"
        raise SpecError(what, remedy="Convert one of them with map()")
    given.check_unique()
    found = given.find(wanted)
    missing = np.flatnonzero(found < 0)
    if len(missing):
        where, first = next(iter(given.source.paths), given.source.format), int(missing[0])
        what = f"zip: {len(missing)} of {len(found)} keys are missing in {where!r}"
        remedy = "Leave these records out with where() or take() before"
        raise SpecError(
            f"{what}: first {wanted.shown(first)} of {wanted.place(first)}", field=given.name, remedy=remedy
        )
    wanted.check_unique()
    return found
