"""RecordIO: files of mxnet, records in several frames, damaged frames, and the kept index."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.backends.recordio import reader as reader_module
from dataformats.errors import FormatError, SpecError, TruncatedError
from dataformats.inspecting.verification import verify
from dataformats.testing.loop_over import loop_over
from tests.golden.recordio.make import data, labels, plain

GOLDEN = Path(__file__).parents[1] / "golden" / "recordio"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path_factory.mktemp("cache")))


def check_images(source: Any, indices: Any) -> None:
    batch = source.read(indices)
    for row, index in enumerate(indices):
        expected = {"label": np.float32(index / 8), "id": index, "id2": 2**40, "data": data(index)}
        for record in (source[index], batch[row]):
            assert record == expected


@pytest.mark.parametrize("io", ["auto", "threads"])
def test_image_records(monkeypatch: pytest.MonkeyPatch, io: str) -> None:
    """Every tenth image has the magic number in it, so that it is in several frames."""
    source = dataformats.open(GOLDEN / "images.rec", io=io)
    assert (source.format, len(source)) == ("recordio", 40)
    assert {name: str(kind) for name, kind in source.spec.items()} == {
        "label": "float32",
        "id": "uint64",
        "id2": "uint64",
        "data": "bytes",
    }
    check_images(source, range(40))
    check_images(source, [33, 3, 0, 33])
    assert [record["data"] for record in source] == [data(index) for index in range(40)]
    assert verify(GOLDEN / "images.rec").ok
    monkeypatch.setattr(reader_module, "_MAX_MEMORY", 0)  # they are read from the file
    check_images(dataformats.open(GOLDEN / "images.rec", io=io), range(40))


def test_several_labels() -> None:
    source = dataformats.open(GOLDEN / "several.rec")
    assert str(source.spec["label"]) == "float32[]"
    batch = source.read(range(40))
    for index in range(40):
        expected = np.array(labels(index) or [0], "f4")
        for record in (source[index], batch[index]):
            np.testing.assert_array_equal(record["label"], expected)
            assert (record["id"], record["data"]) == (index, data(index))


def test_records_without_image_headers() -> None:
    source = dataformats.open(GOLDEN / "plain.rec", headers=False)
    assert [record["data"] for record in source] == [plain(index) for index in range(40)]
    assert list(source.read([5, 6])["data"]) == [plain(5), plain(6)]
    with pytest.raises(FormatError, match=r"record 1 of .*no header of an image.*pass headers=False"):
        dataformats.open(GOLDEN / "plain.rec")[1]


def test_index_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time, the file is not scanned; so is not the source that a pickle opens."""
    before = dataformats.open(GOLDEN / "images.rec")
    monkeypatch.setattr(reader_module, "scan", None)
    after = dataformats.open(GOLDEN / "images.rec")
    assert after.fingerprint == before.fingerprint
    check_images(after, range(40))
    check_images(pickle.loads(pickle.dumps(after)), range(40))


def test_several_files_and_types() -> None:
    source = dataformats.open([GOLDEN / "images.rec", GOLDEN / "several.rec"])
    assert len(source) == 80
    assert [record["data"] for record in source] == [data(index) for index in range(40)] * 2
    assert source.origins([43]) == [(str(GOLDEN / "several.rec"), 43, -1)]
    typed = dataformats.open(GOLDEN / "images.rec", spec={"label": "float32", "data": "uint8[]"})
    np.testing.assert_array_equal(typed[3]["data"], np.frombuffer(data(3), "u1"))
    signed = dataformats.open(GOLDEN / "images.rec", spec={"id": "int64"}).read([0, 3])["id"]
    assert (signed.dtype, signed.tolist()) == (np.dtype("i8"), source.read([0, 3])["id"].tolist())
    with pytest.raises(SpecError, match="expected uint64 with any dims, or bytes, found bool"):
        dataformats.open(GOLDEN / "images.rec", spec={"id": "bool"})[0]


@loop_over(
    "name, whole, n, message",
    [
        ("cut", 39, 40, "a record reaches past the end of the file"),
        ("cut_header", 1, 2, "the file ends in the header of a frame"),
        ("magic", 1, 40, "no frame begins here: expected 0xced7230a"),
        ("flag", 1, 40, "wrong flag of a frame: expected 0 or 1, found 7"),
        ("huge_length", 1, 40, "a record reaches past the end of the file"),
    ],
)
def test_damaged_frames(name: str, whole: int, n: int, message: str) -> None:
    """The records around the damage are readable, and one more stands for the damaged range."""
    source = dataformats.open(GOLDEN / "corrupt" / f"{name}.rec")
    assert len(source) == n
    check_images(source, range(whole))
    check_images(source, range(whole + 1, n))
    with pytest.raises(FormatError, match=f"record {whole} of .*{message}"):
        source[whole]
    assert verify(GOLDEN / "corrupt" / f"{name}.rec").n_findings == 1


def test_impossible_number_of_labels() -> None:
    source = dataformats.open(GOLDEN / "corrupt" / "many_labels.rec")
    assert len(source) == 40
    with pytest.raises(FormatError, match=r"record 1 of .*no header of an image"):
        source[1]
    assert list(source.read(range(40), on_corrupt="omit").failed) == [1]


def test_record_cut_between_its_frames(tmp_path: Path) -> None:
    """A record of several frames is whole or an error."""
    content = (GOLDEN / "images.rec").read_bytes()
    begin = content.index(b"ab" * 4 + b"\x0a", 0) if b"ab" * 4 + b"\x0a" in content else content.index(b"ab" * 4)
    (tmp_path / "x.rec").write_bytes(content[: begin + 8])
    source = dataformats.open(tmp_path / "x.rec")
    assert len(source) == 4
    check_images(source, range(3))
    with pytest.raises(TruncatedError, match=r"record 3 of .*ends in a record of several frames"):
        source[3]
