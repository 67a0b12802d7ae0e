"""Scans of frames, lines and documents: C and the reference on the same bytes, intact, cut, flipped and hostile."""

from __future__ import annotations

import importlib
import json
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataformats import kernels
from dataformats.kernels import CLOSED, ENDS, FULL, UNSOUND, masked_crc32c, reference
from dataformats.testing.loop_over import loop_over

try:
    _native: Any = importlib.import_module("dataformats.kernels._native")
except ImportError:
    _native = None  # test_choice.py fails then, if the compiled kernels were asked for

SUITES = [module for module in (kernels, reference, _native) if module is not None]
GOLDEN = Path(__file__).parents[1] / "golden"
# The header that TensorFlow 2.21.0's TFRecordWriter wrote for a record of 30 bytes.
WRITTEN = bytes.fromhex("1e00000000000000d9dc1232")
RECORDS = [b"first", b"", b"the third record", bytes(40)]

Found = tuple[list[int], list[int], int, int]


def tfrecord(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))


def ofrecord(data: bytes) -> bytes:
    return struct.pack("<q", len(data)) + data


def walk_tfrecords(suite: Any, window: bytes, at: int = 0, room: int = 100) -> Found:
    lengths, footers = np.full(room, -7, np.int64), np.full(room, 7, np.uint32)
    n, stop, why = suite.scan_tfrecord(window, at, lengths, footers)
    assert (lengths[n:] == -7).all()
    assert (footers[n:] == 7).all()
    return lengths[:n].tolist(), footers[:n].tolist(), stop, why


def walk_ofrecords(suite: Any, window: bytes, at: int = 0, room: int = 100) -> Found:
    lengths = np.full(room, -7, np.int64)
    n, stop, why = suite.scan_ofrecord(window, at, lengths)
    assert (lengths[n:] == -7).all()
    return lengths[:n].tolist(), [], stop, why


def plain_walk(window: bytes, at: int, room: int, head: int, tail: int) -> Found:
    """The law, read off the headers."""
    lengths: list[int] = []
    footers: list[int] = []
    while at + head <= len(window):
        (length,) = struct.unpack_from("<Q", window, at)
        if len(lengths) == room:
            return lengths, footers, at, FULL
        fits = not tail or masked_crc32c(window[at : at + 8]) == int.from_bytes(window[at + 8 : at + 12], "little")
        if length > 2**62 or not fits:
            return lengths, footers, at, UNSOUND
        at += head + length + tail
        lengths.append(length)
        if tail:
            footers.append(int.from_bytes(window[at - tail : at], "little") if at <= len(window) else 0)
    return lengths, footers, at, ENDS


@loop_over("suite", SUITES)
def test_whole_frames(suite: Any) -> None:
    window = b"".join(map(tfrecord, RECORDS))
    sizes, stored = [len(data) for data in RECORDS], [masked_crc32c(data) for data in RECORDS]
    assert walk_tfrecords(suite, window) == (sizes, stored, len(window), ENDS)
    assert walk_tfrecords(suite, b"abc" + window, at=3) == (sizes, stored, len(window) + 3, ENDS)
    window = b"".join(map(ofrecord, RECORDS))
    assert walk_ofrecords(suite, window) == (sizes, [], len(window), ENDS)
    assert suite.scan_tfrecord_header(WRITTEN, 0, 30) == 0


@loop_over("suite", SUITES)
def test_cut_at_every_byte(suite: Any) -> None:
    frames = b"".join(map(tfrecord, RECORDS))
    plain = b"".join(map(ofrecord, RECORDS))
    for cut in range(len(frames) + 1):
        assert walk_tfrecords(suite, frames[:cut]) == plain_walk(frames[:cut], 0, 100, 12, 4), cut
    for cut in range(len(plain) + 1):
        assert walk_ofrecords(suite, plain[:cut]) == plain_walk(plain[:cut], 0, 100, 8, 0), cut


