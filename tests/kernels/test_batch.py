"""The batch kernels: held indexes and the layouts made from them, against plain Python."""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataformats import kernels
from dataformats.kernels import FrameCheck, hold_extents, hold_files, lay_out, read_laid, thread_pool_open
from dataformats.testing.loop_over import loop_over

pytestmark = pytest.mark.skipif(not kernels.reads_batches(), reason="without kernels, storage.reference_read reads")
INT64 = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(0, 40)


def int64(numbers: Any) -> np.ndarray:
    return np.array(numbers, np.int64)


def held(rows: list[tuple[int, int, int]], head: int = 0, tail: int = 0) -> Any:
    file, offset, length = ([row[column] for row in rows] for column in range(3))
    arrays = np.array(file, np.int32), int64(offset), int64(length)
    return hold_extents(*arrays, None, (head, tail), FrameCheck.NOTHING)


def facts(sizes: list[int], memories: list[int] | None = None) -> Any:
    return hold_files(np.array(memories or [0] * len(sizes), np.uint64), int64(sizes), np.full(len(sizes), -1))


@given(data=st.data())
def test_lay_out(data: Any) -> None:
    sizes = data.draw(st.lists(st.integers(0, 2**62), min_size=1, max_size=3))
    extents = st.lists(st.tuples(st.integers(-1, len(sizes)), INT64 | SMALL, INT64 | SMALL), max_size=6)
    framing = st.sampled_from([(0, 0), (12, 4), (0, 8)])
    fields = data.draw(st.lists(st.tuples(extents, framing), min_size=1, max_size=2))
    records = data.draw(st.none() | st.lists(st.integers(-1, 5), max_size=5))
    most = data.draw(st.sampled_from([2**62, 50, 0]))
    there = records is None or all(0 <= number < len(rows) for rows, _ in fields for number in records)
    wanted = [
        ([rows[i] for i in records] if records is not None and there else rows, around) for rows, around in fields
    ]
    lengths = [[n for _, _, n in rows] for rows, _ in wanted]
    room = np.empty(2 * sum(map(len, lengths)) + len(lengths), np.int64)
    indexes = tuple(held(rows, *around) for rows, around in fields)
    found = lay_out(indexes, None if records is None else int64(records), facts(sizes), most, room)
    fits = there and all(
        0 <= number < len(sizes) and 0 <= n <= most and at >= head and at + n + tail <= sizes[number]
        for rows, (head, tail) in wanted
        for number, at, n in rows
    )
    if not fits or max(map(sum, lengths)) >= 2**63:
        assert found is None
        return
    assert found is not None
    assert found[1] == [sum(part) for part in lengths]
    assert found[2] == sorted({number for rows, _ in wanted for number, _, _ in rows})
    expected = [[*itertools.accumulate(part, initial=0), *part] for part in lengths]
    assert room.tolist() == [*itertools.chain(*expected)]


def test_files_in_memory_are_not_to_be_read() -> None:
    found = lay_out((held([(0, 0, 1), (2, 0, 1), (3, 0, 1)]),), None, facts([9] * 4, [0, 0, 64, 0]), 9, int64([0] * 7))
    assert found is not None
    assert found[2] == [0, 3]


def test_held_extents_outlive_their_arrays() -> None:
    memory = np.arange(40, dtype=np.uint8)
    index = held([(0, at, 4) for at in range(0, 40, 4)])
    room, out = np.empty(5, np.int64), np.empty(8, np.uint8)
    laid = lay_out((index,), int64([9, 2]), facts([40], [memory.ctypes.data]), 40, room)
    del index
    assert laid is not None
    fds, plain = np.full(1, -1, np.int32), (out, None, 0, 0)
    assert read_laid(laid[0], (plain,), fds, None)
    assert out.tolist() == [36, 37, 38, 39, 8, 9, 10, 11]
    assert room.tolist() == [0, 4, 8, 4, 4]
    with pytest.raises(TypeError, match="one for each field"):
        read_laid(laid[0], (plain, plain), fds, None)
    assert not read_laid(laid[0], ((out[:7], None, 0, 0),), fds, None)
    assert not read_laid(laid[0], ((out, np.empty(3, np.uint8), 0, 2),), fds, None)
    with pytest.raises(ValueError, match="a slice must have at least one byte, found 0"):
        read_laid(laid[0], ((out, out, 0, 0),), fds, None)
    with pytest.raises(ValueError, match="as long as the files"):
        read_laid(laid[0], (plain,), np.full(2, -1, np.int32), None)


