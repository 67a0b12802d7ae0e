"""Columns of a batch in one call: kernel and twin make the same of the same records, and it is what these hold."""

from __future__ import annotations

import importlib
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
from dataformats.kernels import reference
from dataformats.kernels.buffers import empty, rows
from dataformats.kernels.wire import Shape
from dataformats.kernels.wire_columns import APART, AS_FOUND, DENSE, JOINED, MADE, PLACED, RAGGED, Output

try:
    _native: Any = importlib.import_module("dataformats.kernels._native")
except ImportError:
    _native = None  # test_choice.py fails then, if the compiled kernels were asked for

KERNELS = {"reference": reference} | ({} if _native is None else {"native": _native})
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


def made(
    kernel: Any,
    blobs: Sequence[bytes],
    outputs: Sequence[Output],
    *,
    shape: Shape = Shape.EXAMPLE,
    names: Sequence[bytes] = (b"a", b"b", b"c"),
    closed: bool = False,
    window: tuple[int, int] | None = None,
) -> Any:
    lengths = np.array([len(blob) for blob in blobs], np.int64)
    starts, buffer = np.cumsum(lengths) - lengths, np.frombuffer(b"".join(blobs), np.uint8)
    given = tuple((0, name) for name in names)
    plan = kernel.wire_columns_plan(shape, given, tuple(map(tuple, outputs)), closed, lambda n: np.empty(n, np.int64))
    return kernel.wire_columns(plan, buffer, starts, lengths, window)


def agreed(blobs: Sequence[bytes], outputs: Sequence[Output], **more: Any) -> Any:
    """Return what all kernels make of records; fail where they differ."""
    answers = [made(kernel, blobs, outputs, **more) for kernel in KERNELS.values()]
    first = answers[0]
    for other in answers[1:]:
        assert (first is None) == (other is None)
        for one, two in zip(first or (), other or (), strict=True):
            assert one[0] == two[0]
            for left, right in zip(one[1:], two[1:], strict=True):
                assert (left is None) == (right is None)
                assert left is None or (left.dtype, left.shape) == (right.dtype, right.shape)
                assert left is None or left.tobytes() == right.tobytes()
    return first


# ---- what is made


@pytest.mark.parametrize("shape", LISTS)
def test_what_records_hold(shape: Shape) -> None:
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
    outputs = [Output(JOINED, make=empty), number(DENSE, "i2", 1), number(DENSE, "f4", 2)]
    (how, joined, offsets), dense, floats = agreed(blobs, outputs, shape=shape)
    assert (how, offsets.tolist(), bytes(joined)) == (MADE, [0, 0, 1, 3, 6, 10], b"\1\2\2\3\3\3\4\4\4\4")
    assert dense[0] == floats[0] == MADE
    assert (dense[1].dtype, dense[1].tolist()) == (np.int16, [-2, -1, 0, 1, 2])
    assert floats[1].tolist() == [[i, i / 2] for i in range(5)]
    placed, ragged, _ = agreed(blobs, [Output(PLACED), number(RAGGED, "i8", 1), Output(AS_FOUND)], shape=shape)
    joined_again = b"".join(b"".join(blobs)[at : at + n] for at, n in zip(*placed[1:], strict=True))
    assert (placed[0], joined_again) == (MADE, bytes(joined))
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
    integers, floats = agreed(blobs, outputs, shape=Shape.OFRECORD)
    assert (integers[1].tolist(), integers[2].tolist()) == (
        [-3, -2, -1, *range(-6, 0), -3, -2, -1],
        [0, 3, 3, 9, 12],
    )
    assert (floats[1].shape, floats[2].tolist()) == ((4, 3), [0, 1, 1, 3, 4])
    broken = [number(RAGGED, "i8", 2), number(RAGGED, "f4", 3)]
    assert [how for how, *_ in agreed(blobs, broken, shape=Shape.OFRECORD)] == [0, 0]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", ["bytes", "f4", "f8", "i4", "i8"])
def test_only_numbers_that_stay_the_same(dtype: str, kind: str) -> None:
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
            ((how, first, _),) = agreed([blob, blob], [number(code, dtype, size)], shape=Shape.OFRECORD)
            if how == MADE and kind[0] == "i":
                stored = value % 2**64
                stored -= 2**64 if stored >= 2**63 else 0
                half = (stored + 2**31) % 2**32 - 2**31
                assert first.reshape(-1).tolist() == [half if kind == "i4" else stored] * 2
            elif how == MADE:
                assert (
                    first.tobytes()
                    == (
                        values[0]
                        if kind == "bytes"
                        else struct.pack(f"<{kind[1]}".replace("4", "f").replace("8", "d"), value)
                    )
                    * 2
                )


