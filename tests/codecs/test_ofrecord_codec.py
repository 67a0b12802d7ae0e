"""OFRecords against protobuf, and back from it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dataformats.batch import Blobs, Ragged, RecordBatch
from dataformats.codecs.features.protobuf_messages import OFRECORD_MESSAGE
from dataformats.codecs.ofrecord import OFRECORD
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import CodecError, CorruptRecordError, SpecError
from dataformats.spec import Spec
from dataformats.testing.loop_over import loop_over

LISTS = {bytes: "bytes_list", np.float32: "float_list", float: "double_list", np.int32: "int32_list", int: "int64_list"}


def coder(spec: dict[str, str], *, inferred: bool = False) -> Any:
    return OFRECORD.bind(Spec(spec), CodecResolver(trusted=True), inferred=inferred)


def ofrecord(**features: Any) -> bytes:
    """Return an OFRecord made by protobuf: bytes, float32 or float, int32 or int; one or a list."""
    message = OFRECORD_MESSAGE()
    for name, values in features.items():
        values = values if isinstance(values, list) else [values]
        getattr(message.feature[name], LISTS[type(values[0])]).value.extend(values)
    blob: bytes = message.SerializeToString()
    return blob


def empty(kind: str) -> bytes:
    message = OFRECORD_MESSAGE()
    getattr(message.feature["a"], kind).SetInParent()
    blob: bytes = message.SerializeToString()
    return blob


def read(spec: dict[str, str], *blobs: bytes, part: bool | range = True, inferred: bool = False) -> dict[str, Any]:
    columns: dict[str, Any] = coder(spec, inferred=inferred).decode_batch(Blobs.join(blobs), dict.fromkeys(spec, part))
    return columns


def i32(*values: int) -> list[Any]:
    return [np.int32(value) for value in values]


# ---- where a value goes


@loop_over(
    "kind, value, stored",
    [
        ("int64", 5, 5),
        ("uint32", 5, 5),
        ("uint64", 2**63 - 1, 2**63 - 1),
        ("int64[2,2]", [[1, 2], [3, -4]], [1, 2, 3, -4]),
        ("int32", -5, np.int32(-5)),
        ("int8", -128, np.int32(-128)),
        ("uint16", 65535, np.int32(65535)),
        ("bool", True, np.int32(1)),
        ("int32[2,2]", [[1, 2], [3, -(2**31)]], i32(1, 2, 3, -(2**31))),
        ("int32[][2]", [[1, 2], [3, 4]], i32(1, 2, 3, 4)),
        ("uint8[]", [1, 200], i32(1, 200)),
        ("uint8[2,2]", np.array([[1, 2], [3, 4]], np.uint8), bytes([1, 2, 3, 4])),
        ("uint8[][2]", [[1, 2], [3, 4]], [b"\1\2", b"\3\4"]),
        ("float32", 0.5, np.float32(0.5)),
        ("float32[2]", [1, 2], [np.float32(1), np.float32(2)]),
        ("float64", 0.1, 0.1),
        ("float64[2,1]", [[0.1], [1e300]], [0.1, 1e300]),
        ("float64[]", [0.1], 0.1),
        ("float16[2]", [1, 2], np.array([1, 2], "<f2").tobytes()),
        ("utf8", "é", "é".encode()),
        ("utf8[]", ["a", "b"], [b"a", b"b"]),
        ("json", {"a": 1}, b'{"a":1}'),
        ("feature", np.array([1, 2], np.int32), i32(1, 2)),
        ("feature", np.array([1, 2]), [1, 2]),
        ("feature", np.array([0.1]), 0.1),
        ("feature", np.array([0.5], np.float32), np.float32(0.5)),
        ("feature", [b"x"], b"x"),
    ],
)
def test_where_a_value_goes(kind: str, value: Any, stored: Any) -> None:
    written = coder({"a": kind}).encode({"a": value})
    assert written == ofrecord(a=stored)
    column = read({"a": kind}, written)["a"]
    assert np.array_equal(np.asarray(column[0]), np.asarray(value))


@loop_over(
    "kind, list_name",
    [
        ("int32[]", "int32_list"),
        ("int64[]", "int64_list"),
        ("float32[]", "float_list"),
        ("float64[]", "double_list"),
        ("utf8[]", "bytes_list"),
    ],
)
def test_empty_lists_keep_their_kind(kind: str, list_name: str) -> None:
    assert coder({"a": kind}).encode({"a": []}) == empty(list_name)
    assert len(read({"a": kind}, empty(list_name))["a"][0]) == 0


@loop_over("kind", ["int32", "int64", "float32", "float64"])
def test_either_list_or_bytes_are_read(kind: str) -> None:
    whole = (np.int32(3), 3) if kind.startswith("int") else (np.float32(3), 3.0)
    for stored in (*whole, np.dtype(kind).type(3).tobytes()):
        column = read({"a": kind}, ofrecord(a=stored))["a"]
        assert (column.dtype, column.tolist()) == (np.dtype(kind), [3])
    mixed = [ofrecord(a=value) for value in (*whole, np.dtype(kind).type(4).tobytes(), whole[0])]
    assert read({"a": kind}, *mixed)["a"].tolist() == [3, 3, 4, 3]


@loop_over(
    "kind, value, words",
    [
        ("int32", 2**31, r"expected int32, found 2147483648\. Pass spec=.*'a': 'int64'"),
        ("uint8", np.int32(-1), r"found -1\. Pass spec=.*'a': 'int32'"),
        ("float32", 0.1, r"found 0\.1\. Pass spec=.*'a': 'float64'"),
        ("float32", np.int32(2**24 + 1), r"found 16777217\. .*'int32'.*or 'feature'"),
        ("int64", 0.5, r"found double values.*'a': 'float64'.*or 'feature'"),
        ("int64", i32(1, 2), r"found 2 int32 values.*'int32\[\]'"),
        ("bytes", 0.5, r"found double values"),
    ],
)
def test_unfitting_value_names_its_field(kind: str, value: Any, words: str) -> None:
    with pytest.raises(SpecError, match=words) as caught:
        read({"a": kind}, ofrecord(a=value))
    assert (caught.value.field, caught.value.index) == ("a", 0)


def test_ofrecord_refuses_unencodable_values() -> None:
    with pytest.raises(SpecError, match="does not fit an Int64List"):
        coder({"a": "uint64"}).encode({"a": 2**63})
    with pytest.raises(SpecError, match="the spec has no such field"):
        coder({"a": "int32"}).encode({"a": 1, "b": 2})
    with pytest.raises(SpecError, match="found nothing"):
        coder({"a": "int32"}).encode({})
    with pytest.raises(SpecError, match=r"an OFRecord cannot be encoded without types\. Pass spec="):
        OFRECORD.encode({"a": 1})
    for value in (5, "text", [1], np.array([1j])):
        with pytest.raises(CodecError, match="codec 'feature'"):
            coder({"a": "feature"}).encode({"a": value})
    with pytest.raises(SpecError, match=r"\[\] must be the first dimension"):
        coder({"a": "int64[2][]"})
    assert coder({"a": "int32?", "b": "utf8[]"}).encode({}) == b""


# ---- inference


def test_inference() -> None:
    blobs = [
        ofrecord(one=np.int32(1), pair=[1, 2], some=[0.1, 0.2], text=b"a", mixed=1, lone=np.float32(1)),
        ofrecord(one=np.int32(2), pair=[3, 4], some=0.1, text=b"b", mixed=np.int32(1)),
    ]
    spec = OFRECORD.infer(blobs)
    assert spec.to_json() == {
        "lone": "float32?",
        "mixed": "int64",
        "one": "int32",
        "pair": "int64[2]",
        "some": "float64[]",
        "text": "bytes",
    }
    columns = read(spec.to_text(), *blobs, inferred=True)
    assert (columns["mixed"].dtype, columns["mixed"].tolist()) == (np.int64, [1, 1])
    with pytest.raises(SpecError, match=r"field 'mixed'.*spec="):
        read({"one": "int32"}, ofrecord(one=np.int32(1)), ofrecord(mixed=1), inferred=True)


def test_recognition() -> None:
    assert OFRECORD.matches(ofrecord(a=1))
    assert OFRECORD.matches(b"")
    for blob in (b"text", b"\n", b"\n\x05hello", b"\x78\x01", bytes(20), b"\x08\x01"):
        assert not OFRECORD.matches(blob)


# ---- tolerance of the wire


@loop_over(
    "feature, dtype, values",
    [
        (b"\x12\x0a\x0d\0\0\x80\x3f\x0d\0\0\0\x40", np.float32, [1, 2]),  # unpacked
        (b"\x12\x0b\x0a\x04\0\0\x80\x3f\x0d\0\0\0\x40", np.float32, [1, 2]),  # one packed, one not
        (b"\x22\x06\x08\x05\x0a\x02\x01\x02", np.int32, [5, 1, 2]),
        (b"\x22\x0b\x08" + b"\xff" * 9 + b"\x01", np.int32, [-1]),
        (b"\x22\x06\x08\xff\xff\xff\xff\x0f", np.int32, [-1]),  # a negative in five bytes
        (b"\x2a\x02\x08\x05\x22\x02\x08\x07", np.int32, [7]),  # two kinds: the last counts
        (b"\x22\x02\x08\x05\x22\x02\x08\x07", np.int32, [5, 7]),  # one kind twice: they are merged
        (b"\x22\x04\x08\x05\x78\x01\x78\x01", np.int32, [5]),  # unknown fields
    ],
)
def test_decoder_accepts_unusual_valid_encodings(feature: bytes, dtype: Any, values: list[int]) -> None:
    entry = b"\x0a\x01a\x12" + bytes([len(feature)]) + feature
    blob = b"\x0a" + bytes([len(entry)]) + entry + b"\x78\x01"
    found = OFRECORD.decode(blob)["a"]
    assert (found.dtype, found.tolist()) == (dtype, values)
    assert OFRECORD.matches(blob)


# ---- round trips


SPEC = {
    "i": "int32[]",
    "l": "int64?",
    "u": "uint8[2]",
    "f": "float32[]",
    "d": "float64[][2]",
    "t": "utf8[]",
    "o": "bool",
}
RECORDS = st.fixed_dictionaries(
    {"u": arrays.arrays(np.uint8, 2), "o": st.booleans()},
    optional={
        "i": arrays.arrays(np.int32, st.integers(0, 5)),
        "l": st.integers(-(2**63), 2**63 - 1),
        "f": arrays.arrays(np.float32, st.integers(0, 5), elements=st.floats(width=32, allow_nan=False)),
        "d": arrays.arrays(np.float64, st.tuples(st.integers(0, 3), st.just(2)), elements=st.floats(allow_nan=False)),
        "t": st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
    },
)


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


@given(st.lists(RECORDS, max_size=5))
def test_round_trips(originals: list[dict[str, Any]]) -> None:
    bound = coder(SPEC)
    blobs = [bound.encode(record) for record in originals]
    columns = bound.decode_batch(Blobs.join(blobs), dict.fromkeys(SPEC, True))
    for original, record in zip(originals, RecordBatch(columns, np.arange(len(originals))), strict=True):
        expected = {name: plain(value) for name, value in original.items()}
        assert {name: plain(list(v) if isinstance(v, Ragged) else v) for name, v in record.items()} == expected


@given(
    arrays.arrays(np.int32, st.integers(0, 6)),
    arrays.arrays(np.int64, st.integers(0, 6)),
    arrays.arrays(np.float32, st.integers(0, 6)),
    arrays.arrays(np.float64, st.integers(0, 6)),
    st.text(st.characters(exclude_categories=["Cs"])),
)
def test_protobuf_reads_encoded_ofrecords(i: Any, n: Any, f: Any, d: Any, name: str) -> None:
    spec = {"i": "int32[]", "n": "int64[]", "f": "float32[]", "d": "float64[]", "name " + name: "utf8"}
    blob = coder(spec).encode({"i": i, "n": n, "f": f, "d": d, "name " + name: name})
    feature = OFRECORD_MESSAGE.FromString(blob).feature
    assert feature["i"].int32_list.value == i.tolist()
    assert feature["n"].int64_list.value == n.tolist()
    assert np.array_equal(np.array(feature["f"].float_list.value, np.float32), f, equal_nan=True)
    assert np.array_equal(np.array(feature["d"].double_list.value), d, equal_nan=True)
    assert feature["name " + name].bytes_list.value == [name.encode()]
    assert np.array_equal(read({"d": "float64[]"}, blob)["d"][0].view(np.int64), d.view(np.int64))


# ---- damage


@given(st.binary(max_size=80))
def test_any_bytes_give_columns_or_our_errors(blob: bytes) -> None:
    with suppress(CorruptRecordError):
        read(OFRECORD.infer([blob]).to_text(), blob, inferred=True)


def test_name_outside_of_utf8_costs_its_feature() -> None:
    blob = ofrecord(id=[7, 8], gr__e=0.5).replace(b"gr__e", b"gr\xf6\xdfe")
    with pytest.warns(UserWarning, match=r"the feature b'gr\\xf6\\xdfe' is left out: its name is not UTF-8"):
        spec = OFRECORD.infer([blob])
    assert spec == {"id": "int64[2]"}
    assert OFRECORD.decode(blob)["id"].tolist() == read(spec.to_text(), blob, inferred=True)["id"][0].tolist() == [7, 8]
