"""Open videos and sounds by PyAV, which the extra `video` installs and which is imported only when used.

A file is opened from memory, only as its declared format, and files that it refers to are not opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any, NoReturn

from dataformats.optional_imports import import_extra

STRICT = {"err_detect": "explode"}
"""Options of decoders: damage is an error."""

# Playlists, and tracks whose data lie in other files, name paths and addresses; no protocol is allowed for them.
_READING = {"protocol_whitelist": "", "enable_drefs": "0", "use_absolute_path": "0"}


def pyav(name: str) -> Any:
    """Return PyAV.

    Args:
        name: The codec that needs it.

    Raises:
        MissingExtraError: It is not installed.
    """
    return import_extra("av", f"codec {name!r}", "video")


@contextmanager
def open_media(blob: bytes, reader: str, name: str) -> Iterator[Any]:
    """Open a file in memory.

    Args:
        blob: The file.
        reader: FFmpeg's name of its format.
        name: The codec that needs it.

    Raises:
        MissingExtraError: PyAV is not installed.
    """
    av = pyav(name)
    try:
        with av.open(BytesIO(blob), format=reader, options=_READING, io_open=_refuse_to_open) as file:
            yield file
    except av.error.MemoryError as error:  # raised by FFmpeg for an implausible size in the data
        raise ValueError(f"the file states a size that it cannot have: {error}") from error


def _refuse_to_open(url: str, *_: Any) -> NoReturn:
    raise PermissionError(f"expected a file without references to other files, found one to {url!r:.200}")
