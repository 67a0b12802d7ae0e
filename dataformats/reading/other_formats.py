"""Recognize files of other programs, and files that are not what their names say, by their first bytes."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from dataformats.display.media import media_of
from dataformats.errors import FormatError, Remedy
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage.compressed.decompressor import decompressed_start
from dataformats.storage.git_lfs import POINTER, is_pointer, pull_command

_HEAD = 4096
_CONTROLS = bytes({*range(32), 127} - set(b"\t\n\f\r\x1b"))
_ASCII = bytes(range(128))
_COMMAND = re.compile(r"\b[Rr]un \w")
_COPY = "Copy or download it again"
_PYTHON = "Read it in Python, and write its records with dataformats.create"
_JSON = Remedy("Pass {format} to read the values before the damage.", format="json")
_UTF16 = "Run iconv -f UTF-16 -t UTF-8 {file} > {utf8}"
_LATIN1 = "If it is Latin-1, run iconv -f LATIN1 -t UTF-8 {file} > {utf8}"
_TEXT = Remedy("If each line is a record, pass {format}.", format="text")
_DECOMPRESS = "Run gzip -dc {file} > {stem}"
_UNPACK = "Open the files in it: run unzip {file}"
_AS_CSV = "Save it as CSV: pandas.read_excel({file}).to_csv({csv}, index=False)"
_MATLAB = "Read it with scipy.io.loadmat, and write its records with dataformats.create"
_WEIGHTS = "It holds no records: read it with the library that wrote it"
_PROGRAM = "It holds no records"
_MAX_HIGH = 0.3  # the share of bytes from 128 on in text of European languages that is not UTF-8


@dataclass(frozen=True, slots=True)
class OtherFormat:
    """A kind of file that no backend reads.

    Attributes:
        name: The name with its article, such as `a Parquet file`.
        remedy: How to get its records. `{file}` stands for its path, `{stem}` for the path without its ending,
            `{named}` for the path with `suffix`, `{utf8}` for the path with another stem, and `{csv}` and `{parquet}`
            for the path with another ending.
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
        (
            rb"FEA1\x00",
            OtherFormat(
                "a Feather file of version 1",
                "Write it anew: pandas.read_feather({file}).to_parquet({parquet})",
            ),
        ),
        (
            rb"(?-i:ORC)[^a-z ]",
            OtherFormat("an ORC file", "Write it anew: pandas.read_orc({file}).to_parquet({parquet})"),
        ),
        (rb"Obj\x01", OtherFormat("an Avro file", _PYTHON)),
        (rb"PK\x03\x04.{26}[^/]{0,99}\.npy", OtherFormat("a NumPy .npz file", _PYTHON)),
        (rb"PK\x03\x04.{26}[^/]{0,99}/data\.pkl", OtherFormat("a PyTorch checkpoint", _PYTHON)),
        (rb"\x80\x02\x8a\nl\xfc\x9cF", OtherFormat("a PyTorch checkpoint", _PYTHON)),
        (
            rb"PK\x03\x04.{26}(?:\[Content_Types\]|_rels/|docProps/|xl/)|\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
            OtherFormat("an Office document, such as Excel's", _AS_CSV),
        ),
        (rb"PK(?:\x03\x04|\x05\x06)", OtherFormat("a ZIP file", _UNPACK)),
        (rb"7z\xbc\xaf'\x1c", OtherFormat("a 7-Zip archive", "Open the files in it: run 7z x {file}")),
        (rb"Rar!\x1a\x07", OtherFormat("a RAR archive", "Open the files in it: run unrar x {file}")),
        (rb"SQLite format 3\x00", OtherFormat("a SQLite database", _PYTHON)),
        (
            rb".{8}DUCK.\x00\x00\x00",
            OtherFormat("a DuckDB database", "Write a table of it to a file, in DuckDB: COPY name TO {parquet}"),
        ),
        (
            rb"MATLAB 7\.3",
            OtherFormat("a MATLAB file of version 7.3", Remedy("It is an HDF5 file: pass {format}.", format="hdf5")),
        ),
        (rb"MATLAB [56]\.", OtherFormat("a MATLAB file", _MATLAB)),
        (rb"CDF[\x01\x02\x05]", OtherFormat("a netCDF file of version 3", _PYTHON)),
        (rb"#ROSBAG|\x89MCAP", OtherFormat("a ROS bag", _PYTHON)),
        (rb"GGUF.\x00\x00\x00", OtherFormat("weights of a model (GGUF)", _WEIGHTS)),
        (rb"%PDF-", OtherFormat("a PDF file", _PYTHON)),
        (rb"\x7fELF|MZ.\x00", OtherFormat("a program", _PROGRAM)),
        (rb"\x04\x22M\x18", OtherFormat("a file compressed with LZ4", "Run lz4 -dc {file} > {stem}")),
        (rb"\xff\x06\x00\x00sNaPpY", OtherFormat("a file compressed with Snappy", "Run snzip -dc {file} > {stem}")),
        (rb"\x1f[\x9d\xa0]", OtherFormat("a file compressed with compress", "Run uncompress -c {file} > {stem}")),
        (rb"\x28\xb5\x2f\xfd", OtherFormat("a file compressed with zstd", "Run zstd -dc {file} > {stem}")),
        (rb"\xfd7zXZ\x00", OtherFormat("a file compressed with xz", "Run xz -dc {file} > {stem}")),
        (rb"BZh[1-9]1AY", OtherFormat("a file compressed with bzip2", "Run bzip2 -dc {file} > {stem}")),
        (rb"\x80[\x02-\x05](?:\x95|[\]})(Kc])", OtherFormat("a pickle", _PYTHON)),
        (rb"\((?:dp|lp)\d*\n|c[\w.]+\n\w+\n\(", OtherFormat("a pickle", _PYTHON)),
        (rb"\s*[\[{]\s*[\"{\[\]}\d-]", OtherFormat("damaged JSON", _JSON)),
        (rb"[^\n,\x00]+(?:,[^\n,\x00]*)+\n[^\n,\x00]*,", OtherFormat("CSV", suffix=".csv")),
        (rb"[^\n\t\x00]+(?:\t[^\n\t\x00]*)+\n[^\n\t\x00]*\t", OtherFormat("a table of tabs", suffix=".tsv")),
    )
]


