from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dataformats.batch import Blobs, Ragged, RecordBatch
from dataformats.codecs.example import EXAMPLE
from dataformats.codecs.features.protobuf_messages import EXAMPLE_MESSAGE
from dataformats.codecs.sequence_example import SEQUENCE_EXAMPLE
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import CodecError, CorruptRecordError, SpecError, UnknownNameError
from dataformats.registry import backends
from dataformats.spec import Spec
from dataformats.testing.loop_over import loop_over

Records = Callable[[str], list[bytes]]


def coder(spec: dict[str, str] | Spec, *, inferred: bool = False, codecs: Any = None) -> Any:
    return EXAMPLE.bind(Spec(spec), CodecResolver(codecs, trusted=True), inferred=inferred)


def example(**features: Any) -> bytes:
    """Return an Example made by protobuf: ints, floats or bytes, one or a list."""
    message = EXAMPLE_MESSAGE()
    for name, values in features.items():
        values = values if isinstance(values, list) else [values]
        kinds = {int: "int64_list", float: "float_list", bytes: "bytes_list"}
        target = getattr(message.features.feature[name], kinds[type(values[0])])
        target.value.extend(values)
    blob: bytes = message.SerializeToString()
    return blob


def read(spec: dict[str, str], *blobs: bytes, part: bool | range = True, inferred: bool = False) -> dict[str, Any]:
    columns = coder(spec, inferred=inferred).decode_batch(Blobs.join(blobs), dict.fromkeys(spec, part))
    assert isinstance(columns, dict)
    return columns


def records(columns: dict[str, Any], count: int) -> list[Any]:
    return list(RecordBatch(columns, np.arange(count)))


# ---- golden


@loop_over("name", ["examples", "handmade", "nsynth_like", "vahidk"])
def test_golden_records(name: str, golden_records: Records, golden_entry: Any, same_feature: Any) -> None:
    blobs = golden_records(f"tfrecord/{name}.tfrecord")
    spec = EXAMPLE.infer(blobs)
    batch = records(read(spec.to_text(), *blobs, inferred=True), len(blobs))
    for expected, blob, record in zip(golden_entry(name)["examples"], blobs, batch, strict=True):
        features = {key: value for key, value in expected["features"].items() if value["kind"]}
        plain = EXAMPLE.decode(blob)
        assert sorted(plain) == sorted(record) == sorted(features)
        for key, value in features.items():
            assert same_feature(value, plain[key])
            np.testing.assert_array_equal(np.asarray(plain[key]), np.atleast_1d(np.asarray(record[key])))


def test_golden_records_are_written_back(golden_records: Records) -> None:
    for name in ("examples", "nsynth_like", "vahidk"):
        blobs = golden_records(f"tfrecord/{name}.tfrecord")
        bound = coder(EXAMPLE.infer(blobs))
        batch = records(bound.decode_batch(Blobs.join(blobs), dict.fromkeys(EXAMPLE.infer(blobs), True)), len(blobs))
        for blob, record in zip(blobs, batch, strict=True):
            written = EXAMPLE_MESSAGE.FromString(bound.encode(record))
            original = EXAMPLE_MESSAGE.FromString(blob)
            for key in [key for key, value in original.features.feature.items() if not value.WhichOneof("kind")]:
                del original.features.feature[key]
            # Text is compared, because NaN does not equal itself.
            assert str(written.features) == str(original.features) or written.features == original.features


def test_golden_damage(golden_records: Records, golden_entry: Any) -> None:
    blobs = golden_records("tfrecord/corrupt/not_examples.tfrecord")
    bad = {error["index"] for error in golden_entry("not_examples")["decode_errors"]}
    for index, blob in enumerate(blobs):
        if index in bad:
            with pytest.raises(CorruptRecordError) as caught:
                read({"label": "int64"}, blobs[0], blob)
            assert caught.value.index == 1
        else:
            assert EXAMPLE.decode(blob)


def test_digits(golden_records: Records) -> None:
    blobs = golden_records("real/digits-00000-of-00003.tfrecord")
    assert EXAMPLE.infer(blobs).to_json() == {"image": "bytes", "label": "int64"}
    columns = read({"image": "uint8[8,8]", "label": "int64"}, *blobs)
    assert columns["image"].shape == (599, 8, 8)
    assert columns["image"].max() == 16
    assert columns["label"].dtype == np.int64


