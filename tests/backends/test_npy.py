"""NumPy arrays: rows and windows of files of `numpy.save`, damaged headers, and arrays that are refused."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import dataformats
from dataformats.errors import FormatError, SpecError, TruncatedError
from dataformats.inspecting.verification import verify
from dataformats.testing.loop_over import loop_over
from tests.golden.npy.make import ARRAYS, REFUSED

GOLDEN = Path(__file__).parents[1] / "golden" / "npy"


@loop_over("name", ARRAYS)
def test_rows(name: str) -> None:
    array = ARRAYS[name]
    source = dataformats.open(GOLDEN / f"{name}.npy")
    assert (source.format, len(source), list(source.spec)) == ("npy", len(array), ["value"])
    found = source.read(range(len(array)))["value"]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)
    for index in range(len(array)):
        np.testing.assert_array_equal(source[index]["value"], array[index])
    assert verify(GOLDEN / f"{name}.npy").ok


def test_rows_of_several_files() -> None:
    """A list of files is one source, if the shapes of the rows are equal."""
    with pytest.warns(
        UserWarning, match="'labels', 'version_2' follow each other: to join columns, call dataformats.zip"
    ):
        source = dataformats.open([GOLDEN / "labels.npy", GOLDEN / "version_2.npy"])
    np.testing.assert_array_equal(source.read(range(100))["value"], np.tile(ARRAYS["labels"], 2))
    assert len(dataformats.open([GOLDEN / "labels.npy"] * 2)) == 100
    with pytest.raises(SpecError, match=r"expected int64 as in '.*labels.npy', found float32\[8\] in '.*vectors.npy'"):
        dataformats.open([GOLDEN / "labels.npy", GOLDEN / "vectors.npy"])


def test_windows() -> None:
    array = ARRAYS["labels"]
    source = dataformats.open(GOLDEN / "labels.npy", window=8, stride=7)
    found = source.read(range(len(source)))["tokens"]
    np.testing.assert_array_equal(found, np.lib.stride_tricks.sliding_window_view(array, 8)[::7])
    with pytest.raises(FormatError, match=r"arrays of one dimension: found the shape \(30, 8\)\. Leave out window="):
        dataformats.open(GOLDEN / "vectors.npy", window=8)


def test_declared_shape() -> None:
    """Rows may have other dims, be bytes, or numbers that hold theirs."""
    path = GOLDEN / "vectors.npy"
    square = dataformats.open(path, spec={"value": "float32[2,4]"})[3]["value"]
    np.testing.assert_array_equal(square, ARRAYS["vectors"][3].reshape(2, 4))
    assert dataformats.open(path, spec={"value": "bytes"})[3]["value"] == ARRAYS["vectors"][3].tobytes()
    double = dataformats.open(path, spec={"value": "float64[4,2]"})[3]["value"]
    assert (double.dtype, double.tolist()) == (np.dtype("f8"), ARRAYS["vectors"][3].reshape(4, 2).tolist())
    with pytest.raises(SpecError, match=r"expected float32 with any dims, or bytes, found int32\[8\]"):
        dataformats.open(path, spec={"value": "int32[8]"})[3]


@loop_over(
    "name, message",
    [
        ("fortran", r"Fortran order.*numpy\.ascontiguousarray"),
        ("big_endian", r"no type here: expected little-endian numbers.*array\.astype\('int32'\)"),
        ("single", "a single value has no rows"),
        ("no_bytes", r"the rows of an array have no bytes: found the shape \(3, 0\)"),
        ("objects", "the dtype has no type here"),
    ],
)
def test_refused_array(name: str, message: str) -> None:
    assert name in REFUSED
    with pytest.raises(FormatError, match=message):
        dataformats.open(GOLDEN / "corrupt" / f"{name}.npy")


@loop_over(
    "name, kind",
    [("complex", "complex64"), ("text", "str32"), ("dates", "datetime64(D)"), ("structured", "void32")],
)
def test_other_dtypes_are_opaque(name: str, kind: str) -> None:
    path = GOLDEN / "corrupt" / f"{name}.npy"
    array, source = np.load(path), dataformats.open(path)
    assert {field: str(found) for field, found in source.spec_facts.opaque_fields.items()} == {"value": kind}
    assert [record["value"] for record in source] == [row.tobytes() for row in array]
    if name == "dates":
        assert source.with_spec({"value": "int64"})[0]["value"] == array.view("i8")[0]
    for refused in ("float64", "float32[2]"):
        with pytest.raises(SpecError, match="expected"):
            source.with_spec({"value": refused})[0]
    with pytest.raises(FormatError, match="windows are cut from numbers"):
        dataformats.open(path, window=2)


def test_void_is_read_as_bfloat16(tmp_path: Path) -> None:
    """NumPy stores the arrays of ml_dtypes as void."""
    array = np.arange(6).reshape(3, 2).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "a.npy", array)
    source = dataformats.open(tmp_path / "a.npy")
    assert source.spec == {"value": "void16"}
    np.testing.assert_array_equal(source.with_spec({"value": "bfloat16[2]"}).read([2, 0])["value"], array[[2, 0]])
    for refused in ("float16[2]", "float8_e5m2[4]"):
        with pytest.raises(SpecError, match="expected void16"):
            source.with_spec({"value": refused})


@loop_over(
    "name, message",
    [
        ("cut_header", "the header is damaged"),
        ("version_9", r"unknown version: expected 1\.0 or 2\.0, found version 9\.0"),
        ("longer", "the file goes on behind the array: expected 1088 bytes, found 1089 bytes"),
        ("huge_shape", "the header is damaged"),
        ("nested", "the header is damaged"),
    ],
)
def test_damaged_file(name: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        dataformats.open(GOLDEN / "corrupt" / f"{name}.npy")
    assert not verify(GOLDEN / "corrupt" / f"{name}.npy").ok


def test_short_file(tmp_path: Path) -> None:
    """The whole rows are readable, and one more record stands for the rest, however many the header claims."""
    path = tmp_path / "cut.npy"
    path.write_bytes((GOLDEN / "vectors.npy").read_bytes()[:-33])
    for damaged, whole in ((path, 28), (GOLDEN / "corrupt" / "huge_rows.npy", 30)):
        source = dataformats.open(damaged)
        assert len(source) == whole + 1
        np.testing.assert_array_equal(source[whole - 1]["value"], ARRAYS["vectors"][whole - 1])
        with pytest.raises(TruncatedError, match=f"record {whole} .*reaches outside the file"):
            source[whole]
        assert verify(damaged).n_findings == 1
