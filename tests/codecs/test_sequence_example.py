from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataformats.batch import Blobs, Ragged, RecordBatch
from dataformats.codecs.features.protobuf_messages import SEQUENCE_MESSAGE
from dataformats.codecs.sequence_example import SEQUENCE_EXAMPLE
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import CodecError, CorruptRecordError, SpecError
from dataformats.spec import Spec

KINDS = {int: "int64_list", float: "float_list", bytes: "bytes_list"}


def _fill(feature: Any, values: list[Any]) -> None:
    if values:
        getattr(feature, KINDS[type(values[0])]).value.extend(values)
    else:
        feature.SetInParent()


def sequence(context: dict[str, list[Any]], lists: dict[str, list[list[Any]]]) -> bytes:
    """Return a SequenceExample made by protobuf; an empty list of values is a feature without a kind."""
    message = SEQUENCE_MESSAGE()
    for name, values in context.items():
        _fill(message.context.feature[name], values)
    for name, steps in lists.items():
        message.feature_lists.feature_list[name].SetInParent()
        for values in steps:
            _fill(message.feature_lists.feature_list[name].feature.add(), values)
    blob: bytes = message.SerializeToString()
    return blob


def coder(spec: dict[str, str] | Spec, *, inferred: bool = False) -> Any:
    return SEQUENCE_EXAMPLE.bind(Spec(spec), CodecResolver(trusted=True), inferred=inferred)


def read(spec: dict[str, str], *blobs: bytes, part: bool | range = True, inferred: bool = False) -> dict[str, Any]:
    columns = coder(spec, inferred=inferred).decode_batch(Blobs.join(blobs), dict.fromkeys(spec, part))
    assert isinstance(columns, dict)
    return columns


def plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [plain(item) for item in value] if isinstance(value, list | Ragged) else value


def test_golden_records(golden_records: Callable[[str], list[bytes]], golden_entry: Any, same_feature: Any) -> None:
    blobs = golden_records("tfrecord/sequence.tfrecord")
    spec = SEQUENCE_EXAMPLE.infer(blobs)
    assert spec.to_json() == {
        "id": "int64?",
        "lang": "bytes?",
        "étiquette": "float32?",
        "frames": "float32[][]",
        "none": "feature[]",
        "scores": "float32[]",
        "tokens": "bytes[]",
        "名": "feature[]",
    }
    columns = read(spec.to_text(), *blobs, inferred=True)
    batch = list(RecordBatch(columns, np.arange(len(blobs))))
    for expected, blob, record in zip(golden_entry("sequence")["sequence_examples"], blobs, batch, strict=True):
        found = SEQUENCE_EXAMPLE.decode(blob)
        assert sorted(found) == sorted(record) == sorted([*expected["context"], *expected["feature_lists"]])
        for name, feature in expected["context"].items():
            assert same_feature(feature, found[name])
            assert plain(found[name]) == [record[name]]
        for name, steps in expected["feature_lists"].items():
            assert all(same_feature(step, value) for step, value in zip(steps, found[name], strict=True))
            flat = spec[name].dims == (None,) and spec[name].codec != "feature"
            assert plain(found[name]) == [[item] if flat else item for item in plain(record[name])]
        written = coder(spec).encode(record)
        original = SEQUENCE_MESSAGE.FromString(blob)
        assert SEQUENCE_MESSAGE.FromString(written).context == original.context
        assert SEQUENCE_MESSAGE.FromString(written).feature_lists == original.feature_lists


def test_types_of_steps() -> None:
    blobs = [sequence({}, {"a": [[1], [2]], "b": [[1.0, 2.0]], "c": [[b"x"], [b"x", b"y"]], "d": [[1], []]})]
    assert SEQUENCE_EXAMPLE.infer(blobs).to_json() == {
        "a": "int64[]",
        "b": "float32[][2]",
        "c": "bytes[][]",
        "d": "feature[]",
    }
    columns = read({"a": "int64[]", "b": "float32[][2]", "c": "utf8[][]", "d": "feature[]"}, *blobs, b"")
    assert plain(columns["a"]) == [[1, 2], []]
    assert columns["b"][0].shape == (1, 2)
    assert plain(columns["c"]) == [[["x"], ["x", "y"]], []]
    assert plain(columns["d"]) == [[[1], None], []]
    assert all(column.present.tolist() == [True, False] for column in columns.values())


