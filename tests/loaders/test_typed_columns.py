"""Columns keep the types of the source if a transform is added."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats import Loader, Nullable, Ragged, SpecError
from dataformats.loaders.pad import pad

SPEC = {
    "text": "utf8", "blob": "bytes", "tokens": "int32[]", "points": "float32[][2]", "words": "utf8[]",
    "score": "float32", "class": "uint8", "flag": "bool", "vector": "float64[2]",
    "rare": "int16?", "tags": "int64[]?", "note": "utf8?", "meta": "json", "extra": "json?",
}  # fmt: skip


def record(index: int, *, optional: bool = True) -> dict[str, Any]:
    required = {
        "text": "é" * (index % 3), "blob": b"x" * index, "tokens": np.arange(index % 4, dtype=np.int32),
        "points": np.full((index % 3, 2), index, np.float32), "words": ["a", "bc"][: index % 3], "score": index / 4,
        "class": index % 256, "flag": index % 2 == 0, "vector": np.array([index, 0.5]), "meta": {"n": [index]},
    }  # fmt: skip
    held = {"rare": -index, "tags": np.arange(index % 2), "note": f"note {index}", "extra": [index]}
    return required | (held if optional else {})


@pytest.fixture
def source(tmp_path: Path) -> dataformats.RecordSource:
    with dataformats.create(tmp_path / "a.tfrecord", "tfrecord", spec=SPEC) as writer:
        writer.extend(record(index, optional=index % 5 > 1) for index in range(40))
    return dataformats.open(tmp_path / "a.tfrecord", spec=SPEC)


def batches(source: Any, transform: Callable[..., Any] | None, **options: Any) -> list[Any]:
    with Loader(source, 4, shuffle=False, workers=0, transform=transform, **options) as loader:
        return list(loader)


def assert_same(found: Any, expected: Any) -> None:
    """Assert that two columns are of one type and hold the same."""
    assert type(found) is type(expected)
    if isinstance(expected, Mapping):
        assert list(found) == list(expected)
        for name in expected:
            assert_same(found[name], expected[name])
    elif isinstance(expected, Ragged | Nullable):
        assert getattr(found, "item", None) == getattr(expected, "item", None)
        assert (found.present is None) == (expected.present is None)
        assert repr(list(found)) == repr(list(expected))
        assert getattr(found.values, "dtype", type(found.values)) == getattr(
            expected.values, "dtype", type(expected.values)
        )
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    else:
        assert found == expected


@pytest.mark.parametrize("transform", [dict, lambda record: dict(reversed(record.items()))], ids=["same", "reversed"])
@pytest.mark.parametrize("size", [4, 1])
def test_an_identity_changes_no_column(source: Any, transform: Any, size: int) -> None:
    expected = batches(source[:8], None)
    found = batches(source[:8], transform)
    for one, other in zip(found, expected, strict=True):
        assert_same({name: one[name] for name in other}, dict(other))
        assert one.keys() == other.keys()


def test_transformed_fields_keep_their_types(source: Any) -> None:
    def changed(record: dict[str, Any]) -> dict[str, Any]:
        return {
            "text": record["text"].upper(), "tokens": [*record["tokens"].tolist(), 9], "points": record["points"][:1],
            "words": record["words"][:1], "score": 1, "class": record["class"] + 1, "new": "text", "blob": np.zeros(2),
        }  # fmt: skip

    batch = batches(source, changed)[1]
    assert [repr(batch[name]) for name in ("text", "tokens", "points", "words")] == [
        "Ragged(4 items of utf8)", "Ragged(4 items of int32)",
        "Ragged(4 items of float32)", "Ragged(4 items of Ragged)",
    ]  # fmt: skip
    assert list(batch["text"]) == ["É", "ÉÉ", "", "É"]
    assert [part.tolist() for part in batch["tokens"]] == [[9], [0, 9], [0, 1, 9], [0, 1, 2, 9]]
    assert (batch["score"].dtype, batch["class"].dtype, batch["blob"].shape) == (np.float32, np.uint8, (4, 2))
    assert batch["class"].tolist() == [5, 6, 7, 8]
    assert batch["new"] == ["text"] * 4


def test_number_outside_the_dtype_raises(source: Any) -> None:
    with pytest.raises(SpecError, match=r"field 'class': 300 does not fit uint8, .*numpy.int64\(300\)"):
        batches(source, lambda record: {"class": record["class"] + 300 - record["class"]})
    assert batches(source, lambda record: {"class": np.int64(300)})[0]["class"].tolist() == [300] * 4


def test_a_dropped_optional_field_stays_dropped(source: Any) -> None:
    assert [list(batch) for batch in batches(source, lambda record: {"score": record["score"]})] == [["score"]] * 10


def test_fields_beside_padded_ones_keep_their_types(source: Any) -> None:
    collate = pad("tokens")
    found = batches(source, dict, collate=collate)
    for one, other in zip(found, batches(source, None, collate=collate), strict=True):
        assert_same({name: one[name] for name in other}, dict(other))
