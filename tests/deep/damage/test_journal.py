"""Damaged journals: every bit is flipped in turn."""

from __future__ import annotations

from pathlib import Path

import tests.storage.test_record_journal as fast
from tests.campaign import chosen
from tests.storage.test_record_journal import entries_of, load, same, written

k = fast.k  # fixtures


def test_every_bit_flipped(tmp_path: Path, k: int) -> None:
    data, head, entry = written(tmp_path / "j", k)
    for bit in chosen(range(8 * len(data))):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        (tmp_path / "j").write_bytes(flipped)
        found = load(tmp_path / "j")
        if bit < 8 * head:
            assert found is None
        else:
            assert same(found, entries_of((bit // 8 - head) // entry, k))