def test_name_outside_of_utf8_costs_its_feature() -> None:
    blob = sequence({"id": [7], "lmn": [1]}, {"steps": [[8], [9]], "opq": [[1]]})
    blob = blob.replace(b"lmn", b"l\xffn").replace(b"opq", b"o\xffq")
    with pytest.warns(UserWarning, match="its name is not UTF-8") as warned:
        spec = SEQUENCE_EXAMPLE.infer([blob])
    assert [str(one.message)[:20] for one in warned] == [r"the feature b'l\xffn", r"the feature b'o\xffq"]
    assert plain(list(read(spec.to_text(), blob, inferred=True).values())) == [[7], [[8, 9]]]
    assert plain(list(SEQUENCE_EXAMPLE.decode(blob).values())) == [[7], [[8], [9]]]


def test_names_in_both_parts() -> None:
    blobs = [sequence({"a": [1]}, {"b": [[2]]}), sequence({"a": [3]}, {"a": [[4], [5]]})]
    spec = SEQUENCE_EXAMPLE.infer(blobs)
    assert spec.to_json() == {"context/a": "int64", "feature_lists/a": "int64[]", "b": "int64[]"}
    columns = read(spec.to_text(), *blobs, inferred=True)
    assert columns["context/a"].tolist() == [1, 3]
    assert plain(columns["feature_lists/a"]) == [[], [4, 5]]
    assert sorted(SEQUENCE_EXAMPLE.decode(blobs[1])) == ["context/a", "feature_lists/a"]
    record = {"context/a": 3, "feature_lists/a": [4, 5]}
    assert coder(spec).encode(record) == blobs[1]
    odd = SEQUENCE_EXAMPLE.infer([sequence({"context/x": [1]}, {"feature_lists/x": [[1]]})])
    assert list(odd) == ["context/context/x", "feature_lists/feature_lists/x"]


def test_bare_names() -> None:
    both = sequence({"a": [1]}, {"a": [[4], [5]]})
    assert read({"a": "int64"}, both)["a"].tolist() == [1]
    assert plain(read({"a": "int64[]"}, both)["a"]) == [[4, 5]]
    listed, inside = sequence({}, {"a": [[1], [2]]}), sequence({"a": [3, 4, 5]}, {})
    assert plain(read({"a": "int64[]"}, inside)["a"]) == [[3, 4, 5]]
    mixed = read({"a": "int64[]"}, listed, inside, b"", listed)["a"]
    assert plain(mixed) == [[1, 2], [3, 4, 5], [], [1, 2]]
    assert mixed.present.tolist() == [True, True, False, True]
    with pytest.raises(SpecError, match="found one in the context and one in the feature lists"):
        read({"a": "int64[]"}, both, inferred=True)
    with pytest.raises(SpecError, match="found a feature list") as caught:
        read({"a": "int64?"}, b"", listed)
    assert caught.value.index == 1
    with pytest.raises(SpecError, match="found it in the context"):
        read({"a": "int64[][]"}, inside)


def test_an_inferred_spec_leaves_nothing_out() -> None:
    spec = {"a": "int64?"}
    for blob in (sequence({"b": [1]}, {}), sequence({}, {"b": [[1]]}), sequence({}, {"b": []})):
        with pytest.raises(SpecError, match="lacks this field") as caught:
            read(spec, b"", blob, inferred=True)
        assert caught.value.index == 1
        assert read(spec, blob)["a"].present.tolist() == [False]
    read(spec, sequence({"b": []}, {}), inferred=True)