# ---- which payload


def guess_payload(samples: Iterable[bytes]) -> str:
    """Return the payload that is guessed for a TFRecord file of such records."""
    backend: Any = backends.get("tfrecord")
    payload: str = backend.guess_payload(samples)
    return payload


@loop_over(
    "path, payload",
    [
        ("tfrecord/examples.tfrecord", "example"),
        ("tfrecord/nsynth_like.tfrecord", "example"),
        ("real/digits-00001-of-00003.tfrecord", "example"),
        ("tfrecord/sequence.tfrecord", "sequence_example"),
        ("tfrecord/raw.tfrecord", "bytes"),
        ("tfrecord/many_1000.tfrecord", "bytes"),
        ("tfrecord/zero_length.tfrecord", "bytes"),
        ("tfrecord/shards/train-00000-of-00003", "bytes"),
        ("tfrecord/corrupt/not_examples.tfrecord", "bytes"),
    ],
)
def test_guess_payload(path: str, payload: str, golden_records: Records) -> None:
    assert guess_payload(golden_records(path)) == payload


@loop_over(
    "blob",
    [
        b"text",
        b"\n",
        b"\n\x05hello",
        b"\n\x02h\x01",
        b"\x78\x01",
        b"\x12\x02h\x01",
        bytes(20),
        b"\n\x00\x08\x01",
    ],
)
def test_accidentally_parsing_bytes_are_guessed_as_bytes(blob: bytes) -> None:
    assert guess_payload([blob]) == "bytes"
    assert guess_payload([example(a=1), blob]) == "bytes"


def test_guess_payload_reads_no_sample_behind_opaque_bytes() -> None:
    """Each may be a request."""
    samples = iter([example(a=1), b"\x07opaque", example(a=2)])
    assert guess_payload(samples) == "bytes"
    assert list(samples) == [example(a=2)]


def test_guess_of_nothing() -> None:
    assert guess_payload([]) == guess_payload([b"", b""]) == "bytes"
    assert guess_payload([b"", example(a=1)]) == "example"


# ---- inference


def test_inference() -> None:
    blobs = [
        example(one=1, pair=[1, 2], some=[1, 2], text=b"a", mixed=1, lone=0.5, twice=[1.0, 2.0]),
        example(one=2, pair=[3, 4], some=[1], text=b"b", mixed=b"x"),
    ]
    assert EXAMPLE.infer(blobs).to_json() == {
        "lone": "float32?",
        "mixed": "feature",
        "one": "int64",
        "pair": "int64[2]",
        "some": "int64[]",
        "text": "bytes",
        "twice": "float32[2]?",
    }
    assert EXAMPLE.infer([*blobs, b""])["some"].dims == (None,)
    assert str(EXAMPLE.infer([*blobs, b""])["some"]) == "int64[]"
    assert len(EXAMPLE.infer([])) == 0


@loop_over("whole, fits", [(3, True), (2**53 + 1, False)])
def test_integers_and_floats_of_a_field_are_floats(whole: int, fits: bool) -> None:
    blobs = [example(a=1.5, b=[1, 2]), example(a=whole, b=[0.5])]
    spec = EXAMPLE.infer(blobs).to_text()
    assert spec == {"a": "float64", "b": "float64[]"}
    if fits:
        columns = read(spec, *blobs, inferred=True)
        assert (columns["a"].tolist(), columns["b"].values.tolist()) == ([1.5, 3.0], [1, 2, 0.5])
    else:
        with pytest.raises(SpecError, match=f"record 1, field 'a': expected float64, found {whole}"):
            read(spec, *blobs, inferred=True)


def test_an_inferred_spec_leaves_nothing_out() -> None:
    spec = {"a": "int64"}
    with pytest.raises(SpecError, match=r"record 1, field 'b'.*spec=") as caught:
        read(spec, example(a=1), example(a=1, b=2), inferred=True)
    assert caught.value.index == 1
    assert read(spec, example(a=1, b=2))["a"].tolist() == [1]
    kindless = EXAMPLE_MESSAGE()
    kindless.features.feature["b"].SetInParent()
    kindless.features.feature["a"].int64_list.value.append(1)
    assert read(spec, kindless.SerializeToString(), inferred=True)["a"].tolist() == [1]


