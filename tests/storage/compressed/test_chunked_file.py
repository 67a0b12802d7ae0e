"""Chunks of zstd as one file, and the list of frames, compared with the decoded bytes themselves."""

import multiprocessing
import pickle
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest

from dataformats.batch import Blobs
from dataformats.errors import FormatError, TruncatedError
from dataformats.interfaces import Extents
from dataformats.storage.compressed.chunked_file import ChunkedFile, ChunkTable
from dataformats.storage.compressed.zstd_frames import decode_gzip, decode_zstd, encode_zstd, list_frames, zstd_library
from dataformats.storage.decoded_cache import DECODED_CACHE
from dataformats.storage.files import LocalFile
from dataformats.storage.reference_read import read_blobs
from dataformats.testing.loop_over import loop_over

zstd = zstd_library()


def parts(count: int, most: int = 5000) -> list[bytes]:
    noise = random.Random(count)
    return [noise.randbytes(noise.randrange(most)) + b"x" * noise.randrange(most) for _ in range(count)]


def written(folder: Path, frames: list[bytes]) -> LocalFile:
    path = folder / "x.zst"
    path.write_bytes(b"".join(frames))
    return LocalFile(path)


def opened(folder: Path, plain: list[bytes], frames: list[bytes] | None = None) -> ChunkedFile:
    file = written(folder, [encode_zstd(part) for part in plain] if frames is None else frames)
    return ChunkedFile(file, list_frames(file)[0], decode_zstd, "zstd")


def read_in_child(file: ChunkedFile, expected: bytes, answers: "multiprocessing.Queue[bool]") -> None:
    answers.put(file.pread(0, file.size) == expected)


def test_any_range_has_the_decoded_bytes(tmp_path: Path) -> None:
    plain = [*parts(40), b"", b"end"]
    file, whole, noise = opened(tmp_path, plain), b"".join(plain), random.Random(1)
    assert file.size == len(whole)
    assert file.pread(0, file.size) == whole
    for _ in range(300):
        offset, length = noise.randrange(len(whole) + 10), noise.randrange(20_000)
        assert file.pread(offset, length) == whole[offset : offset + length]
    assert (file.is_compressed, file.compression, file.stored_size) == (True, "zstd", file.stored.size)


def test_frames_are_listed_without_decoding(tmp_path: Path) -> None:
    big = random.Random(2).randbytes(500_000) + bytes(500_000)
    plain = [b"", b"a", b"b" * 255, b"c" * 256, b"d" * 65_791, b"e" * 65_792, big]
    skippable = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"12345"
    frames = [encode_zstd(part) for part in plain]
    table, damage = list_frames(written(tmp_path, [skippable, *frames, skippable]))
    assert damage is None
    assert table.decoded_bytes.tolist() == [len(part) for part in plain]
    assert table.stored_bytes.tolist() == [len(frame) for frame in frames]
    assert table.offset.tolist() == (13 + np.cumsum([0, *map(len, frames)])[:-1]).tolist()


def test_frame_without_a_size_is_listed_as_such(tmp_path: Path) -> None:
    compressor = zstd.ZstdCompressor()
    frame = compressor.compress(b"a" * 300_000) + compressor.flush()
    table, _ = list_frames(written(tmp_path, [frame, encode_zstd(b"b")]))
    assert (table.decoded_bytes.tolist(), table.stored_bytes[0]) == ([-1, 1], len(frame))


@loop_over("cut", [1, 3, 4, 5, 6, 9, 20, 200])
def test_cut_file_has_the_frames_before(tmp_path: Path, cut: int) -> None:
    frame = encode_zstd(random.Random(3).randbytes(300))
    table, damage = list_frames(written(tmp_path, [frame, frame[:cut]]))
    assert table.stored_bytes.tolist() == [len(frame)]
    assert "x.zst" in str(damage)


def test_mutated_frames_are_refused_or_listed(tmp_path: Path) -> None:
    plain, noise = parts(6, 300), random.Random(4)
    whole = b"".join(encode_zstd(part) for part in plain)
    n_refused = 0
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(noise.randrange(1, 4)):
            data[noise.randrange(len(data))] = noise.randrange(256)
        file = written(tmp_path, [bytes(data[: noise.randrange(len(data)) if noise.random() < 0.2 else None])])
        table, damage = list_frames(file)
        try:
            chunked = ChunkedFile(file, table, decode_zstd, "zstd")
            assert len(chunked.pread(0, 10_000)) <= 10_000
            n_refused += damage is not None
        except FormatError:
            n_refused += 1
    assert n_refused > 1000