def test_what_is_left_as_it_was_found() -> None:
    whole = {b"a": feature(Shape.EXAMPLE, "i8", [5]), b"b": feature(Shape.EXAMPLE, "bytes", [b"xy"])}
    good = record(Shape.EXAMPLE, whole)
    outputs = [number(DENSE, "i8", 1), Output(JOINED, make=empty)]
    odd = {
        "absent": {b"b": whole[b"b"]},
        "without a kind": whole | {b"a": b""},
        "of another kind": whole | {b"a": feature(Shape.EXAMPLE, "f4", [5])},
        "two values": whole | {b"a": feature(Shape.EXAMPLE, "i8", [5, 6])},
        "no values": whole | {b"a": feature(Shape.EXAMPLE, "i8", [])},
    }
    for features in odd.values():
        one, two = agreed([good, record(Shape.EXAMPLE, features)], outputs, names=[b"a", b"b"])
        assert (one[0], one[1].shape, one[2]) == (0, (12,), None)
        assert two[0] == MADE
    several = record(Shape.EXAMPLE, whole | {b"b": feature(Shape.EXAMPLE, "bytes", [b"x", b"y"])})
    assert [how for how, *_ in agreed([good, several], outputs, names=[b"a", b"b"])] == [MADE, 0]


def test_numbers_in_pieces() -> None:
    pieces = delimited(3, b"\x08\x05" + delimited(1, b"\x06\x07") + b"\x08\x08")
    ((how, first, _),) = agreed([record(Shape.EXAMPLE, {b"a": pieces})], [number(DENSE, "u1", 4)])
    assert (how, first.tolist()) == (MADE, [[5, 6, 7, 8]])


def test_nothing_where_a_record_is_to_be_spoken_of() -> None:
    good = record(Shape.EXAMPLE, {b"a": feature(Shape.EXAMPLE, "i8", [5])})
    stray = record(Shape.EXAMPLE, {b"z": feature(Shape.EXAMPLE, "i8", [5])})
    outputs = [Output(AS_FOUND)]
    assert agreed([good, good[:-1]], outputs) is None
    assert agreed([], outputs) is None
    assert agreed([good, stray], outputs, closed=True) is None
    assert agreed([good, stray], outputs) is not None
    assert agreed([good], [], names=[], closed=False) == ()


# ---- what was read apart


@pytest.mark.parametrize(
    ("kind", "output", "how"),
    [
        ("bytes", Output(JOINED, make=empty), MADE | APART),
        ("bytes", Output(PLACED), APART),
        ("bytes", Output(AS_FOUND), APART),
        ("bytes", number(DENSE, "u1", 8), MADE | APART),
        ("bytes", number(DENSE, "f8", 1), MADE | APART),
        ("bytes", number(DENSE, "?", 8), APART),
        ("bytes", number(DENSE, "i4", 1), APART),
        ("bytes", number(RAGGED, "i4", 1), APART),
        ("f4", number(DENSE, "f4", 2), MADE | APART),
        ("f4", number(RAGGED, "f4", 1), MADE | APART),
        ("f4", number(DENSE, "f8", 2), APART),
        ("f4", number(DENSE, "f4", 4), APART),
    ],
)
def test_what_was_read_apart(kind: str, output: Output, how: int) -> None:
    values = [b"\xff" * 8] if kind == "bytes" else [1.5, -2.5]
    blob = record(Shape.EXAMPLE, {b"b": feature(Shape.EXAMPLE, "i8", [1]), b"a": feature(Shape.EXAMPLE, kind, values)})
    at = len(blob) - 8
    for begin in (at, -8):
        first, second = agreed([blob] * 3, [output, number(DENSE, "i8", 1)], names=[b"a", b"b"], window=(begin, 8))
        assert (first[0], second[0]) == (how, MADE)
        assert (first[1] is None) == (how == MADE | APART)
        if output.output in (JOINED, RAGGED) and how & MADE:
            assert np.diff(first[2]).tolist() == [8 if kind == "bytes" else 2] * 3
    for window in ((at - 1, 8), (at, 7), (at + 1, 8), (-9, 8), (-(2**60), 8), (2**60, 2**60)):
        assert agreed([blob] * 3, [output], window=window) is None
    assert agreed([blob, blob + b"\x78\x01"], [output], window=(-8, 8)) is None
    integers = record(Shape.EXAMPLE, {b"a": feature(Shape.EXAMPLE, "i8", [1] * 8)})
    assert agreed([integers], [number(DENSE, "i8", 8)], window=(-8, 8)) is None  # finding looks at them


# ---- records that nobody thought of


