from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dataformats.batch import Blobs
from dataformats.codecs.arrays import ARRAY, NPY
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import CodecError, SpecError
from dataformats.interfaces import Codec
from dataformats.spec import Type
from dataformats.testing.loop_over import loop_over

CODECS = CodecResolver(trusted=False)
Values = Callable[[str, str], list[tuple[bytes, Any]]]
DTYPES = [
    *("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"),
    *(">i2", ">u4", ">i8", ">f2", ">f4", ">c16"),
]
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
)


def decode(kind: str, *blobs: bytes) -> Any:
    return CODECS.decode(Type.parse(kind), Blobs.join(blobs), field="x")


def packed(*parts: Any) -> bytes:
    return msgpack.packb(list(parts)) or b""


def npy(header: str, data: bytes = b"", version: bytes = b"\x01\0") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + version + len(text).to_bytes(2 if version == b"\x01\0" else 4, "little") + text + data


def same(found: Any, expected: np.ndarray) -> bool:
    array = np.asarray(found)
    return array.dtype == expected.dtype and array.shape == expected.shape and array.tobytes() == expected.tobytes()


@loop_over(
    "name, field, kind",
    [
        ("bags/basic", "vec", "array(float32,2,3)"),
        ("bags/basic", "scalar", "array(int64)"),
        ("v1/basic", "vec", "array"),
        ("v1/basic", "vecs", "array"),
        ("v2/basic", "vec", "array"),
        ("v2/basic", "vecs", "array"),
        ("v3/basic", "vec", "array"),
    ],
)
def test_golden_bytes_there_and_back(granular_values: Values, name: str, field: str, kind: str) -> None:
    pairs = granular_values(name, field)
    assert pairs
    column = decode(kind, *[blob for blob, _ in pairs])
    assert all(same(found, expected) for found, (_, expected) in zip(column, pairs, strict=True))
    assert [CODECS.encode(Type.parse(kind), value) for _, value in pairs] == [[blob] for blob, _ in pairs]


def test_frozen_bytes_of_npy() -> None:
    header = b"{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }"
    blob = b"\x93NUMPY\x01\0v\0" + header + b" " * (0x76 - 1 - len(header)) + b"\n" + b"\x01\0\x02\0\x03\0"
    assert NPY.encode(np.arange(1, 4, dtype="<u2")) == blob
    assert same(NPY.decode(blob), np.arange(1, 4, dtype="<u2"))
    assert same(NPY.decode(npy(header.decode(), blob[-6:], b"\x02\0")), np.arange(1, 4, dtype="<u2"))


@given(ARRAYS)
def test_round_trips(array: np.ndarray) -> None:
    for codec in (ARRAY, NPY):
        blob = codec.encode(array)
        assert same(codec.decode(blob), array)
        assert codec.encode(codec.decode(blob)) == blob
    if array.dtype.isnative:
        kind = Type("array", (array.dtype.name, *map(str, array.shape)))
        column: Any = CODECS.decode(kind, Blobs.join(CODECS.encode(kind, array) * 2))
        assert column.shape == (2, *array.shape)
        assert same(column[1], array)


@given(ARRAYS)
def test_npy_bytes_match_numpy(array: np.ndarray) -> None:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    assert NPY.encode(array) == stream.getvalue()
    assert same(np.load(io.BytesIO(NPY.encode(array)), allow_pickle=False), array)


@pytest.mark.parametrize("codec", [ARRAY, NPY], ids=["array", "npy"])
def test_any_memory_order_is_taken(codec: Codec) -> None:
    grid = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    for view in (grid.T, grid[:, ::2], grid[..., ::-1], np.asfortranarray(grid), np.broadcast_to(grid[0], (2, 3, 4))):
        assert np.array_equal(codec.decode(codec.encode(view)), view)
    assert ARRAY.encode(grid.T) == ARRAY.encode(np.ascontiguousarray(grid.T))


@pytest.mark.skipif(not hasattr(np, "float128"), reason="this platform has no float128")
@pytest.mark.parametrize("shape", [(), (3,)])
def test_float128_with_a_named_byte_order_is_taken(shape: tuple[int, ...]) -> None:
    array = np.full(shape, 1.5, np.dtype("float128").newbyteorder("<"))
    decoded = ARRAY.decode(ARRAY.encode(array))
    assert (decoded.dtype, decoded.tolist()) == (np.dtype("float128"), array.tolist())


@pytest.mark.parametrize("codec", [ARRAY, NPY], ids=["array", "npy"])
def test_arrays_are_the_callers_own(codec: Codec) -> None:
    column: Any = codec.decode_batch(Blobs.join([codec.encode(np.zeros(3)), codec.encode(np.ones(2, "i4"))]))
    assert type(column) is list
    column[0][:] = 7
    assert column[1].tolist() == [1, 1]
    assert codec.decode(codec.encode(np.float32(2.5))).shape == ()


