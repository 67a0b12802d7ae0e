"""Recognize files of other programs, and files that are not what their names say, by their first bytes."""

from __future__ import annotations

import os
import re
import shlex
import zlib
from dataclasses import dataclass, replace

from dataformats.display.media import media_of
from dataformats.errors import FormatError, Remedy
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage.git_lfs import POINTER, is_pointer, pull_command

_HEAD = 4096
_CONTROLS = bytes({*range(32), 127} - set(b"\t\n\f\r\x1b"))
_COPY = "Copy or download it again"
_PYTHON = "Read it in Python, and write its records with dataformats.create"
_JSON = Remedy("Pass {format} to read the values before the damage.", format="json")
_UTF16 = "Run iconv -f UTF-16 -t UTF-8 {file} > {utf8}"
_LATIN1 = "If it is Latin-1, run iconv -f LATIN1 -t UTF-8 {file} > {utf8}"
_TEXT = Remedy("If each line is a record, pass {format}.", format="text")
_DECOMPRESS = "Run gzip -dc {file} > {stem}"
_UNPACK = "Open the files in it: run unzip {file}"


@dataclass(frozen=True, slots=True)
class OtherFormat:
    """A kind of file that no backend reads.

    Attributes:
        name: The name with its article, such as `a Parquet file`.
        remedy: How to get its records. `{file}` stands for its path, `{stem}` for the path without its ending,
            `{named}` for the path with `suffix`, and `{utf8}` for the path with another stem.
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
        (
            rb"\xff\xfe[^\x00]\x00|\xfe\xff\x00[^\x00]",
            OtherFormat("text in UTF-16", _UTF16),
        ),
        (rb"PAR1", OtherFormat("a damaged Parquet file", _COPY)),
        (rb"ARROW1\x00|\xff{4}....\x10\x00", OtherFormat("a damaged Arrow IPC file", _COPY)),
        (rb"PK\x03\x04.{26}[^/]{0,99}\.npy", OtherFormat("a NumPy .npz file", _PYTHON)),
        (rb"PK\x03\x04.{26}[^/]{0,99}/data\.pkl", OtherFormat("a PyTorch checkpoint", _PYTHON)),
        (rb"PK(?:\x03\x04|\x05\x06)", OtherFormat("a ZIP file", _UNPACK)),
        (rb"SQLite format 3\x00", OtherFormat("a SQLite database", _PYTHON)),
        (rb"\x28\xb5\x2f\xfd", OtherFormat("a file compressed with zstd", "Run zstd -dc {file} > {stem}")),
        (rb"\xfd7zXZ\x00", OtherFormat("a file compressed with xz", "Run xz -dc {file} > {stem}")),
        (rb"BZh[1-9]1AY", OtherFormat("a file compressed with bzip2", "Run bzip2 -dc {file} > {stem}")),
        (rb"\x80[\x02-\x05](?:\x95|[\]})(Kc])", OtherFormat("a pickle", _PYTHON)),
        (rb"\s*[\[{]\s*[\"{\[\]}\d-]", OtherFormat("damaged JSON", _JSON)),
        (rb"[^\n,\x00]+(?:,[^\n,\x00]*)+\n[^\n,\x00]*,", OtherFormat("CSV", suffix=".csv")),
        (rb"[^\n\t\x00]+(?:\t[^\n\t\x00]*)+\n[^\n\t\x00]*\t", OtherFormat("a table of tabs", suffix=".tsv")),
    )
]


_ICEBERG = "metadata"
_TABLES = {
    "_delta_log": OtherFormat(
        "a Delta table",
        "Write its rows to a file: pyarrow.parquet.write_table("
        "deltalake.DeltaTable({folder}).to_pyarrow_table(), 'rows.parquet')",
    ),
    _ICEBERG: OtherFormat("an Iceberg table", "Write its rows to a file: pyiceberg reads them by scan().to_arrow()"),
    ".hoodie": OtherFormat("a Hudi table", "Write its rows to Parquet, with Spark"),
    "indices.arrow": OtherFormat(
        "a Hugging Face dataset with selected rows",
        "Write these: datasets.load_from_disk({folder}).flatten_indices().save_to_disk('rows')",
    ),
}
"""The name of what says which data of a folder count, and the kind of the folder."""


def other_format(file: StoredFile) -> OtherFormat | None:
    """Return the kind of a file that is not empty, or `None` if it is unknown."""
    kind = _kind_of_file(file)
    if kind is None or isinstance(kind.remedy, Remedy):
        return kind
    path = file.stored.name
    stem, ending = os.path.splitext(path)
    names = {"{file}": path, "{stem}": stem if ending else f"{path}.out", "{named}": path + kind.suffix}
    names["{utf8}"] = f"{stem}-utf8{ending}"
    return replace(kind, remedy=re.sub(r"{\w+}", lambda place: shlex.quote(names[place[0]]), kind.remedy))


def refuse_table(folder: Folder) -> None:
    """Raise if other files of a folder say which of its data count: the data alone may have rows that are removed.

    Raises:
        FormatError: It is such a table of another program.
    """
    for name, kind in _TABLES.items():
        if folder.has(name) and (name != _ICEBERG or _has_iceberg(folder.folder(name))):
            what = f"the folder is {kind.name}, and {name!r} says which rows count"
            remedy = kind.remedy.replace("{folder}", repr(folder.name))
            raise FormatError(what, path=folder.name, remedy=f"{remedy}, and open that")


def _has_iceberg(metadata: Folder) -> bool:
    return any(name.endswith(".metadata.json") for name in metadata.names())


def _kind_of_file(file: StoredFile) -> OtherFormat | None:
    stored = file.stored
    head = stored.pread(0, _HEAD)
    if is_pointer(head):
        return OtherFormat(POINTER, pull_command(file))
    if head.startswith(b"\x1f\x8b"):
        inner = _kind_of(_decompressed(head)) or OtherFormat("an unknown file")
        name = f"gzip of {inner.name}"
        return _with_name(inner, name, ".gz") if inner.suffix else OtherFormat(name, _DECOMPRESS)
    if not any(head):
        return _zeros(stored)
    kind = _kind_of(head)
    if kind is None or not kind.suffix:
        return kind
    if stored.basename.lower().endswith(kind.suffix):  # the format refused it
        return OtherFormat(f"{kind.name} with bytes that are no text", _COPY)
    return _with_name(kind, kind.name)


def _with_name(kind: OtherFormat, name: str, more: str = "") -> OtherFormat:
    """Return a kind that a backend recognizes by the name of a file, with the remedy."""
    return OtherFormat(name, "Give it a name with the ending: run mv {file} {named}", kind.suffix + more)


def _kind_of(head: bytes) -> OtherFormat | None:
    found = next((kind for start, kind in _KINDS if start.match(head)), None)
    if found is not None and found.remedy == _JSON and not _is_utf8(head):
        return OtherFormat("JSON that is not in UTF-8", _LATIN1)
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