@loop_over("n_threads", [1, 2, 3, 9])
def test_threads_share_a_large_batch(n_threads: int, tmp_path: Path) -> None:
    """Blobs of all sizes, also an empty one, are read from memory and from a file, with windows."""
    rng = np.random.default_rng(0)
    memory = rng.integers(0, 256, 3_000_000, np.uint8)
    path = tmp_path / "a"
    path.write_bytes(memory.tobytes())
    lengths = rng.permutation([0, 1, 700_000, *rng.integers(1, 20_000, 300)])
    rows = [(k % 2, int(rng.integers(0, len(memory) - n)), int(n)) for k, n in enumerate(lengths)]
    indexes = held(rows), held(rows[:9])
    room = np.empty(2 * (len(rows) + 9) + 2, np.int64)
    laid = lay_out(indexes, None, facts([len(memory)] * 2, [memory.ctypes.data, 0]), 2**31, room)
    assert laid is not None
    outs: list[Any] = [
        (np.zeros(n, np.uint8), np.zeros(k * 6, np.uint8), 1, 6) for n, k in zip(laid[1], [len(rows), 9], strict=True)
    ]
    with path.open("rb") as file:
        fds = np.array([-1, file.fileno()], np.int32)
        helpers = thread_pool_open(n_threads // 2)  # fewer than asked for, too
        assert read_laid(laid[0], tuple(outs), fds, None, helpers, n_threads)
    for (out, window, _, _), part in zip(outs, (rows, rows[:9]), strict=True):
        blobs = [memory[at : at + n].tobytes() for _, at, n in part]
        at = 0
        for row, blob in zip(window.reshape(-1, 6), blobs, strict=True):
            found = bytearray(out[at : at + len(blob)].tobytes())
            if len(blob) > 6:
                found[1:7] = row.tobytes()
            assert found == blob
            at += len(blob)


def test_every_thread_detects_a_damaged_blob() -> None:
    memory = np.random.default_rng(0).integers(0, 256, 4_000_000, np.uint8)
    starts = np.arange(0, 4_000_000, 4000)
    where = np.zeros(1000, np.int32), starts, np.full(1000, 4000)
    sums = kernels.crc32_extents(memory, starts, where[2])
    helpers = thread_pool_open(3)
    for wrong in (None, 0, 500, 999):
        stored = sums.copy()
        if wrong is not None:
            stored[wrong] ^= 1
        index = hold_extents(*where, stored, (0, 0), FrameCheck.CRC32)
        laid = lay_out((index,), None, facts([len(memory)], [memory.ctypes.data]), 2**31, np.empty(2001, np.int64))
        assert laid is not None
        outs = ((np.empty(len(memory), np.uint8), None, 0, 0),)
        assert read_laid(laid[0], outs, np.full(1, -1, np.int32), None, helpers, 4) == (wrong is None)


def test_helpers_serve_several_threads_and_no_child() -> None:
    """Many callers at once, more than there are helpers; a forked child reads alone."""
    memory = np.random.default_rng(0).integers(0, 256, 2_000_000, np.uint8)
    rows = [(0, at, 5000) for at in range(0, 2_000_000, 5000)]
    helpers = thread_pool_open(2)

    def read(number: int) -> bool:
        laid = lay_out((held(rows),), None, facts([len(memory)], [memory.ctypes.data]), 2**31, np.empty(801, np.int64))
        assert laid is not None
        out = np.zeros(len(memory), np.uint8)
        done = read_laid(laid[0], ((out, None, 0, 0),), np.full(1, -1, np.int32), None, helpers, 3)
        return done and bool((out == memory).all())

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(read, range(200)))
    if hasattr(os, "fork"):
        child = os.fork()
        if child == 0:
            os._exit(0 if read(0) else 1)
        assert os.waitpid(child, 0)[1] == 0
    with pytest.raises(ValueError, match=r"most must be in \[0, 64\], found 65"):
        thread_pool_open(65)


