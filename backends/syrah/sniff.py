"""Recognizes a Syrah file by its header."""

from __future__ import annotations

from dataformats.backends.syrah.document import INT32
from dataformats.backends.syrah.layout import HEADER, MAGIC, parse_header
from dataformats.errors import FormatError
from dataformats.interfaces import SniffResult
from dataformats.interfaces.stored_file import StoredFile


def sniff_header(file: StoredFile, *, has_name: bool) -> SniffResult:
    """Recognize a non-empty file by its header.

    Args:
        file: The file.
        has_name: True if its name is one of a Syrah file.
    """
    window = file.pread(0, HEADER.size)
    if not window.startswith(MAGIC + b"\0"):
        zeros = not any(window) and len(window) == HEADER.size
        if zeros and has_name:
            return SniffResult("damaged", "unfinished: a header of zeros")
        return SniffResult("no", f"begins with {window[:3]!r}, expected {MAGIC!r} and a version")
    try:
        header = parse_header(window, file.size, file.name)
    except FormatError as error:
        return SniffResult("damaged" if has_name or len(window) == HEADER.size else "no", error.what)
    (length,) = INT32.unpack(file.pread(header.offset, INT32.size))
    if length != header.length:
        return SniffResult("damaged", f"the header says {header.length} bytes of metadata, found {length}")
    return SniffResult("yes")
