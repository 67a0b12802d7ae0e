"""The format of JSON documents, which is only read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dataformats.backends.documents.index import ElementIndexStore
from dataformats.backends.documents.walk import SPACE
from dataformats.backends.framed.frame_index import FrameIndex
from dataformats.backends.lines.backend import document_type, payload_of
from dataformats.backends.lines.compression import decompressed, head_of
from dataformats.backends.lines.line_scan import BOM
from dataformats.backends.lines.reader import LinesReader
from dataformats.errors import DataFormatsError, FormatError, Remedy
from dataformats.indexing.files_reader import FilesReader
from dataformats.interfaces import Backend, Reader, ReaderOptions, SniffResult
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.threads import concurrent_map

_METADATA = frozenset(
    f"{name}.json"
    for name in ("dataset_dict", "dataset_info", "dataset_infos", "features", "index", "spec", "state", "zarr")
)
_BEGIN = re.compile(rb'\[\s*[]\["{\d-]|\{\s*["}]')
_OBJECT = re.compile(rb'(?:\[\s*)?\{\s*"(?:[^"\\]|\\.)*+"\s*:')
_DECODER = json.JSONDecoder()


class JsonBackend(Backend):
    """JSON documents: a list, objects one behind another, or an object that has a list."""

    name = "json"
    suffixes: tuple[str, ...] = (".json", ".json.gz", ".json.zst")
    folder_rank = 2
    written_as: str | None = "jsonl"

    def matches_name(self, name: str) -> bool:
        """True for the endings, unless other formats describe their data in files of this name."""
        return super().matches_name(name) and name not in _METADATA

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize a file by its first value. Objects in lines of their own are JSONL."""
        if file.basename in _METADATA:
            return SniffResult("no", "other formats describe their data in files of this name")
        head, is_whole = head_of(file)
        text = head.removeprefix(BOM).lstrip(SPACE)
        if text[:1] not in (b"[", b"{"):
            return SniffResult("no", "it does not begin with [ or {")
        lines = [line for line in text.split(b"\n") if line.strip()][:2]
        if list(map(document_type, lines)) == [dict, dict]:
            return SniffResult("no", "each line is an object")
        try:
            decoded = _decoded(text, is_whole)
            if self.matches_name(file.basename) and _BEGIN.match(text):
                return SniffResult("yes")
            start = 1 if text[:1] == b"[" else 0
            start += len(decoded[start:]) - len(decoded[start:].lstrip())
            if decoded[start : start + 1] != "]":
                _DECODER.raw_decode(decoded, start)
        except (ValueError, RecursionError) as error:
            if is_whole or isinstance(error, UnicodeDecodeError) or not _OBJECT.match(text):
                return SniffResult("no", f"its first value is no JSON: {error}")
        return SniffResult("yes")

    def guess_payload(self, samples: Iterable[bytes]) -> str:
        """Return `"json_object"` if all records are objects, else `"json"`."""
        return payload_of(samples)

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, *, key: str | None = None, **_: Any) -> Reader:
        """Return a reader; the first bytes of each file show its compression.

        Args:
            key: The key of the list of records, such as `"annotations"`, if a document is an object with lists; `""` if
                such an object is a record. By default, it is a record if there are several files or it has no list of
                objects; else it must have one such list, which has the records.

        Raises:
            FormatError: A frame of zstd is damaged.
            MissingExtraError: A file is compressed with zstd, which is not installed.
        """
        if options.counts is None:
            files = concurrent_map(decompressed, files, local=all(file.local is not None for file in files))
        return ElementsReader(
            files, options, ElementIndexStore(key, is_alone=len(files) == 1), is_chosen=key is not None
        )


def _decoded(text: bytes, is_whole: bool) -> str:
    """Return text, whose last character may be cut unless it is whole.

    Raises:
        UnicodeDecodeError: It is not UTF-8.
    """
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        if is_whole or error.start < len(text) - 3:
            raise
        return text[: error.start].decode()


class ElementsReader(LinesReader):
    """The records of JSON documents.

    Args:
        files: See `LinesReader`.
        options: See `LinesReader`.
        store: See `LinesReader`.
        is_chosen: True if the call names the list that has the records.
    """

    def __init__(
        self, files: Sequence[StoredFile], options: ReaderOptions, store: ElementIndexStore, *, is_chosen: bool
    ) -> None:
        super().__init__(files, options, store)
        self._is_chosen = is_chosen

    def first(self, n: int, open_files: Callable[[Sequence[StoredFile]], Reader]) -> Reader | None:
        return FilesReader.first(self, n, open_files)  # the front of a list has no end

    def metadata(self) -> dict[str, str]:
        key = self._facts.get("key")
        return {} if key is None else {"key": key}

    @property
    def left_out(self) -> Mapping[str, DataFormatsError]:  # type: ignore[override]  # read from the index
        """The members beside the list that has the records of one document, if no call chose the list."""
        if len(self.files) != 1 or self._is_chosen:
            return {}
        key, remedy = self._facts.get("key"), Remedy("To read the object as one record, pass {key}.", key="")
        what = f"it is beside the list {key!r}, which has the records"
        return {name: FormatError(what, remedy=remedy) for name in self._facts.get("left out", ())}

    @property
    def _facts(self) -> Mapping[str, Any]:
        """What the index of the first document says of it."""
        index = self._blobs_of(0) if len(self.files) else None
        return index.index.metadata if isinstance(index, FrameIndex) else {}
