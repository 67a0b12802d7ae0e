from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataformats.batch import Blobs
from dataformats.codecs.granular_integers import I64, INT, U64, Int
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import CodecError
from dataformats.spec import Type
from dataformats.testing.loop_over import loop_over

CODECS = CodecResolver(trusted=False)
Values = Callable[[str, str], list[tuple[bytes, Any]]]


def encode(kind: str, value: Any) -> bytes:
    (blob,) = CODECS.encode(Type.parse(kind), value, field="x")
    return blob


def decode(kind: str, *blobs: bytes) -> Any:
    return CODECS.decode(Type.parse(kind), Blobs.join(blobs), field="x")


@loop_over(
    "name, field, kind",
    [
        *[
            (f"{generation}/basic", field, "int(unsigned)")
            for generation in ("bags", "v1")
            for field in ("num", "times")
        ],
        ("bags/basic", "sized", "int(4)"),
        ("bags/basic", "sizedbe", "int(3,big)"),
        ("v2/basic", "num", "int"),
        ("v2/basic", "times", "int"),
        ("v2/basic", "signed64", "i64"),
        ("v2/basic", "unsigned64", "u64"),
        ("v3/basic", "num", "int"),
        ("v3/basic", "signed64", "i64"),
        ("v3/basic", "unsigned64", "u64"),
    ],
)
def test_golden_bytes_there_and_back(granular_values: Values, name: str, field: str, kind: str) -> None:
    pairs = granular_values(name, field)
    assert pairs
    column = decode(kind, *[blob for blob, _ in pairs])
    assert [int(value) for value in column] == [value for _, value in pairs]
    assert [encode(kind, value) for _, value in pairs] == [blob for blob, _ in pairs]


def test_the_same_byte_is_two_numbers() -> None:
    assert decode("int", b"\xc8") == [-56]
    assert decode("int(unsigned)", b"\xc8") == [200]
    assert not INT.portable


def test_no_bytes_and_too_many_are_read() -> None:
    assert decode("int", b"", b"\x05\0\0\0", b"\xff\xff") == [0, 5, -1]
    assert decode("int(unsigned)", b"", b"\x05\0") == [0, 5]


@loop_over("kind", ["int", "int(unsigned)", "int(8)"])
def test_columns_are_lists_whatever_the_values(kind: str) -> None:
    blobs = [bytes(8), b"\xff" * 8]
    assert type(decode(kind, *blobs)) is list
    assert type(decode(kind)) is list


@pytest.mark.parametrize(("kind", "dtype"), [("i64", np.int64), ("u64", np.uint64)])
def test_words_are_arrays(kind: str, dtype: Any) -> None:
    column = decode(kind, bytes(8), b"\x01" + bytes(7))
    assert column.dtype == dtype
    assert column.tolist() == [0, 1]
    assert decode(kind).shape == (0,)
    assert type(CODECS.codec(Type(kind)).decode(bytes(8))) is int


@loop_over("kind", ["int", "int(unsigned)", "int(4)", "int(4,big)", "i64", "u64"])
@loop_over("value", [np.int64(77), np.uint8(77), np.array(77), np.array(77, ">u2")])
def test_numpy_integers_are_taken(kind: str, value: Any) -> None:
    assert encode(kind, value) == encode(kind, 77)


@loop_over(
    "kind, value",
    [
        ("int", 2**127),
        ("int", -(2**127) - 1),
        ("int", 1 << 10_000),
        ("int(unsigned)", -1),
        ("int(unsigned)", 2**128),
        ("int(1)", 256),
        ("int(1)", -1),
        ("int(1)", 1 << 10_000),
        ("i64", 2**63),
        ("u64", -1),
        ("u64", 2**64),
    ],
)
def test_ranges(kind: str, value: int) -> None:
    with pytest.raises(CodecError, match="expected") as caught:
        encode(kind, value)
    assert len(str(caught.value)) < 200


@given(st.integers(-(2**127), 2**127 - 1))
def test_signed_round_trip(value: int) -> None:
    blob = INT.encode(value)
    assert INT.decode(blob) == value
    assert len(blob) == 1 or int.from_bytes(blob[:-1], "little", signed=True) != value  # no shorter encoding exists


@given(st.integers(0, 2**128 - 1))
def test_unsigned_round_trip(value: int) -> None:
    codec = Int(signed=False)
    assert codec.decode(codec.encode(value)) == value
    assert not codec.encode(value).endswith(b"\0")


@given(st.lists(st.binary(max_size=9)))
def test_batch_decoding_matches_single_decoding(blobs: list[bytes]) -> None:
    for codec in (INT, Int(signed=False)):
        for some in (blobs, [blob[:8] for blob in blobs]):
            assert codec.decode_batch(Blobs.join(some)) == [codec.decode(blob) for blob in some]
            assert codec.decode_batch(Blobs.join([b"xyz", *some]).take(slice(1, None))) == [*map(codec.decode, some)]


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1))
def test_words_round_trip(signed: int, unsigned: int) -> None:
    assert I64.decode(I64.encode(signed)) == signed
    assert U64.decode(U64.encode(unsigned)) == unsigned
