"""Indexes kept beside data: our own, which are trusted where they were made of this very file, and hints."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.tfrecord.layout import (
    FOOTER_BYTES,
    FRAMING_BYTES,
    HEADER,
    headers_are_sound,
    words,
)
from dataformats.backends.tfrecord.scan import Frames
from dataformats.backends.tfrecord.text_index import index_names, parse_text_index
from dataformats.batch import Blobs
from dataformats.errors import ChecksumError, FormatError, TruncatedError
from dataformats.interfaces import Extents
from dataformats.storage import sidecar
from dataformats.storage.files import StoredFile
from dataformats.storage.inflate import Inflated
from dataformats.storage.reading import read_blobs

__all__ = ["exact_frames", "hinted_frames", "save_frames"]

_LOG = logging.getLogger("dataformats")
_KIND = "tfrecord"
_BATCH = 4096  # headers read at once; where records are short, what lies between them is read as well
_ERRORS = {kind.__name__: kind for kind in (FormatError, TruncatedError, ChecksumError)}
_FACTS = ("what", "offset_bytes", "remedy")


def exact_frames(file: StoredFile, where: str) -> Frames | None:
    """Return the frames of a file from the index made of it, or `None`.

    Size and time tell that it was; a file that tells no time has only hints.
    """
    lying = _lying(file)
    index = sidecar.load_index(lying, where, _KIND)
    if index is None or not index.exact or len(lying.identity) < 2:
        return None
    try:
        return _parsed(index, file)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        _LOG.warning("ignored the index of %s in %s: %s", file.name, where, error)
        return None


def hinted_frames(file: StoredFile, where: str) -> Frames | None:
    """Return the frames of a file from an index that came with it, each looked at in the file; or `None`."""
    if isinstance(file, Inflated) or file.size == 0:
        return None  # to look at each frame is to go through the file
    for name, lengths in _hints(file, where):
        frames = _proven(file, lengths)
        if frames is not None:
            return frames
        _LOG.warning("ignored the index %s of %s: it does not fit the file", name, file.name)
    return None


def save_frames(file: StoredFile, where: str, frames: Frames) -> None:
    """Keep the frames of a file for the next time."""
    facts = {
        "compression": file.compression if isinstance(file, Inflated) else "none",
        "size": file.size,
        "rest": _told(frames.rest),
        "damage": _told(file.damage) if isinstance(file, Inflated) else None,
    }
    columns = {"length": frames.lengths.astype("<i8"), "crc": frames.stored.astype("<u4")}
    sidecar.save_index(_lying(file), where, _KIND, sidecar.Index(columns, facts))


def _lying(file: StoredFile) -> StoredFile:
    """Return the file as it lies on the disk."""
    return file.compressed if isinstance(file, Inflated) else file


def _parsed(index: sidecar.Index, file: StoredFile) -> Frames:
    lengths, stored = _columns(index)
    facts = index.facts
    compression = file.compression if isinstance(file, Inflated) else "none"
    if facts["compression"] != compression:
        raise ValueError(f"it was made for compression {facts['compression']!r}, not {compression!r}")
    size = int(facts["size"]) if isinstance(file, Inflated) else file.size
    rest = _error(facts["rest"], file.name)
    end = _tiled(lengths, size)
    if end is None or (rest is None and end != size):
        raise ValueError("its records do not fill the file")
    if isinstance(file, Inflated):
        file.known_size(size, _error(facts["damage"], file.name))
    return Frames(lengths, stored, rest)


def _columns(index: sidecar.Index) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    lengths, stored = index.columns["length"], index.columns["crc"]
    if lengths.dtype != np.dtype("<i8") or stored.dtype != np.dtype("<u4") or len(lengths) != len(stored):
        raise ValueError("its columns are not those of a TFRecord")
    return lengths.astype(np.int64, copy=False), stored.astype(np.uint32, copy=False)


def _hints(file: StoredFile, where: str) -> list[tuple[str, NDArray[np.int64]]]:
    """Return the lengths of the records as each index says that is there and can be read."""
    found = []
    for place in dict.fromkeys((where, "beside")):
        index = sidecar.load_index(file, place, _KIND)
        if index is not None and index.facts.get("rest") is None and "length" in index.columns:
            found.append((place, index.columns["length"]))
    for name in index_names(file.basename):
        text = file.sibling(name)
        if text is None:
            continue
        try:
            found.append((text.name, parse_text_index(text, file.size)))
        except ValueError as error:
            _LOG.warning("ignored the index %s of %s: %s", text.name, file.name, error)
    return found


def _tiled(lengths: NDArray[np.int64], size: int) -> int | None:
    """Return where frames of these lengths end, or `None` where they do not lie in `size` bytes."""
    if not len(lengths):
        return 0
    if lengths.dtype != np.dtype(np.int64) or lengths.min() < 0 or lengths.max() > size:
        return None
    ends = np.cumsum(lengths + FRAMING_BYTES)
    if ends.min() < 0 or ends.max() > size:  # a sum past 2**63 turns negative before it turns small
        return None
    return int(ends[-1])


def _proven(file: StoredFile, lengths: NDArray[np.int64]) -> Frames | None:
    """Return the frames of these lengths if they fill the file and each one's header says the same."""
    if _tiled(lengths, file.size) != file.size:
        return None
    sizes = lengths + FRAMING_BYTES
    starts = np.cumsum(sizes) - sizes
    stored = np.empty(len(lengths), np.uint32)
    for first in range(0, len(lengths), _BATCH):
        part = slice(first, first + _BATCH)
        found = _footers_if_sound(file, starts[part], lengths[part])
        if found is None:
            return None
        stored[part] = found
    return Frames(lengths, stored)


def _footers_if_sound(
    file: StoredFile, starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.uint32] | None:
    zero = np.zeros(len(starts), np.int32)
    heads = Extents(zero, starts, np.full(len(starts), HEADER.size, np.int64))
    feet = Extents(zero, starts + HEADER.size + lengths, np.full(len(starts), FOOTER_BYTES, np.int64))
    head, foot = (fetched.blobs for fetched in read_blobs([file], [heads, feet], max_bytes=HEADER.size))
    if not headers_are_sound(head.buffer, head.starts, lengths):
        return None
    return _words(foot)


def _words(blobs: Blobs) -> NDArray[np.uint32]:
    return words(blobs.buffer, blobs.starts, "<u4").astype(np.uint32)


def _told(error: FormatError | None) -> dict[str, Any] | None:
    """Return an error as JSON, without the path, which may be another one when it is read."""
    if error is None:
        return None
    facts = {name: getattr(error, name) for name in _FACTS}
    if isinstance(error, ChecksumError):
        facts |= {"stored": error.stored, "computed": error.computed}
    else:
        facts |= {"expected": _plain(error.expected), "found": _plain(error.found)}
    return {"type": type(error).__name__, **{name: fact for name, fact in facts.items() if fact is not None}}


def _plain(fact: object) -> object:
    return fact if isinstance(fact, (str, int)) or fact is None else repr(fact)


def _error(told: Mapping[str, Any] | None, path: str) -> FormatError | None:
    if told is None:
        return None
    facts = {name: fact for name, fact in told.items() if name not in ("type", "what")}
    return _ERRORS[told["type"]](str(told["what"]), path=path, **facts)