@loop_over("suite", SUITES)
def test_every_bit_flipped(suite: Any) -> None:
    for frame, walk, head, tail in ((tfrecord, walk_tfrecords, 12, 4), (ofrecord, walk_ofrecords, 8, 0)):
        content = b"".join(map(frame, RECORDS))
        for bit in range(8 * len(content)):
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            window = bytes(flipped)
            assert walk(suite, window) == plain_walk(window, 0, 100, head, tail), bit


@loop_over("suite", SUITES)
@loop_over("room", [0, 1, 2, 3, 4, 5])
def test_little_room(suite: Any, room: int) -> None:
    window = b"".join(map(tfrecord, RECORDS))
    expected = plain_walk(window, 0, room, 12, 4)
    assert expected[3] == (FULL if room < 4 else ENDS)
    assert walk_tfrecords(suite, window, room=room) == expected
    for records in (RECORDS, [*RECORDS, b""]):  # the last one may be a header alone
        window = b"".join(map(ofrecord, records))
        assert walk_ofrecords(suite, window, room=room) == plain_walk(window, 0, room, 8, 0)


@loop_over("suite", SUITES)
@loop_over("length", [2**31, 2**32 + 5, 2**62 - 1, 2**62, 2**62 + 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_absurd_lengths(suite: Any, length: int) -> None:
    header = struct.pack("<Q", length)
    frame = tfrecord(b"sound") + header + struct.pack("<I", masked_crc32c(header)) + b"data"
    expected = plain_walk(frame, 0, 100, 12, 4)
    assert expected[3] == (ENDS if length <= 2**62 else UNSOUND)
    assert walk_tfrecords(suite, frame) == expected
    assert suite.scan_tfrecord_header(frame, 1, 2**63 - 1) == (len(tfrecord(b"sound")) if length <= 2**62 else -1)
    frame = ofrecord(b"sound") + header + b"data"
    assert walk_ofrecords(suite, frame) == plain_walk(frame, 0, 100, 8, 0)


@loop_over("suite", SUITES)
def test_the_search_for_a_header(suite: Any) -> None:
    noise = np.random.default_rng(0).bytes(70_000)
    window = noise + tfrecord(b"x" * 50) + noise + tfrecord(b"yy")
    first, second = len(noise), 2 * len(noise) + 66
    assert suite.scan_tfrecord_header(window, 0, 1000) == first
    assert suite.scan_tfrecord_header(window, first, 50) == first
    assert suite.scan_tfrecord_header(window, 0, 49) == second
    assert suite.scan_tfrecord_header(window, first + 1, 1000) == second
    assert suite.scan_tfrecord_header(window, second + 1, 1000) == -1
    assert suite.scan_tfrecord_header(window[: second + 11], first + 1, 1000) == -1  # its end is missing
    assert suite.scan_tfrecord_header(window[: second + 12], first + 1, 1000) == second
    assert suite.scan_tfrecord_header(bytes(200_000), 0, 1000) == -1  # zeros are no header
    for at in (len(window), len(window) + 1, 2**63 - 1):
        assert suite.scan_tfrecord_header(window, at, 1000) == -1
        assert walk_tfrecords(suite, window, at) == ([], [], at, ENDS)
        assert walk_ofrecords(suite, window, at) == ([], [], at, ENDS)


@pytest.mark.parametrize("suite", SUITES)
@given(data=st.data())
@settings(deadline=None)
def test_any_bytes(suite: Any, data: st.DataObject) -> None:
    parts = st.one_of(
        st.binary(max_size=40), st.binary(max_size=40).map(tfrecord), st.binary(max_size=40).map(ofrecord)
    )
    window = b"".join(data.draw(st.lists(parts, max_size=8)))
    at, room = data.draw(st.integers(0, len(window) + 3)), data.draw(st.integers(0, 12))
    assert walk_tfrecords(suite, window, at, room) == plain_walk(window, at, room, 12, 4)
    assert walk_ofrecords(suite, window, at, room) == plain_walk(window, at, room, 8, 0)
    sound = [place for place in range(at, len(window)) if plain_walk(window, place, 1, 12, 4)[0]]
    found = [place for place in sound if plain_walk(window, place, 1, 12, 4)[0][0] <= 35]
    assert suite.scan_tfrecord_header(window, at, 35) == (found[0] if found else -1)


@loop_over("suite", SUITES)
def test_golden_files(suite: Any) -> None:
    for path in sorted((GOLDEN / "tfrecord").rglob("*.tfrecord")):
        window = path.read_bytes()
        assert walk_tfrecords(suite, window, room=2000) == plain_walk(window, 0, 2000, 12, 4), path
    for path in sorted((GOLDEN / "ofrecord").rglob("*.ofrecord")):
        window = path.read_bytes()
        assert walk_ofrecords(suite, window, room=2000) == plain_walk(window, 0, 2000, 8, 0), path


@loop_over("suite", SUITES)
def test_scan_refuses_wrong_arguments(suite: Any) -> None:
    lengths, footers = np.zeros(3, np.int64), np.zeros(3, np.uint32)
    for at in (-1, 2**63, -(2**70)):
        with pytest.raises(ValueError, match=rf"^at must be in \[0, 2\*\*63\), found {at}$"):
            suite.scan_tfrecord(b"", at, lengths, footers)
        with pytest.raises(ValueError, match=rf"^at must be in \[0, 2\*\*63\), found {at}$"):
            suite.scan_ofrecord(b"", at, lengths)
        with pytest.raises(ValueError, match=rf"^most must be in \[0, 2\*\*63\), found {at}$"):
            suite.scan_tfrecord_header(b"", 0, at)
    with pytest.raises(ValueError, match=r"^lengths and footers must be equally long, found 2 and 3$"):
        suite.scan_tfrecord(b"", 0, lengths[:2], footers)
    frozen = lengths.copy()
    frozen.flags.writeable = False
    for wrong in (footers, lengths[::2], lengths.reshape(1, 3), lengths.astype(">i8"), frozen):
        with pytest.raises(TypeError, match=r"^lengths must be a writable contiguous int64 array of one dimension$"):
            suite.scan_ofrecord(b"", 0, wrong)
    for wrong in (lengths, footers[::2], footers.astype(np.int32)):
        with pytest.raises(TypeError, match=r"^footers must be a writable contiguous uint32 array of one dimension$"):
            suite.scan_tfrecord(b"", 0, lengths, wrong)
    for wrong_window in ("text", 5, None):
        with pytest.raises(TypeError):
            suite.scan_ofrecord(wrong_window, 0, lengths)
    with pytest.raises(ValueError, match=r"^data must be C-contiguous$"):
        suite.scan_ofrecord(np.zeros(10)[::2], 0, lengths)
    with pytest.raises(TypeError):
        suite.scan_ofrecord(b"", 1.0, lengths)


LINES = [
    b"",
    b"\n",
    b"no end",
    b"a\nbb\r\n\r\n \t\r\n\n\nlast",
    b"\r\n\n\r",
    bytes(range(256)) * 3,
    b"x" * 5000 + b"\n" + b" " * 3000 + b"\n",
]


@loop_over("suite", SUITES)
@loop_over("window", LINES)
def test_scan_lines(suite: Any, window: bytes) -> None:
    """The lines of `bytes.split`, from every place and with any room."""
    for at in sorted({*range(min(20, len(window) + 1)), len(window), len(window) + 5}):
        lines = [line + b"\n" for line in window[at:].split(b"\n")[:-1]]
        for room in (0, 1, 2, 100):
            found, kept = np.zeros(room, np.int64), lines[:room]
            n, stop, n_crlf, n_blank = suite.scan_lines(window, at, found)
            blank = [not line.strip(b" \t\r\n") for line in kept]
            expected = [-len(line) if is_blank else len(line) for line, is_blank in zip(kept, blank, strict=True)]
            assert (n, found[:n].tolist()) == (len(kept), expected)
            assert stop == at + sum(map(len, kept))
            assert (n_crlf, n_blank) == (sum(line.endswith(b"\r\n") for line in kept), sum(blank))


@loop_over("suite", SUITES)
def test_scan_lines_refuses_wrong_arguments(suite: Any) -> None:
    with pytest.raises(ValueError, match=r"^at must be in"):
        suite.scan_lines(b"", -1, np.zeros(1, np.int64))
    with pytest.raises(TypeError, match=r"^lengths must be"):
        suite.scan_lines(b"", 0, np.zeros(1, np.int32))


def plain_json(data: bytes, level: int, depth: int) -> tuple[list[int], int | None]:
    """The ends of values, and where the level is left."""
    ends: list[int] = []
    in_text = is_escaped = False
    for at, byte in enumerate(data.decode("latin-1"), 1):
        if in_text:
            in_text, is_escaped = is_escaped or byte != '"', not is_escaped and byte == "\\"
            continue
        in_text = byte == '"'
        depth += (byte in "[{") - (byte in "]}")
        if byte in "]}" and depth < level:
            return ends, at
        if depth == level and (byte == "," if level else byte in "]}"):
            ends.append(at)
    return ends, None


def walk_json(suite: Any, data: bytes, level: int, size: int, room: int) -> tuple[list[int], int | None]:
    """The same in windows of some bytes, and with little room."""
    state, ends = np.array([level, 0]), list[int]()
    for first in range(0, len(data), size):
        window, at, why = data[first : first + size], 0, FULL
        while why == FULL:
            found = np.full(room, -7)
            n, at, why = suite.scan_json(window, at, level, state, found)
            assert (found[n:] == -7).all()
            ends += (found[:n] + first).tolist()
        if why == CLOSED:
            return ends, first + at
        assert (at, why) == (len(window), ENDS)
    return ends, None


@loop_over("suite", SUITES)
def test_scan_json(suite: Any) -> None:
    """Text, escapes and depth are followed across windows of any size."""
    generator = random.Random(7)
    documents = [bytes(generator.choices(b'[]{},"\\ a\n\xff', k=generator.randrange(40))) for _ in range(100)]
    documents += [json.dumps({"a": [1, {"b": '],"\\'}], "c": "é" * 30}).encode(), b"[" * 3000 + b"]" * 3000]
    for document in documents:
        for level in (0, 1):
            expected = plain_json(document, level, level)
            for size, room in ((10_000, 100), (1, 1), (3, 2), (17, 1)):
                assert walk_json(suite, document, level, size, room) == expected, (document, level, size)


@loop_over("suite", SUITES)
def test_scan_json_refuses_wrong_arguments(suite: Any) -> None:
    state, ends = np.zeros(2, np.int64), np.zeros(1, np.int64)
    for wrong in ([-1, 0], [2**63 - 1, 0], [0, 3], [0, -1], [0], [0, 0, 0]):
        with pytest.raises(ValueError, match=r"^state must be"):
            suite.scan_json(b"", 0, 0, np.array(wrong, np.int64), ends)
    with pytest.raises(TypeError, match=r"^state must be"):
        suite.scan_json(b"", 0, 0, np.zeros(2, np.int32), ends)
    with pytest.raises(TypeError, match=r"^lengths must be"):
        suite.scan_json(b"", 0, 0, state, np.zeros(1, np.int32))
    with pytest.raises(ValueError, match=r"^level must be 0 or 1, found 2"):
        suite.scan_json(b"", 0, 2, state, ends)
    with pytest.raises(ValueError, match=r"^at must be in"):
        suite.scan_json(b"", -1, 0, state, ends)
