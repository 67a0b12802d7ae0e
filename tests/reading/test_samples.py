"""The records that a spec is inferred from: spread over all files, and few bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

import dataformats
from dataformats.reading import blob_reader
from dataformats.reading.blob_source import BlobSource

FORMATS = {"tfrecord": "tfrecord", "ffr": "ffrecord"}


@pytest.fixture(params=FORMATS)
def suffix(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(blob_reader, "_SAMPLE_BYTES", 4000)
    return str(request.param)


def samples(folder: Path, suffix: str, files: int, records: int, n_bytes: int) -> list[bytes]:
    for number in range(files):
        with dataformats.create(folder / f"{number:02}.{suffix}", FORMATS[suffix], payload="bytes") as writer:
            writer.extend([bytes([number]) * n_bytes] * records)
    source = dataformats.open(folder)
    assert isinstance(source, BlobSource)
    return list(source._blobs.samples())


def test_short_records_are_of_all_files(suffix: str, tmp_path: Path) -> None:
    found = samples(tmp_path, suffix, 40, 600, 1)
    assert found == [bytes([number]) for number in range(40) for _ in range(13)]


def test_long_records_are_of_fewer_files_but_not_of_the_first_alone(suffix: str, tmp_path: Path) -> None:
    found = samples(tmp_path, suffix, 40, 1, 500)
    assert [blob[0] for blob in found] == [40 * place // 8 for place in range(8)]


def test_one_record_longer_than_all_samples_is_enough(suffix: str, tmp_path: Path) -> None:
    assert len(samples(tmp_path, suffix, 3, 1, 5000)) == 1


def test_the_long_records_of_one_file_are_read_up_to_the_limit(suffix: str, tmp_path: Path) -> None:
    window = 2**17 if suffix == "tfrecord" else 0  # read at once by a sequential reader
    found = samples(tmp_path, suffix, 1, 600, 1000)
    assert 4 <= len(found) <= 4 + window // 1000


def test_records_behind_urls_are_of_few_files() -> None:
    """Each file takes a request."""
    with dataformats.create("memory://samples", "tfrecord", payload="bytes", shard_records=2) as writer:
        writer.extend([bytes([number]) for number in range(200)])
    source = dataformats.open("memory://samples")
    assert isinstance(source, BlobSource)
    assert len({blob[0] // 2 for blob in source._blobs.samples()}) == 32
    assert len(dict(source._blobs.samples_of_files())) == 100  # `merge` compares the payloads of all
