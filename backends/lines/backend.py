"""The formats of lines: JSONL, and text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dataformats.backends.framed.compressed_writer import options_of_reader
from dataformats.backends.lines.compression import Compression, compression_of_name, decompressed, head_of
from dataformats.backends.lines.line_index import LineIndexStore
from dataformats.backends.lines.line_scan import BOM
from dataformats.backends.lines.reader import LinesReader
from dataformats.backends.lines.writer import JsonLinesWriter, LinesWriter
from dataformats.batch import Blobs
from dataformats.errors import CorruptRecordError
from dataformats.interfaces import (
    BlobBackend,
    FilePlace,
    Reader,
    ReaderOptions,
    ResumesFinishedFiles,
    SniffResult,
)
from dataformats.interfaces.stored_file import StoredFile
from dataformats.spec import Spec
from dataformats.storage.threads import concurrent_map

_COMPRESSED = (".gz", ".zst")
_SNIFFED = 16  # lines; one that parses shows that others are damaged
_SUFFIX_OF: dict[str, str] = {"gzip": ".gz", "zstd": ".zst", "none": ""}
_OBJECT = re.compile(rb'\s*\{\s*"(?:[^"\\]|\\.)*+"\s*:')  # its beginning
_BREAK = re.compile(rb"[ \t\r]*+\n[ \t\r\n]*+")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class _LinesBackend(BlobBackend, ResumesFinishedFiles):
    """Files of lines.

    Attributes:
        endings: The endings of plain files.
        skips_blank: True if blank lines are no records.
        writer: Writes one file.
    """

    endings: tuple[str, ...]
    skips_blank: bool
    compressions: tuple[str, ...] = ("auto", "gzip", "zstd")
    writer: type[LinesWriter]

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> LinesReader:
        """Return a reader; the first bytes of each file show its compression.

        Raises:
            FormatError: A frame of zstd is damaged.
            MissingExtraError: A file is compressed with zstd, which is not installed.
        """
        if options.counts is None:
            files = concurrent_map(decompressed, files, local=all(file.local is not None for file in files))
        return LinesReader(files, options, LineIndexStore(self.name, self.skips_blank))

    def create(
        self,
        path: Path,
        *,
        resume: bool = False,
        compression: Compression | Literal["auto"] = "auto",
        place: FilePlace | None = None,
        **_: Any,
    ) -> LinesWriter:
        """Return a writer of one file.

        Args:
            resume: Keep the whole lines at the front of the file, and append to them.
            compression: `"gzip"`, `"zstd"`, or `"none"`, whose random reads are faster; `"auto"` goes by the name.

        Raises:
            MissingExtraError: zstd is not installed.
        """
        return self.writer(path, self.name, resume=resume, compression=_chosen(path, compression), place=place)

    def options_like(self, reader: Reader, *, named: bool) -> dict[str, Any]:
        """Return the compression for shards; the name of a single file shows it."""
        return options_of_reader(reader, named=named)

    def extension_problem(
        self, path: Path, *, compression: Compression | Literal["auto"] = "auto", **_: Any
    ) -> str | None:
        """Only plain files whose last line has an end, and without a byte order mark, can be extended."""
        with path.open("rb") as file:
            head = file.read(4)
            file.seek(max(0, path.stat().st_size - 1))
            last = file.read(1)
        if compression_of_name(path.name) != "none" or _chosen(path, compression) != "none":
            return "is compressed"
        if head.startswith(BOM):
            return "begins with a byte order mark"
        return "has a last line without an end" if last not in (b"", b"\n") else None

    def shard_names(self, stem: str, count: int, *, compression: str = "none", **_: Any) -> list[str]:
        """Return `stem-00000-of-00003.jsonl` and so on; compressed shards end in `.gz` or `.zst`."""
        ending = self.endings[0] + _SUFFIX_OF.get(compression, "")
        return [f"{stem}-{number:05d}-of-{count:05d}{ending}" for number in range(count)]


class JsonLinesBackend(_LinesBackend):
    """JSONL (ndjson): one JSON document a line. Blank lines are skipped."""

    name = "jsonl"
    endings: tuple[str, ...] = (".jsonl", ".ndjson")
    suffixes: tuple[str, ...] = (*endings, *(ending + more for ending in endings for more in _COMPRESSED))
    value_payload = "json"
    skips_blank = True
    writer: type[LinesWriter] = JsonLinesWriter

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize a file by its first lines: JSON documents, or two objects unless the name is one of JSONL."""
        head, is_whole = head_of(file)
        if head.startswith(_UTF16):
            return SniffResult("no", "it is UTF-16")
        lines = head.removeprefix(BOM).split(b"\n")
        last = lines.pop()
        lines = [line for line in lines if line.strip()][:_SNIFFED]
        if is_whole and last.strip() and len(lines) < _SNIFFED:
            lines.append(last)
        elif not lines and last.lstrip()[:1] in (b"{", b"["):  # a line longer than the head
            is_object = _OBJECT.match(last) is not None
            return SniffResult("yes") if is_object else SniffResult("no", "its first line is long, and no object")
        kinds = [document_type(line) for line in lines]
        has_name = self.matches_name(file.basename)
        if kinds and kinds[0] is not None and (has_name or (len(kinds) > 1 and set(kinds) == {dict})):
            return SniffResult("yes")
        if has_name and 2 * kinds.count(dict) > len(kinds):
            return SniffResult("yes")  # with damaged lines
        if has_name and not lines and is_whole:
            return SniffResult("yes")
        return SniffResult("no", "its first lines are no JSON objects")

    def guess_payload(self, samples: Iterable[bytes]) -> str:
        """Return `"json_object"` if all documents are objects, else `"json"`."""
        return payload_of(samples)

    def accepts_payload(self, payload: str) -> bool:
        """True for JSON."""
        return payload in ("json", "json_object")

    def payload_for(self, spec: Spec) -> str:
        """Return `"json_object"`."""
        return "json_object"

    def copied(self, blobs: Blobs) -> Blobs:
        """Return documents that have a line each."""
        breaks = np.flatnonzero(blobs.buffer == ord("\n"))
        ends = np.searchsorted(breaks, blobs.starts + blobs.lengths)
        if not (ends > np.searchsorted(breaks, blobs.starts)).any():
            return blobs
        return Blobs.join([_in_a_line(blob) if b"\n" in blob else blob for blob in blobs])


