"""Random access to gzip files, compared with the standard library's decompression of the whole file."""

import gzip
import multiprocessing
import os
import random
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from dataformats.errors import FormatError, TruncatedError
from dataformats.interfaces import OutdatedIndexError
from dataformats.storage.compressed import seekable_gzip as inflate
from dataformats.storage.compressed.decompressor import Decompressor
from dataformats.storage.compressed.seekable_gzip import DecompressedFile
from dataformats.storage.decoded_cache import DECODED_CACHE
from dataformats.storage.files import LocalFile
from dataformats.storage.threads import declare_readers
from dataformats.testing.loop_over import loop_over
from tests.waiting import LIMIT_S, n_waiting, wait_until

WBITS = {"gzip": 31, "zlib": 15}
KINDS = sorted(WBITS)


def plain_bytes(n: int, seed: int = 0) -> bytes:
    """Bytes that compress to about a half: a random part and a repeated one, in turns."""
    noise = random.Random(seed)
    data = bytearray()
    while len(data) < n:
        data += noise.randbytes(noise.randrange(1, 700))
        data += bytes([noise.randrange(256)]) * noise.randrange(1, 700)
    return bytes(data[:n])


def compress(data: bytes, kind: str, level: int = 6) -> bytes:
    state = zlib.compressobj(level, zlib.DEFLATED, WBITS[kind])
    return state.compress(data) + state.flush()


def opened(folder: Path, compressed: bytes, kind: str, name: str = "x") -> DecompressedFile:
    path = folder / name
    path.write_bytes(compressed)
    return DecompressedFile(LocalFile(path), kind, records_have_checksums=True)


def close(file: DecompressedFile) -> None:
    file.stored.release()


@loop_over("kind", KINDS)
@loop_over("n", [0, 1, 7, 70_000, 1_500_000])
def test_whole_file_matches_zlib(tmp_path: Path, kind: str, n: int) -> None:
    data = plain_bytes(n)
    file = opened(tmp_path, compress(data, kind), kind)
    assert (file.size, file.damage) == (n, None)
    assert file.pread(0, n + 5) == data
    assert file.pread(n, 5) == b""
    assert file.pread(2**62, 2**62) == b""


@pytest.mark.parametrize("kind", KINDS)
def test_random_access_agrees_with_a_full_pass(tmp_path: Path, kind: str) -> None:
    data = plain_bytes(3_000_000)
    places = random.Random(1)
    for measured in (False, True):
        file = opened(tmp_path, compress(data, kind), kind, f"{kind}{measured}")
        assert not measured or file.size == len(data)
        for _ in range(150):
            offset, n = places.randrange(len(data) + 10), places.choice([0, 1, 16, 5000, 400_000])
            assert file.pread(offset, n) == data[offset : offset + n]


@pytest.mark.parametrize("kind", KINDS)
def test_file_cut_at_any_byte_keeps_earlier_data(tmp_path: Path, kind: str) -> None:
    data = plain_bytes(600)
    whole = compress(data, kind)
    for cut in range(len(whole)):
        file = opened(tmp_path, whole[:cut], kind, str(cut))
        size = file.size
        assert isinstance(file.damage, TruncatedError)
        assert data.startswith(file.pread(0, 10_000))
        assert len(file.pread(0, 10_000)) == size
        state = zlib.decompressobj(WBITS[kind])
        assert size >= len(state.decompress(whole[:cut]) + state.flush())
        close(file)