# ---- reading by type


def test_missing_fields() -> None:
    spec = {"a": "int64?", "b": "int64[]", "c": "utf8?", "d": "float32[2]?", "e": "json?"}
    blobs = [b"", example(a=1, b=[1, 2], c=b"x", d=[1.0, 2.0], e=b"{}")]
    columns = read(spec, *blobs)
    assert records(columns, 2)[0] == {}
    assert columns["b"].present.tolist() == [False, True]
    assert records(columns, 2)[1]["e"] == {}
    assert columns["d"].values.shape == (2, 2)
    with pytest.raises(
        SpecError,
        match=r"record 1, field 'a': expected int64, found nothing\. Check the name .* pass spec=.*'int64\?'",
    ):
        read({"a": "int64"}, example(a=1), b"")


@loop_over(
    "kind, value, expected",
    [
        ("uint8", 255, np.uint8(255)),
        ("bool", 1, np.True_),
        ("float64", 0.5, np.float64(0.5)),
        ("float16", 0.5, np.float16(0.5)),
        ("int64", (-5).to_bytes(8, "little", signed=True), np.int64(-5)),
        ("float64", np.float64(0.1).tobytes(), np.float64(0.1)),
        ("uint8[2,2]", bytes([1, 2, 3, 4]), np.array([[1, 2], [3, 4]], np.uint8)),
        ("uint8[2,2]", [1, 2, 3, 4], np.array([[1, 2], [3, 4]], np.uint8)),
        ("float32[][2]", [1.0, 2.0, 3.0, 4.0], np.array([[1, 2], [3, 4]], np.float32)),
        ("float32[][2]", [np.ones(2, "<f4").tobytes()] * 3, np.ones((3, 2), np.float32)),
        ("float64[]", np.arange(3.0).tobytes(), np.arange(3.0)),
        ("int32[]", [1, -1], np.array([1, -1], np.int32)),
        ("utf8[2]", [b"a", b"b"], ["a", "b"]),
        ("utf8[]", [b"a"], ["a"]),
        ("json", b"[1]", [1]),
    ],
)
def test_lists_or_bytes(kind: str, value: Any, expected: Any) -> None:
    for count in (1, 3):
        column = read({"a": kind}, *[example(a=value)] * count)["a"]
        assert len(column) == count
        found = column[count - 1]
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        assert np.array_equal(found, expected)


def test_lists_and_bytes_in_one_batch() -> None:
    blobs = [example(a=[1, 2]), example(a=bytes([3, 4])), example(a=[5, 6]), b""]
    assert read({"a": "uint8[2]"}, *blobs[:3])["a"].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert [item.tolist() for item in read({"a": "uint8[]"}, *blobs)["a"]] == [[1, 2], [3, 4], [5, 6], []]


@loop_over(
    "kind, value, words",
    [
        (
            "int64",
            [1, 2],
            r"expected int64, found 2 int64 values\. Pass spec=\{'a': 'int64\[\]'\}",
        ),
        ("int64", 0.5, r"found float values.*'a': 'float32\?'.*or 'feature\?'"),
        ("float32", 2**24 + 1, r"found 16777217\. .*'a': 'int64\?'"),
        ("uint8", 256, "found 256"),
        ("uint64", -1, "found -1"),
        ("bool", 2, "found 2"),
        ("float16", 1.0e6, r"found 1(e\+06|000000\.0)\. Pass spec=.*'a': 'float32\?'}\.$"),
        ("float16", 0.1, "found 0.1"),
        ("int64[3]", [1, 2], "found 2 int64 values"),
        ("int64[][3]", [1, 2], "found 2 int64 values"),
        ("int64", b"123", "expected 8 bytes"),
        ("float32[2]", [b"1234", b"1234"], "found 2 bytes values"),
        ("bool", b"\2", "expected 0 or 1"),
        ("bytes", 1, r"found int64 values.*'a': 'int64\?'"),
        ("bytes", [b"a", b"b"], r"'a': 'bytes\[\]'"),
        ("utf8[2]", [b"a"], "found 1 bytes values"),
    ],
)
def test_unfitting_value_names_its_field(kind: str, value: Any, words: str) -> None:
    with pytest.raises(SpecError, match=words) as caught:
        read({"a": kind + "?"}, b"", example(a=value))
    assert (caught.value.field, caught.value.index) == ("a", 1)


