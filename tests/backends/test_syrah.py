"""Syrah: files of the original program, damaged files, hostile metadata, and a writer that is killed."""

from __future__ import annotations

import hashlib
import json
import re
import tracemalloc
from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import pack
from typing import Any

import bson
import numpy as np
import pytest
from bson.regex import Regex
from hypothesis import given, settings
from hypothesis import strategies as st

import dataformats
from dataformats.backends.syrah import BACKEND, layout
from dataformats.backends.syrah import writer as writer_module
from dataformats.backends.syrah.metadata import build_metadata, metadata_bytes, parse_metadata
from dataformats.backends.syrah.reader import SyrahReader
from dataformats.errors import (
    CodecError,
    CorruptRecordError,
    FormatError,
    SpecError,
    UnknownNameError,
)
from dataformats.interfaces import ReaderOptions
from dataformats.spec import Spec, Type
from dataformats.storage.files import LocalFile
from dataformats.storage.reference_read import read_blobs
from dataformats.testing.loop_over import loop_over
from tests.campaign import share

CHECKOUT = Path(__file__).parents[2]
GOLDEN = CHECKOUT / "tests" / "golden" / "syrah"
ENTRIES: list[dict[str, Any]] = json.loads((GOLDEN / "expected.json").read_text("utf-8"))["entries"]
GOOD = [entry for entry in ENTRIES if not entry["error"] and (entry["id"] != "float128" or hasattr(np, "float128"))]
DAMAGED = [entry for entry in ENTRIES if entry["error"]]
VALUES = np.load(GOLDEN / "expected.npz", allow_pickle=False)
PAGE = CHECKOUT / "docs" / "formats" / "syrah.md"


def open_file(path: Path) -> SyrahReader:
    reader = BACKEND.open([LocalFile(path)], ReaderOptions())
    assert isinstance(reader, SyrahReader)
    return reader


def document(arrays: Mapping[str, tuple[str, Sequence[int], Sequence[int]]]) -> bytes:
    """Metadata by the original's own rule, made by another encoder than the one under test."""
    tables = {
        name: {"offset": np.array(offsets, "<i8").tobytes(), "size": np.array(sizes, "<i8").tobytes(), "dtype": dtype}
        for name, (dtype, offsets, sizes) in arrays.items()
    }
    return bytes(bson.encode(tables))


def whole(data: bytes, metadata: bytes, version: bytes = b"\0\0\2\0") -> bytes:
    return b"GS" + version + pack("<qq", 22 + len(data), len(metadata)) + data + metadata


def plain_file(dtypes: Mapping[str, str], items: Sequence[Sequence[bytes]]) -> bytes:
    """A file by the table in FORMATS, without any of the code under test."""
    at, places = 22, []
    for item in items:
        for blob in item:
            places.append((at, len(blob)))
            at += len(blob)
    k = len(dtypes)
    arrays = {
        name: (dtype, [offset for offset, _ in places[i::k]], [size for _, size in places[i::k]])
        for i, (name, dtype) in enumerate(dtypes.items())
    }
    return whole(b"".join(blob for item in items for blob in item), document(arrays))


def write_file(path: Path, spec: Any, records: Sequence[Any], **options: Any) -> Path:
    with dataformats.create(path, "syrah", spec=spec, **options) as writer:
        writer.extend(records)
    return path


DTYPES = {"id": "int32", "x": "float64", "s": "str"}
ITEMS = [
    (np.int32(i).tobytes(), np.arange(i, dtype="<f8").tobytes(), f"text {i} é".encode()) for i in range(3)
]  # fmt: skip


# ---- files of the original


@loop_over("entry", GOOD)
def test_good_files(entry: dict[str, Any]) -> None:
    src = dataformats.open(GOLDEN / entry["path"])
    assert (src.format, src.payload, len(src)) == ("syrah", None, entry["n"])
    assert tuple(src.spec) == tuple(array["name"] for array in entry["arrays"])
    for array in entry["arrays"]:
        assert column_of(src, array) == expected_column(array)
        assert str(src.spec[array["name"]]) == expected_type(array)


def column_of(src: Any, array: dict[str, Any]) -> list[Any]:
    found = [row[array["name"]] for row in src]
    if "strings" in array:
        return found
    assert all(value.ndim == 1 and value.dtype == array["dtype"] for value in found)
    return [value.tobytes() for value in found]


def expected_column(array: dict[str, Any]) -> list[Any]:
    if "strings" in array:
        return list(array["strings"])
    parts = np.split(VALUES[array["npz_values"]], np.cumsum(array["lengths"])[:-1])
    return [part.astype(array["dtype"]).tobytes() for part in parts]


def expected_type(array: dict[str, Any]) -> str:
    if "strings" in array:
        return "utf8"
    lengths = set(array["lengths"])
    return f"{array['dtype']}[{lengths.pop() if len(lengths) == 1 and 0 not in lengths else ''}]"


