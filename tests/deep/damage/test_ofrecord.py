"""Damaged OFRecord files: every bit flipped, every cut, resumed from each."""

import os
from pathlib import Path
from typing import Any

import dataformats
from dataformats.backends.ofrecord import BACKEND
from dataformats.backends.ofrecord.layout import FRAMING
from dataformats.errors import DataFormatsError, TruncatedError
from tests.backends.test_ofrecord import RECORDS, SMALL, SPEC, both_ways

NOWHERE = os.path.join(os.devnull, "x")  # no index is kept: thousands would be


ENDS = [len(FRAMING.frames(RECORDS[: n + 1])) for n in range(len(RECORDS))]


def flipped(data: bytes, bit: int) -> bytes:
    broken = bytearray(data)
    broken[bit // 8] ^= 1 << bit % 8
    return bytes(broken)


def test_a_file_cut_at_any_byte(tmp_path: Path) -> None:
    for cut in range(1, len(SMALL)):
        path = tmp_path / f"{cut}.ofrecord"
        path.write_bytes(SMALL[:cut])
        found = both_ways(path)
        whole = sum(end <= cut for end in ENDS)
        assert found[:whole] == RECORDS[:whole]
        assert len(found) == whole + (cut not in ENDS)
        assert all(isinstance(rest, TruncatedError) for rest in found[whole:])
        source = dataformats.open(path, spec=SPEC)
        assert len(source) == len(found)
        source.close()


def test_any_flipped_bit(tmp_path: Path) -> None:
    for bit in range(8 * len(SMALL)):
        path = tmp_path / "x.ofrecord"
        path.write_bytes(flipped(SMALL, bit))
        hit = sum(end <= bit // 8 for end in ENDS)
        assert both_ways(path, index=NOWHERE)[:hit] == RECORDS[:hit]
        source = dataformats.open(path, spec=SPEC, index=NOWHERE)
        records: list[Any] = []
        for number in range(len(source)):
            try:
                records.append(source[number])
            except DataFormatsError:
                records.append(None)
        assert [bool(record) for record in records[:hit]] == [True] * hit
        try:
            for _ in source:
                pass
        except DataFormatsError:
            pass
        source.close()


def test_a_file_cut_anywhere_is_resumed_behind_its_last_whole_record(tmp_path: Path) -> None:
    for cut in range(len(SMALL) + 1):
        path = tmp_path / f"{cut}"
        path.write_bytes(SMALL[:cut])
        writer = BACKEND.create(path, resume=True)
        assert writer.n_records == sum(end <= cut for end in ENDS)
        assert writer.n_bytes == path.stat().st_size
        for record in RECORDS[writer.n_records :]:
            writer.append(record)
        writer.close()
        assert path.read_bytes() == SMALL
