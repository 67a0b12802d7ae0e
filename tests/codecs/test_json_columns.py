"""Columns as JSON objects: the bytes are those of the records one by one, or one by one finds the error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.codecs.json_object import JSON_OBJECT
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.spec import Spec

SPEC = {
    "flag": "bool", "small": "int8", "big": "uint64", "half": "float16", "single": "float32", "double": "float64?",
    "text": "utf8", "more": "utf8?", "fixed": "float32[2,2]", "list": "int64[]?", "rows": "float32[][2]",
    "words": "utf8[]",
}  # fmt: skip
RECORDS: list[dict[str, Any]] = [
    {"flag": True, "small": -128, "big": 2**64 - 1, "half": 0.1, "single": 0.1, "double": 1e300, "text": 'é"\n\0',
     "more": "", "fixed": np.ones((2, 2)), "list": [], "rows": np.zeros((3, 2)), "words": ["a", ""]},
    {"flag": False, "small": 127, "big": 0, "half": 2, "single": np.inf, "text": "", "fixed": np.zeros((2, 2)),
     "rows": np.zeros((0, 2)), "words": []},
]  # fmt: skip


@pytest.mark.parametrize("n", [1, 2])
def test_columns_have_the_bytes_of_their_records(n: int, tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.jsonl", spec=SPEC) as writer:
        writer.extend(RECORDS[:n])
    source = dataformats.open(tmp_path / "x.jsonl")
    coder = JSON_OBJECT.bind(source.spec, CodecResolver(trusted=True))
    blobs = coder.encode_columns(source.read(range(n)).columns)
    assert blobs is not None
    assert list(blobs) == [coder.encode(record) for record in source]


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("int8", np.array([1000])),
        ("float32", np.array([0.5])),
        ("float32[2]", np.zeros((1, 3), np.float32)),
        ("json", [{"a": 1}]),
        ("utf8", ["\ud800"]),
    ],
)
def test_other_types_are_encoded_one_by_one(kind: str, column: Any) -> None:
    coder = JSON_OBJECT.bind(Spec({"x": kind}), CodecResolver(trusted=True))
    assert coder.encode_columns({"x": column}) is None
    assert coder.encode_columns({"x": column, "y": column}) is None


def test_large_records_are_refused_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one and in a table: those before it are written."""
    arrow = pytest.importorskip("pyarrow")
    monkeypatch.setattr("dataformats.codecs.documents.MAX_BYTES", 20)
    records = [{"text": "a"}, {"text": "b" * 20}]
    for given in (records, arrow.Table.from_pylist(records)):
        with dataformats.create(tmp_path / "x.jsonl", spec={"text": "utf8"}, overwrite=True) as writer:
            with pytest.raises(dataformats.CodecError, match=r"^record 1, .*expected at most 20 bytes, found 31"):
                writer.extend(given)
            assert len(writer) == 1