class TextLinesBackend(_LinesBackend):
    """Lines of text. Every line is a record, empty ones too."""

    name = "text"
    endings: tuple[str, ...] = (".txt",)
    suffixes: tuple[str, ...] = (*endings, *(ending + more for ending in endings for more in _COMPRESSED))
    folder_rank = 3
    value_payload = "utf8"
    skips_blank = False
    writer: type[LinesWriter] = LinesWriter

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize a file by its name, and by text in UTF-8 at its beginning."""
        if not self.matches_name(file.basename):
            return SniffResult("no", "its name does not end in .txt")
        head, is_whole = head_of(file)
        if b"\0" in head:
            return SniffResult("no", "it has zeros")
        try:
            head.decode()
        except UnicodeDecodeError as error:
            if is_whole or error.start < len(head) - 3:
                return SniffResult("no", "it is not UTF-8")
        return SniffResult("yes")

    def guess_payload(self, samples: Iterable[bytes]) -> str:
        """Return `"utf8"`."""
        return "utf8"

    def accepts_payload(self, payload: str) -> bool:
        """True for text, and for documents that are text."""
        return payload in ("utf8", "json", "json_object")

    def payload_for(self, spec: Spec) -> str:
        """Return `"json_object"`."""
        return "json_object"


def _in_a_line(document: bytes) -> bytes:
    """Return a document without breaks, which are space: text has none.

    Raises:
        CorruptRecordError: It does not parse.
    """
    try:
        json.loads(document)
    except (ValueError, RecursionError) as error:
        raise CorruptRecordError("the record is no JSON", found=str(error)) from error
    return _BREAK.sub(b" ", document.strip())


def payload_of(samples: Iterable[bytes]) -> str:
    """Return the payload of documents: `"json_object"` if all that parse are objects, else `"json"`."""
    kinds = {kind for kind in map(document_type, samples) if kind is not None}
    return "json_object" if kinds <= {dict} else "json"


def document_type(line: bytes) -> type[Any] | None:
    """Return the type of a document; `None` if it does not parse."""
    try:
        return type(json.loads(line))
    except (ValueError, RecursionError):
        return None


def _chosen(path: Path, compression: Compression | Literal["auto"]) -> Compression:
    """Return the compression of a new file."""
    return compression_of_name(path.name.removesuffix(".partial")) if compression == "auto" else compression
