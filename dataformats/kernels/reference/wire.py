"""Reading batches of Examples, SequenceExamples and OFRecords in plain Python: the specification of the C kernels.

Positions count bytes of the buffer. A feature is a row of six integers, `wire_feature` in `wire.h`:

| column | meaning |
|---|---|
| begin, end | where it lies: `VALUES`, the packed numbers or the one bytes value; or a message to walk again |
| count | values; of a feature list, steps |
| kind | `ABSENT`, `MISSING` (a feature without a list), the list, or `STEPS` |
| form | what lies there: `VALUES`, the `FEATURE` message, or the map's `ENTRY` |
| replaced | how many lists a later one of another kind has replaced |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dataformats.kernels.reference.checksums import BytesLike

__all__ = ["wire_find", "wire_numbers", "wire_places", "wire_steps", "wire_survey"]

EXAMPLE, SEQUENCE_EXAMPLE, OFRECORD = range(3)
ABSENT, MISSING, BYTES, FLOATS, INTEGERS, DOUBLES, INT32S, STEPS = range(-1, 7)
VALUES, FEATURE, ENTRY = range(3)

_VARINT, _FIXED64, _DELIMITED, _GROUP, _GROUP_END, _FIXED32 = range(6)

_DEPTH = 100  # how many messages and groups may lie inside each other, below a message of the top level
_TENSORFLOW = {1: BYTES, 2: FLOATS, 3: INTEGERS}
_KINDS = {
    EXAMPLE: _TENSORFLOW,
    SEQUENCE_EXAMPLE: _TENSORFLOW,
    OFRECORD: {1: BYTES, 2: FLOATS, 3: DOUBLES, 4: INT32S, 5: INTEGERS},
}
_SINGLE = {FLOATS: _FIXED32, DOUBLES: _FIXED64, INTEGERS: _VARINT, INT32S: _VARINT}
_WIDTHS = {FLOATS: 4, DOUBLES: 8, INTEGERS: 8, INT32S: 4}


class _MalformedError(Exception):
    """The bytes end too early, or are not what they must be."""


class _Span(NamedTuple):
    begin: int
    end: int


Row = tuple[int, int, int, int, int, int]


# ---- fields of a message


def _varint(data: memoryview, span: _Span, most_bytes: int) -> tuple[int, int]:
    """Return the varint at the beginning of a span, and where it ends."""
    value = 0
    for i, byte in enumerate(data[span.begin : min(span.end, span.begin + most_bytes)]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value % 2**64, span.begin + i + 1
    raise _MalformedError


def _fields(data: memoryview, message: _Span, depth: int) -> Iterator[tuple[int, int, _Span]]:
    """Yield number, wire type and value of each field; `depth` groups may lie inside each other.

    The value of a delimited field is what its length frames.
    """
    at = message.begin
    while at < message.end:
        tag, at = _varint(data, _Span(at, message.end), 5)
        if not 8 <= tag < 2**32:
            raise _MalformedError
        value = _value(data, tag, _Span(at, message.end), depth)
        yield tag >> 3, tag & 7, value
        at = value.end


def _value(data: memoryview, tag: int, rest: _Span, depth: int) -> _Span:
    """Return the value of a field, whose tag ends where `rest` begins."""
    begin, end = rest.begin, rest.begin
    match tag & 7:
        case 0:
            _, end = _varint(data, rest, 10)
        case 1:
            end = begin + 8
        case 2:
            length, begin = _varint(data, rest, 5)
            end = begin + length
            if length >= 2**31:
                raise _MalformedError
        case 3:
            end = _group_end(data, tag >> 3, rest, depth)
        case 5:
            end = begin + 4
        case _:
            raise _MalformedError
    if end > rest.end:
        raise _MalformedError
    return _Span(begin, end)


def _group_end(data: memoryview, number: int, rest: _Span, depth: int) -> int:
    """Return where a group ends. Fields in it are not looked at: a number of 0 passes there, as in upb."""
    at = rest.begin
    while depth > 0:
        tag, at = _varint(data, _Span(at, rest.end), 5)
        if tag >= 2**32:
            break
        if tag & 7 == _GROUP_END:
            if tag >> 3 != number:
                break
            return at
        at = _value(data, tag, _Span(at, rest.end), depth - 1).end
    raise _MalformedError


# ---- features


@dataclass(slots=True)
class _Run:
    """What the lists of one feature come to: the last of them, and those of its kind right before it."""

    kind: int = MISSING
    lists: int = 0
    replaced: int = 0
    count: int = 0
    pieces: list[_Span] = field(default_factory=list)

    def begin_list(self, kind: int) -> None:
        if kind != self.kind:
            self.kind, self.replaced, self.count, self.pieces = kind, self.lists, 0, []
        self.lists += 1

    def add(self, piece: _Span, count: int) -> None:
        if count:
            self.count += count
            self.pieces.append(piece)

    def row(self, form: int, whole: _Span) -> Row:
        """Return the feature; `whole`, of this form, is where to walk again if its values lie in several pieces."""
        if len(self.pieces) > 1:
            return whole[0], whole[1], self.count, self.kind, form, self.replaced
        piece = self.pieces[0] if self.pieces else (0, 0)
        return piece[0], piece[1], self.count, self.kind, VALUES, 0


def _walk_feature(data: memoryview, shape: int, message: _Span, depth: int, run: _Run) -> None:
    for number, wire_type, value in _fields(data, message, depth):
        kind = _KINDS[shape].get(number)
        if kind is not None and wire_type == _DELIMITED:
            run.begin_list(kind)
            _walk_list(data, value, depth - 1, run)


def _walk_list(data: memoryview, message: _Span, depth: int, run: _Run) -> None:
    for number, wire_type, value in _fields(data, message, depth):
        if number == 1 and wire_type == _DELIMITED:
            run.add(value, _count(data, run.kind, value))
        elif number == 1 and wire_type == _SINGLE.get(run.kind):
            run.add(value, 1)


def _count(data: memoryview, kind: int, piece: _Span) -> int:
    """Return how many values a delimited piece holds."""
    if kind == BYTES:
        return 1
    if kind in (INTEGERS, INT32S):
        return sum(1 for _ in _varints(data, piece))
    count, rest = divmod(piece.end - piece.begin, _WIDTHS[kind])
    if rest:
        raise _MalformedError
    return count


def _varints(data: memoryview, piece: _Span) -> Iterator[int]:
    at = piece.begin
    while at < piece.end:
        value, at = _varint(data, _Span(at, piece.end), 10)
        yield value


# ---- finding


@dataclass(slots=True)
class _Finder:
    shape: int
    data: memoryview
    names: dict[tuple[int, bytes], int]
    features: NDArray[np.int64]
    strays: NDArray[np.uint8]
    record: int = 0

    @property
    def depth(self) -> int:
        """How many groups may lie inside each other in a Feature, or a FeatureList, of a map."""
        return _DEPTH - (2 if self.shape == OFRECORD else 3)

    def walk_record(self, record: _Span) -> None:
        if self.shape == OFRECORD:
            self.walk_map(0, record)
            return
        parts = {1: 0, 2: 1} if self.shape == SEQUENCE_EXAMPLE else {1: 0}
        for number, wire_type, value in _fields(self.data, record, _DEPTH):
            if number in parts and wire_type == _DELIMITED:
                self.walk_map(parts[number], value)

    def walk_map(self, part: int, message: _Span) -> None:
        for number, wire_type, value in _fields(self.data, message, self.depth + 2):
            if number == 1 and wire_type == _DELIMITED:
                self.walk_entry(part, value)

    def walk_entry(self, part: int, entry: _Span) -> None:
        name, is_whole, has_value, n_steps, run = b"", True, False, 0, _Run()
        for number, wire_type, value in _fields(self.data, entry, self.depth + 1):
            if wire_type != _DELIMITED or number not in (1, 2):
                is_whole = False  # protobuf keeps such an entry among the unknown fields, not in the map
            elif number == 1:
                name = self.checked(value)
            else:
                has_value |= value.begin < value.end
                if part == 1:
                    n_steps += self.count_steps(value)
                else:
                    _walk_feature(self.data, self.shape, value, self.depth, run)
        if is_whole:
            steps = (entry[0], entry[1], n_steps, STEPS, ENTRY, 0)
            row = steps if part == 1 else run.row(ENTRY, entry)
            self.note(part, name, row, has_value)

    def checked(self, value: _Span) -> bytes:
        name = bytes(self.data[value.begin : value.end])
        try:
            name.decode()
        except UnicodeDecodeError:
            raise _MalformedError from None
        return name

    def count_steps(self, message: _Span) -> int:
        n_steps = 0
        for number, wire_type, value in _fields(self.data, message, self.depth):
            if number == 1 and wire_type == _DELIMITED:
                _walk_feature(self.data, self.shape, value, self.depth - 1, _Run())
                n_steps += 1
        return n_steps

    def note(self, part: int, name: bytes, row: Row, has_value: bool) -> None:
        found = self.names.get((part, name))
        if found is None:
            self.strays[self.record] |= part == 1 or has_value
        elif found < len(self.features):
            self.features[found, self.record] = row


def wire_find(
    shape: int,
    buffer: BytesLike,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    names: bytes,
    ends: NDArray[np.int64],
    parts: bytes,
    features: NDArray[np.int64],
    surveys: NDArray[np.int64],
    strays: NDArray[np.uint8],
    /,
) -> int:
    """Find the wanted features of records: record i is `buffer[starts[i] : starts[i] + lengths[i]]`.

    Args:
        shape: `EXAMPLE`, `SEQUENCE_EXAMPLE` or `OFRECORD`.
        buffer: Any bytes.
        starts: int64[n].
        lengths: int64[n].
        names: All names, UTF-8, back to back; those that are wanted come first.
        ends: int64[n_names], where each ends.
        parts: A byte for each name: 0 in the context, 1 in the feature lists.
        features: int64[n_wanted, n, 6], is filled.
        surveys: int64[n_wanted, 4], is filled: see `wire_survey`.
        strays: uint8[n], is filled with 1 where a record may have something under a name that is not among
            these: an entry that is not empty (a later one may have replaced it), or any feature list.

    Returns:
        -1, or the number of the first record that does not parse or does not lie in the buffer.
    """
    data = memoryview(cast("Any", buffer)).cast("B")
    begins = [0, *ends.tolist()]
    known = {(parts[i], names[begins[i] : begins[i + 1]]): i for i in range(len(ends))}
    finder = _Finder(shape, data, known, features, strays)
    features[:] = (0, 0, 0, ABSENT, VALUES, 0)
    strays[:] = 0
    for i, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        finder.record = i
        if start < 0 or length < 0 or start + length > len(data):
            return i
        try:
            finder.walk_record(_Span(start, start + length))
        except _MalformedError:
            return i
    for rows, survey in zip(features, surveys, strict=True):
        wire_survey(shape, rows, survey)
    return -1


def wire_survey(shape: int, features: NDArray[np.int64], survey: NDArray[np.int64], /) -> int:
    """Write what features (int64[n, 6]) have in common.

    The kinds there are, bit `kind + 1` for each; the fewest and the most values of one that has a kind, 0 where
    none has; the sum of the values.
    """
    counts, kinds = features[:, 2], features[:, 3]
    held = counts[kinds > MISSING]
    mask = sum(1 << (kind + 1) for kind in set(kinds.tolist()))
    survey[:] = (mask, held.min(initial=2**63 - 1) if len(held) else 0, held.max(initial=0), held.sum())
    return -1


# ---- taking values out


def _pieces(data: memoryview, shape: int, row: list[int]) -> list[_Span]:
    """Return the pieces of a feature, as `_Run` has them.

    It was validated when it was found, groups inside it as well: they may be as deep as anywhere.
    """
    begin, end, count, _, form, _ = row
    whole, run = _Span(begin, end), _Run()
    if not 0 <= begin <= end <= len(data):
        raise _MalformedError
    if form == VALUES:
        return [whole] if count else []
    for message in [whole] if form == FEATURE else _values_of(data, whole):
        _walk_feature(data, shape, message, _DEPTH, run)
    return run.pieces


def _values_of(data: memoryview, entry: _Span) -> Iterator[_Span]:
    return (value for number, kind, value in _fields(data, entry, _DEPTH) if (number, kind) == (2, _DELIMITED))


def _numbers(data: memoryview, kind: int, piece: _Span) -> bytes:
    """Return the numbers of a piece, little-endian; an int32 is the low half of its varint."""
    if kind in (FLOATS, DOUBLES):
        return bytes(data[piece.begin : piece.end])
    width = _WIDTHS[kind]
    return b"".join(value.to_bytes(8, "little")[:width] for value in _varints(data, piece))


def wire_numbers(
    shape: int, buffer: BytesLike, features: NDArray[np.int64], out: NDArray[np.uint8], kind: int, /
) -> int:
    """Write all numbers of a kind, one feature after the other: little-endian, as wide as the kind's own.

    Features without a kind are passed over.

    Returns:
        -1, or the number of the first feature that is not of this kind, does not lie in the buffer, or does not
        have as many values as it says; or their number where `out` has another size than all values together.
    """
    data, done = memoryview(cast("Any", buffer)).cast("B"), 0
    for i, row in enumerate(features.tolist()):
        if row[3] <= MISSING:
            continue
        try:
            values = b"".join(_numbers(data, kind, piece) for piece in _pieces(data, shape, row))
        except _MalformedError:
            return i
        if row[3] != kind or len(values) != row[2] * _WIDTHS[kind] or done + len(values) > len(out):
            return i
        out[done : done + len(values)] = np.frombuffer(values, np.uint8)
        done += len(values)
    return -1 if done == len(out) else len(features)


def wire_places(
    shape: int,
    buffer: BytesLike,
    features: NDArray[np.int64],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    /,
) -> int:
    """Write where all bytes values lie in the buffer.

    Returns:
        As `wire_numbers`.
    """
    data, done = memoryview(cast("Any", buffer)).cast("B"), 0
    for i, row in enumerate(features.tolist()):
        if row[3] <= MISSING:
            continue
        try:
            pieces = _pieces(data, shape, row)
        except _MalformedError:
            return i
        if row[3] != BYTES or len(pieces) != row[2] or done + len(pieces) > len(starts):
            return i
        for begin, end in pieces:
            starts[done], lengths[done] = begin, end - begin
            done += 1
    return -1 if done == len(starts) else len(features)


def wire_steps(shape: int, buffer: BytesLike, lists: NDArray[np.int64], out: NDArray[np.int64], /) -> int:
    """Write the features that feature lists hold, int64[n, 6].

    Returns:
        As `wire_numbers`.
    """
    data, done = memoryview(cast("Any", buffer)).cast("B"), 0
    for i, row in enumerate(lists.tolist()):
        if row[3] <= MISSING:
            continue
        try:
            steps = _steps(data, shape, row)
        except _MalformedError:
            return i
        if row[3] != STEPS or len(steps) != row[2] or done + len(steps) > len(out):
            return i
        out[done : done + len(steps)] = np.array(steps, np.int64).reshape(-1, 6)
        done += len(steps)
    return -1 if done == len(out) else len(lists)


def _steps(data: memoryview, shape: int, row: list[int]) -> list[Row]:
    if not 0 <= row[0] <= row[1] <= len(data):
        raise _MalformedError
    steps = []
    for message in _values_of(data, _Span(row[0], row[1])):
        for number, wire_type, value in _fields(data, message, _DEPTH):
            if (number, wire_type) == (1, _DELIMITED):
                run = _Run()
                _walk_feature(data, shape, value, _DEPTH, run)
                steps.append(run.row(FEATURE, value))
    return steps