def anything(chance: random.Random, shape: Shape) -> bytes:
    kinds = [kind for kind in LISTS[shape] for _ in range(2)]
    values: dict[str, Any] = {
        "bytes": lambda: [
            chance.randbytes(chance.choice([0, 1, 4, 4, 8])) for _ in range(chance.choice([1, 1, 1, 0, 2]))
        ],
        "f": lambda: [chance.choice([0, 1, -1.5]) for _ in range(chance.choice([1, 2, 2, 0]))],
        "i": lambda: [chance.choice([0, 1, 200, -1, 2**40]) for _ in range(chance.choice([1, 2, 2, 0]))],
    }
    features = {}
    for name in chance.sample([b"a", b"b", b"c", b"z"], chance.choice([2, 3, 4, 4])):
        kind = chance.choice(kinds)
        features[name] = feature(shape, kind, values[kind if kind == "bytes" else kind[0]]())
    return record(shape, features)


def any_output(chance: random.Random) -> Output:
    code = chance.choice([AS_FOUND, DENSE, DENSE, RAGGED, JOINED, PLACED])
    if code in (DENSE, RAGGED):
        return number(code, chance.choice(TYPES), chance.choice([1, 1, 2, 4]))
    return Output(code, make=empty)


@pytest.mark.parametrize("seed", range(4))
def test_records_at_random(seed: int) -> None:
    chance, n_made = random.Random(seed), 0
    for _ in range(300):
        shape = chance.choice(list(LISTS))
        blobs = [anything(chance, shape)] * chance.choice([1, 2, 3]) + [anything(chance, shape)] * chance.choice(
            [0, 0, 1]
        )
        outputs = [any_output(chance) for _ in range(3)]
        window = chance.choice([None, None, (-chance.choice([4, 8]), chance.choice([4, 8]))])
        columns = agreed(blobs, outputs, shape=shape, closed=chance.random() < 0.2, window=window)
        n_made += sum(how & MADE for how, *_ in columns or ())
        blob = bytearray(blobs[0])
        blob[chance.randrange(len(blob))] ^= 1 << chance.randrange(8)
        agreed([*blobs, bytes(blob)], outputs, shape=shape, window=window)
    assert n_made > 20


@given(st.sampled_from(Shape), st.binary(max_size=60), st.integers(0, 2**16))
def test_any_bytes(shape: Shape, blob: bytes, seed: int) -> None:
    agreed([blob], [any_output(random.Random(seed)) for _ in range(3)], shape=shape)


# ---- arguments


def test_arguments_that_do_not_fit() -> None:
    for kernel in KERNELS.values():
        for wrong in (
            Output(5),
            Output(-1),
            Output(DENSE, "c"),
            Output(DENSE, "f", 3),
            Output(DENSE, "f", 4, 0),
            Output(DENSE, "f", 4, 2**31),
        ):
            with pytest.raises(ValueError, match="no such column"):
                made(kernel, [], [wrong])
        with pytest.raises(TypeError, match="expected a shape, a tuple of names, a tuple of as many columns or fewer"):
            made(kernel, [], [Output(AS_FOUND)], names=[])


@pytest.mark.skipif(_native is None, reason="without compiled kernels")
def test_what_the_wrapper_refuses() -> None:
    blob = record(Shape.EXAMPLE, {b"a": feature(Shape.EXAMPLE, "i8", [5])})
    one = np.array([0]), np.array([len(blob)])
    plan = _native.wire_columns_plan(0, ((0, b"a"),), (tuple(number(DENSE, "i8", 1)),), False, np.empty)
    for make in (lambda n: np.empty(n + 1, np.int64), lambda n: bytes(8 * n), lambda n: None, lambda n: 1 / 0):
        bad = _native.wire_columns_plan(0, ((0, b"a"),), ((DENSE, "i", 8, 1, make),), False, np.empty)
        with pytest.raises((ValueError, BufferError, TypeError, ZeroDivisionError)):
            _native.wire_columns(bad, blob, *one, None)
    memory = np.frombuffer(blob + bytes(-len(blob) % 8), np.uint8).copy()  # where it would be written while it is read
    over = _native.wire_columns_plan(0, ((0, b"a"),), ((DENSE, "i", 8, 1, lambda n: memory[: 8 * n]),), False, np.empty)
    with pytest.raises(ValueError, match="found one over the records"):
        _native.wire_columns(over, memory, *one, None)
    with pytest.raises(TypeError, match="starts must be"):
        _native.wire_columns(plan, blob, one[0].astype(np.int32), one[1], None)
    with pytest.raises(ValueError, match="starts and lengths must be equally long, found 1 and 2"):
        _native.wire_columns(plan, blob, one[0], np.zeros(2, np.int64), None)
    with pytest.raises(ValueError, match="window must"):
        _native.wire_columns(plan, blob, *one, (2**61, 1))
    with pytest.raises(TypeError, match="window must"):
        _native.wire_columns(plan, blob, *one, 5)
    with pytest.raises(TypeError):
        _native.wire_columns_plan(0, ((0, "a"),), (), False, np.empty)
    with pytest.raises(ValueError, match="PyCapsule"):
        _native.wire_columns(None, blob, *one, None)
