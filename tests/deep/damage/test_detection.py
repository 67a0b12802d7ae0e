"""A file with checksums and a damaged head is never read as a format without checksums."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

import dataformats
from tests.cases import GOLDEN

HEAD_BYTES = 24
FILES = sorted(
    path
    for folder, suffix in (("tfrecord", ".tfrecord"), ("ffrecord", ".ffr"))
    for path in (GOLDEN / folder).glob(f"*{suffix}")
    if path.stat().st_size and path.name not in ("old_version.ffr", "n0.ffr")  # these have no checksums
)


def damaged_heads(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield each byte of the head replaced by others, and some bytes left out, doubled or overwritten."""
    for at in range(min(HEAD_BYTES, len(data))):
        old = data[at]
        for new in {0, 1, 0x0A, 0x12, 0x7F, 0x80, 0xFF, old ^ 1, old ^ 0x80, old + 1 & 0xFF} - {old}:
            yield f"byte {at} is {new:#04x}", data[:at] + bytes([new]) + data[at + 1 :]
        for n in (1, 3, 4, 8):
            yield f"{n} bytes from {at} on are gone", data[:at] + data[at + n :]
            yield f"{n} bytes from {at} on are there twice", data[: at + n] + data[at:]
            for fill in (b"\0", b"\xff"):
                yield f"{n} bytes from {at} on are {fill!r}", data[:at] + fill * n + data[at + n :]


@pytest.mark.filterwarnings("ignore:.*old version:UserWarning")
@pytest.mark.parametrize("name", ["", "suffix"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_damaged_head(path: Path, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data, format = path.read_bytes(), path.parent.name
    sound = [bytes(blob) for blob in dataformats.open(path, payload="bytes")]
    there = tmp_path / f"x{path.suffix if name else ''}"
    caplog.set_level(logging.ERROR)
    for what, content in islice(damaged_heads(data), None, None, 7 if name else 3):
        there.write_bytes(content)
        try:
            source = dataformats.open(there, payload="bytes", index=os.path.join(os.devnull, "x"))
        except dataformats.FormatError:
            continue
        if not name and what.startswith("8 bytes") and path.name == "all_empty.ffr":
            continue  # a header of offsets alone, moved by the size of one, is a sound bag
        assert source.format == format, f"{what}: read as {source.format}"
        for blob in (_read(source, i) for i in range(len(source))):
            assert blob is None or blob in sound, f"{what}: a wrong value"


def _read(source: dataformats.RecordSource, index: int) -> bytes | None:
    try:
        return bytes(source[index])
    except dataformats.FormatError:
        return None
