"""The writer that TFRecord and OFRecord share: large records, and writes that fail."""

from __future__ import annotations

import errno
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.testing.loop_over import loop_over

LARGE = 9 * 2**20  # bytes, more than the writer joins with others
CASES: list[tuple[str, dict[str, Any]]] = [
    ("tfrecord", {}),
    ("tfrecord", {"compression": "gzip"}),
    ("ofrecord", {}),
]


@loop_over("format, options", CASES)
def test_large_records_stand_among_small_ones(format: str, options: dict[str, Any], tmp_path: Path) -> None:
    records = [b"a", b"b" * LARGE, b"c", b"d", b"e" * LARGE, b"f" * LARGE]
    with dataformats.create(tmp_path / "x", format, payload="bytes", **options) as writer:
        writer.extend(records)
    assert list(dataformats.open(tmp_path / "x", format=format, payload="bytes")) == records


@pytest.mark.parametrize("format", ["tfrecord", "ofrecord"])
def test_a_large_record_is_not_copied(format: str, tmp_path: Path) -> None:
    record = b"x" * (4 * LARGE)
    with dataformats.create(tmp_path / "x", format, payload="bytes") as writer:
        tracemalloc.start()
        writer.append(record)
        writer.flush()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < LARGE


@loop_over("format, options", CASES)
def test_failed_write_is_repeated(
    format: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full in the middle of a record, and has room again later."""
    original, calls = os.pwrite, [0]

    def full(descriptor: int, data: Any, offset: int) -> int:
        calls[0] += 1
        if calls[0] == 1:
            return original(descriptor, data[:7], offset)
        raise OSError(errno.ENOSPC, "No space left on device")

    with dataformats.create(tmp_path / "x", format, payload="bytes", **options) as writer:
        writer.extend([b"first", b"second"])
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", full)
            with pytest.raises(OSError, match="No space"):
                writer.flush()
        writer.append(b"third")
    records = list(dataformats.open(tmp_path / "x", format=format, payload="bytes"))
    assert records == [b"first", b"second", b"third"]
