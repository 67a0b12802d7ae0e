"""differing: columns of every type, compared item by item."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from dataformats.batch import Nullable, Ragged, StackedList
from dataformats.display.differences import find_differences, is_same
from dataformats.testing.loop_over import loop_over

NAN, OTHER_NAN = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)


def ragged(*items: Any, item_kind: str = "array", dtype: str = "u1") -> Ragged:
    arrays = [np.frombuffer(part, np.uint8) if isinstance(part, bytes) else np.array(part, dtype) for part in items]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(part) for part in arrays])])
    return Ragged(np.concatenate(arrays), offsets, item_kind)


TEXTS = ragged(b"ab", b"", b"c", item_kind="bytes")

CASES: dict[str, tuple[Any, Any, list[bool]]] = {
    "equal numbers": (np.arange(3), np.arange(3), [False] * 3),
    "numbers": (np.array([1, 2, 3]), np.array([1, 5, 3]), [False, True, False]),
    "dtypes": (np.arange(2), np.arange(2, dtype=np.int32), [True, True]),
    "shapes": (np.zeros((2, 3)), np.zeros((2, 3, 1)), [True, True]),
    "rows": (np.zeros((2, 3), "u1"), np.array([[0, 0, 0], [0, 9, 0]], "u1"), [False, True]),
    "rows without values": (np.zeros((2, 0)), np.zeros((2, 0)), [False, False]),
    "nan": (np.array([NAN, NAN, 1]), np.array([NAN, OTHER_NAN, 1]), [False, True, False]),
    "signs of zero": (np.array([0.0, 0.0]), np.array([0.0, -0.0]), [False, True]),
    "wide floats": (np.ones(2, np.longdouble), np.array([1, 2], np.longdouble), [False, True]),
    "bools": (np.array([True, False]), np.array([True, True]), [False, True]),
    "no items": (np.zeros((0, 4)), np.zeros((0, 4)), []),
    "ragged": (ragged([1], [2, 3], []), ragged([1], [2, 4], []), [False, True, False]),
    "ragged lengths": (ragged([1], [2, 3], []), ragged([1], [2], [3]), [False, True, True]),
    "ragged dtypes": (ragged([1], []), ragged([1], [], dtype="i4"), [True, False]),
    "bytes": (TEXTS, ragged(b"ab", b"", b"d", item_kind="bytes"), [False, False, True]),
    "bytes in a list": (TEXTS, [b"ab", b"", "c"], [False, False, True]),
    "bytes and text": (TEXTS, ragged(b"ab", b"", b"c", item_kind="utf8"), [True, True, True]),
    "part of a buffer": (Ragged(TEXTS.values, np.array([2, 2, 3]), "bytes"), [b"", b"c"], [False, False]),
    "part of a longer buffer": (
        Ragged(np.array([7, 1, 2, 8]), np.array([1, 2, 3])),
        Ragged(np.array([1, 3]), np.array([0, 1, 2])),
        [False, True],
    ),
    "ragged over ragged": (
        Ragged(TEXTS, np.array([0, 2, 3])),
        Ragged(ragged(b"ab", b"", b"x", item_kind="bytes"), np.array([0, 2, 3])),
        [False, True],
    ),
    "missing sequences": (
        Ragged(np.zeros(0), np.array([0, 0, 0]), present=np.array([True, False])),
        Ragged(np.zeros(0), np.array([0, 0, 0])),
        [False, True],
    ),
    "missing numbers": (
        Nullable(np.array([1, 0, 3]), np.array([True, False, True])),
        Nullable(np.array([1, 7, 0]), np.array([True, False, False])),
        [False, False, True],
    ),
    "missing in one": (Nullable(np.array([1, 0]), np.array([True, False])), np.array([1, 0]), [False, True]),
    "stacked": (StackedList(np.zeros((2, 2))), StackedList(np.array([[0.0, 0], [0, 1]])), [False, True]),
    "stacked and not": (StackedList(np.zeros((2, 2))), [np.zeros(2), np.zeros(3)], [False, True]),
    "arrays": ([np.zeros(2), np.zeros(2)], [np.zeros(2), np.zeros(2, "f4")], [False, True]),
    "integers of Python": ([1, 2**70], [1, 2**70 + 1], [False, True]),
    "integers of both": ([1, 2], np.array([1, 3]), [False, True]),
    "kinds of one": ([1, 1, 1], [1, True, 1.0], [False, True, True]),
    "documents": ([{"a": [1, None]}, {"a": (1,)}], [{"a": [1, None]}, {"a": [1]}], [False, True]),
    "keys": ([{"a": 1}, {"a": 1}], [{"a": 1}, {"b": 1}], [False, True]),
    "texts in objects": (np.array(["a", "b"]), np.array(["a", "c"]), [False, True]),
}


@loop_over("expected, found, differs", CASES.values())
def test_differing(expected: Any, found: Any, differs: list[bool]) -> None:
    assert find_differences(expected, found).tolist() == differs
    assert find_differences(found, expected).tolist() == differs
    for column in (expected, found):
        assert not find_differences(column, column).any()


def test_floats_of_python_are_compared_by_their_bits() -> None:
    (other,) = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))
    assert is_same([float("nan")], [float("nan")])
    assert not is_same(float("nan"), other)
    assert not is_same(0.0, -0.0)