@loop_over("entry", GOOD)
def test_stored_arrays_match_golden_digests(entry: dict[str, Any]) -> None:
    reader = open_file(GOLDEN / entry["path"])
    names = [array["name"] for array in entry["arrays"]]
    located = reader.locate(np.arange(entry["n"]), dict.fromkeys(names, True))
    fetched = read_blobs(reader.files, [located[name].extents for name in names], max_bytes=2**40)
    for array, got in zip(entry["arrays"], fetched, strict=True):
        assert located[array["name"]].extents.offset.tolist() == array["offset"]
        assert located[array["name"]].extents.length.tolist() == array["size"]
        assert [hashlib.sha256(blob).hexdigest() for blob in got.blobs] == array["sha256"]
        assert not got.problems
    items = [b"".join(got.blobs[i] for got in fetched) for i in range(entry["n"])]
    assert [hashlib.sha256(item).hexdigest() for item in items] == entry["records"]["sha256"]
    assert reader.metadata() == {"version": entry["version"]}


@loop_over("entry", GOOD)
def test_parsed_metadata_match_bson_library(entry: dict[str, Any]) -> None:
    data = (GOLDEN / entry["path"]).read_bytes()[entry["metadata_offset"] :]
    tables = parse_metadata(data, "a.syr", 0)
    expected = bson.decode(data)
    assert list(tables) == list(expected)
    for name, table in tables.items():
        found = {"offset": table.offset.tobytes(), "size": table.size.tobytes(), "dtype": table.dtype}
        assert found == expected[name]
        with pytest.raises(ValueError, match="read-only"):
            table.size[:] = 0


@loop_over("entry", [entry for entry in GOOD if entry.get("rewrite")])
def test_rewrite(entry: dict[str, Any], tmp_path: Path) -> None:
    src = dataformats.open(GOLDEN / entry["path"])
    path = write_file(tmp_path / "again.syr", src.spec, list(src))
    assert path.read_bytes() == (GOLDEN / entry["path"]).read_bytes()


def test_big_endian_arrays_are_swapped(tmp_path: Path) -> None:
    (entry,) = (entry for entry in GOOD if entry["id"] == "big_endian_input")
    arrays = [np.array(values, ">f4") for values in entry["given"]]
    path = write_file(tmp_path / "a.syr", {"x": "float32[4]"}, [{"x": array} for array in arrays])
    assert [record["x"].tolist() for record in dataformats.open(path)] == entry["given"]
    assert path.read_bytes() == (GOLDEN / entry["path"]).read_bytes()


# ---- damaged files


@loop_over("entry", DAMAGED)
def test_damaged_files(entry: dict[str, Any]) -> None:
    path = GOLDEN / entry["path"]
    if entry["stage"] == "open":
        with pytest.raises(FormatError, match=path.name):
            open_file(path)
        with pytest.raises(FormatError, match=path.name):
            dataformats.open(path)
        return
    src = dataformats.open(path)
    assert len(src) == entry["n_before_damage"]
    for i in entry["bad"]:
        with pytest.raises(FormatError, match=path.name) as raised:
            src[i]
        assert raised.value.index == i
    good = dataformats.open(GOLDEN / "base.syr")
    for i in entry["readable"]:
        assert {name: as_bytes(value) for name, value in src[i].items()} == {
            name: as_bytes(value) for name, value in good[i].items()
        }
    with pytest.raises(FormatError):
        list(src)
    report = dataformats.verify(path)
    assert [finding.index for finding in report.findings] == entry["bad"]


def as_bytes(value: Any) -> Any:
    return value.tobytes() if isinstance(value, np.ndarray) else value


def test_an_unknown_dtype_leaves_the_other_arrays() -> None:
    path = GOLDEN / "corrupt/unknown_dtype.syr"
    src, good = dataformats.open(path), dataformats.open(GOLDEN / "base.syr")
    assert src.spec == {"id": "int32[1]", "x": "float8", "s": "utf8"}
    assert [record["s"] for record in src.select("id", "s")] == [record["s"] for record in good]
    with pytest.raises(CorruptRecordError, match="float8"):
        src.select("x")[0]
    with pytest.raises(CorruptRecordError, match="float8"):
        src.read([])
    stored = dataformats.open(path, spec={"x": "bytes"})
    assert [record["x"] for record in stored] == [record["x"].tobytes() for record in good]


