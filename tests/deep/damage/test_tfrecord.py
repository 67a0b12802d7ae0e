"""Damaged TFRecord files: every bit flipped, every cut, resumed from each."""

import gzip
import zlib
from pathlib import Path

import pytest

import tests.backends.test_tfrecord as fast
from dataformats.backends.tfrecord import BACKEND
from dataformats.backends.tfrecord.layout import frames
from dataformats.errors import FormatError
from tests.backends.test_tfrecord import (
    LINES,
    RECORDS,
    SMALL,
    close,
    flipped,
    opened,
    read,
    streamed,
    told,
)

compression = fast.compression  # fixtures

SMALL_FILES = {"plain": SMALL, "gzip": gzip.compress(SMALL, mtime=0), "zlib": zlib.compress(SMALL)}


@pytest.mark.parametrize("compression", SMALL_FILES)
def test_a_file_cut_at_any_byte(compression: str, tmp_path: Path) -> None:
    data = SMALL_FILES[compression]
    for cut in range(1, len(data)):
        path = tmp_path / f"{cut}"
        path.write_bytes(data[:cut])
        source = opened(path)
        found = read(source)
        assert told(streamed(source)) == told(found)
        assert told(read(opened(path))) == told(found)
        close(source)
        sound = [blob for blob in found if isinstance(blob, bytes)]
        assert sound == RECORDS[: len(sound)]
        if compression == "plain":
            whole = [n for n in range(5) if len(frames(RECORDS[:n])) <= cut][-1]
            at_boundary = len(frames(RECORDS[:whole])) == cut
            assert (len(sound), len(found)) == (whole, whole if at_boundary else whole + 1)
        else:
            assert len(found) == len(sound) + 1


@pytest.mark.parametrize("compression", SMALL_FILES)
def test_any_flipped_bit(compression: str, tmp_path: Path) -> None:
    data = SMALL_FILES[compression]
    for bit in range(8 * len(data)):
        path = tmp_path / f"{bit}"
        path.write_bytes(flipped(data, bit))
        source = opened(path)
        found = read(source)
        assert told(streamed(source)) == told(found)
        assert told(read(opened(path))) == told(found)
        close(source)
        for number, blob in enumerate(found):
            assert isinstance(blob, FormatError) or blob == RECORDS[number]
        problems = sum(isinstance(blob, FormatError) for blob in found)
        if compression == "plain":
            assert problems == 1
            hit = next(n for n in range(4) if len(frames(RECORDS[: n + 1])) > bit // 8)
            assert isinstance(found[hit], FormatError)
            assert found[:hit] == RECORDS[:hit]
        else:
            assert problems or found == RECORDS


def test_a_text_index_does_not_hide_damage(tmp_path: Path) -> None:
    for bit in range(8 * len(SMALL)):
        path = tmp_path / f"{bit}.tfrecord"
        path.write_bytes(flipped(SMALL, bit))
        (tmp_path / f"{bit}.index").write_text("".join(f"{offset} {length}\n" for offset, length in LINES))
        source = opened(path)
        found = read(source)
        assert any(isinstance(blob, FormatError) for blob in found)
        assert all(isinstance(blob, FormatError) or blob == RECORDS[n] for n, blob in enumerate(found))
        close(source)


def test_a_file_cut_anywhere_is_resumed_behind_its_last_whole_record(tmp_path: Path, compression: str | None) -> None:
    writer = BACKEND.create(tmp_path / "whole", compression=compression)
    for record in RECORDS:
        writer.append(record)
        writer.flush()
    writer.close()
    whole = (tmp_path / "whole").read_bytes()
    for cut in range(len(whole) + 1):
        path = tmp_path / f"{cut}"
        path.write_bytes(whole[:cut])
        writer = BACKEND.create(path, resume=True, compression=compression)
        n = writer.n_records
        if compression is None:
            assert writer.n_bytes == path.stat().st_size == len(frames(RECORDS[:n]))
        for record in RECORDS[n:]:
            writer.append(record)
        writer.close()
        source = opened(path)
        assert read(source) == RECORDS
        close(source)
        if compression is None:
            assert path.read_bytes() == whole
    assert not list(tmp_path.glob("*.partial"))
