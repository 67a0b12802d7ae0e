"""Goes through a file from its beginning, without an index."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.tfrecord.layout import (
    FRAMING_BYTES,
    HEADER,
    Walk,
    cut_short,
    data_problems,
    no_frame,
    walk,
)
from dataformats.backends.tfrecord.scan import damage_at, read_window
from dataformats.batch import Blobs
from dataformats.errors import FormatError
from dataformats.interfaces import Stretch
from dataformats.storage.files import StoredFile
from dataformats.storage.inflate import Inflated

__all__ = ["stream"]

_WINDOW = 2 * 2**20
_FIRST_WINDOW = 2**17  # whoever wants a few records does not wait for many


def stream(file: StoredFile, *, verify_checksums: bool) -> Iterator[Stretch]:
    """Yield the records of a file in order; the blobs are views of the windows that were read.

    A window holds whole frames and the beginning of one more, which is copied to the front of the next one.
    Room for a frame larger than a window is made only where the size of the file says that it is there.
    """
    base, carry, want, usual = 0, np.zeros(0, np.uint8), _FIRST_WINDOW, _FIRST_WINDOW
    while True:
        window, ended = _extended(file, base, carry, want)
        found = walk(window, 0, base, file.name)
        whole = int(np.count_nonzero(found.ends <= len(window)))
        stop = int(found.ends[whole - 1]) if whole else 0
        problem = found.problem or _problem(file, found, whole, base, len(window), ended)
        stretch = _stretch(window, found, whole, base, verify_checksums, file.name, problem)
        if len(stretch.blobs):
            yield stretch
        if problem or ended:
            return
        carry, base = window[stop:], base + stop
        usual = min(2 * usual, _WINDOW)
        want = max(usual, _missing_bytes(file, found, whole, len(carry)))


def _extended(file: StoredFile, base: int, carry: NDArray[np.uint8], want: int) -> tuple[NDArray[np.uint8], bool]:
    """Return a new window, `carry` and what follows it in the file; and True where the file ends with it."""
    offset = base + len(carry)
    if not isinstance(file, Inflated):
        want = max(0, min(want, file.size - offset))
    if not len(carry):
        window = read_window(file, offset, want)
        n = len(window)
    else:
        window = np.empty(len(carry) + want, np.uint8)
        window[: len(carry)] = carry
        n = file.read_into(offset, window.data[len(carry) :]) if want else 0
    window = window[: len(carry) + n]
    window.flags.writeable = False
    return window, n < want if isinstance(file, Inflated) else offset + n >= file.size


def _problem(file: StoredFile, found: Walk, whole: int, base: int, n_bytes: int, ended: bool) -> FormatError | None:
    """Return why the file cannot be read on, where it cannot."""
    stop = int(found.ends[whole - 1]) if whole else 0
    rest: FormatError | None = None
    if whole < len(found.starts):
        length = int(found.lengths[whole])
        announced = base + stop + length + FRAMING_BYTES
        if ended or (not isinstance(file, Inflated) and announced > file.size):
            rest = cut_short(base + stop, length, file.size, file.name)
    elif ended and stop < n_bytes:
        rest = no_frame(base + stop, n_bytes - stop, file.name)
    return damage_at(file, base + stop, rest) if ended else rest


def _missing_bytes(file: StoredFile, found: Walk, whole: int, n_carried: int) -> int:
    if whole == len(found.starts):
        return 0
    missing = int(found.lengths[whole]) + FRAMING_BYTES - n_carried
    if isinstance(file, Inflated):
        missing = min(missing, n_carried)  # twice as much each time
    return missing


def _stretch(
    window: NDArray[np.uint8],
    found: Walk,
    whole: int,
    base: int,
    verify_checksums: bool,
    path: str,
    problem: FormatError | None,
) -> Stretch:
    starts, lengths = found.starts[:whole], found.lengths[:whole]
    blobs = Blobs(window, starts + HEADER.size, lengths)
    problems = data_problems(blobs, starts + base) if verify_checksums else {}
    for error in problems.values():
        error.path = path
    if problem is not None:
        problems[whole] = problem
        zero = np.zeros(1, np.int64)
        blobs = Blobs(window, np.concatenate([blobs.starts, zero]), np.concatenate([lengths, zero]))
    return Stretch(blobs, problems)
