"""Worker processes convert files of other programs, which they receive as pickled sources."""

from __future__ import annotations

import tarfile
from io import BytesIO
from pathlib import Path

import pytest

import dataformats


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra arrow is not installed")
    photos = dataformats.open(Path(__file__).parents[2] / "golden" / "real" / "photos.tfrecord")
    with tarfile.open(tmp_path / "photos.tar", "w") as archive:
        for number, record in enumerate(photos):
            path = tmp_path / "photos" / str(number % 3) / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(record["image"])
            about = tarfile.TarInfo(f"{number}.jpg")
            about.size = len(record["image"])
            archive.addfile(about, BytesIO(record["image"]))
    parquet.write_table(photos.to_arrow(media_structs=True), tmp_path / "photos.parquet", row_group_size=5)
    return tmp_path


@pytest.mark.parametrize("name", ["photos", "photos.tar", "photos.parquet"])
def test_workers_convert(name: str, folder: Path) -> None:
    for workers in (0, 2):
        target = folder / f"to-{workers}"
        report = dataformats.convert(folder / name, target, "tfrecord", shard_records=4, workers=workers)
        assert (report.records, report.files) == (12, 3)
        assert dataformats.verify(target, against=folder / name).ok
    first, second = (dataformats.open(folder / f"to-{workers}") for workers in (0, 2))
    assert first.fingerprint == second.fingerprint
