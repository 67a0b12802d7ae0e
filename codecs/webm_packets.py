"""Find the packets of a WebM or Matroska file by its blocks: RFC 9559, 5.1.3.

A file is in doubt if its blocks have several frames or are encoded otherwise, or if it is not of one segment whose
parts have known sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from dataformats.codecs.video_packets import DoubtError, StoredPackets, Tracks, listed

_SEGMENT, _TRACKS, _CLUSTER = bytes.fromhex("18538067"), bytes.fromhex("1654ae6b"), bytes.fromhex("1f43b675")
_ATTACHMENTS = bytes.fromhex("1941a469")  # FFmpeg counts them as streams, but not all tracks
_TRACK, _NUMBER, _ENCODINGS = b"\xae", b"\xd7", b"\x6d\x80"
_NO_TIMES = b"V_MS/"  # codecs of AVI: a block has the time of its decoding
_TIME, _SIMPLE_BLOCK, _GROUP, _BLOCK, _REFERENCE, _ENCRYPTED = b"\xe7", b"\xa3", b"\xa0", b"\xa1", b"\xfb", b"\xaf"
_NUMBERS, _MAX_BYTES = (_REFERENCE, b"\x9b", b"\x75\xa2"), 8  # in a group; FFmpeg leaves it out if one is longer
_IS_KEY, _LACING = 0x80, 0x06  # flags of a block
_MAX_PARTS = 2**16
_ONE_BYTE, _MAX_TRACKS = 0x80, 126  # a larger number of a track has 2 bytes in each block


def element_size(blob: bytes, offset: int) -> tuple[int | None, int]:
    """Return the size (`None`: unknown) of an element, which is stored at this byte, and the offset of its data.

    Raises:
        ValueError: There is no such size.
    """
    first = blob[offset] if offset < len(blob) else 0
    width = 9 - first.bit_length()
    if width > 8 or offset + width > len(blob):
        raise ValueError(f"expected the size of an element at byte {offset}")
    mask = (1 << 7 * width) - 1
    size = int.from_bytes(blob[offset : offset + width], "big") & mask
    return (None if size == mask else size), offset + width


def webm_tracks(blob: bytes) -> Tracks:
    """Return the file without its blocks, and a function for each track that finds its packets.

    Raises:
        DoubtError: The packets may not be as the blocks say.
    """
    _, (name, at, stop) = _elements(blob, 0, len(blob))
    parts = listed(_elements(blob, at, stop), _MAX_PARTS)
    clusters = [place for part, *place in parts if part == _CLUSTER]
    ((at, stop),) = (place for part, *place in parts if part == _TRACKS)
    tracks = [
        _places(blob, *place) for part, *place in listed(_elements(blob, at, stop), _MAX_TRACKS) if part == _TRACK
    ]
    header = blob[: clusters[0][0]]
    if name != _SEGMENT or any(_ENCODINGS in track for track in tracks) or _NO_TIMES in header:
        raise DoubtError
    if any(part == _ATTACHMENTS for part, *_ in parts):
        raise DoubtError
    numbers = [_integer(blob, *track[_NUMBER]) for track in tracks]
    return header, [partial(_packets, blob, clusters, numbers, number) for number in numbers]


def _packets(blob: bytes, clusters: list[list[int]], known: list[int], number: int, most: int) -> StoredPackets:
    blocks = (block for place in clusters for block in _blocks(blob, *place))
    rows = np.array(listed(blocks, most), np.int64).reshape(-1, 4)
    data = np.frombuffer(blob, np.uint8)
    numbers = data[rows[:, 0]].astype(np.int64) - _ONE_BYTE
    if max(known) > _MAX_TRACKS or not np.isin(numbers, known).all():
        raise DoubtError
    begin, end, times, is_key = rows[numbers == number].T
    times = times + (data[begin + 1].astype(np.int8).astype(np.int64) << 8) + data[begin + 2]
    if (times < 0).any() or (data[begin + 3] & _LACING).any():
        raise DoubtError
    return StoredPackets(times, begin + 4, end - begin - 4, is_key > 0)


def _blocks(blob: bytes, at: int, stop: int) -> Iterator[tuple[int, int, int, bool]]:
    """Yield the begin and the end of each block, the time of its cluster, and if it is a keyframe."""
    time: int | None = None
    for name, begin, end in _elements(blob, at, stop):
        if name == _SIMPLE_BLOCK and time is not None:
            yield begin, end, time, blob[begin + 3] >= _IS_KEY
        elif name == _GROUP and time is not None:
            group = _group(blob, begin, end)
            yield *group[_BLOCK], time, _REFERENCE not in group
        elif name == _TIME and time is None:
            time = _integer(blob, begin, end)
        elif name in (_SIMPLE_BLOCK, _GROUP, _TIME, _ENCRYPTED):
            raise DoubtError


def _group(blob: bytes, at: int, stop: int) -> dict[bytes, tuple[int, int]]:
    """Return the places of a group's block and of numbers."""
    found = {}
    for name, begin, end in _elements(blob, at, stop):
        if name != _BLOCK and (name not in _NUMBERS or end - begin > _MAX_BYTES):
            raise DoubtError
        found[name] = begin, end
    return found


def _elements(blob: bytes, at: int, stop: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the identifier of each element, and the begin and the end of its data: RFC 8794."""
    while at < stop:
        sized = at + 9 - blob[at].bit_length()
        size, begin = element_size(blob, sized)
        if sized - at > 4 or size is None or begin + size > stop:
            raise DoubtError
        yield blob[at:sized], begin, begin + size
        at = begin + size


def _places(blob: bytes, at: int, stop: int) -> dict[bytes, tuple[int, int]]:
    return {name: (begin, end) for name, begin, end in _elements(blob, at, stop)}


def _integer(blob: bytes, begin: int, end: int) -> int:
    if end - begin > _MAX_BYTES:
        raise DoubtError
    return int.from_bytes(blob[begin:end], "big")
