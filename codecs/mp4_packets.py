"""Find the packets of an MP4 by its sample tables: ISO/IEC 14496-12, 8.

A file is in doubt if FFmpeg could leave out packets, or show them in another order: with fragments, edit lists that
drop frames, samples of several descriptions, or tables that do not fit each other.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dataformats.codecs.video_packets import DoubtError, StoredPackets, Tracks, listed

Boxes = dict[bytes, tuple[int, int]]

_BOX = struct.Struct(">I4s")  # size with this header, type: ISO/IEC 14496-12, 4.2; size 1: 64 bits follow; 0: the rest
_PARENTS, _DEPTH = (b"mdia", b"minf", b"dinf", b"stbl", b"edts"), 3
_SAMPLES = (b"stts", b"ctts", b"stsc", b"stsz", b"stco", b"co64", b"stss")
_USED = (*_SAMPLES, b"mvhd", b"mdhd", b"dref", b"stsd", b"elst")
_SOUGHT = (*_USED, b"trak", b"mvex", b"stz2")  # FFmpeg reads them in any box that may have others, such as `udta`
_TOP = (b"moov", b"mdat", b"free", b"skip", b"wide", b"uuid")
_OWN_DATA = bytes.fromhex("00000000 00000001 0000000c 75726c20 00000001")  # the content of `dref`: packets in this file
_MAX_BOXES = 1000
_MAX_SHIFT = 2**28  # FFmpeg ignores `ctts` if it shifts by more


def mp4_boxes(blob: bytes, at: int, stop: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the name of each box, and the begin and the end of its content.

    Raises:
        ValueError: The boxes do not add up.
    """
    while at < stop:
        if at + _BOX.size > stop:
            raise ValueError("the MP4 is truncated")
        size, name = _BOX.unpack_from(blob, at)
        begin = at + _BOX.size
        if size == 1:
            size, begin = int.from_bytes(blob[begin : begin + 8], "big"), begin + 8
        elif size == 0:
            size = stop - at
        if size < begin - at or size > stop - at:
            raise ValueError(f"expected at most {stop - at} bytes of box {name!r} at byte {at}, found {size}")
        at += size
        yield name, begin, at


def mp4_tracks(blob: bytes) -> Tracks:
    """Return the file without its packets, and for each track a function that finds them.

    Raises:
        DoubtError: FFmpeg may read the packets in another way.
    """
    (first, _, size), *others = listed(mp4_boxes(blob, 0, len(blob)), _MAX_BOXES)
    names = [name for name, *_ in others]
    if first != b"ftyp" or names.count(b"moov") != 1 or not set(names) <= set(_TOP):
        raise DoubtError
    _, begin, end = others[names.index(b"moov")]
    movie = _collected(blob, begin, end, {}, 0)
    places = [place for name, *place in listed(mp4_boxes(blob, begin, end), _MAX_BOXES) if name == b"trak"]
    tracks = [_collected(blob, at, stop, movie.copy(), _DEPTH) for at, stop in places]
    header = bytearray(blob[begin:end])
    if sum(map(header.count, _SOUGHT)) != len(movie) + sum(1 + len(track) - len(movie) for track in tracks):
        raise DoubtError
    for at, stop in (track[name] for track in tracks for name in _SAMPLES if name in track):
        header[at + 4 - begin : min(at + 12, stop) - begin] = bytes(min(8, stop - at - 4))  # no entries
    moov = _BOX.pack(_BOX.size + len(header), b"moov") + header
    return blob[:size] + moov, [partial(_packets, blob, track) for track in tracks]


def _collected(blob: bytes, at: int, stop: int, found: Boxes, depth: int) -> Boxes:
    """Return the places of the used boxes, with those in others."""
    for name, begin, end in mp4_boxes(blob, at, stop):
        if depth and name in _PARENTS:
            _collected(blob, begin, end, found, depth - 1)
        elif name in _USED:
            if name in found:
                raise DoubtError
            found[name] = begin, end
    return found


