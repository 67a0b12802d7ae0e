"""Recognize files of other programs, and files that are not what their names say, by their first bytes."""

from __future__ import annotations

import re
import shlex
import zlib
from dataclasses import dataclass, replace

from dataformats.display.media import media_of
from dataformats.interfaces.stored_file import StoredFile

__all__ = ["OtherFormat", "other_format"]

_HEAD = 4096
_CONTROLS = bytes({*range(32), 127} - set(b"\t\n\f\r\x1b"))
_COPY = "Copy or download it again"
_PYTHON = "Read it in Python, and write its records with dataformats.create"
_JSON = "Write each record on a line, as jq -c '.[]' does, under a name that ends in .jsonl"
_TEXT = "If each line is a record, pass format='text'"
_DECOMPRESS = "Decompress it with gzip -d"
_UNPACK = "Unpack it, and open the files in it"


@dataclass(frozen=True, slots=True)
class OtherFormat:
    """A kind of file that no backend reads.

    Attributes:
        name: The name with its article, such as `a Parquet file`.
        remedy: How to get its records.
        suffix: The ending of names by which a backend recognizes such files, also compressed by gzip.
    """

    name: str
    remedy: str = ""
    suffix: str = ""


_KINDS = [
    (re.compile(start, re.DOTALL | re.IGNORECASE), kind)
    for start, kind in (
        (rb"\s*<(?:!doctype|html|head|body|!--)", OtherFormat("an HTML page, as failed downloads leave it", _COPY)),
        (rb"\s*<\?xml", OtherFormat("XML, as failed downloads from an object store leave it", _COPY)),
        (rb"PAR1", OtherFormat("a damaged Parquet file", _COPY)),
        (rb"ARROW1\x00|\xff{4}....\x10\x00", OtherFormat("a damaged Arrow IPC file", _COPY)),
        (rb"PK\x03\x04.{26}[^/]{0,99}\.npy", OtherFormat("a NumPy .npz file", _PYTHON)),
        (rb"PK\x03\x04.{26}[^/]{0,99}/data\.pkl", OtherFormat("a PyTorch checkpoint", _PYTHON)),
        (rb"PK(?:\x03\x04|\x05\x06)", OtherFormat("a ZIP file", _UNPACK)),
        (rb"SQLite format 3\x00", OtherFormat("a SQLite database", _PYTHON)),
        (rb"\x28\xb5\x2f\xfd", OtherFormat("a file compressed with zstd", "Decompress it with zstd -d")),
        (rb"\xfd7zXZ\x00", OtherFormat("a file compressed with xz", "Decompress it with xz -d")),
        (rb"BZh[1-9]1AY", OtherFormat("a file compressed with bzip2", "Decompress it with bzip2 -d")),
        (rb"\x80[\x02-\x05](?:\x95|[\]})(Kc])", OtherFormat("a pickle", _PYTHON)),
        (rb"\s*[\[{]\s*[\"{\[\]}\d-]", OtherFormat("one JSON document", _JSON)),
        (rb"[^\n,\x00]+(?:,[^\n,\x00]*)+\n[^\n,\x00]*,", OtherFormat("CSV", suffix=".csv")),
        (rb"[^\n\t\x00]+(?:\t[^\n\t\x00]*)+\n[^\n\t\x00]*\t", OtherFormat("a table of tabs", suffix=".tsv")),
    )
]


def other_format(file: StoredFile) -> OtherFormat | None:
    """Return the kind of a file that is not empty, or `None` if it is unknown."""
    stored = file.stored
    head = stored.pread(0, _HEAD)
    if head.startswith(b"version https://git-lfs.github.com/"):
        return OtherFormat("a git-lfs pointer", f"Run git lfs pull --include {shlex.quote(file.basename)}")
    if head.startswith(b"\x1f\x8b"):
        inner = _kind_of(_decompressed(head)) or OtherFormat("an unknown file")
        name = f"gzip of {inner.name}"
        return _with_name(replace(inner, name=name), ".gz") if inner.suffix else OtherFormat(name, _DECOMPRESS)
    if not any(head):
        return _zeros(stored)
    kind = _kind_of(head)
    return _with_name(kind) if kind is not None and kind.suffix else kind


def _with_name(kind: OtherFormat, more: str = "") -> OtherFormat:
    """Return a kind that a backend recognizes by the name of a file, with the remedy."""
    return replace(kind, remedy=f"Give it a name that ends in {kind.suffix}{more}")


def _kind_of(head: bytes) -> OtherFormat | None:
    found = next((kind for start, kind in _KINDS if start.match(head)), None)
    if found is not None:
        return found
    media = media_of(head)
    if media is not None:
        return OtherFormat(f"one {media.name} file", _PYTHON)
    is_text = head and head == head.translate(None, _CONTROLS) and _is_utf8(head)
    return OtherFormat("text", _TEXT) if is_text else None


def _is_utf8(head: bytes) -> bool:
    try:
        head[: max(1, len(head) - 3)].decode(errors="strict")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return True


def _decompressed(head: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(head, _HEAD)
    except zlib.error:
        return b""


def _zeros(file: StoredFile) -> OtherFormat | None:
    """Return the kind of a file of zeros, by its middle and its end."""
    places = (file.size // 2, max(0, file.size - _HEAD))
    if any(any(file.pread(place, _HEAD)) for place in places):
        return None
    return OtherFormat("zeros: space that was never written, or that a crash lost", _COPY)