def test_decoding_errors_name_the_record() -> None:
    with pytest.raises(CodecError) as caught:
        read({"a": "utf8[]"}, b"", example(a=[b"x", b"y"]), example(a=[b"fine", b"\xff"]))
    assert (caught.value.field, caught.value.index, caught.value.codec) == ("a", 2, "utf8")


def test_features_of_any_kind() -> None:
    columns = read({"a": "feature?"}, example(a=1), b"", example(a=[b"x", b"y"]), example(a=[0.5]), example(a=[2, 3]))
    first, missing, texts, floats, integers = columns["a"]
    assert (first.dtype, first.tolist(), missing, texts) == (np.int64, [1], None, [b"x", b"y"])
    assert (floats.dtype, integers.tolist()) == (np.float32, [2, 3])
    bound = coder({"a": "feature?"})
    for value in (first, texts, floats):
        assert bound.encode({"a": value}) == example(a=list(value) if value is texts else value.tolist())
    for value in (5, "text", [1], np.array([0.5 + 1j])):
        with pytest.raises(CodecError, match="codec 'feature'"):
            bound.encode({"a": value})


def test_unknown_codecs_raise_only_when_used() -> None:
    bound = coder({"a": "mystery", "b": "int64"})
    blobs = Blobs.join([example(a=b"x", b=1)])
    assert bound.decode_batch(blobs, {"b": True})["b"].tolist() == [1]
    with pytest.raises(UnknownNameError, match="Pass codecs="):
        bound.decode_batch(blobs, {"a": True})
    named = coder({"a": "mystery"}, codecs={"mystery": (str.encode, bytes.decode)})
    assert named.decode_batch(blobs, {"a": True})["a"] == ["x"]


# ---- parts


def test_parts() -> None:
    spec = {"n": "int64[]", "t": "utf8[]", "f": "float32[3]", "m": "int64[][2]", "p": "utf8[][2]"}
    blob = example(
        n=[1, 2, 3],
        t=[b"a", b"b", b"c"],
        f=[1.0, 2.0, 3.0],
        m=list(range(6)),
        p=[b"a", b"b", b"c", b"d", b"e", b"f"],
    )
    columns = read(spec, blob, blob, part=range(1, 3))
    assert columns["n"][1].tolist() == [2, 3]
    assert list(columns["t"][0]) == ["b", "c"]
    assert columns["f"].tolist() == [[2, 3]] * 2
    assert columns["m"][0].tolist() == [[2, 3], [4, 5]]
    assert columns["p"][1] == [["c", "d"], ["e", "f"]]
    assert read(spec, blob, part=range(2, 0, -1))["n"][0].tolist() == [3, 2]
    assert coder(spec).decode_batch(Blobs.join([blob]), {"n": False}) == {}


def test_only_the_part_is_decoded() -> None:
    columns = read({"t": "utf8[]"}, example(t=[b"\xff", b"ok"]), part=range(1, 2))
    assert list(columns["t"][0]) == ["ok"]


@loop_over("part", [range(2, 4), range(-1, 1)])
@loop_over("kind", ["int64[]", "uint8[]"])
def test_parts_past_the_end(kind: str, part: range) -> None:
    with pytest.raises(IndexError, match=r"field 'n': range\(.*goes past the 3 elements of record 1"):
        read({"n": kind}, example(n=[1, 2, 3, 4]), example(n=[1, 2, 3]), part=part)
    with pytest.raises(IndexError, match="the 3 elements of record 0"):
        read({"n": "int64[3]"}, example(n=[1, 2, 3]), part=part)


def test_parts_of_missing_or_single_values_raise() -> None:
    with pytest.raises(IndexError, match="the 0 elements of record 0"):
        read({"n": "int64[]"}, b"", part=range(1))
    assert len(read({"n": "int64[]"}, b"", part=range(0))["n"]) == 1
    for kind, blob in (("int64", example(n=1)), ("utf8", example(n=b"a"))):
        with pytest.raises(SpecError, match="cannot take elements"):
            read({"n": kind}, blob, part=range(1))


# ---- writing


