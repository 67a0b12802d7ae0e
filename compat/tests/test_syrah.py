"""`dataformats_compat.syrah`: files of items behave like the original."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats_compat import syrah
from dataformats_compat.syrah import File, config, version
from dataformats_compat.syrah._hl.serialization import deserialize_array, dtype_names, dtypes, serialize_array
from tests.cases import GOLDEN


def item(i: int) -> dict[str, Any]:
    return {
        "id": np.array([i], np.int32),
        "x": np.arange(6 * (i % 3), dtype=np.float64).reshape(2, -1),
        "text": np.array(["é", str(i)]),
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.syr"
    with File(str(path), mode="w") as syr:
        for i in range(10):
            assert syr.num_items() == i
            syr.add_item(item(i))
    assert [file.name for file in tmp_path.iterdir()] == ["a.syr"]
    return path


def assert_is_item(found: dict[str, Any], i: int) -> None:
    assert list(found) == ["id", "x", "text"]
    assert (found["id"].dtype, found["id"].tolist()) == (np.dtype(np.int32), [i])
    assert (found["x"].dtype, found["x"].tolist()) == (np.dtype(np.float64), item(i)["x"].ravel().tolist())
    assert (found["text"].shape, found["text"].tolist()) == ((1,), [f"é{i}"])


def test_items(path: Path) -> None:
    with File(path, "r") as syr:
        assert syr.num_items() == 10
        for i in (9, 0, np.int64(5)):
            assert_is_item(syr.get_item(i), int(i))
        assert syr.get_item(5)["x"].flags.writeable


def test_arrays(path: Path) -> None:
    syr = File(path, "r")
    assert syr.get_array(4, "x").tolist() == [*range(6)]
    assert syr.get_array(4, "text").tolist() == ["é4"]
    assert syr.get_array(4, "text", "uint8").tobytes() == "é4".encode()
    assert syr.get_array(4, "x", dtype="int64").tolist() == np.arange(6.0).view(np.int64).tolist()
    for wrong in ("complex64", np.float32):
        with pytest.raises(TypeError, match="no dtype"):
            syr.get_array(4, "x", wrong)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="unknown array 'zz'"):
        syr.get_array(4, "zz")
    assert list(syr._metadata.metadata) == ["id", "x", "text"]
    assert syr._metadata.metadata["x"]["dtype"] == "float64"


@pytest.mark.parametrize("index", [10, 99, -1])
def test_out_of_range_items_raise(path: Path, index: int) -> None:
    syr = File(path, "r")
    for call in (syr.get_item, lambda i: syr.get_array(i, "x")):
        with pytest.raises(IndexError, match=f"item {index} is out of range for 10"):
            call(index)
    with pytest.raises(TypeError):
        syr.get_item("1")  # type: ignore[arg-type]


def test_files_of_the_original() -> None:
    syr = File(GOLDEN / "syrah" / "dtypes.syr", "r")
    source = dataformats.open(GOLDEN / "syrah" / "dtypes.syr")
    for name, value in source[1].items():
        np.testing.assert_array_equal(syr.get_array(1, name), np.atleast_1d(value))


def test_unknown_dtype_raises_only_for_its_array(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data.replace(b"float64\0", b"float63\0"))
    syr = File(path, "r")
    assert syr.get_array(3, "id").tolist() == [3]
    assert syr.get_array(4, "x", "float64").tolist() == [*range(6)]
    with pytest.raises(dataformats.FormatError, match="float63"):
        syr.get_item(3)


def test_every_dtype_is_stored(tmp_path: Path) -> None:
    arrays = {name: np.array([0, 1, 1]).astype(name) for name in dtype_names if name != "str"}
    with File(tmp_path / "a.syr", "w") as syr:
        syr.add_item(arrays)
    found = File(tmp_path / "a.syr", "r").get_item(0)
    assert {name: array.dtype.name for name, array in found.items()} == {name: name for name in arrays}
    assert all(array.tolist() == [0, 1, 1] for array in found.values())


def test_big_endian_arrays_keep_their_values(tmp_path: Path) -> None:
    with File(tmp_path / "a.syr", "w") as syr:
        syr.add_item({"x": np.array([5, 6], ">i8")})
    assert File(tmp_path / "a.syr", "r").get_item(0)["x"].tolist() == [5, 6]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"x": [1, 2]}, ValueError),
        ({"x": np.float64(1)}, ValueError),
        ({"x": np.zeros(2).view(np.recarray)}, ValueError),
        ({5: np.zeros(2)}, ValueError),
        ({"x": np.zeros(2, complex)}, TypeError),
        ({"x": np.array([b"ab"])}, TypeError),
        ({"x": np.array([None])}, TypeError),
        ({"y": np.zeros(2)}, KeyError),
        ({"x": np.zeros(2), "y": np.zeros(2)}, KeyError),
        ({"x": np.zeros(2, np.float32)}, ValueError),
    ],
)
def test_a_wrong_item_changes_nothing(tmp_path: Path, wrong: Any, error: type[Exception]) -> None:
    path = tmp_path / "a.syr"
    with File(path, "w") as syr:
        syr.add_item({"x": np.zeros((2, 3))})
        with pytest.raises(error):
            syr.add_item(wrong)
        assert syr.num_items() == 1
        syr.add_item({"x": np.array(7.0)})
    assert [File(path, "r").get_array(i, "x").tolist() for i in range(2)] == [[0.0] * 6, [7.0]]


def test_an_error_in_the_block_keeps_the_items_before(tmp_path: Path) -> None:
    path = tmp_path / "a.syr"

    def write(*items: Any) -> None:
        with File(path, "w") as syr:
            for one in items:
                syr.add_item(one)

    with pytest.raises(KeyError):
        write({"x": np.zeros(1)}, {"y": np.zeros(1)})
    assert File(path, "r").num_items() == 1
    with pytest.raises(ValueError, match="found 'x': NoneType"):
        write({"x": None})
    with pytest.raises(ValueError, match="expected an item"):
        File(path, "w").close()
    assert File(path, "r").num_items() == 1


@pytest.mark.parametrize("mode", ["a", "rb", "r+", ""])
def test_modes(tmp_path: Path, mode: str) -> None:
    with pytest.raises(ValueError, match="expected the mode 'r' or 'w'"):
        File(tmp_path / "a.syr", mode)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda reads, writes: reads.add_item({"x": np.zeros(1)}), "expected mode 'w', found 'r'"),
        (lambda reads, writes: writes.get_item(0), "expected mode 'r', found 'w'"),
        (lambda reads, writes: writes.get_array(0, "x"), "expected mode 'r', found 'w'"),
        (lambda reads, writes: (reads.close(), reads.close(), reads.get_item(0)), "closed"),
        (lambda reads, writes: (writes.close(), writes.close(), writes.add_item({})), "closed"),
    ],
)
def test_files_in_the_wrong_state(path: Path, call: Callable[[File, File], object], expected: str) -> None:
    reads, writes = File(path, "r"), File(path.with_name("b.syr"), "w")
    writes.add_item({"x": np.zeros(1)})
    with pytest.raises(OSError, match=expected):
        call(reads, writes)
    assert (reads.num_items(), writes.num_items()) == (10, 1)
    writes.close()


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.syr").write_bytes(b"XX" + bytes(40))
    with pytest.raises(ValueError, match="not a Syrah file"):
        File(tmp_path / "a.syr", "r")
    with pytest.raises(FileNotFoundError):
        File(tmp_path / "none.syr", "r")


def test_open_again(path: Path) -> None:
    syr = File(path, "r")
    syr.close()
    syr.open(path, "r")
    assert_is_item(syr.get_item(3), 3)
    with File(path, "w") as other:
        other.add_item({"x": np.ones(2)})
    syr.open(path, "r")
    assert syr.num_items() == 1
    syr.open(path, "w")
    syr.add_item({"y": np.ones(3)})
    syr.open(path, "r")
    assert syr.get_item(0)["y"].tolist() == [1, 1, 1]


def test_files_for_reading_are_pickled(path: Path) -> None:
    assert_is_item(pickle.loads(pickle.dumps(File(path, "r"))).get_item(3), 3)
    writes = File(path, "w")
    with pytest.raises(TypeError, match="open for writing"):
        pickle.dumps(writes)


def test_a_sidecar_of_this_package_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.syr"
    with dataformats.create(path, spec={"x": "float32[2,2]", "label": "int64", "photo": "json"}) as writer:
        writer.append({"x": np.ones((2, 2)), "label": 3, "photo": [1]})
    found = File(path, "r").get_item(0)
    assert (found["x"].shape, found["label"].tolist(), found["photo"].tobytes()) == ((4,), [3], b"[1]")


def test_names_of_the_other_modules() -> None:
    assert syrah.__version__ == version.version == "0.2.0"
    assert (version.version_tuple, version.version_tuple.major) == ((0, 2, 0), 0)
    sizes = [config.NUM_BYTES_VERSION, config.NUM_BYTES_METADATA_OFFSET, config.NUM_BYTES_METADATA_LENGTH]
    assert (config.MAGIC_BYTES, config.NUM_BYTES_MAGIC_BYTES, sizes) == (b"GS", 2, [4, 8, 8])
    assert (dtypes[11], dtype_names["str"]) == ("float32", 19)
    blob, name = serialize_array(np.array([[1, 2]], np.int16))
    assert deserialize_array(blob, name).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("stored", "damaged", "name"), [(b"\xc3\xa9", b"\xff\xa9", "text"), (b"float64", b"floot64", "x")]
)
def test_damaged_text_and_dtypes_raise_format_error(path: Path, stored: bytes, damaged: bytes, name: str) -> None:
    path.write_bytes(path.read_bytes().replace(stored, damaged))
    with File(path, "r") as syr, pytest.raises(dataformats.FormatError, match=f"record 2 of .*{name!r} is not of its"):
        syr.get_array(2, name)
