"""From a batch of records to its columns, in Python: the specification of the C kernel.

A column is made where all records have what is wanted: no kind but one, all of them there, the counts right, each
number exactly the same in its column. What is not so is left as it was found: who knows the types takes it apart with
care, and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels.reference.wire import wire_find, wire_numbers

if TYPE_CHECKING:
    from dataformats.kernels.reference.checksums import BytesLike

__all__ = [
    "APART",
    "AS_FOUND",
    "DENSE",
    "JOINED",
    "MADE",
    "PLACED",
    "RAGGED",
    "Made",
    "Output",
    "wire_columns",
    "wire_columns_plan",
]

AS_FOUND, DENSE, RAGGED, JOINED, PLACED = range(5)
MADE, APART = 1, 2

_BYTES, _FLOATS, _INTEGERS, _DOUBLES, _INT32S = range(1, 6)
_DTYPES = {_FLOATS: "<f4", _INTEGERS: "<i8", _DOUBLES: "<f8", _INT32S: "<i4"}
_UNPARSED = (_BYTES, _FLOATS, _DOUBLES)
_VALUES = 0
_MOST_SIZE = 2**31 - 1


class Output(NamedTuple):
    """What the features of a name are to become.

    Attributes:
        output: `AS_FOUND`; `DENSE`, so many numbers each, from lists of numbers or one bytes value that has them all;
            `RAGGED`, elements of so many numbers, from lists of numbers; `JOINED`, the one bytes value of each, back
            to back; `PLACED`, where that lies in the buffer.
        letter: Of numbers, the kind of their dtype.
        width: And their bytes.
        size: And how many there are in a record, or in an element of `RAGGED`; 1 at least.
        make: Makes the array of n records (`DENSE`), elements (`RAGGED`) or bytes (`JOINED`).
    """

    output: int
    letter: str = "u"
    width: int = 1
    size: int = 1
    make: Callable[[int], NDArray[Any]] | None = None


class Made(NamedTuple):
    """What they have become.

    Attributes:
        how: `MADE`, or 0: as found. With `APART` added: the values are those that were read apart.
        first: If made, the values; of `PLACED`, int64[n], where each begins. `None` where they were read apart. If not,
            the features, int64[6 n] (see `wire.py`).
        second: Of `RAGGED` and `JOINED`, int64[n+1], their offsets. Of `PLACED`, int64[n], their bytes.
    """

    how: int
    first: NDArray[Any] | None
    second: NDArray[np.int64] | None


class _Plan(NamedTuple):
    shape: int
    names: bytes
    ends: NDArray[np.int64]
    parts: bytes
    outputs: tuple[Output, ...]
    closed: bool
    make_int64s: Callable[[int], NDArray[np.int64]]


def wire_columns_plan(
    shape: int,
    names: tuple[tuple[int, bytes], ...],
    outputs: tuple[tuple[Any, ...], ...],
    closed: bool,
    make_int64s: Callable[[int], NDArray[np.int64]],
    /,
) -> Any:
    """Return how the columns of records are made.

    Args:
        shape: What records are.
        names: Part and name of features, UTF-8, none twice; those that are wanted come first.
        outputs: What each wanted one is to become: `Output`.
        closed: Records must have no names but these.
        make_int64s: Makes int64[n].
    """
    if len(outputs) > len(names):
        raise TypeError("expected a shape, a tuple of names, a tuple of as many columns or fewer")
    given = tuple(Output(*output) for output in outputs)
    for one in given:
        if one.output not in range(5) or one.letter not in "biuf" or one.width not in (1, 2, 4, 8):
            raise ValueError("no such column")
        if not 1 <= one.size <= _MOST_SIZE:
            raise ValueError("no such column")
    ends = np.cumsum([len(name) for _, name in names], dtype=np.int64)
    parts = bytes(part for part, _ in names)
    return _Plan(shape, b"".join(name for _, name in names), ends, parts, given, closed, make_int64s)


def wire_columns(
    plan: Any,
    buffer: BytesLike,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    window: tuple[int, int] | None,
    /,
) -> tuple[Made, ...] | None:
    """Return the columns of records: record i is `buffer[starts[i] : starts[i] + lengths[i]]`.

    Args:
        plan: What `wire_columns_plan` has returned.
        buffer: Any bytes.
        starts: int64[n].
        lengths: int64[n].
        window: Where in all records lies what was read apart, from their end if below 0, and its bytes. `None`:
            nothing was. One column is apart at most: the first whose values, unparsed, lie just there in all records.
            Nothing else can have been told by what the buffer has in their place, as finding never looks at values
            that it leaves unparsed.

    Returns:
        `None` where there are no records, one does not parse, has a name that it must not have, or nothing is apart.
    """
    n, n_wanted = len(starts), len(plan.outputs)
    features = np.empty((n_wanted, n, 6), np.int64)
    surveys, strays = np.empty((n_wanted, 4), np.int64), np.empty(n, np.uint8)
    names = (plan.names, plan.ends, plan.parts)
    failed = wire_find(plan.shape, buffer, starts, lengths, *names, features, surveys, strays)
    if not n or failed >= 0 or (plan.closed and strays.any()):
        return None
    apart = -1 if window is None else _apart(features, surveys, starts, lengths, window)
    if apart < 0 and window is not None:
        return None
    batch = _Batch(plan.shape, buffer, plan.make_int64s)
    rows = zip(plan.outputs, features, surveys.tolist(), strict=True)
    return tuple(batch.made(*row, is_apart=apart == i) for i, row in enumerate(rows))


def _apart(
    features: NDArray[np.int64],
    surveys: NDArray[np.int64],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    window: tuple[int, int],
) -> int:
    """Return which column the window has, or -1."""
    begin, n_bytes = window
    begins = starts + begin + (lengths if begin < 0 else 0)
    for i, (rows, survey) in enumerate(zip(features, surveys.tolist(), strict=True)):
        lies_there = (rows[:, 0] == begins) & (rows[:, 1] == begins + n_bytes) & (rows[:, 4] == _VALUES)
        if survey[0] in [1 << kind + 1 for kind in _UNPARSED] and survey[1] > 0 and lies_there.all():
            return i
    return -1


class _Batch(NamedTuple):
    shape: int
    buffer: BytesLike
    make_int64s: Callable[[int], NDArray[np.int64]]

    def made(self, wanted: Output, rows: NDArray[np.int64], survey: list[int], *, is_apart: bool) -> Made:
        kind = survey[0].bit_length() - 2
        simple = survey[0] in [1 << kind + 1 for kind in range(_BYTES, _INT32S + 1)]
        values = self._values(wanted, kind, rows, survey, is_apart) if simple else None
        if values is None:
            return Made(APART * is_apart, self._int64s(rows), None)
        first, second = values
        return Made(MADE | APART * is_apart, None if is_apart else first, second)

    def _int64s(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        made = self.make_int64s(values.size)
        made[:] = values.reshape(-1)
        return made

    def _values(
        self, wanted: Output, kind: int, rows: NDArray[np.int64], survey: list[int], is_apart: bool
    ) -> tuple[Any, Any] | None:
        """Return values and offsets; `None` where this kind does not become what is wanted as it is."""
        of_one = kind == _BYTES and survey[1] == survey[2] == 1
        lengths = rows[:, 1] - rows[:, 0]
        if wanted.output == PLACED and of_one and not is_apart:
            return self._int64s(rows[:, 0]), self._int64s(lengths)
        if wanted.output == JOINED and of_one:
            return None if is_apart else self._joined(wanted, rows), self._offsets(lengths)
        if wanted.output == RAGGED and kind != _BYTES and not (rows[:, 2] % wanted.size).any():
            values = self._numbers(wanted, kind, rows, survey[3], survey[3] // wanted.size, is_apart)
            return None if values is None else (values, self._offsets(rows[:, 2] // wanted.size))
        if wanted.output != DENSE:
            return None
        if kind == _BYTES and not (of_one and (lengths == wanted.size * wanted.width).all()):
            return None
        if kind != _BYTES and not survey[1] == survey[2] == wanted.size:
            return None
        values = self._numbers(wanted, kind, rows, survey[3], len(rows), is_apart)
        return None if values is None else (values, None)

    def _offsets(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._int64s(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))

    def _joined(self, wanted: Output, rows: NDArray[np.int64], n: int | None = None) -> NDArray[Any]:
        data = memoryview(cast("Any", self.buffer)).cast("B")
        joined = b"".join(data[begin:end] for begin, end in rows[:, :2].tolist())
        return _filled(wanted, joined, len(joined) if n is None else n)

    def _numbers(
        self, wanted: Output, kind: int, rows: NDArray[np.int64], n_values: int, n: int, is_apart: bool
    ) -> NDArray[Any] | None:
        """Return numbers that are the same in the type that is wanted; `None` where one is not."""
        dtype = np.dtype(f"<{wanted.letter}{wanted.width}")
        if kind == _BYTES:
            if is_apart:
                return None if wanted.letter == "b" else np.empty(0)
            values = self._joined(wanted, rows, n)
            return None if wanted.letter == "b" and (values.view(np.uint8) > 1).any() else values
        found = np.empty(n_values, _DTYPES[kind])
        if wanted.letter == "f" or kind in _UNPARSED:
            if dtype != found.dtype:
                return None
            if is_apart:
                return found
        wire_numbers(self.shape, self.buffer, rows, found.view(np.uint8), kind)
        if wanted.letter != "f" and not _in_range(dtype, found):
            return None
        return _filled(wanted, found.astype(dtype).tobytes(), n)


def _in_range(dtype: np.dtype[Any], values: NDArray[Any]) -> bool:
    if dtype.kind == "b":
        return bool(((values == 0) | (values == 1)).all())
    limits = np.iinfo(dtype)
    return not len(values) or bool(limits.min <= int(values.min()) and int(values.max()) <= limits.max)


def _filled(wanted: Output, data: bytes, n: int) -> NDArray[Any]:
    """Return an array of these bytes, made for n."""
    made = cast("Callable[[int], NDArray[Any]]", wanted.make)(n)
    made.reshape(-1).view(np.uint8)[:] = np.frombuffer(data, np.uint8)
    return made
