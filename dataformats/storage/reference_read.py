"""Read the blobs of many extents: checked against the file's size, coalesced, fetched and verified.

This is the reference path: it reads any file without kernels, and reports what is wrong with each blob.
`storage.native.fast_read` is its fast path.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs
from dataformats.errors import FormatError, TruncatedError
from dataformats.interfaces import Extents
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.piece_reads import Piece, fetch

_GAP = 4096
"""Neighbors at most a page apart are read as one: the page is fetched anyway."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """The blobs of one `Extents`.

    Attributes:
        blobs: One blob for each extent; one with a problem is empty.
        problems: Position to error, with the path.
    """

    blobs: Blobs
    problems: dict[int, FormatError]


def read_blobs(files: Sequence[StoredFile], requests: Sequence[Extents], *, max_bytes: int) -> list[Fetched]:
    """Return the blobs of each request, read by one submission.

    Args:
        files: The files that the extents number.
        requests: Extents, such as one for each field.
        max_bytes: A longer blob is a problem, not an allocation.
    """
    if any(request.fetch is not None for request in requests):
        read = iter(read_blobs(files, [one for one in requests if one.fetch is None], max_bytes=max_bytes))
        return [next(read) if one.fetch is None else _fetched(one, files, max_bytes) for one in requests]
    if not requests:
        return []
    sizes = _sizes(files, requests)
    problems = [_problems(request, files, sizes, max_bytes) for request in requests]
    gap = _GAP
    while True:
        sound = [_without(len(request), wrong) for request, wrong in zip(requests, problems, strict=True)]
        try:
            buffer, starts = _fetch_all(files, sizes, requests, sound, gap)
            break
        except FormatError:
            damaged = [_damaged(files, request, valid) for request, valid in zip(requests, sound, strict=True)]
            if not any(damaged) and gap == 0:
                raise
            problems = [wrong | more for wrong, more in zip(problems, damaged, strict=True)]
            gap = 0  # a damaged chunk may lie between two extents
    fetched = []
    for request, wrong, valid, first in zip(requests, problems, sound, starts, strict=True):
        blobs = _blobs(request, valid, buffer, first)
        wrong.update(_failures(request, valid, buffer, first, files))
        fetched.append(Fetched(blobs, wrong))
    return fetched


def _fetched(request: Extents, files: Sequence[StoredFile], max_bytes: int) -> Fetched:
    """Return the blobs that a library reads."""
    assert request.fetch is not None
    blobs, problems = request.fetch(request)
    for row in np.flatnonzero(blobs.lengths > max_bytes).tolist():
        problems[row] = too_long(files[request.file[row]], None, int(blobs.lengths[row]), max_bytes)
    return Fetched(blobs, problems)


def readable_lengths(files: Sequence[StoredFile], extents: Extents) -> NDArray[np.int64]:
    """Return int64[n], the length of each blob; 0 for blobs that are known to be unreadable before they are read."""
    if extents.fetch is not None:
        return extents.length
    length = extents.length.copy()
    length[list(_problems(extents, files, _sizes(files, [extents]), 2**62))] = 0
    return length


def _sizes(files: Sequence[StoredFile], requests: Sequence[Extents]) -> NDArray[np.int64]:
    """Return int64[n_files], the bytes of the files that have the extents; 0 for the others."""
    sizes = np.zeros(len(files), np.int64)
    for number in {number for request in requests for number in _numbers(request)}:
        sizes[number] = files[number].size
    return sizes


def _numbers(request: Extents) -> list[int]:
    """Return the numbers of the files that have its extents."""
    return np.flatnonzero(np.bincount(request.file)).tolist()


def _problems(
    request: Extents, files: Sequence[StoredFile], sizes: NDArray[np.int64], max_bytes: int
) -> dict[int, FormatError]:
    """Return the extents that cannot be read: known problems, outside the file, or too long."""
    room = sizes[request.file] - request.tail
    with np.errstate(over="ignore"):
        outside = (request.length < 0) | (request.offset < request.head) | (request.length > room - request.offset)
    outside |= request.offset > room
    problems: dict[int, FormatError] = {}
    least = min((files[number].most_record_bytes(max_bytes) for number in _numbers(request)), default=max_bytes)
    for row in np.flatnonzero(outside | (request.length > least)).tolist():
        file = files[request.file[row]]
        offset, length = int(request.offset[row]), int(request.length[row])
        if outside[row]:
            expected = f"a record inside {file.size} bytes"
            problems[row] = TruncatedError(
                "a record reaches outside the file",
                path=file.name,
                offset_bytes=offset,
                expected=expected,
                found=f"{length} bytes from byte {offset} on",
            )
        elif length > file.most_record_bytes(max_bytes):
            problems[row] = too_long(file, offset, length, max_bytes)
    return problems | dict(request.problems)


def _damaged(files: Sequence[StoredFile], request: Extents, valid: NDArray[np.int64]) -> dict[int, FormatError]:
    """Return the extents among `valid` that reach into ranges that reads have found damaged."""
    found: dict[int, FormatError] = {}
    begin, end = request.offset - request.head, request.offset + request.length + request.tail
    for number in _numbers(request):
        for damaged, error in files[number].damaged_ranges():
            inside = (request.file == number) & (begin < damaged.stop) & (end > damaged.start) & (end > begin)
            found |= {row: copy(error) for row in valid[inside[valid]].tolist()}
    return found


def too_long(file: StoredFile, offset: int | None, length: int, max_bytes: int) -> FormatError:
    """Return the error of a record that is longer than `file.most_record_bytes(max_bytes)`."""
    most, enough = file.most_record_bytes(max_bytes), length
    while file.most_record_bytes(enough) < length:
        enough *= 2
    compressed = f", a share of max_record_bytes, in {file.stored_size} compressed bytes" if most < max_bytes else ""
    return FormatError(
        "a record is longer than max_record_bytes",
        path=file.name,
        offset_bytes=offset,
        expected=f"<= {most} bytes{compressed}",
        found=f"{length} bytes",
        remedy=f"To read it, call open with max_record_bytes={enough}",
    )


def _without(n: int, problems: dict[int, FormatError]) -> NDArray[np.int64]:
    keep = np.ones(n, bool)
    keep[list(problems)] = False
    return np.flatnonzero(keep)


def _fetch_all(
    files: Sequence[StoredFile],
    sizes: NDArray[np.int64],
    requests: Sequence[Extents],
    sound: Sequence[NDArray[np.int64]],
    gap: int,
) -> tuple[NDArray[np.uint8], list[NDArray[np.int64]]]:
    """Return the buffer with everything, and where in it each sound extent begins (its head included)."""
    # One address space for all files, with gaps between them too wide to be coalesced.
    bases = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes + (_GAP + 1))])
    file = np.concatenate([request.file[valid] for request, valid in zip(requests, sound, strict=True)])
    offset = np.concatenate(
        [request.offset[valid] - request.head for request, valid in zip(requests, sound, strict=True)]
    )
    length = np.concatenate(
        [request.length[valid] + (request.head + request.tail) for request, valid in zip(requests, sound, strict=True)]
    )
    start = bases[file] + offset
    order = np.argsort(start, kind="stable")
    run_of, run_start, run_stop = _runs(start[order], (start + length)[order], gap)
    run_length = run_stop - run_start
    run_place = np.cumsum(run_length) - run_length
    buffer = np.empty(int(run_length.sum()), np.uint8)
    run_file = np.searchsorted(bases, run_start, side="right") - 1
    pieces = [
        Piece(files[number], place_in_file, place, size)
        for number, place_in_file, place, size in zip(
            run_file.tolist(),
            (run_start - bases[run_file]).tolist(),
            run_place.tolist(),
            run_length.tolist(),
            strict=True,
        )
    ]
    fetch(pieces, buffer.data)
    places = np.empty(len(start), np.int64)
    places[order] = run_place[run_of] + start[order] - run_start[run_of]
    buffer.flags.writeable = False
    return buffer, np.split(places, np.cumsum([len(valid) for valid in sound])[:-1])


def _runs(
    start: NDArray[np.int64], stop: NDArray[np.int64], gap: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return (run of each extent, start and stop of each run) of extents sorted by start, at most `gap` bytes apart."""
    if len(start) == 0:
        return start, start, start
    reach = np.maximum.accumulate(stop)
    first = np.concatenate([np.ones(1, bool), start[1:] > reach[:-1] + gap])
    begins = np.flatnonzero(first)
    ends = np.concatenate([begins[1:], [len(start)]]) - 1
    return np.cumsum(first) - 1, start[begins], reach[ends]


def _blobs(request: Extents, valid: NDArray[np.int64], buffer: NDArray[np.uint8], first: NDArray[np.int64]) -> Blobs:
    starts, lengths = np.zeros(len(request), np.int64), np.zeros(len(request), np.int64)
    starts[valid] = first + request.head
    lengths[valid] = request.length[valid]
    return Blobs(buffer, starts, lengths)


def _failures(
    request: Extents,
    valid: NDArray[np.int64],
    buffer: NDArray[np.uint8],
    first: NDArray[np.int64],
    files: Sequence[StoredFile],
) -> dict[int, FormatError]:
    if request.check is None or len(valid) == 0:
        return {}
    whole = len(valid) == len(request)
    extents = request if whole else _subset(request, valid)
    frames = Blobs(buffer, first, extents.length + (request.head + request.tail))
    found = {}
    for row, error in request.check(frames, extents).items():
        error.path = files[extents.file[row]].name
        found[int(valid[row])] = error
    return found


def _subset(request: Extents, valid: NDArray[np.int64]) -> Extents:
    return Extents(
        request.file[valid],
        request.offset[valid],
        request.length[valid],
        request.head,
        request.tail,
        None if request.stored is None else request.stored[valid],
        request.check,
    )
