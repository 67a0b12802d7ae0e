"""Records of a failed batch are decoded one by one, on all processors, and reported in their order."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import dataformats
from dataformats.batch import Blobs
from dataformats.columns.codec_resolver import FunctionCodec
from dataformats.storage import threads


def test_damaged_records_are_searched_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "N_THREADS", 2)
    monkeypatch.setattr(threads, "_POOL", threads.ThreadPool(2, "test"))
    together, met = threading.Barrier(2, timeout=240), threading.Event()  # breaks unless two are decoded at once

    def decode(blob: bytes) -> bytes:
        if blob == b"bad":
            raise ValueError("as its name says")
        return blob

    def decode_batch(blobs: Blobs) -> list[bytes]:
        if len(blobs) == 1 and not met.is_set():
            together.wait()
            met.set()
        return [decode(blob) for blob in blobs]

    with dataformats.create(tmp_path / "a.ffr", "ffrecord", payload="bytes") as writer:
        writer.extend([b"a", b"bad", b"b", b"bad"])
    codec = FunctionCodec("own", bytes, decode, decode_batch)
    source = dataformats.open(tmp_path / "a.ffr", payload="own", codecs={"own": codec})
    batch = source.read(range(4), on_corrupt="omit")
    assert batch["value"] == [b"a", b"b"]
    assert list(batch.failed) == [1, 3]
    with pytest.raises(dataformats.FormatError, match="record 1 of"):
        source.read(range(4))