@loop_over(
    "kind, value, stored",
    [
        ("int64", 5, 5),
        ("uint8", 200, 200),
        ("bool", True, 1),
        ("int64[2,2]", [[1, 2], [3, 4]], [1, 2, 3, 4]),
        ("int32[]", [1, -2], [1, -2]),
        ("float32", 0.5, 0.5),
        ("float32[][2]", [[1, 2], [3, 4]], [1.0, 2.0, 3.0, 4.0]),
        ("float64", 0.1, np.float64(0.1).tobytes()),
        ("float16[2]", [1, 2], np.array([1, 2], "<f2").tobytes()),
        ("uint8[2,2]", np.array([[1, 2], [3, 4]], np.uint8), bytes([1, 2, 3, 4])),
        ("uint8[][2]", [[1, 2], [3, 4]], [b"\1\2", b"\3\4"]),
        ("float64[]", [1.0], [np.float64(1).tobytes()]),
        ("utf8", "é", "é".encode()),
        ("utf8[]", ["a", "b"], [b"a", b"b"]),
        ("json", {"a": 1}, b'{"a":1}'),
    ],
)
def test_where_a_value_goes(kind: str, value: Any, stored: Any) -> None:
    written = coder({"a": kind}).encode({"a": value})
    assert written == example(a=stored)
    column = read({"a": kind}, written)["a"]
    assert np.array_equal(np.asarray(column[0]), np.asarray(value))


def test_missing_and_surplus_values() -> None:
    bound = coder({"a": "int64?", "b": "int64[]"})
    assert bound.encode({}) == bound.encode({"a": None, "b": None}) == b""
    with pytest.raises(SpecError, match="field 'c': the spec has no such field"):
        bound.encode({"c": 1})
    with pytest.raises(SpecError, match="found nothing"):
        coder({"a": "int64"}).encode({})
    with pytest.raises(SpecError, match="does not fit an Int64List"):
        coder({"a": "uint64"}).encode({"a": 2**63})
    with pytest.raises(SpecError, match="Pass spec="):
        EXAMPLE.encode({"a": 1})


def test_specs_beyond_features_name_every_field() -> None:
    with pytest.raises(SpecError, match=r"'a': .*'b': .*'c': .*: the name cannot be encoded as UTF-8") as caught:
        coder({"a": "int64[2][]", "b": "utf8[][0]", "c": "feature[]", "d\ud800": "int64", "fine": "int8[0]"})
    assert caught.value.field == "a"


SPEC = {
    "i": "int64[]",
    "u": "uint8[2]",
    "f": "float32?",
    "d": "float64[][2]",
    "t": "utf8[]",
    "b": "bytes?",
    "o": "bool",
}
RECORDS = st.fixed_dictionaries(
    {"u": arrays.arrays(np.uint8, 2), "o": st.booleans()},
    optional={
        "i": arrays.arrays(np.int64, st.integers(0, 5)),
        "f": st.floats(width=32, allow_nan=False),
        "d": arrays.arrays(np.float64, st.tuples(st.integers(0, 3), st.just(2)), elements=st.floats(allow_nan=False)),
        "t": st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
        "b": st.binary(),
    },
)


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


@given(st.lists(RECORDS, max_size=5))
def test_round_trips(originals: list[dict[str, Any]]) -> None:
    bound = coder(SPEC)
    columns = bound.decode_batch(Blobs.join([bound.encode(record) for record in originals]), dict.fromkeys(SPEC, True))
    found = records(columns, len(originals))
    for original, record in zip(originals, found, strict=True):
        expected = {name: plain(value) for name, value in original.items()}
        assert {name: plain(list(v) if isinstance(v, Ragged) else v) for name, v in record.items()} == expected


def test_payloads_match_their_own_records() -> None:
    assert EXAMPLE.matches(example(a=1))
    assert EXAMPLE.matches(b"")
    assert SEQUENCE_EXAMPLE.matches(example(a=1))
    assert not EXAMPLE.matches(b"text")


# ---- damage


@given(st.binary(max_size=80))
def test_any_bytes_give_columns_or_our_errors(blob: bytes) -> None:
    with suppress(CorruptRecordError):
        inferred = EXAMPLE.infer([blob])
        read(inferred.to_text(), blob, inferred=True)
