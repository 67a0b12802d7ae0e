from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dataformats.batch import Blobs, Nullable, Ragged
from dataformats.codecs.arrays import ARRAY
from dataformats.codecs.documents import PICKLE
from dataformats.columns.codec_resolver import CodecResolver, encode_value, register_codec
from dataformats.columns.exact_cast import to_exact_array
from dataformats.columns.field_decoder import FieldDecoder
from dataformats.columns.masks import insert_missing
from dataformats.errors import CodecError, SpecError, UnknownNameError
from dataformats.interfaces import Codec
from dataformats.registry import codecs as registered
from dataformats.spec import NUMBER_TYPES, Type
from dataformats.testing.loop_over import loop_over

CODECS = CodecResolver(trusted=True)


def decode(kind: str, blobs: list[bytes], counts: list[int] | None = None, codecs: CodecResolver = CODECS) -> Any:
    numbers = None if counts is None else np.array(counts, np.int64)
    return codecs.decode(Type.parse(kind), Blobs.join(blobs), numbers, field="x")


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered, "_objects", dict(registered._objects))
    monkeypatch.setattr("dataformats.columns.codec_resolver._registered_safe", {})


# ---- numbers from blobs


def test_fixed_numbers_are_arrays() -> None:
    column = decode("int16[2,2]", [np.arange(4, dtype="<i2").tobytes(), np.arange(4, 8, dtype="<i2").tobytes()])
    assert column.dtype == np.int16
    assert column.tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]


def test_sequences_of_numbers_are_ragged() -> None:
    column = decode("float32[][2]", [np.arange(4, dtype="<f4").tobytes(), b"", np.zeros(2, "<f4").tobytes()])
    assert column.offsets.tolist() == [0, 2, 2, 3]
    assert column[0].tolist() == [[0, 1], [2, 3]]


def test_sequences_may_lie_in_several_blobs() -> None:
    column = decode("uint8[]", [b"ab", b"c", b"", b"d"], [2, 0, 2])
    assert [bytes(item) for item in column] == [b"abc", b"", b"d"]


@loop_over("kind", ["int64", "float32[3]", "bool", "uint8[0]", "utf8", "jpg", "int8[]", "utf8[]"])
def test_no_records_give_the_same_kind_of_column(kind: str) -> None:
    counts: list[int] | None = [] if kind == "utf8[]" else None
    column = decode(kind, [], counts)
    assert len(column) == 0
    assert isinstance(column, Ragged) == (kind in ("utf8", "int8[]", "utf8[]"))


@loop_over(
    "kind, blob, words",
    [
        ("int64", b"1234567", "expected 8 bytes for int64, found 7"),
        ("float32[2]", b"12345678x", "expected 8 bytes"),
        ("int16[][2]", b"12345", "a multiple of 4"),
        ("bool", b"\x02", "expected 0 or 1, found 2"),
        ("uint8[0]", b"x", "expected 0 bytes"),
        ("uint8[0,2147483647,511]", b"x", "expected 0 bytes"),
    ],
)
def test_wrong_numbers_name_the_record(kind: str, blob: bytes, words: str) -> None:
    good = bytes({"int64": 8, "float32[2]": 8, "int16[][2]": 4, "bool": 1}.get(kind, 0))
    with pytest.raises(CodecError, match=words) as caught:
        decode(kind, [good, blob])
    assert (caught.value.field, caught.value.index) == ("x", 1)


def test_a_type_may_be_larger_than_any_blob() -> None:
    with pytest.raises(CodecError, match=f"expected {(2**31 - 1) * 511} bytes"):
        decode("uint8[2147483647,511]", [b"x"])


def test_free_dims_must_be_first() -> None:
    with pytest.raises(SpecError, match=r"\[\] must be the first dimension, as in float32\[\]\[4\]"):
        decode("int8[2][]", [b""])


# ---- codecs from blobs


def test_codecs_with_dims_nest() -> None:
    column = decode("utf8[][2]", [b"a", b"b", b"c", b"d"], [0, 4])
    assert [list(item) for item in column] == [[], [["a", "b"], ["c", "d"]]]


def test_fixed_dims_of_codecs_are_checked() -> None:
    assert list(decode("bytes[2]", [b"a", b"b"], [2])) == [[b"a", b"b"]]
    with pytest.raises(CodecError, match="expected 2 blobs") as caught:
        decode("bytes[2]", [b"a", b"b", b"c"], [2, 1])
    assert caught.value.index == 1


def test_a_failing_blob_is_named_and_its_cause_chained() -> None:
    with pytest.raises(CodecError, match="field 'x', codec 'utf8'") as caught:
        decode("utf8[]", [b"fine", b"\xff", b"fine"], [1, 0, 2])
    assert caught.value.index == 2
    assert isinstance(caught.value.__cause__, UnicodeDecodeError)


