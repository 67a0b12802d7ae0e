"""Files whose numbers have several types, opened as one dataset: exact values in one type, or one error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dataformats
from dataformats.errors import CodecError, FormatError, SpecError
from dataformats.testing.loop_over import loop_over

FORMATS = {"arrow": ".arrow", "mds": "", "parquet": ".parquet", "syrah": ".syr", "webdataset": ".tar"}


def write(folder: Path, format: str, first: str, second: str, value: int) -> list[Path]:
    """Write two files with the numbers 1 and 2, and `value`: Syrah has arrays of two numbers."""
    if format in ("arrow", "parquet"):
        pytest.importorskip("pyarrow", reason="tables need pyarrow")
    paths = [folder / f"{format}{number}{FORMATS[format]}" for number in range(2)]
    for path, kind, numbers in zip(paths, (first, second), ([1, 2], [value]), strict=True):
        with dataformats.create(path, format, spec={"n": f"{kind}[2]" if format == "syrah" else kind}) as writer:
            writer.extend({"n": [number] * 2 if format == "syrah" else number} for number in numbers)
    return paths


@loop_over("format", FORMATS)
@loop_over("first, second, wide", [("int32", "int64", "int64"), ("float64", "int64", "float64")])
def test_wider_type(tmp_path: Path, format: str, first: str, second: str, wide: str) -> None:
    paths = write(tmp_path, format, first, second, 2**40)
    source = dataformats.open(paths)
    assert source.spec["n"].codec == wide
    for again in (source, dataformats.open(paths, spec=source.spec)):
        assert [np.ravel(one["n"])[0].item() for one in again] == [1, 2, 2**40]
    dims = "[2]" if format == "syrah" else ""
    batch = source.with_spec({"n": f"float32{dims}"}).read([2, 0])
    assert (batch["n"].dtype, np.ravel(batch["n"])[0]) == (np.float32, 2**40)


@loop_over("format", ["mds", "syrah", "parquet"])
def test_value_out_of_range(tmp_path: Path, format: str) -> None:
    """Only the record with it fails."""
    source = dataformats.open(write(tmp_path, format, "float64", "int64", 2**53 + 1))
    with pytest.raises((FormatError, CodecError), match="9007199254740993"):
        source[2]
    assert source.read(range(3), on_corrupt="omit").indices.tolist() == [0, 1]


@loop_over("format", FORMATS)
def test_types_without_a_common_one(tmp_path: Path, format: str) -> None:
    paths = write(tmp_path, format, "uint64", "int64", 7)
    for path in paths:
        path.with_name(f"{path.name}.dataformats.json").unlink(missing_ok=True)
    with pytest.raises(
        SpecError, match=r"'n': expected .* as in '.*0.*', found .* in '.*1.*'\. Pass spec= with a type"
    ):
        dataformats.open(paths)


@loop_over("format", FORMATS)
def test_open_refuses_wrong_types_of_numbers(tmp_path: Path, format: str) -> None:
    path, _ = write(tmp_path, format, "int32", "int32", 7)
    with pytest.raises(SpecError, match="'n'"):
        dataformats.open(path, spec={"n": "int64[2]" if format == "webdataset" else "jpg"})