WRONG: list[tuple[Any, str]] = [
    ((int64([0]), int64([0]), int64([0]), None, (0, 0), 0), "file must be an int32 array"),
    ((np.zeros(2, np.int32), int64([0]), int64([0]), None, (0, 0), 0), "equally long"),
    ((np.zeros(1, np.int32), int64([0]), int64([0]), np.zeros(2, np.uint32), (0, 0), 0), "equally long"),
    ((np.zeros(1, np.int32), int64([0]), int64([0]), None, (65, 0), 0), r"head must be in \[0, 64\], found 65"),
    ((np.zeros(1, np.int32), int64([0]), int64([0]), None, (7, 0), FrameCheck.LENGTH), "longer head or tail"),
    ((np.zeros(1, np.int32), int64([0]), int64([0]), None, (12, 3), FrameCheck.TFRECORD), "longer head or tail"),
    ((np.zeros(1, np.int32), int64([0]), int64([0]), None, (0, 0), 4), r"check must be in \[0, 3\]"),
]


@loop_over("arguments, message", WRONG)
def test_hold_extents_refuses_wrong_arguments(arguments: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        hold_extents(*arguments)


def test_lay_out_refuses_wrong_arguments() -> None:
    index = held([(0, 0, 1)])
    with pytest.raises(ValueError, match="room must be"):
        lay_out((index,), None, facts([1]), 1, np.empty(2, np.int64))
    with pytest.raises(ValueError, match="equally long"):
        hold_files(np.zeros(2, np.uint64), int64([1]), int64([1]))
    with pytest.raises(TypeError, match="indexes must be a tuple"):
        lay_out([index], None, facts([1]), 1, np.empty(3, np.int64))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="PyCapsule"):
        lay_out((object(),), None, facts([1]), 1, np.empty(3, np.int64))


def test_sizes_below_0() -> None:
    """A size of -2**63 less its tail would wrap around to more than any blob needs."""
    index = held([(0, 0, 1)], tail=8)
    assert lay_out((index,), None, facts([-(2**63)], [64]), 1, np.empty(3, np.int64)) is None


def test_room_over_the_numbers_of_files() -> None:
    """Numbers that were checked become others: the places of later blobs."""
    room = np.zeros(2 * 64 + 1, np.int64)
    index = hold_extents(room.view(np.int32)[64:128], np.zeros(64, np.int64), np.full(64, 2**26), None, (0, 0), 0)
    laid = lay_out((index,), None, facts([2**26], [64]), 2**26, room)
    assert laid is not None
    assert not read_laid(laid[0], ((np.empty(9, np.uint8), None, 0, 0),), np.full(1, -1, np.int32), None)


@loop_over("at, place", [(0, 8), (1, 0), (3, -(2**62)), (3, 20_000_000), (6, 2**40)])
def test_changed_layout_is_not_read(at: int, place: int) -> None:
    """A changed layout would leave rows to no thread, or put them outside of the array."""
    n = 1_000_000
    memory = np.ones(n, np.uint8)
    room, out = np.empty(13, np.int64), np.zeros(6 * n, np.uint8)
    laid = lay_out((held([(0, 0, n)] * 6),), None, facts([n], [memory.ctypes.data]), n, room)
    assert laid is not None
    room[at] = place
    fds = np.full(1, -1, np.int32)
    assert not read_laid(laid[0], ((out, None, 0, 0),), fds, None, thread_pool_open(1), 2)


def test_more_threads_than_there_can_be() -> None:
    memory = np.arange(4, dtype=np.uint8)
    out = np.zeros(4, np.uint8)
    laid = lay_out((held([(0, 0, 4)]),), None, facts([4], [memory.ctypes.data]), 4, np.empty(3, np.int64))
    assert laid is not None
    outs = ((out, None, 0, 0),)
    assert read_laid(laid[0], outs, np.full(1, -1, np.int32), None, thread_pool_open(2), 2**31 - 2)
    assert out.tolist() == [0, 1, 2, 3]
