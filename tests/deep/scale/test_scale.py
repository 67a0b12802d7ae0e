"""Ten thousand files with a hundred million records: cost of opening them, in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dataformats.backends.framed.file_scan import Frames
from dataformats.backends.tfrecord.layout import FRAMING
from dataformats.backends.tfrecord.reader import INDEXES
from dataformats.indexing.index_cache import IndexCache
from dataformats.storage.files import LocalFile

FILES, RECORDS, BYTES = 10_000, 10_000, 1000
KINDS = 7  # files differ in as many ways, so that a record of another file is not taken for the right one
REAL = (0, 1, 4_321, 4_322, RECORDS - 1)  # the other records are holes

MEASURE = r"""
import json, os, pickle, sys, time
from pathlib import Path
import numpy as np
import dataformats

def seconds(function):
    begin = time.perf_counter()
    result = function()
    return result, time.perf_counter() - begin

def rss():
    lines = Path("/proc/self/status").read_text().splitlines()
    return max(int(line.split()[1]) for line in lines if line.startswith(("VmHWM", "VmRSS"))) // 1024

pattern, per_file, real = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
times, most_open = {}, 0
src, times["open"] = seconds(lambda: dataformats.open(pattern))
n, times["len"] = seconds(lambda: len(src))
files = n // per_file
rng, read = np.random.default_rng(0), []
for _ in range(8):
    chosen = rng.integers(0, files, 256)
    batch, times["read 256 records of as many files"] = seconds(
        lambda: src.read_bytes(chosen * per_file + rng.choice(real, 256)))
    read += [[int(file), blob[:40].decode()] for file, blob in zip(chosen, batch)]
    most_open = max(most_open, len(os.listdir("/proc/self/fd")))
for _ in range(40):
    src.reader.locate(rng.integers(0, n, 1000), {"value": True})
_, times["locate 256"] = seconds(lambda: src.reader.locate(rng.integers(0, n, 256), {"value": True}))
fingerprint, times["fingerprint"] = seconds(lambda: src.fingerprint)
pickled, times["pickle"] = seconds(lambda: pickle.dumps(src))
again, times["unpickle"] = seconds(lambda: pickle.loads(pickled))
_, times["info"] = seconds(lambda: dataformats.info(src))
_, times["iter"] = seconds(lambda: next(iter(src)))
print(json.dumps({
    "records": n, "payload": src.payload, "last": src[-1].decode(), "read": read, "rss_mb": rss(),
    "most_open": max(most_open, len(os.listdir("/proc/self/fd"))), "pickle_bytes": len(pickled),
    "same": again.fingerprint == fingerprint, "seconds": {name: round(time, 4) for name, time in times.items()},
}))
"""


def blob(kind: int, record: int) -> bytes:
    return f"{kind}/{record}|".encode().ljust(BYTES, b"x")


def content(kind: int) -> tuple[dict[int, bytes], np.ndarray]:
    """The frames that are there, record to bytes, and the checksums of all as an index has them."""
    real = {record: FRAMING.frames([blob(kind, record)]) for record in REAL}
    crc = np.random.default_rng(kind).integers(0, 2**32, RECORDS, np.uint32)
    for record, frame in real.items():
        crc[record] = int.from_bytes(frame[-4:], "little")
    return real, crc


def write_sparse(path: Path, real: dict[int, bytes]) -> None:
    frame_bytes = BYTES + FRAMING.extra
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.ftruncate(descriptor, RECORDS * frame_bytes)
    for record, frame in real.items():
        os.pwrite(descriptor, frame, record * frame_bytes)
    os.close(descriptor)
    os.utime(path, ns=(10**18, 10**18))


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sparse files, and their indexes: files of one kind have one size and time, so one index fits all."""
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))
    folder, shelf = tmp_path / "data", IndexCache("cache")
    folder.mkdir()
    made: dict[int, str] = {}
    for number in range(FILES):
        path, kind = folder / f"x-{number:05d}-of-{FILES:05d}.tfrecord", number % KINDS
        real, crc = CONTENTS[kind]
        write_sparse(path, real)
        kept = str(shelf.path(LocalFile(path)))
        if kind in made:
            os.link(made[kind], kept)
        else:
            INDEXES.save(LocalFile(path), shelf, Frames(FRAMING, np.full(RECORDS, BYTES), crc))
            made[kind] = kept
    return folder


CONTENTS = [content(kind) for kind in range(KINDS)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc what the process holds")
def test_a_hundred_million_records(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-c", MEASURE, str(many / "*.tfrecord"), str(RECORDS), json.dumps(REAL)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["records"] == FILES * RECORDS
    assert found["last"].startswith(f"{(FILES - 1) % KINDS}/{RECORDS - 1}|")
    for file, text in found["read"]:
        assert text.startswith(f"{file % KINDS}/")
    assert found["rss_mb"] < 250  # 134 of them are indexes
    assert found["most_open"] < 400
    assert found["pickle_bytes"] < 1024 + 8 * FILES
    assert found["same"]
    with capsys.disabled():
        print(f"\n{FILES} files, {FILES * RECORDS} records, {found['rss_mb']} MB, {found['seconds']}")