def test_utf8_is_checked_at_the_seams() -> None:
    euro = "€".encode()
    with pytest.raises(CodecError) as caught:
        decode("utf8", [b"a", euro[:1], euro[1:]])
    assert caught.value.index == 1


def test_a_batch_of_another_length_is_refused() -> None:
    class Short(Codec):
        name = "short"
        encode = decode = staticmethod(bytes)  # type: ignore[assignment]  # not what is tested

        def decode_batch(self, blobs: Blobs) -> list[Any]:
            return []

    with pytest.raises(CodecError, match="0 values for 1 blobs"):
        CodecResolver({"short": Short()}, trusted=True).decode(Type("short"), Blobs.join([b""]))


# ---- fields under a declared type


def test_arrays_under_a_declared_type() -> None:
    arrays = [np.arange(6, dtype="<f4").reshape(2, 3), np.ones((2, 3), "<f4")]
    expected = np.stack(arrays)
    for stored in (arrays, [array.astype(">f4") for array in arrays], [arrays[0], arrays[1].astype(">f4")]):
        blobs = Blobs.join([ARRAY.encode(array) for array in stored])
        column: Any = FieldDecoder(CODECS, Type("array"), Type.parse("float32[2,3]"), "x").decode(blobs, None)
        assert (column.dtype, column.tolist()) == (np.float32, expected.tolist())
        assert column.flags.c_contiguous
        assert isinstance(FieldDecoder(CODECS, Type("array"), Type("array"), "x").decode(blobs, None), list)
    for other in ("float32[3,2]", "int64[2,3]", "float32[6]"):
        with pytest.raises(SpecError, match=r"found float32\[2, 3\]") as caught:
            FieldDecoder(CODECS, Type("array"), Type.parse(other), "x").decode(blobs, None)
        assert (caught.value.field, caught.value.index) == ("x", 0)
    ragged: Any = FieldDecoder(CODECS, Type("array"), Type.parse("float32[][3]"), "x").decode(blobs, None)
    assert isinstance(ragged, Ragged)
    assert [item.tolist() for item in ragged] == expected.tolist()


def test_array_of_undeclared_shape_names_its_index() -> None:
    blobs = Blobs.join([ARRAY.encode(np.zeros(size, "u1")) for size in (2, 2, 3)])
    with pytest.raises(SpecError, match="found uint8") as caught:
        FieldDecoder(CODECS, Type("array"), Type.parse("uint8[2]"), "x").decode(blobs, None)
    assert caught.value.index == 2


# ---- missing values


def test_spread() -> None:
    present = np.array([True, False, True])
    numbers = insert_missing(np.array([1, 2]), present, optional=True)
    assert isinstance(numbers, Nullable)
    assert list(numbers) == [1, None, 2]
    texts = insert_missing(decode("utf8", [b"a", b"bc"]), present, optional=True)
    assert isinstance(texts, Ragged)
    assert list(texts) == ["a", "", "bc"]
    assert texts.present is present
    objects = insert_missing([{}, []], present, optional=True)
    assert list(objects) == [{}, None, []]


# ---- names


def test_overrides_win_also_over_numbers_and_arguments() -> None:
    def shout(blob: bytes) -> str:
        return blob.decode().upper()

    codecs = CodecResolver(
        {"utf8": (str.encode, shout), "int8": (str.encode, shout), "int(8)": (bytes, bytes.hex)},
        trusted=False,
    )
    assert decode("utf8", [b"a"], codecs=codecs) == ["A"]
    assert decode("int8", [b"a"], codecs=codecs) == ["A"]
    assert decode("int(8)", [b"a"], codecs=codecs) == ["61"]


@pytest.mark.parametrize("name", ["pickle", "nothing_of_the_kind"])
def test_files_may_not_name_everything(name: str) -> None:
    with pytest.raises(UnknownNameError, match="Pass codecs="):
        CodecResolver(trusted=False).known_codec(Type(name))


def test_untrusted_files_may_name_safe_codecs() -> None:
    assert CodecResolver(trusted=False).known_codec(Type("jpg", ("90",))).name == "jpg"
    assert CodecResolver({"pickle": PICKLE}, trusted=False).codec(Type("pickle")) is PICKLE
    assert CodecResolver(trusted=True).codec(Type("pickle")) is PICKLE


def test_an_entry_point_is_not_even_imported_for_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        def load(self) -> Any:
            raise AssertionError("a name in a file ran code")

    monkeypatch.setattr(registered, "_advertised", {"evil": Point()})
    with pytest.raises(UnknownNameError):
        CodecResolver(trusted=False).known_codec(Type("evil"))


