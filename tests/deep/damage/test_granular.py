"""Damaged datasets of generation 1, single bags and unfinished datasets; the conformance suite damages all others."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.backends.granular import BACKEND
from dataformats.errors import DataFormatsError, FormatError
from dataformats.storage.files import LocalFile
from tests.backends.test_granular import bag_of, blobs, files_in, open_raw, read_each, small_set

RECORDS = [b"first", b"second record", b"3", b"the fourth"]


def reads(folder: Path) -> Iterator[tuple[int, Any]]:
    """Every row that can be read; only our own errors may come out."""
    try:
        source: Any = dataformats.open(folder, format="granular")
        n = len(source)
    except DataFormatsError:
        return
    assert n <= 40
    for index in range(n):
        try:
            source.available(index)
            yield index, source[index]
        except DataFormatsError:
            continue
    assert source.fingerprint


def test_cut_at_every_byte(tmp_path: Path) -> None:
    folder = small_set(tmp_path / "data", 1)
    assert len(dict(reads(folder))) == 4
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for stop in range(len(whole)):
            path.write_bytes(whole[:stop])
            for _ in reads(folder):
                pass  # any 8 last bytes may lead to a table inside the bag, and there is no checksum
        path.write_bytes(whole)


def test_every_bit_flipped(tmp_path: Path) -> None:
    folder = small_set(tmp_path / "data", 1)
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for bit in range(8 * len(whole)):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            for _ in reads(folder):
                pass
        path.write_bytes(whole)


@pytest.mark.parametrize("generation", [1, 2])
def test_a_bag_cut_or_flipped(generation: int, tmp_path: Path) -> None:
    path = tmp_path / "x.bag"
    whole = bag_of(RECORDS, generation)
    for stop in range(len(whole)):
        path.write_bytes(whole[:stop])
        assert all(len(blob) <= len(whole) for blob in bag_reads(path))
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        assert all(len(blob) <= len(whole) for blob in bag_reads(path))
        BACKEND.sniff(LocalFile(path))


def bag_reads(path: Path) -> list[bytes]:
    try:
        found = read_each(dataformats.open(path, format="granular"))
    except FormatError:
        return []
    return [blob for blob in found if isinstance(blob, bytes)]


@pytest.mark.parametrize("generation", [2, 3])
def test_resume_after_a_cut_at_any_byte(generation: int, tmp_path: Path) -> None:
    spec = {"a": "utf8", "n": "int"} | ({"s": "utf8[]"} if generation == 2 else {})
    rows = [{"a": f"row {i}", "n": i, "s": ["x"] * i} for i in range(5)]
    rows = [{name: row[name] for name in spec} for row in rows]
    with dataformats.create(tmp_path / "whole", "granular", spec=spec) as writer:
        writer.extend(rows)
    partial = tmp_path / "d.partial"
    file: Any = BACKEND.create(partial, stored=dataformats.Spec(spec), generation=generation)
    encoded = [{name: list(map(bytes, blobs(value))) for name, value in row.items()} for row in raw_rows(tmp_path)]
    for row in encoded:
        file.append(row)
    file.flush()
    file.suspend()
    whole = files_in(partial)
    for name, data in whole.items():
        if not name.endswith(".idx"):
            continue
        for stop in range(len(data)):
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            for other, content in whole.items():
                (partial / other).write_bytes(content[:stop] if other == name else content)
            with dataformats.create(tmp_path / "d", "granular", spec=spec, resume=True) as writer:
                assert generation == 2 or len(writer) == stop // 8
                writer.extend(rows[len(writer) :])
            assert files_in(tmp_path / "d") == files_in(tmp_path / "whole")
            shutil.rmtree(tmp_path / "d")


def raw_rows(folder: Path) -> list[Any]:
    return list(open_raw(folder / "whole"))
