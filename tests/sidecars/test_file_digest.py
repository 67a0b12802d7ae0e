"""Digests of files tell other files from damaged ones, in padded files too."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dataformats.kernels import crc32
from dataformats.sidecars.file_digest import file_digest, is_same_file
from dataformats.storage.files import LocalFile
from dataformats.testing.loop_over import loop_over

KB = 1024


def digest(path: Path, content: bytes | bytearray) -> str:
    path.write_bytes(content)
    return file_digest(LocalFile(path))


def padded(seed: int, size: int, parts: list[tuple[int, int]]) -> bytearray:
    """Return zeros with random bytes at each offset, as many as the length."""
    random, content = np.random.default_rng(seed), bytearray(size)
    for offset, length in parts:
        content[offset : offset + length] = random.bytes(length)
    return content


def test_blocks_with_data_have_plain_checksums(tmp_path: Path) -> None:
    content = bytes(padded(0, 30 * KB + 5, [(0, 30 * KB + 5)]))
    last = len(content) - KB
    starts = [last * n // 7 for n in range(8)]
    assert digest(tmp_path / "a", content) == "".join(f"{crc32(content[at : at + KB]):08x}" for at in starts)


@loop_over(
    "parts",
    [
        [(0, 300)],
        [(0, 40), (5 * KB, 2 * KB)],
        [(0, 40 * KB)],
        [(64 * KB, 900)],
        [(at * 64 * KB, 500) for at in range(16)],
        [(KB << 10, 10)],
        [(2**20 - 200, 200)],
    ],
)
def test_padded_files_differ(tmp_path: Path, parts: list[tuple[int, int]]) -> None:
    size = 2**20 if parts[0][0] < 2**20 else 3 * 2**20
    one, other = padded(1, size, parts), padded(2, size, parts)
    then = digest(tmp_path / "one", one)
    assert not is_same_file(then, digest(tmp_path / "other", other))
    assert not is_same_file(then, digest(tmp_path / "zeros", bytes(size)))
    assert is_same_file(then, digest(tmp_path / "same", one))


def test_damaged_files_are_the_same(tmp_path: Path) -> None:
    content = padded(1, 2**20, [(0, 300 * KB)])
    then = digest(tmp_path / "a", content)
    content[299 * KB :] = bytes(len(content) - 299 * KB)
    content[17] ^= 1
    assert is_same_file(then, digest(tmp_path / "a", content))