_ICEBERG, _DATA = "metadata", "data"
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
    names |= {"{utf8}": f"{stem}-utf8{ending}", "{csv}": f"{stem}.csv", "{parquet}": f"{stem}.parquet"}
    quote = shlex.quote if _COMMAND.search(kind.remedy) else repr
    return replace(kind, remedy=re.sub(r"{\w+}", lambda place: quote(names[place[0]]), kind.remedy))


def refuse_tables(entries: Sequence[StoredFile | Folder]) -> None:
    """Raise if other files of a folder say which of its data count: the data alone may have rows that are removed.

    A folder or glob inside of such a folder is refused, too; a file is not.

    Args:
        entries: The files, folders and globs of a path.

    Raises:
        FormatError: It is such a table of another program.
    """
    for entry in entries:
        if isinstance(entry, Folder) and not entry.explicit:
            _refuse_table(entry)
        elif isinstance(entry, Folder):
            with suppress(OSError):  # there may be no right to list the folder
                _refuse_table(entry.file(entry.names()[0]).folder())


def _refuse_table(folder: Folder | None) -> None:
    if folder is None:
        return
    for name, kind in _TABLES.items():
        if folder.has(name) and (name != _ICEBERG or _has_iceberg(folder.folder(name))):
            what = f"the folder is {kind.name}, and {name!r} says which rows count"
            remedy = kind.remedy.replace("{folder}", repr(folder.name))
            raise FormatError(what, path=folder.name, remedy=f"{remedy}, and open that")
    if folder.basename == _DATA or "=" in folder.basename:  # Iceberg and Hive have such folders
        with suppress(OSError):  # there may be no right to list it
            _refuse_table(folder.parent())


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
    if not head or head != head.translate(None, _CONTROLS):
        return None
    if _is_utf8(head):
        return OtherFormat("text", _TEXT)
    is_text = len(head.translate(None, _ASCII)) <= _MAX_HIGH * len(head)
    return OtherFormat("text that is not UTF-8", _LATIN1) if is_text else None


def _is_utf8(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return True


def _decompressed(head: bytes) -> bytes:
    return decompressed_start(head, "gzip", _HEAD)[0]


def _zeros(file: StoredFile) -> OtherFormat | None:
    """Return the kind of a file of zeros, by its middle and its end."""
    places = (file.size // 2, max(0, file.size - _HEAD))
    if any(any(file.pread(place, _HEAD)) for place in places):
        return None
    return OtherFormat("zeros: space that was never written, or that a crash lost", _COPY)
