"""Padding of records and of columns, and errors that name the field and the record."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataformats
from dataformats.batch import Nullable, Ragged, RecordBatch
from dataformats.loaders.pad import Pad, pad
from dataformats.testing.loop_over import loop_over

RECORDS: list[dict[str, Any]] = [
    {"tokens": np.array([1, 2, 3], np.int32), "label": 7},
    {"tokens": np.zeros(0, np.int32), "label": 8},
    {"tokens": np.array([4, 5], np.int32), "label": 9},
]


def column_of(arrays: list[np.ndarray]) -> Ragged:
    lengths = [len(array) for array in arrays]
    return Ragged(np.concatenate(arrays), np.cumsum([0, *lengths]))


def assert_equal(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert list(found) == list(wanted)
    for name, column in found.items():
        assert column.dtype == wanted[name].dtype
        np.testing.assert_array_equal(column, wanted[name])


def test_the_longest_of_the_batch() -> None:
    batch = pad("tokens")(RECORDS)

    assert batch["tokens"].tolist() == [[1, 2, 3], [0, 0, 0], [4, 5, 0]]
    assert batch["tokens"].dtype == np.int32
    assert batch["label"].tolist() == [7, 8, 9]


def test_a_given_length_and_value() -> None:
    batch = pad("tokens", length=4, value=-1, lengths="_length")(RECORDS)

    assert list(batch) == ["tokens", "tokens_length", "label"]
    assert batch["tokens"].tolist() == [[1, 2, 3, -1], [-1] * 4, [4, 5, -1, -1]]
    assert batch["tokens_length"].tolist() == [3, 0, 2]
    assert batch["tokens_length"].dtype == np.int64


def test_lengths_after_truncation() -> None:
    batch = pad("tokens", length=2, truncate=True, lengths=".n")(RECORDS)

    assert batch["tokens"].tolist() == [[1, 2], [0, 0], [4, 5]]
    assert batch["tokens.n"].tolist() == [2, 0, 2]


@pytest.mark.parametrize("numbers", [None, np.array([30, 10, 20])])
def test_too_long(numbers: Any) -> None:
    named = "row 0" if numbers is None else "record 30"
    message = (
        rf"field 'tokens': {named} has 3 values, more than length=1, as have 1 more of this batch\. .*truncate=True"
    )
    columns = {"tokens": column_of([record["tokens"] for record in RECORDS])}
    with pytest.raises(dataformats.SpecError, match=message):
        pad("tokens", length=1)(RECORDS, numbers)
    with pytest.raises(dataformats.SpecError, match=message):
        pad("tokens", length=1).of_columns(columns, numbers)


ITEMS = st.lists(st.lists(st.integers(-5, 5), max_size=6).map(lambda item: np.array(item, np.int16)), min_size=1)


@given(ITEMS, st.sampled_from([None, 2, 6, 9]), st.integers(-3, 3), st.integers(0, 3))
def test_records_and_columns_agree(items: list[np.ndarray], length: int | None, value: int, first: int) -> None:
    """Padding also works if the values of a column do not begin at 0, such as in a slice."""
    collate = pad("tokens", length=length, value=value, truncate=length is not None, lengths="_n")
    whole = column_of([np.full(first, 99, np.int16), *items])
    column = Ragged(whole.values, whole.offsets[1:])
    labels = np.arange(len(items))
    records = [{"label": label, "tokens": item} for label, item in zip(labels, items, strict=True)]

    found = collate.of_columns({"label": labels, "tokens": column})

    assert_equal(found, collate(records))
    width = max(map(len, items)) if length is None else length
    wanted = [[*item.tolist()[:width], *[value] * (width - len(item))] for item in items]
    assert found["tokens"].tolist() == wanted


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(np.arange(12).reshape(3, 4), id="fixed shape"),
        pytest.param(np.arange(24.0).reshape(3, 4, 2), id="fixed shape of rows"),
        pytest.param(Ragged(np.arange(10.0).reshape(5, 2), np.array([0, 2, 2, 5])), id="rows"),
        pytest.param([np.arange(2), np.arange(3), np.arange(0)], id="list"),
        pytest.param(Nullable(np.arange(6).reshape(3, 2), np.array([True, False, True])), id="missing"),
        pytest.param(Nullable([np.arange(2), None, np.arange(3)], np.array([True, False, True])), id="missing in list"),
        pytest.param(
            Ragged(np.arange(3), np.array([0, 2, 2, 3]), present=np.array([True, False, True])), id="missing sequence"
        ),
    ],
)
def test_columns_of_every_kind(column: Any) -> None:
    batch = RecordBatch({"x": column, "y": np.arange(3)}, np.arange(3))
    collate = pad("x", length=5, lengths="_n")

    found = collate.of_columns(batch.columns)

    assert_equal(found, collate(list(batch)))
    assert found["x"].shape[:2] == (3, 5)


def test_lists_and_tensors() -> None:
    assert pad("x")([{"x": [1, 2]}, {"x": []}, {"x": (3,)}])["x"].tolist() == [[1, 2], [0, 0], [3, 0]]
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    assert pad("x")([{"x": torch.arange(2)}, {"x": torch.arange(1)}])["x"].tolist() == [[0, 1], [0, 0]]


@loop_over(
    "values, message",
    [
        ([np.arange(2), np.arange(2.0)], r"row 1 has float64\[n\], another record int64\[n\]\. Make them alike"),
        ([np.ones((2, 3)), np.ones((2, 4))], r"row 1 has float64\[n, 4\], another record float64\[n, 3\]"),
        ([1, 2], r"expected sequences of numbers to pad, found a single number\. Do not name"),
        ([np.float32(1)], "a single number"),
        ([np.array(1)], "a single number"),
        (["ab", "c"], "found a str"),
        ([b"ab"], "found a bytes"),
        ([[np.arange(2), np.arange(2)]], "found a list"),
        ([np.array(["a"])], "found a ndarray"),
    ],
)
def test_pad_refuses_unpaddable_values(values: list[Any], message: str) -> None:
    with pytest.raises(dataformats.SpecError, match=f"field 'x': .*{message}"):
        pad("x")([{"x": value} for value in values])


@loop_over(
    "column",
    [
        Ragged(np.frombuffer(b"abc", np.uint8), np.array([0, 1, 3]), "utf8"),
        Ragged(Ragged(np.arange(3), np.array([0, 1, 3])), np.array([0, 1, 2])),
        np.arange(2),
    ],
)
def test_pad_refuses_unpaddable_columns(column: Any) -> None:
    with pytest.raises(dataformats.SpecError, match="field 'x': expected sequences of numbers to pad"):
        pad("x").of_columns({"x": column})


@loop_over(
    "value, dtype", [(0.5, "int64"), (-1, "uint8"), (300, "int8"), (2, "bool"), (1e300, "float32"), (None, "int64")]
)
def test_pad_refuses_value_outside_the_dtype(value: Any, dtype: str) -> None:
    with pytest.raises(dataformats.SpecError, match=rf"field 'x': value={re.escape(str(value))} does not fit {dtype}"):
        pad("x", value=value)([{"x": np.zeros(2, dtype)}])


@loop_over("value", [np.nan, np.inf, -np.inf, 0.1, 3])
def test_padding_values_of_floats(value: float) -> None:
    found = pad("x", length=2, value=value)([{"x": np.zeros(1, np.float32)}])["x"]

    np.testing.assert_array_equal(found, np.array([[0, value]], np.float32))


def test_a_missing_field() -> None:
    with pytest.raises(
        dataformats.SpecError, match="field 'token': expected a field of the records to pad, found only tokens, la"
    ):
        pad("token")(RECORDS)
    with pytest.raises(dataformats.SpecError, match="found only a"):
        pad("token").of_columns({"a": np.arange(2)})


def test_pad_refuses_lengths_named_like_a_field() -> None:
    for records in ([{"x": [1], "x_n": 3}], [{"x_n": 3, "x": [1]}]):
        with pytest.raises(dataformats.SpecError, match="field 'x_n': lengths= gives a column the name of a field"):
            pad("x", lengths="_n")(records)


def test_records_without_fields() -> None:
    with pytest.raises(dataformats.SpecError, match="expected records with fields to pad, found a bytes"):
        pad("x")([b"abc"])
    assert pad("x")([]) == {}


@loop_over(
    "arguments, message",
    [
        ({"length": 0}, "length: expected a whole number .* found 0"),
        ({"length": 2.0}, "found 2.0"),
        ({"length": True}, "found True"),
        ({"truncate": True}, "truncate=True needs a length .*Pass length="),
        ({"lengths": ""}, "lengths: expected a suffix"),
        ({"lengths": True}, "lengths: expected a suffix"),
    ],
)
def test_invalid_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pad("x", **arguments)


def test_no_fields() -> None:
    with pytest.raises(ValueError, match=r"expected the names of the fields to pad, found \(\)"):
        pad()
    with pytest.raises(ValueError, match="expected the names"):
        pad(["x", "y"])  # type: ignore[arg-type]


def test_it_pickles() -> None:
    collate = pad("tokens", length=4, value=1, lengths="_n")

    assert pickle.loads(pickle.dumps(collate)) == collate
    assert isinstance(collate, Pad)


def test_a_source(tmp_path: Path) -> None:
    spec = {"tokens": "int64[]", "label": "int64"}
    with dataformats.create(tmp_path / "x.tfrecord", "tfrecord", spec=spec) as writer:
        writer.extend({"tokens": np.arange(index % 4), "label": index} for index in range(10))
    src = dataformats.open(tmp_path / "x.tfrecord")
    collate = pad("tokens", length=3, lengths="_n")
    indices = [3, 9, 4, 0]

    assert_equal(collate.of_columns(src.read(indices).columns), collate([src[index] for index in indices]))
