"""Columns are encoded at once: the same bytes, and the same errors, as record by record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.batch import Nullable, Ragged, StoredRecords
from dataformats.spec import Spec
from dataformats.testing.loop_over import loop_over
from dataformats.writing.encoding import FieldsEncoder
from dataformats.writing.output_schema import OutputSchema

RNG = np.random.default_rng(12)
NUMBERS = ["bool", "int8", "uint16", "int32", "uint64", "float16", "float32"]
EDGES = [0, 1, -1, 127, 128, -128, -129, 255, 256, 2**31, -(2**31) - 1, 2**55 - 1, 2**55, 2**63 - 1, -(2**63)]
VALUES: dict[str, list[Any]] = {
    **{f"{name}[2,3]": [RNG.integers(0, 2, (2, 3)).astype(name) for _ in range(5)] for name in NUMBERS[::2]},
    **{f"{name}[]": [RNG.integers(0, 2, n).astype(name) for n in (3, 0, 1, 4)] for name in NUMBERS[::3]},
    **{name: list(RNG.integers(0, 2, 5).astype(name)) for name in NUMBERS},
    "int64": [number for number in EDGES if -(2**63) <= number < 2**63],
    "uint64": [0, 1, 2**63, 2**64 - 1],
    "float64": [0.5, -0.0, float("inf"), 3],
    "float32[3,0]": [np.zeros((3, 0), np.float32)] * 3,
    "float64[2,3]": [np.ones((2, 3)), np.arange(6.0).reshape(2, 3, order="F"), np.arange(24.0).reshape(4, 6)[::2, ::2]],
    "float64[3]": [[1, 2.5, 3], np.arange(3.0)[::-1], np.arange(3, dtype=">f8"), np.ones(3, np.float32)],
    "utf8": ["a", "", "héllo", "€" * 100],
    "bytes": [b"a", b"", b"\0" * 5000, bytearray(b"bc")],
    "png": [np.full((4, 4, 3), n, np.uint8) for n in range(3)],
}
GRANULAR = {
    "int": [*EDGES, 2**100],
    "int(unsigned)": [number for number in EDGES if number >= 0],
    "int(3,big)": [1, 70_000],
    "i64": [1, -5, 2**62],
    "u64": [1, 2**64 - 1],
    "array": [np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3) + 1],
    "array(float32,2)": [np.ones(2, np.float32), np.zeros(2, np.float32)],
    "npy": [np.arange(3), np.zeros((2, 2), order="F")],
    "tree": [{"a": np.arange(2)}, [1, "b"]],
}
CASES = [
    *(("syrah", kind, values) for kind, values in VALUES.items()),
    *(("granular", kind, values) for kind, values in {**VALUES, **GRANULAR}.items()),
    ("granular", "utf8[]", [["a", "b"], [], ["c"]]),
]


def encoder(format: str, spec: dict[str, str]) -> FieldsEncoder:
    encode = OutputSchema(format, None, Spec(spec), {}).encoder(None)
    assert isinstance(encode, FieldsEncoder)
    return encode


def stored(records: StoredRecords) -> list[dict[str, list[bytes]]]:
    return [{name: list(blobs) for name, blobs in record.items()} for record in records]


def content(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else path.rglob("*.*")
    return {file.name: file.read_bytes() for file in files if not file.name.endswith(".json")}


@loop_over("format, kind, values", CASES)
def test_columns_have_the_bytes_of_single_records(format: str, kind: str, values: list[Any], tmp_path: Path) -> None:
    spec = {"x": kind, "y": "int64"}
    encode = encoder(format, spec)
    records = [{"x": value, "y": number} for number, value in enumerate(values)]
    expected = [encode(record) for record in records]
    rows, failure = encode.rows(format, records)
    assert failure is None
    assert stored(rows) == expected
    with dataformats.create(tmp_path / "one" / "data", format, spec=spec) as writer:
        for record in records:
            writer.append(record)
    with dataformats.create(tmp_path / "all" / "data", format, spec=spec) as writer:
        writer.extend(records)
    assert content(tmp_path / "one" / "data") == content(tmp_path / "all" / "data")
    batch = dataformats.open(tmp_path / "all" / "data", format=format, spec=spec).read(range(len(records)))
    columns = encode.columns(format, batch.columns)
    assert columns is not None
    assert stored(columns) == [encode(record) for record in batch] == expected


@loop_over("kind", ["float64[3]", "int64", "utf8", "bytes"])
@loop_over("format", ["granular", "syrah"])
def test_records_before_a_failing_one_are_kept(format: str, kind: str, tmp_path: Path) -> None:
    good, bad = VALUES[kind][0], {"float64[3]": [1.0, 2.0], "int64": 2**63}.get(kind, 1.5)
    records = [{"x": good, "y": 0}] * 300
    with dataformats.create(tmp_path / "data", format, spec={"x": kind, "y": "int64"}) as writer:
        for wrong in ({"x": bad, "y": 0}, {"x": good}, {"x": good, "y": 0, "z": 0}, {"x": bad, "y": True}, [good, 0]):
            before = len(writer)
            with pytest.raises((dataformats.SpecError, dataformats.CodecError)) as alone:
                writer.append(wrong)
            with pytest.raises((dataformats.SpecError, dataformats.CodecError)) as caught:
                writer.extend([*records, wrong, *records])
            assert len(writer) == before + 300
            assert str(caught.value).replace(f" {before + 300}", f" {before}") == str(alone.value)
    assert len(dataformats.open(tmp_path / "data", format=format)) == len(writer)


def test_values_are_encoded_once(tmp_path: Path) -> None:
    """An iterator has its elements once: a record that fails must not empty the ones before it."""
    records = [{"x": iter(["a", "b"]), "y": 1}, {"x": iter("cd"), "y": 2}, {"x": iter("e"), "y": "wrong"}]
    with dataformats.create(tmp_path / "data", "granular", spec={"x": "utf8[]", "y": "int"}) as writer:
        writer.append({"x": [], "y": 0})
        with pytest.raises(dataformats.CodecError):
            writer.extend(records)
    assert [record["x"] for record in dataformats.open(tmp_path / "data")] == [[], ["a", "b"], ["c", "d"]]


def test_columns_with_missing_values_are_encoded_by_record() -> None:
    encode = encoder("granular", {"x": "int64"})
    assert encode.columns("granular", {"y": np.arange(3)}) is None
    assert encode.columns("granular", {"x": Nullable(np.arange(3), np.ones(3, bool))}) is None
    with pytest.raises(dataformats.SpecError):
        encode.columns("granular", {"x": np.array([1.5])})
    part = Ragged(np.frombuffer(b"abcdef", np.uint8), np.array([1, 3, 4]), "utf8")
    found = encoder("granular", {"x": "utf8"}).columns("granular", {"x": part})
    assert found is not None
    assert stored(found) == [{"x": [b"bc"]}, {"x": [b"d"]}]
