"""The text indexes of the `tfrecord` package: one line per record, with the offset and length of its frame."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.framed.file_scan import scan
from dataformats.backends.framed.frame_index import Hint
from dataformats.backends.tfrecord.compression import decompressed
from dataformats.backends.tfrecord.layout import FRAMING, FRAMING_BYTES
from dataformats.errors import FormatError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage import atomic
from dataformats.storage.files import LocalFile

__all__ = ["index_names", "parse_text_index", "text_hints", "write_text_index"]

_LOG = logging.getLogger("dataformats")
_DIGITS = 19  # of the largest int64
_LINE_BYTES = 2 * _DIGITS + 3


def write_text_index(file: StoredFile | str | os.PathLike[str], out: str | os.PathLike[str]) -> int:
    """Write a text index for the `tfrecord` package; return the number of records.

    Args:
        file: An uncompressed TFRecord.
        out: The index; that package looks for `NAME.index`.

    Raises:
        FormatError: The file is compressed, or damaged: an index would hide the damage.
    """
    stored = file if isinstance(file, StoredFile) else LocalFile(Path(file))
    plain = decompressed(stored, "auto")
    if plain.is_compressed:
        raise FormatError("a text index needs an uncompressed file", path=stored.name, found=plain.compression)
    frames = scan(FRAMING, plain)
    if frames.rest is not None:
        raise frames.rest
    sizes = frames.lengths + FRAMING_BYTES
    ends = frames.ends.tolist()
    lines = [f"{end - size} {size}\n" for end, size in zip(ends, sizes.tolist(), strict=True)]
    atomic.write_bytes(Path(out), "".join(lines).encode())
    return len(lines)


def index_names(name: str) -> list[str]:
    """Return the possible names of a file's index: with `.index` appended, or in place of the suffix."""
    stem, dot, _ = name.rpartition(".")
    return [f"{name}.index", f"{stem}.index"] if dot and stem else [f"{name}.index"]


def text_hints(file: StoredFile) -> Iterator[Hint]:
    """Yield the hint of each readable text index beside a file."""
    for name in index_names(file.basename):
        text = file.sibling(name)
        if text is None:
            continue
        try:
            yield text.name, parse_text_index(text, file.size)
        except ValueError as error:
            _LOG.warning("ignored the index %s of %s: %s", text.name, file.name, error)


def parse_text_index(index: StoredFile, size: int) -> NDArray[np.int64]:
    """Return the lengths of a file's records, without framing, int64[n]; does not read the file itself.

    Args:
        index: The text index.
        size: Bytes of the data, which bound the size of the index.

    Raises:
        ValueError: It is not the index of a file of that size.
    """
    text = index.read_all(_LINE_BYTES * (size // FRAMING_BYTES + 1))
    if text.translate(None, b"0123456789 \t\r\n"):
        raise ValueError("expected only numbers")
    numbers = text.split()
    if len(numbers) % 2 or max(map(len, numbers), default=0) > _DIGITS:
        raise ValueError("expected lines of an offset and a length")
    pairs = np.array([int(number) for number in numbers], np.int64).reshape(-1, 2)
    lengths = pairs[:, 1] - FRAMING_BYTES
    if not np.array_equal(np.cumsum(pairs[:, 1]) - pairs[:, 1], pairs[:, 0]):
        raise ValueError("expected records back to back")
    return np.ascontiguousarray(lengths)
