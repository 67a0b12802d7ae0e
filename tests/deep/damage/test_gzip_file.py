"""Damaged gzip files: the data before the damage can be read."""

import random
import zlib
from pathlib import Path

import pytest

from tests.storage.test_gzip_file import KINDS, WBITS, close, compress, opened, plain_bytes


def prefix(compressed: bytes, kind: str) -> bytes:
    """What can be had from the front: the compressed bytes one by one, the last of them byte by byte."""
    state, out = zlib.decompressobj(WBITS[kind]), b""
    for at in range(len(compressed)):
        piece = compressed[at : at + 1]
        while piece or state.unconsumed_tail:
            try:
                got = state.decompress(piece or state.unconsumed_tail, 1)
            except zlib.error:
                return out
            piece, out = state.unconsumed_tail, out + got
            while got := _more(state, piece):
                out += got
                piece = state.unconsumed_tail
    return out


def _more(state: "zlib._Decompress", piece: bytes) -> bytes:
    try:
        return b"" if state.eof else state.decompress(piece, 1)
    except zlib.error:
        return b""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", [0, 1, 9])
def test_what_can_be_had_before_damage_does_not_depend_on_how_it_is_read(tmp_path: Path, kind: str, level: int) -> None:
    data = plain_bytes(6000)
    whole = compress(data, kind, level)
    for seed in range(60):
        noise = random.Random(seed)
        broken = bytearray(whole)
        broken[noise.randrange(2, len(whole))] ^= 1 << noise.randrange(8)
        expected = prefix(bytes(broken), kind)
        for step in (1, 13, 1000, 10_000):
            file = opened(tmp_path, bytes(broken), kind, f"{seed}-{step}")
            pieces = [file.pread(offset, step) for offset in range(0, 8000 if step > 1 else 0, step)]
            if file.damage is not None and "follow" not in file.damage.what:
                assert file.size == len(expected)
                assert not pieces or b"".join(pieces) == expected[: len(pieces) * step]
                assert file.pread(0, 10_000) == expected
            close(file)