def test_damage_is_an_error_of_the_records_in_its_chunk(tmp_path: Path) -> None:
    plain = [bytes([number]) * 1000 for number in range(5)]
    frames = [encode_zstd(part) for part in plain]
    for number in (1, 3):
        frames[number] = frames[number][:-1] + bytes([frames[number][-1] ^ 1])
    file = opened(tmp_path, plain, frames)
    offset = np.array([0, 900, 1500, 2100, 2999, 4000])
    extents = Extents(np.zeros(6, np.int32), offset, np.full(6, 100))
    (found,) = read_blobs([file], [extents], max_bytes=2**20)
    assert sorted(found.problems) == [2, 4]
    assert found.problems[2].offset_bytes == len(frames[0])
    assert "checksum" in str(found.problems[2])
    sound = [found.blobs[row] for row in (0, 1, 3, 5)]
    assert sound == [(b"".join(plain))[at : at + 100] for at in (0, 900, 2100, 4000)]
    assert isinstance(found.blobs, Blobs)


@loop_over("declared, words", [(999, "or more"), (1001, "1000 bytes"), (2**40, "too long")])
def test_wrong_declared_size_is_an_error(tmp_path: Path, declared: int, words: str) -> None:
    file = written(tmp_path, [encode_zstd(b"a" * 1000)])
    table = ChunkTable(np.array([0]), np.array([file.size]), np.array([declared]))
    chunked = ChunkedFile(file, table, decode_zstd, "zstd")
    with pytest.raises(FormatError, match=words):
        chunked.pread(0, 10)


@loop_over("offset, stored, decoded", [(-1, 5, 5), (0, -1, 5), (0, 10**6, 5), (5, 5, 2**62 + 1)])
def test_impossible_table_is_an_error(tmp_path: Path, offset: int, stored: int, decoded: int) -> None:
    file = written(tmp_path, [encode_zstd(b"a" * 1000)])
    with pytest.raises(FormatError):
        ChunkedFile(file, ChunkTable(np.array([offset]), np.array([stored]), np.array([decoded])), decode_zstd, "zstd")


def test_chunks_are_decoded_once_for_all_threads(tmp_path: Path) -> None:
    plain, calls, lock = parts(20), [0], threading.Lock()

    def decode(data: bytes, n_bytes: int) -> bytes:
        with lock:
            calls[0] += 1
        return decode_zstd(data, n_bytes)

    stored = opened(tmp_path, plain).stored
    file = ChunkedFile(stored, list_frames(stored)[0], decode, "zstd")
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: file.pread(0, file.size), range(8)))
    assert found == [b"".join(plain)] * 8
    assert calls == [len(plain)]


def test_files_share_one_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DECODED_CACHE, "limit_bytes", 10_000)
    stored = opened(tmp_path, [bytes(4000)] * 20).stored
    files = [ChunkedFile(stored, list_frames(stored)[0], decode_zstd, "zstd") for _ in range(2)]
    for file in files:
        assert file.pread(0, file.size) == bytes(80_000)
    assert DECODED_CACHE._n_bytes <= 10_000
    assert len(DECODED_CACHE._kept) == 2
    files[1].release()
    assert not DECODED_CACHE._kept


def test_empty_chunked_file_has_no_bytes(tmp_path: Path) -> None:
    file = opened(tmp_path, [])
    assert (file.size, file.pread(0, 10)) == (0, b"")


@pytest.mark.parametrize("copied", [lambda file: pickle.loads(pickle.dumps(file)), deepcopy])
def test_copy_by_pickle_reads_the_same(tmp_path: Path, copied: Callable[[ChunkedFile], ChunkedFile]) -> None:
    plain = parts(5)
    file = opened(tmp_path, plain)
    first = file.pread(0, file.size)
    assert copied(file).pread(0, file.size) == first == b"".join(plain)


def test_forked_child_reads_while_another_thread_decodes(tmp_path: Path) -> None:
    plain = parts(5)
    file, context = opened(tmp_path, plain), multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[bool] = context.Queue()
    child = context.Process(target=read_in_child, args=(file, b"".join(plain), answers))
    with DECODED_CACHE._lock:  # as if another thread had it
        child.start()
    assert answers.get(timeout=240)
    child.join()


def test_gzip_is_decoded_to_its_size() -> None:
    import gzip

    data = gzip.compress(b"a" * 1000) + gzip.compress(b"b" * 10)
    assert decode_gzip(data, 1010) == b"a" * 1000 + b"b" * 10
    assert len(decode_gzip(data, 500)) == 501
    with pytest.raises(EOFError):
        decode_gzip(data[:-4], 1010)


def test_frames_are_decoded_one_behind_another() -> None:
    data = encode_zstd(b"a" * 1000) + encode_zstd(b"b" * 10)
    assert decode_zstd(data, 1010) == b"a" * 1000 + b"b" * 10
    assert len(decode_zstd(data, 500)) == 501
    with pytest.raises(EOFError):
        decode_zstd(data[:-4], 1010)


def test_truncated_file_is_an_error_of_its_chunk(tmp_path: Path) -> None:
    plain = parts(3)
    file = opened(tmp_path, plain)
    path = Path(file.name)
    with path.open("r+b") as stored:
        stored.truncate(path.stat().st_size - 5)
    with pytest.raises((FormatError, TruncatedError)):
        file.pread(0, file.size)
