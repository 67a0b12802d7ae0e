from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dataformats.batch import Blobs
from dataformats.codecs.documents import MAX_DEPTH
from dataformats.codecs.trees import TREE
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import CodecError
from dataformats.spec import Type
from dataformats.testing.loop_over import loop_over

CODECS = CodecResolver(trusted=False)
Values = Callable[[str, str], list[tuple[bytes, Any]]]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.sampled_from(["i2", ">f4", "?", "u8", "c8"]).flatmap(
        lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_side=3))
    )
)
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=15)


def decode(*blobs: bytes) -> Any:
    return CODECS.decode(Type("tree"), Blobs.join(blobs), field="x")


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, np.ndarray):
        return (
            isinstance(found, np.ndarray)
            and (found.dtype, found.shape) == (expected.dtype, expected.shape)
            and found.tobytes() == expected.tobytes()
        )
    if isinstance(expected, Mapping):
        return list(found) == list(expected) and all(same(found[key], expected[key]) for key in expected)
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    return type(found) is type(expected) and bool(found == expected)


@loop_over("generation", ["v1", "v2", "v3"])
def test_golden_bytes_there_and_back(granular_values: Values, generation: str) -> None:
    pairs = granular_values(f"{generation}/basic", "tree")
    assert any(isinstance(value, Mapping) for _, value in pairs)
    assert same(decode(*[blob for blob, _ in pairs]), [value for _, value in pairs])
    assert [TREE.encode(value) for _, value in pairs] == [blob for blob, _ in pairs]


@given(TREES)
def test_round_trips(tree: Any) -> None:
    try:
        blob = TREE.encode(tree)
    except ValueError:
        return  # a list of four that begins with "_", which is seldom drawn
    assert same(TREE.decode(blob), tree)


def test_arrays_are_the_callers_own_and_of_any_memory_order() -> None:
    grid = np.arange(6.0).reshape(2, 3)
    tree = TREE.decode(TREE.encode([grid.T, grid[:, ::2], np.array(5, "u1")]))
    assert np.array_equal(tree[0], grid.T)
    assert tree[2].shape == ()
    tree[1][:] = 0


@loop_over(
    "tree", [["_"], ["_", 1], ["_", "<f4", [1]], ["_", 1, 2, 3, 4], ["a", "_", 1, 2], {"_": "_"}, "_", [b"_", 1, 2, 3]]
)
def test_unmarked_lists_round_trip(tree: Any) -> None:
    assert same(TREE.decode(TREE.encode(tree)), tree)


@loop_over("tree", [["_", 1, 2, 3], ("_", "<f4", [1], bytes(4)), {"a": [["_", None, None, None]]}])
def test_lists_decoding_as_arrays_are_refused(tree: Any) -> None:
    with pytest.raises(ValueError, match="begins with '_'"):
        TREE.encode(tree)


@loop_over(
    "value",
    [
        {1: 2},
        [{"a": {None: 1}}],
        object(),
        {1, 2},
        1j,
        np.int64(1),
        np.float32(1),
        np.array([None]),
        np.array(["text"]),
        {"a": np.ma.masked_array([1], [True])},
        2**64,
    ],
)
def test_tree_refuses_values_it_cannot_restore(value: Any) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        TREE.encode(value)


def test_nesting_is_bounded() -> None:
    deep: Any = np.zeros(1)
    for _ in range(MAX_DEPTH - 10):
        deep = [deep]
    assert TREE.encode(deep)
    for _ in range(20):
        deep = [deep]
    with pytest.raises(ValueError):  # noqa: PT011  # the words are those of msgpack
        TREE.encode(deep)
    cyclic: list[Any] = []
    cyclic += [cyclic, cyclic]
    with pytest.raises((ValueError, RecursionError)):
        TREE.encode(cyclic)


@loop_over(
    "tree",
    [
        ["_", 1, 2, 3],
        ["_", "<f4", [2], bytes(7)],
        ["_", "<f4", [2**40], bytes(8)],
        ["_", "<f4", [2**62, 4], bytes(8)],
        ["_", "|O", [1], bytes(8)],
        ["_", "<f4", [1], "text"],
        ["_", "<f4", [1], ["_", "<f4", [1], bytes(4)]],
        {"a": [0, ["_", "<f4", 1, bytes(4)]]},
    ],
)
def test_bad_arrays(tree: Any) -> None:
    with pytest.raises(CodecError) as caught:
        decode(b"\x01", msgpack.packb(tree) or b"")
    assert (caught.value.field, caught.value.index) == ("x", 1)


@loop_over(
    "blob",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xffx",
        b"\x91" * 100_000,
        (b"\xdd" + (10_000).to_bytes(4, "big")) * 400 + b"\x01" * 10_000,
        b"\x81\x01\x02",
        b"\x01\x02",
        b"\xc1",
        b"\xa1\xff",
        b"",
    ],
)
def test_bad_msgpack_takes_no_memory(blob: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(CodecError):
        decode(blob)
    assert tracemalloc.get_traced_memory()[1] < 2**21
    tracemalloc.stop()


@given(st.binary(max_size=60))
def test_any_bytes_give_a_tree_or_our_error(blob: bytes) -> None:
    with suppress(CodecError):
        decode(blob)
