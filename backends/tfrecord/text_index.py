"""The text indexes of the `tfrecord` package: one line per record, with the offset and length of its frame."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.framed.file_scan import scan
from dataformats.backends.framed.frame_index import Hint
from dataformats.backends.tfrecord.compression import decompress_file
from dataformats.backends.tfrecord.layout import FRAMING, FRAMING_BYTES
from dataformats.errors import FormatError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage import atomic
from dataformats.storage.files import LocalFile

_DIGITS = 19  # digits of the largest int64
_LINE_BYTES = 1024  # far more than two numbers need
_READ = 2**18


def write_text_index(file: StoredFile | str | os.PathLike[str], out: str | os.PathLike[str]) -> int:
    """Write a text index for the `tfrecord` package; return the number of records.

    Args:
        file: An uncompressed TFRecord.
        out: The index; that package looks for `NAME.index`.

    Raises:
        FormatError: The file is compressed, or damaged: an index would hide the damage.
    """
    stored = file if isinstance(file, StoredFile) else LocalFile(Path(file))
    plain = decompress_file(stored, "auto")
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
    """Return the possible names of a file's index: `.index` appended, or `.index` or `.tfindex` as the suffix."""
    stem, dot, _ = name.rpartition(".")
    return [f"{name}.index", *([f"{stem}.index", f"{stem}.tfindex"] if dot and stem else [])]


def text_hints(file: StoredFile) -> Iterator[Hint]:
    """Yield the hint of each text index beside a file."""
    for name in index_names(file.basename):
        text = file.file_beside(name)
        if text is not None:
            yield text.name, parse_text_index(text)


def parse_text_index(index: StoredFile) -> Iterator[NDArray[np.int64]]:
    """Yield the lengths of records, without framing, int64[n], n > 0, for each 256 KB of the text.

    Raises:
        ValueError: It is not such an index.
        OverflowError: A number is larger than int64.
    """
    end, rest = 0, b""
    for at in range(0, index.size, _READ):
        *lines, rest = (rest + index.pread(at, _READ)).split(b"\n")
        if at + _READ >= index.size:
            lines.append(rest)
        pairs = np.array([_numbers(line) for line in lines if line.strip()], np.int64).reshape(-1, 2)
        if len(rest) > _LINE_BYTES or not np.array_equal(end + np.cumsum(pairs[:, 1]) - pairs[:, 1], pairs[:, 0]):
            raise ValueError("expected lines of an offset and a length, of records back to back")
        if len(pairs):
            end = int(pairs[-1].sum())
            yield pairs[:, 1] - FRAMING_BYTES


def _numbers(line: bytes) -> list[int]:
    numbers = line.split()
    if len(numbers) != 2 or not all(len(number) <= _DIGITS and number.isdigit() for number in numbers):
        raise ValueError("expected lines of an offset and a length")
    return [int(number) for number in numbers]
