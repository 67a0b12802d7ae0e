"""Batches and their columns, against numpy and lists."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataformats.batch import Blobs, Nullable, Ragged, RecordBatch, concat_columns, nbytes_of, take_column
from dataformats.loaders.batch import Batch
from dataformats.testing.loop_over import loop_over

LISTS = st.lists(st.lists(st.integers(-100, 100), max_size=5), max_size=8)


def ragged(lists: list[list[int]]) -> Ragged:
    offsets = np.cumsum([0, *map(len, lists)])
    return Ragged(np.array([value for part in lists for value in part], np.int64), offsets)


def shifted(lists: list[list[int]]) -> Ragged:
    """The same items, in the middle of longer values."""
    whole = ragged([[7, 7], *lists, [9]])
    return Ragged(whole.values, whole.offsets[1:-1])


def strings(texts: list[str]) -> Ragged:
    blobs = Blobs.join([text.encode() for text in texts])
    return Ragged(*blobs.contiguous(), item_kind="utf8")


def as_lists(column: Any) -> list[Any]:
    return [item.tolist() if isinstance(item, np.ndarray) else item for item in column]


@given(LISTS, st.data())
def test_ragged_is_a_list_of_arrays(lists: list[list[int]], data: Any) -> None:
    for column in (ragged(lists), shifted(lists)):
        assert len(column) == len(lists)
        assert as_lists(column) == lists
        assert [column[i - len(lists)].tolist() for i in range(len(lists))] == lists
        assert column.lengths.tolist() == [len(part) for part in lists]
        order = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=9)) if lists else []
        assert as_lists(column.take(np.array(order, np.int64))) == [lists[i] for i in order]
        assert as_lists(concat_columns([column, column.take(np.array(order, np.int64)), ragged([])])) == [
            *lists,
            *(lists[i] for i in order),
        ]
        width = max(map(len, lists), default=0)
        assert column.pad(value=-1).tolist() == [part + [-1] * (width - len(part)) for part in lists]
        assert column.pad(width + 2).shape == (len(lists), width + 2)
        for wrong in (len(lists), -len(lists) - 1):
            with pytest.raises(IndexError):
                column[wrong]


def test_padding() -> None:
    column = Ragged(np.arange(8, dtype=np.float32).reshape(4, 2), np.array([0, 1, 4]))
    assert column.pad().shape == (2, 3, 2)
    assert column.pad().dtype == np.float32
    assert column.pad()[0].tolist() == [[0, 1], [0, 0], [0, 0]]
    with pytest.raises(ValueError, match="item 1 has 3 values"):
        column.pad(2)
    with pytest.raises(ValueError, match="array"):
        Ragged([1, 2], np.array([0, 2])).pad()
    assert ragged([]).pad().shape == (0, 0)


def test_items_of_ragged() -> None:
    assert list(strings(["é", "", "abc"])) == ["é", "", "abc"]
    nested = Ragged(strings(["a", "b", "c"]), np.array([0, 2, 2, 3]))
    assert list(nested) == [["a", "b"], [], ["c"]]
    assert list(nested.take(np.array([2, 0]))) == [["c"], ["a", "b"]]
    assert list(concat_columns([nested, nested.take(np.array([0]))]))[-1] == ["a", "b"]
    assert Ragged([{"x": 1}, None], np.array([0, 1, 2]))[1] == [None]
    assert "3 items" in repr(nested)


@loop_over("part", [slice(1, 3), slice(None, None, -1), slice(5, 9), slice(-2, None)])
def test_slices_of_columns_are_columns(part: slice) -> None:
    text = Ragged(np.frombuffer(b"onetwosix", np.uint8), np.array([0, 3, 3, 6, 9]), "utf8")
    nested = Ragged(text, np.array([0, 1, 1, 4]), present=np.array([True, False, True]))
    missing = Nullable(np.arange(4), np.array([True, False, True, True]))
    for column in (text, nested, missing):
        found = column[part]
        assert type(found) is type(column)
        assert list(found) == list(column)[part]


def test_missing_values() -> None:
    column = Nullable(np.array([[1, 2], [0, 0]]), np.array([True, False]))
    assert as_lists(column) == [[1, 2], None]
    both = concat_columns([column, column])
    assert both.present.tolist() == [True, False, True, False]
    assert as_lists(take_column(both, np.array([3, 2]))) == [None, [1, 2]]
    holes = Ragged(np.arange(3), np.array([0, 2, 2, 3]), present=np.array([True, False, True]))
    assert holes.take(np.array([1, 2])).present.tolist() == [False, True]  # type: ignore[union-attr]
    assert concat_columns([holes, ragged([[1]])]).present.tolist() == [True, False, True, True]
    assert "2 of 4" in repr(both)


def test_batches() -> None:
    columns: dict[str, Any] = {
        "n": np.array([4, 2]),
        "x": np.ones((2, 3), np.float32),
        "t": strings(["a", "b"]),
        "maybe": Nullable(np.array([7, 0]), np.array([True, False])),
        "list": [{"a": 1}, None],
    }
    batch = RecordBatch(columns, np.array([7, 9]), {8: ValueError("bad")})
    assert len(batch) == 2
    assert batch.keys() == tuple(columns)
    assert batch["n"] is columns["n"]
    assert type(batch[0]["n"]) is int
    assert set(batch[1]) == {"n", "x", "t", "list"}
    assert [record["t"] for record in batch] == ["a", "b"]
    assert batch[-1]["n"] == 2
    assert "1 failed" in repr(batch)
    with pytest.raises(IndexError):
        batch[2]
    with pytest.raises(KeyError):
        batch["nothing"]
    single = RecordBatch({"value": strings(["a", "b"])}, np.array([0, 1]), single=True)
    assert list(single) == ["a", "b"]


def test_iteration_gives_the_records_of_indexing() -> None:
    held = np.array([True, False, True])
    columns: dict[str, Any] = {
        "number": np.array([1, 2, 3], np.uint8),
        "half": np.array([0.5, 1, 2], np.float16),
        "flag": held,
        "complex": np.array([1j, 2, 3]),
        "matrix": np.arange(6).reshape(3, 2),
        "tokens": shifted([[1], [], [2, 3]]),
        "text": strings(["a", "", "é" * 3]).take(np.array([2, 1, 0])),
        "bytes": Ragged(np.frombuffer(b"_abc", np.uint8)[1:], np.array([0, 1, 1, 3]), "bytes"),
        "every other byte": Ragged(np.frombuffer(b"a_b_c", np.uint8)[::2], np.array([0, 1, 1, 3]), "utf8"),
        "nested": Ragged(ragged([[1], [2, 3], []]), np.array([0, 2, 2, 3])),
        "list": [np.float32(1), "x", None],
        "maybe": Nullable(np.arange(3), held),
        "maybe in list": Nullable(["a", None, np.int64(3)], held),
        "maybe tokens": Ragged(np.arange(3), np.array([0, 1, 1, 3]), present=held),
    }
    for names in ([*columns], [*columns][:11], []):
        batch = RecordBatch({name: columns[name] for name in names}, np.arange(3))
        assert repr(list(batch)) == repr([batch[position] for position in range(3)])
    for column in columns.values():
        single = RecordBatch({"value": column}, np.arange(3), single=True)
        assert repr(list(single)) == repr([single[position] for position in range(3)])
        assert repr(list(column)) == repr([column[position] for position in range(3)])


def test_blobs() -> None:
    blobs = Blobs.join([b"one", b"", b"three"])
    assert list(blobs) == [b"one", b"", b"three"]
    assert list(blobs.take(np.array([2, 0, 2]))) == [b"three", b"one", b"three"]
    values, offsets = blobs.take(np.array([2, 0])).contiguous()
    assert (values.tobytes(), offsets.tolist()) == (b"threeone", [0, 5, 8])
    assert blobs.take(slice(1, None)).contiguous()[1].tolist() == [0, 0, 5]
    assert Blobs.join([b"ab", b"cd"]).rows(2).tolist() == [[97, 98], [99, 100]]
    packed = Blobs.join([b"ab", b"cd", b"ef"]).take(np.array([2, 0])).packed(2)
    assert packed is not None
    assert packed.tobytes() == b"efab"
    assert blobs.packed(3) is Blobs.join([b"ab", b"cd"]).packed(1) is Blobs.join([b"ab", b"c"]).packed(2) is None
    assert len(Blobs.join([])) == 0
    assert Blobs.join([]).contiguous()[1].tolist() == [0]


# ---- other libraries


def test_to_torch() -> None:
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    for dtype in (np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64):
        tensor = RecordBatch({"x": np.ones((2, 3), dtype)}, np.arange(2)).to_torch()["x"]
        assert tensor.shape == (2, 3)
        assert tensor.numpy().dtype == dtype
    original = np.zeros(3)
    original.flags.writeable = False
    tensor = RecordBatch({"x": original}, np.arange(3)).to_torch()["x"]
    tensor += 1
    assert original.sum() == 0
    columns: dict[str, Any] = {
        "t": strings(["a", "b"]),
        "l": [1, 2],
        "maybe": Nullable(np.array([7, 0]), np.array([True, False])),
    }
    found = RecordBatch(columns, np.arange(2)).to_torch()
    assert (found["t"], found["l"]) == (["a", "b"], [1, 2])
    assert found["maybe"].values.tolist() == [7, 0]
    assert found["maybe"].present.tolist() == [True, False]
    for column in (ragged([[1, 2], [], [3]]), shifted([[1, 2], [], [3]])):
        jagged = column.to_torch()
        assert jagged.layout == torch.jagged
        assert [part.tolist() for part in jagged.unbind()] == [[1, 2], [], [3]]


def test_to_arrow() -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    columns: dict[str, Any] = {
        "n": np.array([4, 2], np.uint16),
        "b": np.array([True, False]),
        "h": np.array([1, 2], np.float16),
        "x": np.arange(12, dtype=np.float32).reshape(2, 3, 2),
        "seq": shifted([[1, 2], []]),
        "holes": Ragged(np.arange(3), np.array([0, 3, 3]), present=np.array([True, False])),
        "t": strings(["a", "é"]),
        "bytes": Ragged(np.frombuffer(b"abc", np.uint8), np.array([0, 1, 3]), item_kind="bytes"),
        "ts": Ragged(strings(["a", "b"]), np.array([0, 2, 2])),
        "maybe": Nullable(np.array([7, 0]), np.array([True, False])),
        "maybe_x": Nullable(np.ones((2, 3)), np.array([False, True])),
        "maybe_l": Nullable([{"a": 1}, None], np.array([True, False])),
        "l": [{"a": 1}, {"a": 2}],
        "two": Ragged(np.arange(6).reshape(3, 2), np.array([0, 1, 3])),
    }
    batch = RecordBatch(columns, np.arange(2)).to_arrow()
    batch.validate(full=True)
    assert batch.num_rows == 2
    assert batch.schema.names == list(columns)
    assert batch.schema.field("n").type == arrow.uint16()
    assert batch.schema.field("seq").type == arrow.large_list(arrow.int64())
    assert batch.schema.field("t").type == arrow.large_string()
    assert batch.schema.field("bytes").type == arrow.large_binary()
    found = batch.to_pydict()
    assert found["x"] == columns["x"].tolist()
    assert found["seq"] == [[1, 2], []]
    assert found["holes"] == [[0, 1, 2], None]
    assert found["t"] == ["a", "é"]
    assert found["bytes"] == [b"a", b"bc"]
    assert found["ts"] == [["a", "b"], []]
    assert found["maybe"] == [7, None]
    assert found["maybe_x"] == [None, [1.0, 1.0, 1.0]]
    assert found["maybe_l"] == [{"a": 1}, None]
    assert found["two"] == [[[0, 1]], [[2, 3], [4, 5]]]
    images = RecordBatch({"image": [np.zeros((2, 2, 3), np.uint8)] * 2}, np.arange(2)).to_arrow()
    assert images.to_pydict()["image"] == [np.zeros((2, 2, 3)).tolist()] * 2


@pytest.mark.parametrize("make", [lambda columns: RecordBatch(columns, np.arange(2)), Batch])
def test_batches_answer_alike_about_columns(make: Any) -> None:
    columns = {"label": np.array([4, 2]), "text": ["a", "b"]}
    batch = make(columns)
    assert "label" in batch
    assert "nope" not in batch
    assert list(batch.keys()) == list(columns)
    assert list(batch.values()) == list(columns.values())
    assert dict(batch.items()) == dict(batch) == columns
    assert (batch.get("text"), batch.get("nope"), batch.get("nope", 1)) == (["a", "b"], None, 1)
    with pytest.raises(KeyError, match=r"unknown field 'lable' \(nearest: label\)"):
        batch["lable"]
    with pytest.raises(AttributeError, match=r"the column is batch\['label'\]"):
        _ = batch.label
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = batch.nope
    for copied in (pickle.loads(pickle.dumps(batch)), copy.copy(batch), copy.deepcopy(batch)):
        assert list(copied["label"]) == [4, 2]


def test_wrong_batch_access_states_the_remedy() -> None:
    batch = RecordBatch({"label": np.array([4, 2])}, np.arange(2))
    for key in (slice(1), [0, 1], 0.5):
        with pytest.raises(TypeError, match="slice or index a column"):
            batch[key]  # type: ignore[index]
    with pytest.raises(TypeError, match=r"records use list\(batch\)"):
        assert {"label": 4} not in batch
    with pytest.raises(KeyError, match="index a column"):
        Batch({"label": [4]})[0]  # type: ignore[index]


def test_bytes_of_nested_columns_are_counted() -> None:
    array = np.zeros(3, np.int32)
    ragged = Ragged(np.zeros(5, np.uint8), np.array([0, 2, 5]))
    nested = {
        "a": [{"x": "four", "y": [b"two", 1, None]}, ("z", array)],
        "b": ragged,
        "c": Nullable(array, np.ones(3, bool)),
    }
    assert nbytes_of(nested) == (4 + 3) + (1 + 12) + (5 + 24) + (12 + 3)
    assert nbytes_of(None) == 0
