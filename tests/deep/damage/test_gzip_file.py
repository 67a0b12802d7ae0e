"""Damaged gzip files: the data before the damage can be read."""

import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataformats.storage.compressed.decompressor import Decompressor, ReferenceDecompressor, fast_library
from dataformats.storage.compressed.seekable_gzip import DecompressedFile
from tests.campaign import chosen, share
from tests.storage.compressed.test_seekable_gzip import KINDS, WBITS, close, compress, opened, plain_bytes


def prefix(compressed: bytes, kind: str) -> bytes:
    """Return all data before the damage: feed compressed bytes, and take decompressed bytes, one by one."""
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
def test_bytes_before_damage_do_not_depend_on_read_sizes(tmp_path: Path, kind: str, level: int) -> None:
    data = plain_bytes(6000)
    whole = compress(data, kind, level)
    for seed in chosen(range(60)):
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


EXTRA, NAME, COMMENT, HEADER_CRC = 4, 8, 16, 1  # flags of RFC 1952


def member(noise: random.Random, kind: str) -> bytes:
    """A file, or a member of one, with any features of its format."""
    data = plain_bytes(noise.choice([0, 1, 600, 5000]), noise.randrange(99))
    strategy = noise.choice([zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY, zlib.Z_FIXED, zlib.Z_RLE])
    window = noise.choice([9, 12, 15])
    state = zlib.compressobj(noise.randrange(10), zlib.DEFLATED, window if kind == "zlib" else -window, 8, strategy)
    body = state.compress(data[:300]) + state.flush(
        noise.choice([zlib.Z_NO_FLUSH, zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH])
    )
    body += state.compress(data[300:]) + state.flush()
    if kind == "zlib":
        return body
    flags = noise.choice([0, EXTRA, NAME, COMMENT, HEADER_CRC, EXTRA | NAME | HEADER_CRC, 32])
    head = bytes([0x1F, 0x8B, 8, flags, 0, 0, 0, 0, 0, 3])
    head += b"\x05\0extra" * bool(flags & EXTRA) + b"name\0" * bool(flags & NAME) + b"comment\0" * bool(flags & COMMENT)
    head += (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little") * bool(flags & HEADER_CRC)
    return head + body + zlib.crc32(data).to_bytes(4, "little") + len(data).to_bytes(4, "little")


def mutated(noise: random.Random, whole: bytes) -> bytes:
    data = bytearray(whole)
    for _ in range(noise.choice([0, 1, 1, 2])):
        at = noise.randrange(len(data) or 1)
        change = noise.choice(["flip", "cut", "drop", "insert", "append"])
        if change == "flip" and data:
            data[at] ^= 1 << noise.randrange(8)
        elif change == "cut":
            del data[at:]
        elif change == "drop":
            del data[at : at + noise.randrange(1, 20)]
        elif change == "insert":
            data[at:at] = noise.randbytes(noise.randrange(1, 20))
        else:
            data += noise.choice([b"x", bytes(20), b"\x1f\x8b", b"\x1f\x8b\x08\0", noise.randbytes(30)])
    return bytes(data)


def described(file: DecompressedFile, noise: random.Random) -> Any:
    """Everything that can be learned about a file, by reads in any order."""
    pieces = [file.pread(noise.randrange(12_000), noise.choice([1, 100, 5000])) for _ in range(noise.choice([0, 3]))]
    damage = file.damage if file.size >= 0 else None
    error = None if damage is None else (type(damage), damage.what, damage.offset_bytes, damage.expected, damage.found)
    return file.size, file.pread(0, 10**6), pieces, error


def zlib_ng() -> Any:
    return pytest.importorskip("zlib_ng.zlib_ng")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", [lambda: zlib, zlib_ng], ids=["zlib", "zlib_ng"])
def test_damaged_files_give_the_results_of_the_reference(
    tmp_path: Path, kind: str, library: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    used = library()
    monkeypatch.setattr(Decompressor, "library", staticmethod(lambda: used))
    n_damaged = 0
    for seed in chosen(range(400)):
        noise = random.Random(seed)
        whole = b"".join(member(noise, kind) for _ in range(noise.choice([1, 1, 3]) if kind == "gzip" else 1))
        data, order = mutated(noise, whole), noise.randrange(1000)
        found = described(opened(tmp_path, data, kind), random.Random(order))
        reference = opened(tmp_path, data, kind)
        reference._use_reference()
        assert type(reference._checkpoints[0]) is ReferenceDecompressor
        assert found == described(reference, random.Random(order)), f"seed {seed}"
        n_damaged += found[-1] is not None
        reference.release()
    assert n_damaged > share(400) // 4


@pytest.mark.parametrize("kind", KINDS)
def test_one_pass_over_damaged_files(tmp_path: Path, kind: str) -> None:
    """The same bytes and damage as by the reference, but for rare blocks with wrong codes, which ISA-L decodes."""
    assert fast_library("isal.isal_zlib") is not zlib
    n_damaged = 0
    for seed in chosen(range(400)):
        noise = random.Random(seed)
        whole = b"".join(member(noise, kind) for _ in range(noise.choice([1, 1, 3]) if kind == "gzip" else 1))
        data, step = mutated(noise, whole), noise.choice([1, 100, 5000, 10**6])
        found = []
        for one_pass in (True, False):
            stored = opened(tmp_path, data, kind)
            file = DecompressedFile(stored.stored, kind, one_pass=one_pass, records_have_checksums=True)
            if not one_pass:
                file._use_reference()
            parts, offset = [], 0
            while part := file.pread(offset, step):
                parts.append(part)
                offset += len(part)
            damage = file.damage if file.size >= 0 else None
            found.append((parts, damage and (damage.what, damage.offset_bytes, damage.expected, damage.found)))
            stored.release()
        assert found[0] == found[1], f"seed {seed}"
        n_damaged += found[0][1] is not None
    assert n_damaged > share(400) // 4