@loop_over(
    "values",
    [
        [np.arange(6, dtype="<f4").reshape(2, 3), np.ones((2, 3), "<f4")],
        [np.arange(3, dtype="<i4"), np.arange(3, dtype="<u4")],
        [np.zeros((2, 3), "u1"), np.zeros((3, 2), "u1")],
        [np.arange(3, dtype="c16"), np.arange(3, dtype="c16")],
        [np.array([True, False]), np.array([False, False])],
        [np.zeros((0, 4), "i2"), np.zeros((0, 4), "i2")],
        [np.array(7), np.array(8)],
        [np.arange(3, dtype=">i2"), np.arange(3, dtype=">i2")],
    ],
)
def test_arrays_of_one_batch(values: list[np.ndarray]) -> None:
    column: Any = ARRAY.decode_batch(Blobs.join([ARRAY.encode(value) for value in values]))
    assert isinstance(column, list)
    assert all(same(found, value) for found, value in zip(column, values, strict=True))
    assert all(found.flags.writeable and found.flags.aligned for found in column)
    again: Any = pickle.loads(pickle.dumps(column))
    assert all(map(np.array_equal, again, values))  # numpy's pickles are of the machine's byte order


def test_arrays_with_equal_headers_are_checked_one_by_one() -> None:
    blobs = [packed("|b1", [2], data) for data in (b"\0\1", b"\1\2", b"\0\0")]
    with pytest.raises(CodecError, match="expected 0 or 1, found 2") as caught:
        decode("array", *blobs)
    assert caught.value.index == 1


@loop_over(
    "blob",
    [
        packed("<f4", [2], bytes(7)),
        packed("<f4", [2], bytes(9)),
        packed("<f4", [2**40], bytes(8)),
        packed("<f4", [2**62, 4], bytes(8)),
        packed("<f4", [0, 2**63], b""),
        packed("<f4", [-1, -2], bytes(8)),
        packed("<f4", [True], bytes(4)),
        packed("<f4", [1.0], bytes(4)),
        packed("<f4", 1, bytes(4)),
        packed("<f4", [1] * 40, bytes(4)),
        packed("<f4", [1], "text"),
        packed("<f4", [1], [0, 0, 0, 0]),
        packed("|O", [1], bytes(8)),
        packed("O", [1], bytes(8)),
        packed("<M8[s]", [1], bytes(8)),
        packed("|S4", [1], bytes(4)),
        packed("|V4", [1], bytes(4)),
        packed("i4,i4", [1], bytes(8)),
        packed("int", [1], bytes(8)),
        packed("<f3", [1], bytes(3)),
        packed(4, [1], bytes(4)),
        packed("|b1", [2], b"\x01\x02"),
        packed("<f4", [1]),
        packed("<f4", [1], bytes(4), 0),
        packed({}, [1], bytes(4)),
        packed(msgpack.ExtType(1, b"x"), [1], bytes(4)),
        packed("<f4", [1], bytes(4)) + b"\0",
        b"\x93\xa3<f4\x91\x01\xc6\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\x91" * 10_000,
        b"\x05",
        b"",
    ],
)
def test_bad_arrays(blob: bytes) -> None:
    with pytest.raises(CodecError):
        decode("array", blob)


@loop_over(
    "blob",
    [
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", bytes(7)),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", bytes(9)),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }", bytes(8)),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -2), }", bytes(8)),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (True,), }", bytes(4)),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", pickle.dumps([1])),
        npy("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }", bytes(4)),
        npy("{'descr': ('<i4', (2,)), 'fortran_order': False, 'shape': (1,), }", bytes(8)),
        npy("{'descr': '|V99999999999', 'fortran_order': False, 'shape': (0,), }"),
        npy("{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }", b"\x05"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", bytes(4)),
        npy("__import__('os').abort()"),
        npy("(" * 9000),
        npy(" " * 60_000),
        npy(" " * 100, version=b"\x02\0").replace(b"\x65\0\0\0", b"\xff\xff\xff\xff"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", bytes(4), b"\x03\0"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", bytes(4), b"\x09\0"),
        b"\x93NUMPY",
        b"",
        pickle.dumps(np.zeros(2)),
    ],
)
def test_bad_npy(blob: bytes) -> None:
    with pytest.raises(CodecError):
        decode("npy", blob)


@given(st.binary(max_size=60))
def test_any_bytes_give_an_array_or_our_error(blob: bytes) -> None:
    for kind in ("array", "npy"):
        with suppress(CodecError):
            decode(kind, blob)


# ---- arrays of fixed sizes


def test_fixed_arrays_are_dense() -> None:
    column = decode("array(int16,2)", b"\x01\0\x02\0", b"\x03\0\x04\0")
    assert column.tolist() == [[1, 2], [3, 4]]
    column[0] = 0
    assert decode("array(int16,2)").shape == (0, 2)
    assert decode("array(float64,0,3)", b"").shape == (1, 0, 3)
    assert decode("array(>u2)", b"\x01\x02").tolist() == [258]


def test_fixed_arrays_accept_only_exact_values() -> None:
    kind = Type.parse("array(float32,2)")
    assert CODECS.encode(kind, [1, 0.5]) == [np.array([1, 0.5], "<f4").tobytes()]
    assert CODECS.encode(Type.parse("array(>i2)"), 258) == [b"\x01\x02"]
    for value in ([1], [[1, 2]], [1e39, 0], ["a", "b"], None):
        with pytest.raises((CodecError, SpecError)):
            CODECS.encode(kind, value)
    with pytest.raises(CodecError, match="expected complex64"):
        CODECS.encode(Type.parse("array(complex64,1)"), [1.0])


@pytest.mark.parametrize("sizes", [["2"] * 33, ["65536"] * 4])
def test_sizes_are_bounded(sizes: list[str]) -> None:
    with pytest.raises(SpecError, match="array takes"):
        CODECS.known_codec(Type("array", ("float32", *sizes)))
