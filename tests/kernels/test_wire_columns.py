"""Columns built by one native call equal the records; tests/codecs/test_fast_path.py compares with protobuf."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataformats.codecs.features.wire import delimited, varint
from dataformats.kernels.buffers import empty, rows
from dataformats.kernels.wire import Shape, wire_kernels
from dataformats.kernels.wire_columns import AS_FOUND, DENSE, FILLED, JOINED, PLACED, RAGGED, SLICED, Output
from dataformats.testing.loop_over import loop_over

KERNEL = wire_kernels()
pytestmark = pytest.mark.skipif(KERNEL is None, reason="without kernels, protobuf parses")

TYPES = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
LISTS = {
    Shape.EXAMPLE: {"bytes": 1, "f4": 2, "i8": 3},
    Shape.OFRECORD: {"bytes": 1, "f4": 2, "f8": 3, "i4": 4, "i8": 5},
}


# ---- records


def feature(shape: Shape, kind: str, values: Sequence[Any]) -> bytes:
    if kind == "bytes":
        return delimited(LISTS[shape][kind], b"".join(delimited(1, value) for value in values))
    if kind[0] == "f":
        packed = struct.pack(f"<{len(values)}{'f' if kind == 'f4' else 'd'}", *values)
    else:
        packed = b"".join(varint(value % 2**64) for value in values)
    return delimited(LISTS[shape][kind], delimited(1, packed) if packed else b"")


def record(shape: Shape, features: dict[bytes, bytes]) -> bytes:
    entries = b"".join(delimited(1, delimited(1, name) + delimited(2, value)) for name, value in features.items())
    return entries if shape == Shape.OFRECORD else delimited(1, entries)


def number(code: int, dtype: str, size: int) -> Output:
    kind = np.dtype(dtype)
    return Output(code, kind.kind, kind.itemsize, size, rows(kind, () if size == 1 else (size,)))


def filled(
    blobs: Sequence[bytes],
    outputs: Sequence[Output],
    *,
    shape: Shape = Shape.EXAMPLE,
    names: Sequence[bytes] = (b"a", b"b", b"c"),
    closed: bool = False,
    value_slice: tuple[int, int] | None = None,
) -> Any:
    lengths = np.array([len(blob) for blob in blobs], np.int64)
    starts, buffer = np.cumsum(lengths) - lengths, np.frombuffer(b"".join(blobs), np.uint8)
    given = tuple((0, name) for name in names)
    plan = KERNEL.wire_columns_plan(shape, given, tuple(map(tuple, outputs)), closed, lambda n: np.empty(n, np.int64))
    return KERNEL.wire_columns(plan, buffer, starts, lengths, value_slice)


# ---- columns that are filled


@pytest.mark.parametrize("shape", LISTS)
def test_columns_hold_the_values_of_records(shape: Shape) -> None:
    blobs = [
        record(
            shape,
            {
                b"a": feature(shape, "bytes", [bytes([i]) * i]),
                b"b": feature(shape, "i8", [i - 2]),
                b"c": feature(shape, "f4", [i, i / 2]),
            },
        )
        for i in range(5)
    ]
    outputs = [Output(JOINED, new=empty), number(DENSE, "i2", 1), number(DENSE, "f4", 2)]
    (how, joined, offsets, _), dense, floats = filled(blobs, outputs, shape=shape)
    assert (how, offsets.tolist(), bytes(joined)) == (FILLED, [0, 0, 1, 3, 6, 10], b"\1\2\2\3\3\3\4\4\4\4")
    assert dense[0] == floats[0] == FILLED
    assert (dense[1].dtype, dense[1].tolist()) == (np.int16, [-2, -1, 0, 1, 2])
    assert floats[1].tolist() == [[i, i / 2] for i in range(5)]
    placed, ragged, _ = filled(blobs, [Output(PLACED), number(RAGGED, "i8", 1), Output(AS_FOUND)], shape=shape)
    joined_again = b"".join(b"".join(blobs)[at : at + n] for at, n in zip(*placed[1:3], strict=True))
    assert (placed[0], joined_again) == (FILLED, bytes(joined))
    assert (ragged[1].tolist(), ragged[2].tolist()) == ([-2, -1, 0, 1, 2], [0, 1, 2, 3, 4, 5])


def test_ragged_numbers() -> None:
    counts = [3, 0, 6, 3]
    blobs = [
        record(
            Shape.OFRECORD,
            {b"a": feature(Shape.OFRECORD, "i4", range(-n, 0)), b"b": feature(Shape.OFRECORD, "f8", range(n))},
        )
        for n in counts
    ]
    outputs = [number(RAGGED, "i8", 1), number(RAGGED, "f8", 3)]
    integers, floats = filled(blobs, outputs, shape=Shape.OFRECORD)
    assert (integers[1].tolist(), integers[2].tolist()) == (
        [-3, -2, -1, *range(-6, 0), -3, -2, -1],
        [0, 3, 3, 9, 12],
    )
    assert (floats[1].shape, floats[2].tolist()) == ((4, 3), [0, 1, 1, 3, 4])
    broken = [number(RAGGED, "i8", 2), number(RAGGED, "f4", 3)]
    assert [how for how, *_ in filled(blobs, broken, shape=Shape.OFRECORD)] == [0, 0]


@loop_over("dtype", TYPES)
@loop_over("kind", ["bytes", "f4", "f8", "i4", "i8"])
def test_columns_hold_only_exact_numbers(dtype: str, kind: str) -> None:
    n_bytes = np.dtype(dtype).itemsize
    edges = [
        0,
        1,
        2,
        -1,
        *(sign * 2**bits + off for bits in (7, 8, 15, 16, 31, 32, 63) for sign in (1, -1) for off in (-1, 0)),
    ]
    for value in edges:
        values: Any = [value]
        if kind == "bytes":
            values = [(value % 2**64).to_bytes(8, "little")[:n_bytes]]
        blob = record(Shape.OFRECORD, {b"a": feature(Shape.OFRECORD, kind, values)})
        for code, size in itertools.product((DENSE, RAGGED), (1, 2)):
            ((flags, first, *_),) = filled([blob, blob], [number(code, dtype, size)], shape=Shape.OFRECORD)
            expected = exact_bytes(kind, value, values[0], np.dtype(dtype), code) if size == 1 else None
            assert flags == (0 if expected is None else FILLED)
            assert expected is None or first.tobytes() == 2 * expected


def exact_bytes(kind: str, value: int, stored: Any, dtype: np.dtype[Any], code: int) -> bytes | None:
    """Return a stored value as a dtype; `None` if the kernel must leave it."""
    if kind == "bytes":
        return stored if code == DENSE and (dtype.kind != "b" or stored[0] < 2) else None
    if kind[0] == "f":
        return np.array(value, kind).tobytes() if dtype == np.dtype(kind) else None
    if dtype.kind == "f":
        return None
    bits = 32 if kind == "i4" else 64
    number = (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return np.array(number, dtype).tobytes() if least <= number <= most else None


def test_unfitting_records_leave_only_their_column_unfilled() -> None:
    whole = {b"a": feature(Shape.EXAMPLE, "i8", [5]), b"b": feature(Shape.EXAMPLE, "bytes", [b"xy"])}
    good = record(Shape.EXAMPLE, whole)
    outputs = [number(DENSE, "i8", 1), Output(JOINED, new=empty)]
    odd = {
        "absent": {b"b": whole[b"b"]},
        "without a kind": whole | {b"a": b""},
        "of another kind": whole | {b"a": feature(Shape.EXAMPLE, "f4", [5])},
        "two values": whole | {b"a": feature(Shape.EXAMPLE, "i8", [5, 6])},
        "no values": whole | {b"a": feature(Shape.EXAMPLE, "i8", [])},
    }
    for features in odd.values():
        one, two = filled([good, record(Shape.EXAMPLE, features)], outputs, names=[b"a", b"b"])
        assert (one[0], one[1].shape, *one[2:]) == (0, (12,), None, None)
        assert two[0] == FILLED
    several = record(Shape.EXAMPLE, whole | {b"b": feature(Shape.EXAMPLE, "bytes", [b"x", b"y"])})
    assert [how for how, *_ in filled([good, several], outputs, names=[b"a", b"b"])] == [FILLED, 0]


def test_missing_values_are_marked_in_columns() -> None:
    whole = {
        b"a": feature(Shape.EXAMPLE, "i8", [5, 6]),
        b"b": feature(Shape.EXAMPLE, "bytes", [b"xy"]),
        b"c": feature(Shape.EXAMPLE, "f4", [1, 2, 3]),
    }
    outputs = [number(DENSE, "i2", 2), Output(JOINED, new=empty), number(RAGGED, "f4", 1)]
    outputs = [output._replace(new_present=rows(np.dtype(bool), ())) for output in outputs]
    good, bare = record(Shape.EXAMPLE, whole), record(Shape.EXAMPLE, dict.fromkeys(whole, b""))
    for odd in (bare, record(Shape.EXAMPLE, {})):
        dense, joined, ragged = filled([good, odd, good], outputs)
        assert [column[0] for column in (dense, joined, ragged)] == [FILLED] * 3
        assert all(column[3].tolist() == [True, False, True] for column in (dense, joined, ragged))
        assert dense[1].tolist() == [[5, 6], [0, 0], [5, 6]]
        assert (bytes(joined[1]), joined[2].tolist()) == (b"xyxy", [0, 2, 2, 4])
        assert (ragged[1].tolist(), ragged[2].tolist()) == ([1, 2, 3] * 2, [0, 3, 3, 6])
    large = record(Shape.EXAMPLE, whole | {b"a": feature(Shape.EXAMPLE, "i8", [5, 2**20])})
    dense, joined, _ = filled([good, bare, large], outputs)  # the value is found again, without dense columns
    assert (dense[0], dense[3], joined[0]) == (0, None, FILLED)
    beside = [number(DENSE, "u1", 2), *outputs[1:]]
    assert filled([good, bare, good], beside)[0][0] == 0
    _, joined, _ = filled([good, bare, good], beside)
    assert joined[3].tolist() == [True, False, True]
    two = [outputs[0], number(DENSE, "i8", 1)._replace(new_present=outputs[0].new_present)]
    pair, other = filled([good, bare], two)
    assert (pair[0], pair[1].tolist(), pair[3].tolist(), other[0]) == (FILLED, [[5, 6], [0, 0]], [True, False], 0)


def test_numbers_in_pieces() -> None:
    pieces = delimited(3, b"\x08\x05" + delimited(1, b"\x06\x07") + b"\x08\x08")
    ((how, first, *_),) = filled([record(Shape.EXAMPLE, {b"a": pieces})], [number(DENSE, "u1", 4)])
    assert (how, first.tolist()) == (FILLED, [[5, 6, 7, 8]])


def test_records_for_the_slow_path() -> None:
    good = record(Shape.EXAMPLE, {b"a": feature(Shape.EXAMPLE, "i8", [5])})
    stray = record(Shape.EXAMPLE, {b"z": feature(Shape.EXAMPLE, "i8", [5])})
    outputs = [Output(AS_FOUND)]
    assert filled([good, good[:-1]], outputs) is None
    assert filled([], outputs) is None
    assert filled([good, stray], outputs, closed=True) is None
    assert filled([good, stray], outputs) is not None
    assert filled([good], [], names=[], closed=False) == ()


# ---- values that were read elsewhere


@loop_over(
    "kind, output, how",
    [
        ("bytes", Output(JOINED, new=empty), FILLED | SLICED),
        ("bytes", Output(PLACED), SLICED),
        ("bytes", Output(AS_FOUND), SLICED),
        ("bytes", number(DENSE, "u1", 8), FILLED | SLICED),
        ("bytes", number(DENSE, "f8", 1), FILLED | SLICED),
        ("bytes", number(DENSE, "?", 8), SLICED),
        ("bytes", number(DENSE, "i4", 1), SLICED),
        ("bytes", number(RAGGED, "i4", 1), SLICED),
        ("f4", number(DENSE, "f4", 2), FILLED | SLICED),
        ("f4", number(RAGGED, "f4", 1), FILLED | SLICED),
        ("f4", number(DENSE, "f8", 2), SLICED),
        ("f4", number(DENSE, "f4", 4), SLICED),
    ],
)
def test_value_slices(kind: str, output: Output, how: int) -> None:
    values = [b"\xff" * 8] if kind == "bytes" else [1.5, -2.5]
    blob = record(Shape.EXAMPLE, {b"b": feature(Shape.EXAMPLE, "i8", [1]), b"a": feature(Shape.EXAMPLE, kind, values)})
    at = len(blob) - 8
    for begin in (at, -8):
        first, second = filled([blob] * 3, [output, number(DENSE, "i8", 1)], names=[b"a", b"b"], value_slice=(begin, 8))
        assert (first[0], second[0]) == (how, FILLED)
        assert (first[1] is None) == (how == FILLED | SLICED)
        if output.output in (JOINED, RAGGED) and how & FILLED:
            assert np.diff(first[2]).tolist() == [8 if kind == "bytes" else 2] * 3
    for value_slice in ((at - 1, 8), (at, 7), (at + 1, 8), (-9, 8), (-(2**60), 8), (2**60, 2**60)):
        assert filled([blob] * 3, [output], value_slice=value_slice) is None
    assert filled([blob, blob + b"\x78\x01"], [output], value_slice=(-8, 8)) is None
    integers = record(Shape.EXAMPLE, {b"a": feature(Shape.EXAMPLE, "i8", [1] * 8)})
    assert filled([integers], [number(DENSE, "i8", 8)], value_slice=(-8, 8)) is None  # finding looks at them


def test_many_names_in_any_order() -> None:
    names = [b"%d" % number for number in range(300)]
    blobs = []
    for seed in range(3):
        stored = random.Random(seed).sample(names, len(names))
        blobs.append(record(Shape.EXAMPLE, {name: feature(Shape.EXAMPLE, "i8", [int(name)]) for name in stored}))
    for number_of, (flags, values, *_) in enumerate(filled(blobs, [number(DENSE, "i8", 1)] * 300, names=names)):
        assert (flags, values.tolist()) == (FILLED, [number_of] * 3)
    assert filled(blobs, [number(DENSE, "i8", 1)] * 299, names=names[:299], closed=True) is None


# ---- bytes at random


def any_output(chance: random.Random) -> Output:
    code = chance.choice([AS_FOUND, DENSE, DENSE, RAGGED, JOINED, PLACED])
    if code in (DENSE, RAGGED):
        return number(code, chance.choice(TYPES), chance.choice([1, 1, 2, 4]))
    return Output(code, new=empty)


@given(st.sampled_from(Shape), st.binary(max_size=60), st.integers(0, 2**16))
def test_any_bytes(shape: Shape, blob: bytes, seed: int) -> None:
    """Nothing is read outside the records: sanitizers watch this."""
    filled([blob], [any_output(random.Random(seed)) for _ in range(3)], shape=shape)


# ---- arguments


def test_plan_refuses_wrong_outputs() -> None:
    for wrong in (
        Output(6),
        Output(-1),
        Output(DENSE, "c"),
        Output(DENSE, "f", 3),
        Output(DENSE, "f", 4, 0),
        Output(DENSE, "f", 4, 2**31),
        Output(PLACED, new_present=rows(np.dtype(bool), ())),
    ):
        with pytest.raises(ValueError, match="expected an output"):
            filled([], [wrong])
    with pytest.raises(TypeError, match="expected a shape, a tuple of names, a tuple of as many columns or fewer"):
        filled([], [Output(AS_FOUND)], names=[])


def test_wrapper_refuses_wrong_memory_and_arguments() -> None:
    blob = record(Shape.EXAMPLE, {b"a": feature(Shape.EXAMPLE, "i8", [5])})
    one = np.array([0]), np.array([len(blob)])
    plan = KERNEL.wire_columns_plan(0, ((0, b"a"),), (tuple(number(DENSE, "i8", 1)),), False, np.empty)
    for make in (lambda n: np.empty(n + 1, np.int64), lambda n: bytes(8 * n), lambda n: None, lambda n: 1 / 0):
        bad = KERNEL.wire_columns_plan(0, ((0, b"a"),), ((DENSE, "i", 8, 1, make, None),), False, np.empty)
        with pytest.raises((ValueError, BufferError, TypeError, ZeroDivisionError)):
            KERNEL.wire_columns(bad, blob, *one, None)
    memory = np.frombuffer(blob + bytes(-len(blob) % 8), np.uint8).copy()  # it would be written while it is read
    over = KERNEL.wire_columns_plan(
        0, ((0, b"a"),), ((DENSE, "i", 8, 1, lambda n: memory[: 8 * n], None),), False, np.empty
    )
    with pytest.raises(ValueError, match="overlaps the records"):
        KERNEL.wire_columns(over, memory, *one, None)
    with pytest.raises(TypeError, match="starts must be"):
        KERNEL.wire_columns(plan, blob, one[0].astype(np.int32), one[1], None)
    with pytest.raises(ValueError, match="starts and lengths must be equally long, found 1 and 2"):
        KERNEL.wire_columns(plan, blob, one[0], np.zeros(2, np.int64), None)
    with pytest.raises(ValueError, match="slice must"):
        KERNEL.wire_columns(plan, blob, *one, (2**61, 1))
    with pytest.raises(TypeError, match="slice must"):
        KERNEL.wire_columns(plan, blob, *one, 5)
    with pytest.raises(TypeError):
        KERNEL.wire_columns_plan(0, ((0, "a"),), (), False, np.empty)
    with pytest.raises(ValueError, match="PyCapsule"):
        KERNEL.wire_columns(None, blob, *one, None)
