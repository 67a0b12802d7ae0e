"""Files of other programs: worker processes convert them, and damage raises errors of this package."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

import dataformats
from dataformats.errors import DataFormatsError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra arrow is not installed")
    photos = dataformats.open(Path(__file__).parents[2] / "golden" / "real" / "photos.tfrecord")
    for number, record in enumerate(photos):
        path = tmp_path / "photos" / str(number % 3) / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(record["image"])
    parquet.write_table(photos.to_arrow(media_structs=True), tmp_path / "photos.parquet", row_group_size=5)
    return tmp_path


@pytest.mark.parametrize("name", ["photos", "photos.parquet"])
def test_workers_convert(name: str, folder: Path) -> None:
    report = dataformats.convert(folder / name, folder / "new", "tfrecord", shard_records=4, workers=2)
    assert (report.records, report.files) == (12, 3)
    assert dataformats.verify(folder / "new", against=folder / name).ok


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.feather"])
def test_damaged_files_raise_only_errors_of_this_package(name: str, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    rows = [{"n": i, "t": f"é{i}", "maybe": i if i % 3 else None, "doc": {"a": [i]}, "seq": [i, 1]} for i in range(30)]
    table, path = arrow.Table.from_pylist(rows), tmp_path / name
    if name == "x.parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table, path, row_group_size=9)
    else:
        new = arrow.ipc.new_file if name == "x.arrow" else arrow.ipc.new_stream
        with new(str(path), table.schema) as out:
            out.write_table(table, max_chunksize=9)
    whole, random = path.read_bytes(), Random(name)
    for number in range(100):
        damaged = bytearray(whole)
        for _ in range(1 + number % 3):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        path.write_bytes(damaged if number % 5 else damaged[: random.randrange(len(damaged))])
        with suppress(DataFormatsError):  # many changes are no damage
            list(dataformats.open(path))