@loop_over(
    "name, message",
    [
        ("killed_writer", r"killed before close"),
        ("layout_0_1_1", r"syrah 0\.1\.1"),
        ("empty_file", r"gets no items"),
        ("bad_magic", r"expected b'GS', found b'SG'"),
        ("fewer_sizes", r"'x'.* expected 6 items, found 5 items"),
    ],
)
def test_corrupt_files_raise_their_cause(name: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        open_file(GOLDEN / "corrupt" / f"{name}.syr")


@loop_over(
    "name, message",
    [
        ("size_odd", "expected a multiple of 8 bytes for float64, found 7 bytes"),
        ("size_into_metadata", "up to the metadata, found 48 bytes"),
        ("size_past_eof", "found 1000000 bytes"),
    ],
)
def test_corrupt_records_raise_their_cause(name: str, message: str) -> None:
    src = dataformats.open(GOLDEN / "corrupt" / f"{name}.syr")
    assert str(src.spec["x"]) == "float64[]"
    bad = [i for i in range(len(src)) if i not in src.read(range(len(src)), on_corrupt="omit").indices]
    assert len(bad) == 1
    with pytest.raises(FormatError, match=message):
        src[bad[0]]
    assert src.select("id", "s")[bad[0]]["id"].tolist() == [bad[0]]


# ---- hostile metadata


def nested(depth: int) -> bytes:
    begins = [pack("<i", 8 * level + 5) + b"\x03a\0" for level in range(depth, 0, -1)]
    return b"".join(begins) + bytes(bson.encode({})) + bytes(depth)


GOOD_DOCUMENT = document({"x": ("int32", [22], [4])})
OFFSET = bytes(pack("<q", 22))
SIZE = bytes(pack("<q", 4))
HOSTILE = {
    "nested": nested(3),
    "nested deep": nested(100_000),
    "no arrays": bson.encode({}),
    "a number in place of an array": bson.encode({"x": 1}),
    "a text in place of an array": bson.encode({"x": "y"}),
    "an array without tables": bson.encode({"x": {}}),
    "an array without sizes": bson.encode({"x": {"offset": OFFSET, "dtype": "int32"}}),
    "an array without a dtype": bson.encode({"x": {"offset": OFFSET, "size": SIZE}}),
    "an unknown part": bson.encode({"x": {"offset": OFFSET, "size": SIZE, "dtype": "int32", "more": b""}}),
    "a number as dtype": bson.encode({"x": {"offset": OFFSET, "size": SIZE, "dtype": 3}}),
    "a number as offset": bson.encode({"x": {"offset": 22, "size": SIZE, "dtype": "int32"}}),
    "a null": bson.encode({"x": None}),
    "a float": bson.encode({"x": 0.5}),
    "a regular expression": bson.encode({"x": Regex("a")}),
    "another binary": bson.encode({"x": {"offset": bson.Binary(OFFSET, 5), "size": SIZE, "dtype": "int32"}}),
    "an old binary": bson.encode({"x": {"offset": bson.Binary(OFFSET, 2), "size": SIZE, "dtype": "int32"}}),
    "odd tables": bson.encode({"x": {"offset": b"abc", "size": b"abc", "dtype": "int32"}}),
    "unequal tables": bson.encode({"x": {"offset": OFFSET, "size": SIZE * 2, "dtype": "int32"}}),
    "unequal arrays": document({"x": ("int32", [22], [4]), "y": ("int32", [22, 22], [4, 4])}),
    "a name twice": GOOD_DOCUMENT[:-1].replace(GOOD_DOCUMENT[:4], pack("<i", 2 * len(GOOD_DOCUMENT) - 5))
    + GOOD_DOCUMENT[4:],
    "a part twice": GOOD_DOCUMENT.replace(b"\x05size\0", b"\x05offs\0").replace(b"offset\0", b"offs\0\0\0"),
    "a longer inner document": GOOD_DOCUMENT[:7] + pack("<i", 2**31 - 1) + GOOD_DOCUMENT[11:],
    "a negative inner document": GOOD_DOCUMENT[:7] + pack("<i", -1) + GOOD_DOCUMENT[11:],
    "an inner document of 4 bytes": GOOD_DOCUMENT[:7] + pack("<i", 4) + GOOD_DOCUMENT[11:],
    "a longer table": GOOD_DOCUMENT.replace(pack("<iB", 8, 0), pack("<iB", 2**31 - 8, 0), 1),
    "a negative table": GOOD_DOCUMENT.replace(pack("<iB", 8, 0), pack("<iB", -8, 0), 1),
    "a longer text": GOOD_DOCUMENT.replace(pack("<i", 6) + b"int32", pack("<i", 2**31 - 1) + b"int32"),
    "an endless text": GOOD_DOCUMENT.replace(pack("<i", 6) + b"int32", pack("<i", 0) + b"int32"),
    "a text without its end": GOOD_DOCUMENT.replace(b"int32\0", b"int32x"),
    "a dtype that is no UTF-8": GOOD_DOCUMENT.replace(b"int32", b"int\xff2"),
    "a name that is no UTF-8": GOOD_DOCUMENT.replace(b"\x03x\0", b"\x03\xff\0"),
    "a name without an end": pack("<i", 16) + b"\x03" + b"x" * 10 + b"\0",
    "no end": GOOD_DOCUMENT[:-1] + b"\1",
    "zeros": bytes(100),
    "nothing but 255": b"\xff" * 100,
}


@loop_over("name", HOSTILE)
def test_hostile_metadata(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.syr").write_bytes(whole(bytes(8), HOSTILE[name]))
    tracemalloc.start()
    with pytest.raises(FormatError, match=r"a\.syr"):
        open_file(tmp_path / "a.syr")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * 2**20


def test_a_name_twice_is_really_one() -> None:
    """The decoder of another library takes the last one in silence."""
    assert list(bson.decode(HOSTILE["a name twice"])) == ["x"]


@loop_over("number", [-1, 0, 5, 21, 2**31, 2**62, 2**63 - 1, -(2**63)])
@loop_over("at", [6, 14])
def test_absurd_headers_cost_nothing(tmp_path: Path, number: int, at: int) -> None:
    data = plain_file(DTYPES, ITEMS)
    (tmp_path / "a.syr").write_bytes(data[:at] + pack("<q", number) + data[at + 8 :])
    tracemalloc.start()
    with pytest.raises(FormatError, match=r"expected .* found"):
        open_file(tmp_path / "a.syr")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20
    assert BACKEND.sniff(LocalFile(tmp_path / "a.syr")).match == "damaged"


def test_bytes_behind_the_metadata_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.syr").write_bytes(plain_file(DTYPES, ITEMS) + b"\0")
    with pytest.raises(FormatError, match="bytes follow the metadata"):
        open_file(tmp_path / "a.syr")


@loop_over(
    "offset, size",
    [(0, 4), (21, 4), (-1, 4), (-(2**63), 4), (2**63 - 1, 4), (2**63 - 1, 2**63 - 4), (31, 0), (27, 4), (22, -4),
     (22, 12), (22, 2**63 - 4), (22, -(2**63)), (30, 2**63 - 4), (22, 3), (22, 2**62)],
)  # fmt: skip
def test_places_outside_the_data_are_problems_of_their_record(tmp_path: Path, offset: int, size: int) -> None:
    places = ("int32", [22, offset, 26], [4, size, 4])
    (tmp_path / "a.syr").write_bytes(whole(pack("<ii", 5, 6), document({"x": places})))
    src = dataformats.open(tmp_path / "a.syr")
    assert src.spec == {"x": "int32[1]"}
    assert [src[i]["x"].tolist() for i in (0, 2)] == [[5], [6]]
    for fields in (None, ["x"]):
        with pytest.raises(FormatError) as raised:
            src.read([0, 1], fields)
        assert raised.value.index == 1
    batch = src.read([2, 1, 0, 1], on_corrupt="omit")
    assert (batch.indices.tolist(), list(batch.failed)) == ([2, 0], [1])


@settings(max_examples=share(300), deadline=None)
@given(st.integers(0, len(GOOD_DOCUMENT) - 1), st.binary(min_size=1, max_size=12), st.integers(0, 12))
def test_edited_metadata(at: int, fill: bytes, skip: int) -> None:
    edited = GOOD_DOCUMENT[:at] + fill + GOOD_DOCUMENT[at + skip :]
    for data in (edited, pack("<i", len(edited)) + edited[4:]):
        try:
            tables = parse_metadata(data, "a.syr", 30)
        except FormatError:
            continue
        expected = bson.decode(data)
        assert {name: table.size.tobytes() for name, table in tables.items()} == {
            name: expected[name]["size"] for name in expected
        }


# ---- several files, many items


def test_files_with_the_same_arrays_in_another_order(tmp_path: Path) -> None:
    write_file(tmp_path / "a1.syr", {"n": "int32", "s": "utf8"}, [{"n": 1, "s": "x"}, {"n": 2, "s": "yy"}])
    write_file(tmp_path / "a2.syr", {"s": "utf8", "n": "int32"}, [])
    write_file(tmp_path / "a10.syr", {"s": "utf8", "n": "int32"}, [{"n": 3, "s": ""}])
    src = dataformats.open(tmp_path)
    assert [Path(path).name for path in src.paths] == ["a1.syr", "a2.syr", "a10.syr"]
    assert src.spec == {"n": "int32", "s": "utf8"}  # the sidecars of the files declare it
    assert [(record["n"], record["s"]) for record in src] == [(1, "x"), (2, "yy"), (3, "")]
    batch = src.read([2, 0, 2, 1], ["s"])
    assert list(batch["s"]) == ["", "x", "", "yy"]


def test_item_outside_its_file_is_one_failing_record(tmp_path: Path) -> None:
    data = b"".join(map(int32, range(3)))
    for name, sizes in (("a1.syr", [4, 4, 4]), ("a2.syr", [4, 400, 4]), ("a3.syr", [4, 4, 4])):
        (tmp_path / name).write_bytes(whole(data, document({"n": ("int32", [22, 26, 30], sizes)})))
    src = dataformats.open(tmp_path, spec={"n": "int32"})
    assert src.read([8, 0, 5, 1])["n"].tolist() == [2, 0, 2, 1]
    with pytest.raises(FormatError, match=r"record 4 of .*a2\.syr.*reaches past the end of the data") as caught:
        src.read([8, 4])
    assert caught.value.offset_bytes == 26
    assert src.read([8, 4, 3], on_corrupt="omit")["n"].tolist() == [2, 0]


def int32(number: int) -> bytes:
    return number.to_bytes(4, "little")


@loop_over(
    "spec, expected",
    [
        ({"n": "int64"}, {"n": "int64[]"}),
        ({"m": "int32"}, {"n": "int32[]?", "m": "int32[]?"}),
        ({"n": "int32", "m": "int32"}, {"n": "int32[]", "m": "int32[]?"}),
    ],
)
def test_files_with_other_arrays(tmp_path: Path, spec: dict[str, str], expected: dict[str, str]) -> None:
    write_file(tmp_path / "a1.syr", {"n": "int32"}, [{"n": 1}])
    write_file(tmp_path / "a2.syr", spec, [dict.fromkeys(spec, 2)])
    forget_sidecars(tmp_path)
    source = dataformats.open(tmp_path)
    assert source.spec == expected
    assert [{name: value.tolist() for name, value in one.items()} for one in source] == [
        {"n": [1]},
        {name: [2] for name in spec},
    ]


def test_files_with_arrays_of_other_kinds(tmp_path: Path) -> None:
    write_file(tmp_path / "a1.syr", {"n": "int64"}, [{"n": 1}])
    write_file(tmp_path / "a2.syr", {"n": "utf8"}, [{"n": "x"}])
    with pytest.raises(FormatError, match=r"the spec in its sidecar .*a2\.syr.* is not that in .*a1\.syr"):
        dataformats.open(tmp_path)
    forget_sidecars(tmp_path)
    with pytest.raises(SpecError, match=r"'n': expected int64\[\] as in '.*a1\.syr', found utf8 in '.*a2\.syr'"):
        dataformats.open(tmp_path)


def forget_sidecars(folder: Path) -> None:
    for sidecar in folder.glob("*.dataformats.json"):
        sidecar.unlink()


def test_lengths_differing_between_files_infer_ragged_type(tmp_path: Path) -> None:
    write_file(tmp_path / "a1.syr", {"n": "int32[2]"}, [{"n": [1, 2]}])
    write_file(tmp_path / "a2.syr", {"n": "int32[3]"}, [{"n": [1, 2, 3]}])
    assert dataformats.open(tmp_path / "a2.syr").spec == {"n": "int32[3]"}
    forget_sidecars(tmp_path)
    assert dataformats.open(tmp_path).spec == {"n": "int32[]"}
    assert dataformats.open(tmp_path)[1]["n"].tolist() == [1, 2, 3]


def test_a_million_items_open_fast(tmp_path: Path) -> None:
    n = 1_000_000
    numbers = np.arange(n, dtype="<i8")
    offsets = np.arange(n) * 8 + 22
    metadata = bson.encode(
        {
            name: {"offset": offsets.tobytes(), "size": np.full(n, 8).tobytes(), "dtype": dtype}
            for name, dtype in (("a", "int64"), ("b", "float64"))
        }
    )
    (tmp_path / "a.syr").write_bytes(whole(numbers.tobytes(), metadata))
    tracemalloc.start()
    src = dataformats.open(tmp_path / "a.syr")
    assert len(src) == n
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * len(metadata)
    assert src.spec == {"a": "int64[1]", "b": "float64[1]"}
    assert src.read([n - 1, 5, n // 2], ["a"])["a"].tolist() == [[n - 1], [5], [n // 2]]


# ---- arrays by spec


def test_a_spec_restores_shapes_and_codecs(tmp_path: Path) -> None:
    records = [{"m": np.arange(6, dtype=np.int16).reshape(2, 3) + i, "blob": {"i": i}} for i in range(4)]
    path = write_file(tmp_path / "a.syr", {"m": "int16[2,3]", "blob": "json"}, records)
    (tmp_path / "a.syr.dataformats.json").unlink()
    assert dataformats.open(path).spec == {"m": "int16[6]", "blob": "uint8[7]"}
    for kind, shape in {"int16[3,2]": (3, 2), "int16[]": (6,), "int16[][2]": (3, 2), "int16[6]": (6,)}.items():
        assert dataformats.open(path, spec={"m": kind})[1]["m"].shape == shape
    typed = dataformats.open(path, spec={"blob": "json"})
    assert typed.spec == {"m": "int16[6]", "blob": "json"}
    assert typed[3, ["blob"]] == {"blob": {"i": 3}}
    assert dataformats.open(path, spec={"m": "bytes"})[0]["m"] == np.arange(6, dtype="<i2").tobytes()
    assert dataformats.open(path)[1, {"m": range(2, 4)}]["m"].tolist() == [3, 4]


@loop_over("kind", ["bool[6]", "jpg", "utf8", "int16[6]?", "bytes[]", "bytes?", "jpg[]"])
def test_wrong_shape_in_spec_names_the_field(tmp_path: Path, kind: str) -> None:
    path = write_file(tmp_path / "a.syr", {"m": "int16[6]"}, [{"m": range(6)}])
    with pytest.raises(SpecError, match="'m'"):
        dataformats.open(path, spec={"m": kind})[0]


def test_spec_with_unknown_field_or_length_raises(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.syr", {"m": "int16[6]"}, [{"m": range(6)}])
    with pytest.raises(SpecError, match="'other'"):
        dataformats.open(path, spec={"other": "int16"})
    with pytest.raises(CodecError, match="expected 14 bytes"):
        dataformats.open(path, spec={"m": "int16[7]"})[0]


def test_text_is_text_or_bytes(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.syr", {"s": "utf8"}, [{"s": "é"}])
    assert dataformats.open(path, spec={"s": "bytes"})[0] == {"s": "é".encode()}
    for kind in ("uint8[]", "json", "utf8[]", "utf8?"):
        with pytest.raises(SpecError, match="'s'"):
            dataformats.open(path, spec={"s": kind})[0]


# ---- writing


def test_end_to_end(tmp_path: Path) -> None:
    spec = {"image": "float32[28,28]", "label": "int64", "name": "utf8", "photo": "png"}
    records: list[dict[str, Any]] = [
        {
            "image": np.full((28, 28), i / 7, np.float32),
            "label": i,
            "name": "ä" * i,
            "photo": np.full((4, 5, 3), 40 * i, np.uint8),
        }
        for i in range(5)
    ]
    path = write_file(tmp_path / "a.syr", spec, records)
    src = dataformats.open(path)
    assert src.spec == spec
    for found, record in zip(src, records, strict=True):
        assert (found["label"], found["name"]) == (record["label"], record["name"])
        assert np.array_equal(found["image"], record["image"])
        assert np.array_equal(found["photo"], record["photo"])
    assert dataformats.verify(path).ok
    assert dataformats.info(path).metadata == {"version": "0.2.0"}
    (tmp_path / "a.syr.dataformats.json").unlink()
    bare = dataformats.open(path)
    assert bare.spec == {"image": "float32[784]", "label": "int64[1]", "name": "utf8", "photo": "uint8[]"}
    assert np.array_equal(bare[3]["image"], records[3]["image"].reshape(-1))
    assert bare.fingerprint == src.fingerprint


@loop_over("kind", ["int64", "int64[3]", "int64[]", "float32[][2]", "bool", "float128"])
def test_the_declared_type_comes_back_also_without_records(tmp_path: Path, kind: str) -> None:
    if kind == "float128" and not hasattr(np, "float128"):
        pytest.skip("this platform has no float128")
    for n in (0, 2):
        path = write_file(tmp_path / f"{n}.syr", {"x": kind}, [{"x": make(kind)} for _ in range(n)])
        src = dataformats.open(path)
        assert src.spec == {"x": kind}
        assert len(src.read(range(n))["x"]) == n


def make(kind: str) -> Any:
    shape = tuple(3 if size is None else size for size in Type.parse(kind).dims)
    return np.ones(shape, Type.parse(kind).codec) if shape or kind == "float128" else kind == "bool" or 1


@settings(max_examples=share(30), deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=9), st.text(max_size=5), st.lists(st.integers(-9, 9), max_size=3))))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[bytes, str, list[int]]]) -> None:
    path = tmp_path_factory.mktemp("syr") / "a.syr"
    records = [{"b": b, "s": s, "n": n} for b, s, n in rows]
    write_file(path, {"b": "bytes", "s": "utf8", "n": "int16[]"}, records)
    items = [(b, s.encode(), np.array(n, "<i2").tobytes()) for b, s, n in rows]
    assert path.read_bytes() == plain_file({"b": "uint8", "s": "str", "n": "int16"}, items)
    assert [{**record, "n": record["n"].tolist()} for record in dataformats.open(path)] == records


@given(st.dictionaries(st.text(max_size=5).filter(lambda name: "\0" not in name), st.sampled_from(["int8", "str"]),
                       min_size=1, max_size=4), st.integers(0, 3))  # fmt: skip
def test_built_metadata_match_bson_library(dtypes: dict[str, str], n: int) -> None:
    table = [np.arange(n, dtype="<i8").tobytes()] * len(dtypes)
    expected = document({name: (dtype, range(n), range(n)) for name, dtype in dtypes.items()})
    assert b"".join(build_metadata(dtypes, table, table)) == expected
    assert metadata_bytes(dtypes, n) == len(expected)


def test_unsupported_specs_name_every_wrong_field(tmp_path: Path) -> None:
    wrong = {
        "a": "jpg[]", "b": "int64?", "c": "utf8[3]", "d": "float32[2][]", "zero\0": "int8", "\ud800": "int8"
    }  # fmt: skip
    with pytest.raises(SpecError) as raised:
        dataformats.create(tmp_path / "a.syr", "syrah", spec={**wrong, "good": "int8"})
    assert all(repr(name) in str(raised.value) for name in wrong)
    assert "'good'" not in str(raised.value)
    for name, kind in wrong.items():
        with pytest.raises(SpecError) as raised:
            dataformats.create(tmp_path / "a.syr", "syrah", spec={name: kind})
        assert raised.value.field == name
    empties: tuple[Any, ...] = ({}, None)
    for spec in empties:
        with pytest.raises(SpecError, match="spec="):
            dataformats.create(tmp_path / "a.syr", "syrah", spec=spec)
    with pytest.raises(SpecError, match="payload"):
        dataformats.create(tmp_path / "a.syr", "syrah", spec={"a": "int8"}, payload="msgpack")
    with pytest.raises(UnknownNameError, match="nosuch"):
        dataformats.create(tmp_path / "a.syr", "syrah", spec={"a": "nosuch"})
    with pytest.raises(TypeError, match="compression"):
        dataformats.create(tmp_path / "a.syr", "syrah", spec={"a": "int8"}, compression="gzip")
    with pytest.raises(TypeError, match="compression"):
        dataformats.open(GOLDEN / "one.syr", compression="gzip")
    assert list(tmp_path.iterdir()) == []


def test_codecs_of_the_call(tmp_path: Path) -> None:
    mine = {"mine": (lambda value: bytes([value]), lambda blob: blob[0])}
    path = tmp_path / "a.syr"
    with dataformats.create(path, "syrah", spec={"x": "mine"}, codecs=mine) as writer:
        writer.append({"x": 7})
    assert dataformats.open(path, codecs=mine)[0] == {"x": 7}
    assert (dataformats.open(path)[0], [*dataformats.open(path).spec_facts.opaque_fields]) == ({"x": b"\x07"}, ["x"])


def test_metadata_past_their_limit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert layout.MAX_METADATA_BYTES == 2**31 - 1
    dtypes = {"a": "int8", "b": "int8"}
    monkeypatch.setattr(writer_module, "MAX_METADATA_BYTES", metadata_bytes(dtypes, 5))
    writer = BACKEND.create(tmp_path / "a.syr", stored=Spec(dtypes))
    for _ in range(5):
        writer.append({"a": [b"1"], "b": [b"2"]})
    with pytest.raises(SpecError, match=r"at most 5 items.*shard_records="):
        writer.append({"a": [b"1"], "b": [b"2"]})
    writer.close()
    assert open_file(tmp_path / "a.syr").counts.tolist() == [5]


def test_an_item_is_appended_whole_or_not_at_all(tmp_path: Path) -> None:
    writer = BACKEND.create(tmp_path / "a.syr", stored=Spec({"a": "int8", "b": "int8"}))
    for wrong in ({"a": [b"1"]}, {"a": [b"1"], "b": []}, {"a": [b"1"], "b": [b"2", b"3"]}):
        with pytest.raises(SpecError, match="'b'"):
            writer.append(wrong)
    writer.append({"b": [b"2"], "a": [b"1"]})
    writer.close()
    assert (tmp_path / "a.syr").read_bytes() == plain_file({"a": "int8", "b": "int8"}, [(b"1", b"2")])


def test_a_file_in_the_making_is_known_as_such(tmp_path: Path) -> None:
    writer = BACKEND.create(tmp_path / "a.syr", stored=Spec({"a": "int8"}))
    writer.append({"a": [b"1"]})
    writer.flush()
    assert BACKEND.sniff(LocalFile(tmp_path / "a.syr")).match == "damaged"
    with pytest.raises(FormatError, match="unfinished"):
        dataformats.open(tmp_path / "a.syr")
    writer.discard()
    assert list(tmp_path.iterdir()) == []


# ---- resuming

SPEC = {"n": "int64", "data": "bytes"}


def row_of(i: int) -> dict[str, Any]:
    return {"n": i, "data": bytes([i % 256]) * (i % 7)}


def left_behind(tmp_path: Path, n: int = 6) -> tuple[Path, Path]:
    """A file and its journal as a writer left them."""
    writer = BACKEND.create(tmp_path / "a", stored=BACKEND.stored_spec(Spec(SPEC)))
    for i in range(n):
        writer.append({"n": [np.int64(i).tobytes()], "data": [bytes([i]) * i]})
    writer.suspend()
    return tmp_path / "a", tmp_path / "a.journal"


def resumed(path: Path, spec: dict[str, str] = SPEC) -> int:
    writer = BACKEND.create(path, stored=BACKEND.stored_spec(Spec(spec)), resume=True)
    n = writer.n_records
    writer.close()
    src = dataformats.open(path, format="syrah", spec=spec)
    assert [(int(row["n"]), row["data"]) for row in src] == [(i, bytes([i]) * i) for i in range(n)]
    return n


def test_resuming_a_damaged_item(tmp_path: Path) -> None:
    path, _ = left_behind(tmp_path)
    data = bytearray(path.read_bytes())
    data[22 + 8 + 9 + 3] ^= 1
    path.write_bytes(data)
    assert resumed(path) == 2


def test_resume_accepts_complete_file(tmp_path: Path) -> None:
    path, _ = left_behind(tmp_path)
    assert resumed(path) == 6
    complete = path.read_bytes()
    assert resumed(path) == 6  # killed before it got its name
    assert path.read_bytes() == complete


def test_resume_refuses_other_spec_or_no_journal(tmp_path: Path) -> None:
    path, journal = left_behind(tmp_path)
    for spec in ({"n": "int64"}, {"data": "bytes", "n": "int64"}, {"n": "int32", "data": "bytes"}):
        with pytest.raises(SpecError, match=r"cannot resume .*: expected \{"):
            BACKEND.create(path, stored=BACKEND.stored_spec(Spec(spec)), resume=True)
    journal.unlink()
    with pytest.raises(FormatError, match="without its journal"):
        BACKEND.create(path, stored=BACKEND.stored_spec(Spec(SPEC)), resume=True)


# ---- sniffing, converting


@loop_over("entry", ENTRIES)
def test_sniff_golden(entry: dict[str, Any]) -> None:
    verdict = BACKEND.sniff(LocalFile(GOLDEN / entry["path"]))
    sound = not entry["error"] or entry["stage"] == "either" or entry["id"] in ("fewer_sizes", "layout_0_1_1")
    expected = "yes" if sound else "no" if entry["id"] in ("bad_magic", "empty_file") else "damaged"
    assert verdict.match == expected, verdict
    assert verdict.match == "yes" or verdict.reason


@loop_over("data", [b"hello, world\n" * 9, b"GSM radio", b"GS\0", bytes(100), b"{}", b"G"])
def test_sniff_says_no_to_others(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    assert BACKEND.sniff(LocalFile(tmp_path / "a")).match == "no"


def test_other_formats_are_not_taken() -> None:
    paths = [path for name in ("tfrecord", "ffrecord") for path in (GOLDEN.parent / name).rglob("*") if path.is_file()]
    assert len(paths) > 20
    assert {BACKEND.sniff(LocalFile(path)).match for path in paths if path.stat().st_size} == {"no"}


def test_from_tfrecord_and_back(tmp_path: Path) -> None:
    digits = dataformats.open(str(GOLDEN.parent / "real" / "digits-*.tfrecord"))
    report = dataformats.convert(digits, tmp_path / "digits.syr", "syrah")
    assert (report.records, report.payload) == (1797, None)
    stored = dataformats.open(tmp_path / "digits.syr")
    assert stored.spec == digits.spec
    dataformats.convert(stored, tmp_path / "again.tfrecord", "tfrecord")
    again = dataformats.open(tmp_path / "again.tfrecord")
    assert (len(again), again.spec) == (1797, digits.spec)
    for one, two, three in zip(digits, stored, again, strict=True):
        assert list(one) == list(two) == list(three)
        assert all(np.array_equal(one[name], two[name]) and np.array_equal(one[name], three[name]) for name in one)


def test_photos_are_copied_not_encoded(tmp_path: Path) -> None:
    photos = str(GOLDEN.parent / "real" / "photos.tfrecord")
    src = dataformats.open(photos)
    spec = {**src.spec.to_json(), "image": "jpg"}
    dataformats.convert(dataformats.open(photos, spec=spec), tmp_path / "photos.syr", "syrah")
    stored = dataformats.open(tmp_path / "photos.syr", spec={"image": "bytes"})
    assert [row["image"] for row in stored] == [row["image"] for row in src]
    assert dataformats.open(tmp_path / "photos.syr").spec["image"] == Type("jpg")


def test_shards(tmp_path: Path) -> None:
    write_file(tmp_path / "train", SPEC, [row_of(i) for i in range(25)], shard_records=10)
    names = sorted(path.name for path in (tmp_path / "train").iterdir())
    assert names == [f"train-{i:05d}-of-00003.syr" for i in range(3)]
    assert list(dataformats.open(tmp_path / "train")) == [row_of(i) for i in range(25)]


# ---- the page


@pytest.mark.skipif(not PAGE.exists(), reason="these tests stand outside a checkout")
def test_the_examples_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECKOUT)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
