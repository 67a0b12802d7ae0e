"""The pages of a column of a row group: how many bytes they have in memory, by their headers, as pyarrow decodes them.

The source of the numbers of fields is `parquet.thrift` of Apache Parquet: PageHeader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dataformats.backends.tables.parquet_footer import read_struct
from dataformats.batch.to_arrow import pyarrow
from dataformats.interfaces import StoredFile
from dataformats.storage.file_object import FileObject

_FACTS = {0: (5, 2), 2: (7, 2), 3: (8, 4)}  # types of pages: the field of their facts, and of the encoding among them
_DICTIONARY, _PLAIN, _CODED = 2, 0, (2, 8)
_ENTRY_BYTES = 20  # pyarrow adds them to each text of a dictionary
_MAX_HEADER_BYTES = 2**24  # the limit of pyarrow
_MAX_WALKED_BYTES, _MAX_STEPS = 2**22, 2**12
_PADDING = 100  # pyarrow reads so many more for parquet-mr: old versions state too few


class Pages(NamedTuple):
    """The pages of a column of a row group."""

    n_bytes: int  # decompressed, with places for the texts of the dictionary
    n_coded: int  # values that are numbers of texts in the dictionary
    is_plain: bool  # True if pyarrow can read all of them as a dictionary
    dictionary: bytes  # compressed
    dictionary_bytes: int  # decompressed


class ColumnChunks(FileObject):
    """The bytes of columns of a row group, fetched at once: pyarrow reads no others.

    Args:
        file: The file.
        chunks: The columns in pyarrow's footer.
        created_by: The program that wrote the file.
    """

    def __init__(self, file: StoredFile, chunks: Sequence[Any], created_by: str) -> None:
        super().__init__(file)
        starts = [min(of.dictionary_page_offset or of.data_page_offset, of.data_page_offset) for of in chunks]
        lengths = [of.total_compressed_size for of in chunks]
        if min([*starts, *lengths], default=0) < 0 or sum(lengths) > file.size:
            raise ValueError(f"columns of {sum(lengths)} bytes in a file of {file.size}")
        padding = _PADDING * ("parquet-mr" in created_by.lower())
        self.found = file.pread_many([(start, n + padding) for start, n in zip(starts, lengths, strict=True)])
        self._at: dict[int, bytes] = dict(zip(starts, self.found, strict=True))

    def read(self, size: int = -1) -> bytes:
        return self._at[self._position][:size]


def pages_of(chunk: bytes, n_values: int) -> Pages:
    """Return the pages of a column of so many values.

    Raises:
        ValueError: A header is damaged.
    """
    view, at, n_bytes, n_read, n_coded, is_plain = memoryview(chunk), 0, 0, 0, 0, True
    dictionary, dictionary_bytes = b"", 0
    try:
        while n_read < n_values and at < len(chunk):
            header, n_header = read_struct(view[at : at + _MAX_HEADER_BYTES], 0)
            kind, length, stored = header[1], header[2], header[3]
            field, encoding_field = _FACTS.get(kind, (0, 0))
            facts = header[field] if field else {1: 0, 0: 0}  # pyarrow skips other pages
            if not isinstance(facts, dict):
                raise TypeError
            n, encoding, begin = facts[1], facts[encoding_field], at + n_header
            at = begin + stored
            numbers = kind, length, stored, n, encoding
            if not 0 <= min(numbers) <= max(numbers) < 2**31 or at > len(chunk) or (kind == _DICTIONARY and dictionary):
                raise ValueError(f"a page of {n} values, {length} bytes, and {stored} bytes in the file")
            n_bytes += max(length, stored)
            if kind == _DICTIONARY:
                dictionary, dictionary_bytes, n_bytes = chunk[begin:at], length, n_bytes + _ENTRY_BYTES * n
            elif field:
                n_read, n_coded = n_read + n, n_coded + n * (encoding in _CODED)
                is_plain = is_plain and encoding in (_PLAIN, *_CODED)
        if n_read > n_values:
            raise ValueError(f"pages of {n_read} values in a column of {n_values}")
    except (IndexError, KeyError, TypeError) as error:
        raise ValueError("the header of a page is damaged") from error
    return Pages(n_bytes, n_coded, is_plain, dictionary, dictionary_bytes)


def repeated_bytes(pages: Pages, compression: str, most: int) -> int:
    """Return how many bytes the texts that a dictionary repeats have at most; above `most`, by the longest text."""
    n_bytes = pages.n_coded * max(pages.dictionary_bytes, len(pages.dictionary))
    return pages.n_coded * _longest_text(pages, compression) if n_bytes > most else n_bytes


def _longest_text(pages: Pages, compression: str) -> int:
    """Return the bytes of the longest text of a dictionary, or all its bytes if the search takes too long."""
    page, n_bytes = pages.dictionary, max(pages.dictionary_bytes, len(pages.dictionary))
    try:
        if compression != "UNCOMPRESSED" and n_bytes <= _MAX_WALKED_BYTES:
            codec = "lz4_raw" if compression == "LZ4" else compression.lower()
            page = pyarrow().decompress(page, pages.dictionary_bytes, codec=codec, asbytes=True)
    except (pyarrow().ArrowException, OSError, ValueError):  # damaged, or LZ4 of Hadoop
        return n_bytes
    if len(page) > _MAX_WALKED_BYTES:
        return n_bytes
    data = np.frombuffer(page, np.uint8)
    places = np.flatnonzero((data[1:-2] | data[2:-1] | data[3:]) == 0)  # perhaps the length of a short text
    lengths = data[places]
    ends = places + lengths + 4
    breaks = np.flatnonzero(np.append(ends[:-1] != places[1:], True))  # up to one, short texts follow each other
    at = longest = 0
    for _ in range(_MAX_STEPS):
        first = int(np.searchsorted(places, at))
        if first < len(places) and places[first] == at:
            last = int(breaks[np.searchsorted(breaks, first)])
            length, at = int(lengths[first : last + 1].max()), int(ends[last])
        else:
            length = int.from_bytes(page[at : at + 4], "little")
            at += 4 + length
        longest = max(longest, length)
        if at >= len(page):
            break
    return longest if at == len(page) else n_bytes
