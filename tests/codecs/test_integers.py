from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataformats.batch import Blobs
from dataformats.codecs.integers import I64, INT, MAX_BYTES, U64, Int
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import CodecError, SpecError
from dataformats.spec import Type

CODECS = CodecResolver(trusted=False)
Values = Callable[[str, str], list[tuple[bytes, Any]]]


def encode(kind: str, value: Any) -> bytes:
    (blob,) = CODECS.encode(Type.parse(kind), value, field="x")
    return blob


def decode(kind: str, *blobs: bytes) -> Any:
    return CODECS.decode(Type.parse(kind), Blobs.join(blobs), field="x")


@pytest.mark.parametrize(
    ("name", "field", "kind"),
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


@pytest.mark.parametrize(
    ("kind", "value", "blob"),
    [
        ("int", 0, "00"),
        ("int", 127, "7f"),
        ("int", 128, "8000"),
        ("int", 255, "ff00"),
        ("int", 256, "0001"),
        ("int", 32767, "ff7f"),
        ("int", 32768, "008000"),
        ("int", -1, "ff"),
        ("int", -128, "80"),
        ("int", -129, "7fff"),
        ("int", 2**127 - 1, "ff" * 15 + "7f"),
        ("int", -(2**127), "00" * 15 + "80"),
        ("int(unsigned)", 0, ""),
        ("int(unsigned)", 200, "c8"),
        ("int(unsigned)", 65536, "000001"),
        ("int(2)", 258, "0201"),
        ("int(2,little)", 258, "0201"),
        ("int(3,big)", 258, "000102"),
        ("int(8)", 2**64 - 1, "ff" * 8),
        ("i64", -2, "fe" + "ff" * 7),
        ("u64", 2**63, "00" * 7 + "80"),
    ],
)
def test_frozen_bytes(kind: str, value: int, blob: str) -> None:
    assert encode(kind, value).hex() == blob
    assert list(decode(kind, bytes.fromhex(blob))) == [value]


def test_the_same_byte_is_two_numbers() -> None:
    assert decode("int", b"\xc8") == [-56]
    assert decode("int(unsigned)", b"\xc8") == [200]
    assert not INT.portable


def test_no_bytes_and_too_many_are_read() -> None:
    assert decode("int", b"", b"\x05\0\0\0", b"\xff\xff") == [0, 5, -1]
    assert decode("int(unsigned)", b"", b"\x05\0") == [0, 5]


@pytest.mark.parametrize("kind", ["int", "int(unsigned)", "int(8)"])
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


@pytest.mark.parametrize("kind", ["int", "int(unsigned)", "int(4)", "int(4,big)", "i64", "u64"])
@pytest.mark.parametrize("value", [np.int64(77), np.uint8(77), np.array(77), np.array(77, ">u2")])
def test_numpy_integers_are_taken(kind: str, value: Any) -> None:
    assert encode(kind, value) == encode(kind, 77)


@pytest.mark.parametrize("kind", ["int", "int(unsigned)", "int(4)", "i64", "u64"])
@pytest.mark.parametrize("value", [True, np.bool_(True), 1.0, np.float64(1), "1", b"1", None, [1], np.array([1])])
def test_what_is_no_integer_is_refused(kind: str, value: Any) -> None:
    with pytest.raises((CodecError, SpecError), match="expected"):
        encode(kind, value)


@pytest.mark.parametrize(
    ("kind", "value"),
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


@pytest.mark.parametrize(
    ("kind", "blob"),
    [
        ("int", bytes(MAX_BYTES + 1)),
        ("int(unsigned)", bytes(MAX_BYTES + 1)),
        ("int(4)", bytes(3)),
        ("int(4)", bytes(5)),
        ("int(3,big)", b""),
        ("i64", bytes(7)),
        ("u64", bytes(9)),
        ("u64", b""),
    ],
)
def test_wrong_sizes(kind: str, blob: bytes) -> None:
    good = bytes({"int(4)": 4, "int(3,big)": 3}.get(kind, 8))
    with pytest.raises(CodecError, match="expected") as caught:
        decode(kind, good, blob)
    assert (caught.value.field, caught.value.index) == ("x", 1)


@pytest.mark.parametrize("args", ["0", "-1", "x", "1025", "9999", "8,middle", "8,big,1", "signed", "unsigned,8", "٣"])
def test_arguments(args: str) -> None:
    with pytest.raises(SpecError, match="int takes"):
        CODECS.codec(Type("int", tuple(args.split(","))))
    with pytest.raises(SpecError, match="no arguments"):
        CODECS.codec(Type("i64", ("8",)))


@given(st.integers(-(2**127), 2**127 - 1))
def test_signed_round_trip(value: int) -> None:
    blob = INT.encode(value)
    assert INT.decode(blob) == value
    assert len(blob) == 1 or int.from_bytes(blob[:-1], "little", signed=True) != value  # no shorter one


@given(st.integers(0, 2**128 - 1))
def test_unsigned_round_trip(value: int) -> None:
    codec = Int(signed=False)
    assert codec.decode(codec.encode(value)) == value
    assert not codec.encode(value).endswith(b"\0")


@given(st.lists(st.binary(max_size=9)))
def test_a_batch_is_what_its_blobs_are(blobs: list[bytes]) -> None:
    for codec in (INT, Int(signed=False)):
        for some in (blobs, [blob[:8] for blob in blobs]):
            assert codec.decode_batch(Blobs.join(some)) == [codec.decode(blob) for blob in some]
            assert codec.decode_batch(Blobs.join([b"xyz", *some]).take(slice(1, None))) == [*map(codec.decode, some)]


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1))
def test_words_round_trip(signed: int, unsigned: int) -> None:
    assert I64.decode(I64.encode(signed)) == signed
    assert U64.decode(U64.encode(unsigned)) == unsigned