@pytest.mark.parametrize("kind", KINDS)
def test_any_flipped_bit_gives_damage_or_the_same_bytes(tmp_path: Path, kind: str) -> None:
    data = plain_bytes(120)
    whole = compress(data, kind)
    for bit in range(8 * len(whole)):
        broken = bytearray(whole)
        broken[bit // 8] ^= 1 << bit % 8
        file = opened(tmp_path, bytes(broken), kind, str(bit))
        assert file.damage is not None if file.size != len(data) else True
        assert file.damage is not None or file.pread(0, 10_000) == data  # a header's time, say, is free
        close(file)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_checksum_at_the_end_costs_no_byte_before(tmp_path: Path, kind: str) -> None:
    data = plain_bytes(5000)
    whole = bytearray(compress(data, kind))
    whole[-5 if kind == "gzip" else -1] ^= 1
    file = opened(tmp_path, bytes(whole), kind)
    assert file.size == len(data)
    assert "check" in file.damage.what if file.damage else False
    assert file.pread(0, 6000) == data


@loop_over("padding", [0, 1, 100, 40_000])
def test_gzip_members_and_zeros_between_and_behind_them_are_read_through(tmp_path: Path, padding: int) -> None:
    parts = [plain_bytes(n, n) for n in (100_000, 0, 1, 300_000)]
    file = opened(tmp_path, b"".join(gzip.compress(part) + bytes(padding) for part in parts), "gzip")
    data = b"".join(parts)
    assert (file.size, file.damage) == (len(data), None)
    for offset in range(0, len(data), 33_333):
        assert file.pread(offset, 40_000) == data[offset : offset + 40_000]


@loop_over("kind", KINDS)
@loop_over("garbage", [b"x", b"\x1f\x8b\x08", b"\x1f", bytes(3) + b"y", bytes(40_000) + b"z"])
def test_bytes_after_compressed_data_are_damage(tmp_path: Path, kind: str, garbage: bytes) -> None:
    data = plain_bytes(5000)
    file = opened(tmp_path, compress(data, kind) + garbage, kind)
    assert file.size == len(data)
    assert isinstance(file.damage, FormatError)
    assert file.pread(0, 6000) == data


def test_many_threads_read_the_same_bytes(tmp_path: Path) -> None:
    data = plain_bytes(4_000_000)
    file = opened(tmp_path, compress(data, "gzip"), "gzip")
    wrong: list[int] = []

    def read(seed: int) -> None:
        places = random.Random(seed)
        for _ in range(40):
            offset = places.randrange(len(data))
            if file.pread(offset, 1000) != data[offset : offset + 1000]:
                wrong.append(offset)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert file.size == len(data)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_reads_on_while_the_parent_reads(tmp_path: Path) -> None:
    data = plain_bytes(1_000_000)
    file = opened(tmp_path, compress(data, "gzip"), "gzip")
    assert file.pread(500_000, 10) == data[500_000:500_010]
    with file._lock, file._seeking:  # another thread of the parent may hold them
        child = multiprocessing.get_context("fork").Process(target=_read_in_child, args=(file, data))
        child.start()
    assert file.pread(0, len(data)) == data
    child.join(LIMIT_S)
    assert child.exitcode == 0


def _read_in_child(file: DecompressedFile, data: bytes) -> None:
    os._exit(0 if file.pread(400_000, 300_000) == data[400_000:700_000] else 1)


@pytest.fixture
def decompressed_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of everything that was decompressed."""
    sizes: list[int] = []
    take = Decompressor.take

    def counted(self: Decompressor, most: int) -> bytes:
        out = take(self, most)
        sizes.append(len(out))
        return out

    monkeypatch.setattr(Decompressor, "take", counted)
    return sizes


def test_consecutive_reads_decompress_each_byte_once(tmp_path: Path, decompressed_bytes: list[int]) -> None:
    data = plain_bytes(2_000_000)
    file = opened(tmp_path, compress(data, "gzip"), "gzip")
    for offset in range(0, len(data), 33_333):
        assert file.pread(offset, 33_333) == data[offset : offset + 33_333]
    assert file.size == len(data)
    assert sum(decompressed_bytes) == len(data)


@pytest.mark.parametrize("n_threads", [1, 4])
def test_random_reads_decompress_each_byte_about_once(
    tmp_path: Path, decompressed_bytes: list[int], n_threads: int
) -> None:
    data, places = plain_bytes(3_000_000), random.Random(2)
    file = opened(tmp_path, compress(data, "gzip"), "gzip")
    assert file.size == len(data)
    decompressed_bytes.clear()
    reads = [(places.randrange(len(data) - 999), places.randrange(1, 1000)) for _ in range(3000)]
    with ThreadPoolExecutor(n_threads) as threads:
        found = list(threads.map(lambda read: file.pread(*read), reads))
    assert found == [data[offset : offset + n] for offset, n in reads]
    assert sum(decompressed_bytes) < 2 * len(data)


def test_blocks_of_few_reads_are_not_kept(
    tmp_path: Path, decompressed_bytes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DECODED_CACHE, "limit_bytes", inflate._STEP)  # one block
    monkeypatch.setattr(inflate, "_ADMISSION", inflate._Admission())
    data, places = plain_bytes(6_000_000), random.Random(3)
    file = opened(tmp_path, compress(data, "gzip"), "gzip")
    assert file.size == len(data)
    decompressed_bytes.clear()
    for offset in (places.randrange(len(data) - 100) for _ in range(400)):
        assert file.pread(offset, 100) == data[offset : offset + 100]
    assert len(DECODED_CACHE._kept) == 1
    assert sum(decompressed_bytes) < 400 * 0.8 * inflate._STEP  # a block for each read would be at least one step


def test_blocks_of_many_files_share_one_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DECODED_CACHE, "limit_bytes", inflate._STEP * 3)
    data = plain_bytes(600_000)
    stored = opened(tmp_path, compress(data, "gzip"), "gzip").stored
    files = [DecompressedFile(stored, "gzip") for _ in range(5)]
    for file in files:
        file.decompress(0, len(data))
    assert len(data) <= DECODED_CACHE._n_bytes <= DECODED_CACHE.limit_bytes
    for file in files:
        file.release()
    assert (len(DECODED_CACHE._kept), DECODED_CACHE._n_bytes) == (0, 0)


def test_decompressed_bytes_are_kept(tmp_path: Path, decompressed_bytes: list[int]) -> None:
    data, places = plain_bytes(4_000_000), random.Random(3)
    file = opened(tmp_path, compress(data, "gzip"), "gzip")
    assert file.size == len(data)
    file.decompress(1_000_000, 3_000_000)
    decompressed_bytes.clear()
    for offset in (places.randrange(1_000_000, 3_000_000 - 100) for _ in range(400)):
        assert file.pread(offset, 100) == data[offset : offset + 100]
    assert file.pread(1_200_000, 1_500_000) == data[1_200_000:2_700_000]
    assert not decompressed_bytes


def test_dropped_blocks_leave_memory(tmp_path: Path) -> None:
    """A block that is kept must not hold those that were decompressed together with it."""
    file = opened(tmp_path, compress(plain_bytes(4_000_000), "gzip"), "gzip")
    file.decompress(0, file.size)
    kept = file.blocks_in_memory(np.arange(0, file.size, inflate._STEP))
    assert kept is not None
    assert all(memoryview(block.obj).nbytes == block.nbytes for block in kept.blocks)
    assert len(kept.blocks) > 10


def test_blocks_of_a_dead_file_are_dropped(tmp_path: Path) -> None:
    file = opened(tmp_path, compress(plain_bytes(1_000_000), "gzip"), "gzip")
    owner = file._owner
    file.decompress(0, file.size)
    assert owner in DECODED_CACHE._keys
    del file
    assert owner not in DECODED_CACHE._keys


def test_blocks_of_a_wrong_size_are_not_used(tmp_path: Path) -> None:
    data = plain_bytes(1000)
    file = opened(tmp_path, compress(data, "gzip"), "gzip")
    file.known_size(500, None, "")  # as an outdated index says
    assert file.pread(100, 50) == data[100:150]
    file.forget_size()
    assert file.size == 1000
    assert file.pread(450, 100) == data[450:550]


@pytest.mark.parametrize("n_threads", [2, 4])
def test_alternating_threads_decompress_each_byte_about_once(
    tmp_path: Path, decompressed_bytes: list[int], n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflate, "_PATIENCE_S", LIMIT_S)
    data, n = plain_bytes(4_000_000), 50_000
    file = opened(tmp_path, compress(data, "gzip"), "gzip")
    with ThreadPoolExecutor(n_threads, initializer=declare_readers, initargs=(n_threads,)) as threads:
        parts = list(threads.map(lambda offset: file.pread(offset, n), range(0, len(data), n)))
    assert b"".join(parts) == data
    assert sum(decompressed_bytes) < 1.2 * len(data)


def test_read_waits_for_the_read_before_it(
    tmp_path: Path, decompressed_bytes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflate, "_PATIENCE_S", LIMIT_S)
    data = plain_bytes(200_000)
    file = opened(tmp_path, compress(data, "gzip"), "gzip")
    file._reads[-1] = (0, 100_000)  # another thread began it
    with ThreadPoolExecutor(1) as threads:
        second = threads.submit(file.pread, 100_000, 100_000)
        wait_until(lambda: n_waiting(file._ended) == 1)
        del file._reads[-1]
        assert file.pread(0, 100_000) + second.result(LIMIT_S) == data
    assert sum(decompressed_bytes) == len(data)


def test_unending_read_does_not_block_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflate, "_PATIENCE_S", 0.01)
    data = plain_bytes(2000)
    file = opened(tmp_path, compress(data, "gzip"), "gzip")
    file._reads[-1] = (0, 1000)
    assert file.pread(1000, 1000) == data[1000:]


def test_release_and_fork_forget_where_reads_ended(tmp_path: Path) -> None:
    data = plain_bytes(100_000)
    file = opened(tmp_path, compress(data, "gzip"), "gzip")
    for forget in (file.release, file._unlock):
        assert file.pread(1000, 1000) == data[1000:2000]
        assert file._cursors
        forget()
        assert not file._cursors
        assert file._owner not in DECODED_CACHE._keys
    assert file.pread(2000, 1000) == data[2000:3000]


def test_release_leaves_a_read_in_another_thread_its_decompressor(tmp_path: Path) -> None:
    file = opened(tmp_path, compress(plain_bytes(1000), "gzip"), "gzip")
    with file._lock:  # a read holds it while it chooses a checkpoint
        closer = threading.Thread(target=file.release)
        closer.start()
        closer.join(0.05)
        assert closer.is_alive()
    closer.join()


def test_checkpoints_hold_no_compressed_bytes(tmp_path: Path) -> None:
    data = bytes(3_000_000) + plain_bytes(1_000_000)
    file = opened(tmp_path, compress(data, "gzip"), "gzip")
    assert file.size == len(data)
    assert len(file._checkpoints) > 10
    assert not any(checkpoint.pending or checkpoint._state.unconsumed_tail for checkpoint in file._checkpoints)
    for checkpoint in file._checkpoints:
        assert file.pread(checkpoint.position, 10) == data[checkpoint.position : checkpoint.position + 10]


def test_checkpoints_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflate, "_MAX_CHECKPOINTS", 8)
    data = plain_bytes(2_000_000) * 5
    file = opened(tmp_path, compress(data, "zlib", 1), "zlib")
    assert file.size == len(data)
    assert 2 <= len(file._checkpoints) <= 8
    assert file.pread(9_000_000, 100) == data[9_000_000:9_000_100]


def test_checkpoints_of_all_files_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = plain_bytes(3_000_000)
    files = [opened(tmp_path, compress(data, "zlib", 1), "zlib", str(number)) for number in range(3)]
    monkeypatch.setattr(inflate, "_ALL_CHECKPOINTS", 5 * len(inflate._LIVE))
    for file in files:
        assert file.size == len(data)
        for offset in range(2_900_000, 0, -290_000):  # each read leaves a decompressor where it ends
            file.read_into(offset, memoryview(bytearray(10)))
        assert len(file._checkpoints) <= 5
        assert len(file._cursors) == 4


def test_a_bomb_is_not_held_in_memory(tmp_path: Path) -> None:
    import tracemalloc

    n = 200 * 2**20
    file = opened(tmp_path, compress(bytes(n), "gzip"), "gzip")
    tracemalloc.start()
    try:
        assert file.size == n
        assert file.pread(n - 3, 10) == bytes(3)
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()


def test_too_large_size_in_index_raises(tmp_path: Path) -> None:
    file = opened(tmp_path, compress(b"abc", "gzip"), "gzip")
    file.known_size(10, None, "")
    with pytest.raises(OutdatedIndexError, match="expected 10, found 3"):
        file.pread(0, 10)
    file.forget_size()
    assert (file.size, file.pread(0, 10)) == (3, b"abc")
