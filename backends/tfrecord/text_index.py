"""The text indexes of the `tfrecord` package: a line a record, its offset and its length with framing."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.framed.index import Hint
from dataformats.backends.tfrecord.layout import FRAMING_BYTES
from dataformats.backends.tfrecord.scan import scan
from dataformats.backends.tfrecord.sniff import decompressed
from dataformats.errors import FormatError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage import atomic
from dataformats.storage.files import LocalFile
from dataformats.storage.gzip_file import DecompressedFile

__all__ = ["index_names", "parse_text_index", "text_hints", "write_text_index"]

_LOG = logging.getLogger("dataformats")
_DIGITS = 19  # of the largest int64
_LINE_BYTES = 2 * _DIGITS + 3


def write_text_index(file: StoredFile | str | os.PathLike[str], out: str | os.PathLike[str]) -> int:
    """Write the index that the `tfrecord` package reads; return the number of records.

    Args:
        file: A TFRecord that is not compressed.
        out: The index, `NAME.index` by that package's custom.

    Raises:
        FormatError: The file is compressed, or damaged: its index would hide that.
    """
    stored = file if isinstance(file, StoredFile) else LocalFile(Path(file))
    plain = decompressed(stored, "auto")
    if isinstance(plain, DecompressedFile):
        raise FormatError("a compressed file has no offsets to jump to", path=stored.name)
    frames = scan(plain)
    if frames.rest is not None:
        raise frames.rest
    sizes = frames.lengths + FRAMING_BYTES
    ends = frames.ends.tolist()
    lines = [f"{end - size} {size}\n" for end, size in zip(ends, sizes.tolist(), strict=True)]
    atomic.write_bytes(Path(out), "".join(lines).encode())
    return len(lines)


def index_names(name: str) -> list[str]:
    """Return the names that the index of a file may have: with `.index` appended, or as its suffix."""
    stem, dot, _ = name.rpartition(".")
    return [f"{name}.index", f"{stem}.index"] if dot and stem else [f"{name}.index"]


def text_hints(file: StoredFile) -> Iterator[Hint]:
    """Yield what each index beside a file says that can be read."""
    for name in index_names(file.basename):
        text = file.sibling(name)
        if text is None:
            continue
        try:
            yield text.name, parse_text_index(text, file.size)
        except ValueError as error:
            _LOG.warning("ignored the index %s of %s: %s", text.name, file.name, error)


def parse_text_index(index: StoredFile, size: int) -> NDArray[np.int64]:
    """Return the lengths of a file's records, without framing, int64[n]; the file itself is not looked at.

    Args:
        index: The text.
        size: The size of the data, which bounds that of the index.

    Raises:
        ValueError: The text is no index of a file of that size.
    """
    text = index.read_all(_LINE_BYTES * (size // FRAMING_BYTES + 1))
    if text.translate(None, b"0123456789 \t\r\n"):
        raise ValueError("it holds more than numbers")
    numbers = text.split()
    if len(numbers) % 2 or max(map(len, numbers), default=0) > _DIGITS:
        raise ValueError("its lines are not pairs of an offset and a length")
    pairs = np.array([int(number) for number in numbers], np.int64).reshape(-1, 2)
    lengths = pairs[:, 1] - FRAMING_BYTES
    if not np.array_equal(np.cumsum(pairs[:, 1]) - pairs[:, 1], pairs[:, 0]):
        raise ValueError("its records do not follow one another")
    return np.ascontiguousarray(lengths)