def test_errors_name_record_and_type() -> None:
    good, bad = sequence({}, {"a": [[1], [2]]}), sequence({}, {"a": [[3], [4, 5]]})
    with pytest.raises(SpecError, match=r"expected int64\[\], found 2 int64 values\. .*'a': 'int64\[\]\[\]'") as caught:
        read({"a": "int64[]"}, good, b"", bad)
    assert (caught.value.field, caught.value.index) == ("a", 2)
    with pytest.raises(SpecError, match=r"a step without a kind.*'feature\[\]'") as caught:
        read({"a": "int64[]"}, good, sequence({}, {"a": [[3], []]}))
    assert caught.value.index == 1
    with pytest.raises(CodecError) as failed:
        read({"a": "utf8[]"}, b"", sequence({}, {"a": [[b"x"], [b"\xff"]]}))
    assert (failed.value.field, failed.value.index) == ("a", 1)
    with pytest.raises(CorruptRecordError) as corrupt:
        read({"a": "utf8[]"}, b"", b"\xff")
    assert corrupt.value.index == 1


def test_parts() -> None:
    blob = sequence({}, {"a": [[1], [2], [3]], "t": [[b"\xff"], [b"y", b"z"], [b"w"]]})
    columns = read({"a": "int64[]", "t": "utf8[][]"}, blob, blob, part=range(1, 3))
    assert plain(columns["a"]) == [[2, 3]] * 2
    assert plain(columns["t"]) == [[["y", "z"], ["w"]]] * 2
    for part in (range(2, 4), range(-1, 1)):
        with pytest.raises(IndexError, match=r"field 'a': range.* the 3 elements of record 0"):
            read({"a": "int64[]"}, blob, part=part)
    with pytest.raises(IndexError, match="the 0 elements of record 1"):
        read({"a": "int64[]"}, blob, b"", part=range(1))


def test_writing() -> None:
    spec = {
        "id": "int64",
        "n": "int64[]",
        "m": "float32[][2]",
        "t": "utf8[][]",
        "context/c": "int64[]",
        "f": "feature[]",
    }
    record = {
        "id": 1,
        "n": [1, 2],
        "m": [[1.0, 2.0]],
        "t": [["a"], ["b", "c"]],
        "context/c": [7, 8],
        "f": [np.array([1]), None, [b"x"]],
    }
    expected = sequence(
        {"id": [1], "c": [7, 8]},
        {"n": [[1], [2]], "m": [[1.0, 2.0]], "t": [[b"a"], [b"b", b"c"]], "f": [[1], [], [b"x"]]},
    )
    written = coder(spec).encode(record)
    assert SEQUENCE_MESSAGE.FromString(written) == SEQUENCE_MESSAGE.FromString(expected)
    assert SEQUENCE_EXAMPLE.matches(written)
    assert coder({"n": "int64[]"}).encode({}) == b""
    assert coder({"n": "int64[]"}).encode({"n": []}) == sequence({}, {"n": []})
    for wrong in ({"n": 5}, {"n": "text"}, {"t": "text"}, {"x": 1}, {"id": None}):
        with pytest.raises(SpecError):
            coder(spec).encode({"id": 1} | wrong)
    with pytest.raises(SpecError, match="Pass spec="):
        SEQUENCE_EXAMPLE.encode({})
    with pytest.raises(SpecError, match=r"begins with \[\]"):
        coder({"feature_lists/a": "int64"})


@given(
    st.lists(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1)))),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
)
def test_round_trips(numbers: list[list[list[int]]], texts: list[str]) -> None:
    spec = {"n": "int64[][]", "t": "utf8[]"}
    bound = coder(spec)
    blobs = [bound.encode({"n": steps, "t": texts}) for steps in numbers]
    columns = bound.decode_batch(Blobs.join(blobs), dict.fromkeys(spec, True))
    assert plain(columns["n"]) == numbers
    assert plain(columns["t"]) == [texts] * len(numbers)
