"""Damaged TFRecords with an index beside them, and unfinished ones, cut at every byte and resumed."""

from pathlib import Path

import tests.backends.test_tfrecord as fast
from dataformats.backends.tfrecord import BACKEND
from dataformats.backends.tfrecord.compression import Compression
from dataformats.backends.tfrecord.layout import FRAMING
from dataformats.errors import FormatError
from tests.backends.test_tfrecord import (
    LINES,
    RECORDS,
    SMALL,
    close,
    flipped,
    opened,
    read,
)
from tests.campaign import chosen

compression = fast.compression  # fixtures


def test_a_text_index_does_not_hide_damage(tmp_path: Path) -> None:
    for bit in chosen(range(8 * len(SMALL))):
        path = tmp_path / f"{bit}.tfrecord"
        path.write_bytes(flipped(SMALL, bit))
        (tmp_path / f"{bit}.index").write_text("".join(f"{offset} {length}\n" for offset, length in LINES))
        source = opened(path)
        found = read(source)
        assert any(isinstance(blob, FormatError) for blob in found)
        assert all(isinstance(blob, FormatError) or blob == RECORDS[n] for n, blob in enumerate(found))
        close(source)


def test_a_file_cut_anywhere_is_resumed_behind_its_last_whole_record(tmp_path: Path, compression: Compression) -> None:
    writer = BACKEND.create(tmp_path / "whole", compression=compression)
    for record in RECORDS:
        writer.append(record)
        writer.flush()
    writer.close()
    whole = (tmp_path / "whole").read_bytes()
    for cut in chosen(range(len(whole) + 1)):
        path = tmp_path / f"{cut}"
        path.write_bytes(whole[:cut])
        writer = BACKEND.create(path, resume=True, compression=compression)
        n = writer.n_records
        if compression == "none":
            assert writer.n_bytes == path.stat().st_size == len(FRAMING.frames(RECORDS[:n]))
        for record in RECORDS[n:]:
            writer.append(record)
        writer.close()
        source = opened(path)
        assert read(source) == RECORDS
        close(source)
        if compression == "none":
            assert path.read_bytes() == whole
    assert not list(tmp_path.glob("*.partial"))