@pytest.mark.usefixtures("clean_registry")
def test_register_codec() -> None:
    register_codec("upper", str.encode, bytes.decode)
    register_codec("upper", str.encode, bytes.decode)
    assert decode("upper", [b"a"]) == decode("upper", [b"a"], codecs=CodecResolver(trusted=True)) == ["a"]
    with pytest.raises(ValueError, match="registered already"):
        register_codec("upper", str.encode, bytes.hex)
    with pytest.raises(UnknownNameError):
        CodecResolver(trusted=False).known_codec(Type("upper"))
    register_codec("upper", str.encode, bytes.hex, safe=True, replace=True)
    assert decode("upper", [b"a"], codecs=CodecResolver(trusted=False)) == ["61"]


@pytest.mark.usefixtures("clean_registry")
def test_a_codec_under_a_safe_name_is_not_safe() -> None:
    register_codec("jpg", bytes, bytes, replace=True)
    with pytest.raises(UnknownNameError):
        CodecResolver(trusted=False).known_codec(Type("jpg"))
    with pytest.raises(ValueError, match="number type"):
        register_codec("int8", bytes, bytes)


def test_codecs_pickle() -> None:
    copy = pickle.loads(pickle.dumps(CodecResolver({"up": (str.encode, bytes.decode)}, trusted=False)))
    assert copy.decode(Type("up"), Blobs.join([b"a"])) == ["a"]
    assert copy.trusted is False


# ---- exactness


@loop_over(
    "kind, value, words",
    [
        ("uint8", 256, "out of range"),
        ("uint8", -1, "out of range"),
        ("int64", 2**63, "out of range"),
        ("uint64", 2**64, "expected uint64"),
        ("int64", 1.0, "nothing is cast"),
        ("int64", np.float32(1), "nothing is cast"),
        ("int64", True, "nothing is cast"),
        ("bool", 1, "nothing is cast"),
        ("float32", True, "nothing is cast"),
        ("float32", 1e39, "infinite"),
        ("float16", 70000.0, "infinite"),
        ("float16", 70000, "does not hold exactly"),
        ("float32", 2**24 + 1, "does not hold exactly"),
        ("float64", 2**53 + 1, "does not hold exactly"),
        ("float32", 1j, "complex"),
        ("float32", "1", "dtype"),
        ("float32", None, "dtype"),
        ("float32[2]", [1.0], "shape"),
        ("float32[2]", [[1.0, 2.0]], "shape"),
        ("float32", [1.0], "shape"),
        ("float32[][2]", [[1.0, 2.0], [3.0]], "list"),
        ("int64", np.ma.masked_array([1], [True])[0:1], "masked"),
        ("int64", np.datetime64("2020-01-01"), "dtype"),
    ],
)
def test_encoder_refuses_unfitting_values(kind: str, value: Any, words: str) -> None:
    with pytest.raises(SpecError, match=words) as caught:
        encode_value(CODECS, Type.parse(kind), value, field="x")
    assert caught.value.field == "x"


def test_encoder_keeps_fitting_values_exactly() -> None:
    assert encode_value(CODECS, Type.parse("uint64[]"), [2**63, 1])[0] == np.array([2**63, 1], "<u8").tobytes()
    assert encode_value(CODECS, Type.parse("int16[2]"), np.array([1, -2], ">i4"))[0] == b"\x01\0\xfe\xff"
    assert encode_value(CODECS, Type.parse("float32"), 0.1)[0] == np.float32(0.1).tobytes()
    assert to_exact_array(Type.parse("float32[]"), [np.inf, -np.inf, np.nan]).tolist()[:2] == [np.inf, -np.inf]
    assert to_exact_array(Type.parse("float32[][3]"), []).shape == (0, 3)
    assert to_exact_array(Type.parse("bool[2]"), [True, False]).tolist() == [True, False]
    assert to_exact_array(Type.parse("float64"), 2**53).item() == 2.0**53
    assert encode_value(CODECS, Type.parse("int8?"), None) == []


@given(
    st.sampled_from(NUMBER_TYPES).flatmap(
        lambda name: st.tuples(st.just(name), arrays.arrays(name, arrays.array_shapes(min_dims=0, max_dims=3)))
    )
)
def test_numbers_round_trip(case: tuple[str, np.ndarray]) -> None:
    name, array = case
    kind = Type(name, dims=array.shape)
    column: Any = CODECS.decode(kind, Blobs.join(CODECS.encode(kind, array)))
    assert column.dtype == array.dtype
    assert column[0].tobytes() == array.tobytes()


def test_sequences_of_codecs_take_sequences() -> None:
    kind = Type.parse("utf8[][2]")
    assert encode_value(CODECS, kind, [["a", "b"], ("c", "d")]) == [b"a", b"b", b"c", b"d"]
    for value in ("text", b"bytes", {"a": 1}, 5, [["a"]]):
        with pytest.raises(SpecError):
            encode_value(CODECS, kind, value)
    with pytest.raises(CodecError, match=r"codec 'utf8'.*expected str, found int"):
        encode_value(CODECS, Type("utf8"), 5, field="x")