def _packets(blob: bytes, boxes: Boxes, most: int) -> StoredPackets:
    begin, end = boxes[b"dref"]
    n, size = _number(blob, boxes[b"stsz"], 8), _number(blob, boxes[b"stsz"], 4)
    if blob[begin:end] != _OWN_DATA or _number(blob, boxes[b"stsd"], 4) != 1 or not 0 < n <= most:
        raise DoubtError
    sizes = np.full(n, size) if size else _rows(blob, boxes[b"stsz"], ">u4", 1, skip=8)[:, 0]
    steps = _spread(blob, boxes[b"stts"], n)
    shifts = _spread(blob, boxes[b"ctts"], n) if b"ctts" in boxes else np.zeros(n, np.int64)
    times = steps.cumsum() - steps + shifts
    is_key = np.full(n, b"stss" not in boxes)
    if b"stss" in boxes:
        is_key[_rows(blob, boxes[b"stss"], ">u4", 1) - 1] = True
    if steps.min() < 0 or abs(shifts).max() > _MAX_SHIFT:
        raise DoubtError
    if b"elst" in boxes:
        # After a keyframe that lasts longer than the edit, FFmpeg reads no more, or with `ctts` up to one more.
        end, ends = _edit_end(blob, boxes, times[0]), (times + steps)[:-1][is_key[:-1]]
        if shifts.min() < 0 or times.max() >= end or (ends >= end).sum() > (b"ctts" in boxes):
            raise DoubtError
    return StoredPackets(times, _offsets(blob, boxes, sizes), sizes, is_key)


def _edit_end(blob: bytes, boxes: Boxes, first: int) -> int:
    """Return when the edit list ends: one edit at normal speed, perhaps after a pause, that begins with a time."""
    at, stop = boxes[b"elst"]
    edits = list(struct.iter_unpack(">Qqi" if blob[at] else ">Iii", blob[at + 8 : stop]))
    (duration, *edit), *others = edits[edits[0][1] == -1 :]
    scale, ticks = (_number(blob, place, 20 if blob[place[0]] else 12) for place in (boxes[b"mvhd"], boxes[b"mdhd"]))
    n = _number(blob, boxes[b"elst"], 4)
    if others or n != len(edits) or edit != [first, 2**16] or not 0 < max(scale, ticks) < 2**31:
        raise DoubtError
    return first + (2 * int(duration) * ticks + scale) // (2 * scale)


def _offsets(blob: bytes, boxes: Boxes, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the packets begin: one after the other in each chunk."""
    wide = b"co64" in boxes
    if wide and b"stco" in boxes:
        raise DoubtError
    chunks = _rows(blob, boxes[b"co64" if wide else b"stco"], ">u8" if wide else ">u4", 1)[:, 0]
    first, counts, kind = _rows(blob, boxes[b"stsc"], ">u4", 3).T  # a row is a run of equal chunks
    n_chunks = np.diff(first, append=len(chunks) + 1)
    if first[0] != 1 or min(n_chunks.min(), counts.min()) < 1 or (kind != 1).any() or n_chunks @ counts != len(sizes):
        raise DoubtError
    counts = np.repeat(counts, n_chunks)
    before = sizes.cumsum() - sizes
    return np.repeat(chunks - before[counts.cumsum() - counts], counts) + before


def _number(blob: bytes, place: tuple[int, int], skip: int) -> int:
    return int.from_bytes(blob[place[0] + skip : place[0] + skip + 4], "big")


def _rows(blob: bytes, place: tuple[int, int], form: str, width: int, skip: int = 4) -> NDArray[np.int64]:
    """Return the entries of a box, which follow their count."""
    found = np.frombuffer(blob[place[0] + skip + 4 : place[1]], form)
    n = width * _number(blob, place, skip)
    if n > len(found):
        raise DoubtError
    return found[:n].reshape(-1, width).astype(np.int64)


def _spread(blob: bytes, place: tuple[int, int], n: int) -> NDArray[np.int64]:
    """Return a number for each packet: a box has counts and numbers."""
    counts, numbers = _rows(blob, place, ">i4", 2).T
    if counts.min() < 0 or counts.sum() != n:
        raise DoubtError
    return np.repeat(numbers, counts)
