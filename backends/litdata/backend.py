"""The litdata format: recognizes and opens its folders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dataformats.backends.litdata.index_file import LitdataIndex, read_index
from dataformats.backends.mds.files import INDEX, FoldersBelow, file_of_shard, plain_file, shard_files, sniff_listed
from dataformats.backends.mds.index_file import Shard
from dataformats.backends.mds.reader import MdsReader
from dataformats.backends.tables.arrow_ipc import ArrowTable
from dataformats.errors import FormatError
from dataformats.indexing.union_reader import open_union
from dataformats.interfaces import Backend, Folder, Reader, ReaderOptions, SniffResult, StoredFile
from dataformats.storage.spliced_file import SplicedFile

_CHUNK = re.compile(r"chunk-\d+-\d+(\.[\w:]+)?\.bin")
_BEGIN = re.compile(rb'\{\s*"(chunks"\s*:\s*\[|config"\s*:\s*\{)')
_FOOTER = b"LDARW01\0"  # ends a chunk whose items are rows of an Arrow IPC file in front of it and of its uint32 length


class LitdataBackend(Backend):
    """Datasets that litdata optimized: folders with `index.json` and chunks."""

    name = "litdata"
    suffixes: tuple[str, ...] = (".bin",)
    in_folders = True
    has_checked_header = True

    def matches_name(self, name: str) -> bool:
        """True for `index.json` and the names of chunks."""
        return name == INDEX or _CHUNK.fullmatch(name) is not None

    def find(self, folder: Folder) -> list[StoredFile]:
        """Return the index of a dataset, and its chunks in the order of the index."""
        if INDEX not in folder.names() or self.sniff(index := folder.file(INDEX)).match == "no":
            return []
        chunks, below = read_index(index).chunks, FoldersBelow(folder)
        return [index, *(file for chunk in chunks if (file := file_of_shard(below, chunk)) is not None)]

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize an index by its keys; a chunk by the index beside it."""
        return sniff_listed(self, file, _BEGIN, lambda index: read_index(index).chunks)

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> Reader | ArrowTable:
        """Return a reader of items, or a table of those that are rows of Arrow.

        Raises:
            FormatError: An index is missing or damaged, a chunk is missing, or its layout is not read.
        """
        given = {file.name: file for file in files}
        indexes = [file for file in files if file.basename == INDEX]
        if not indexes:
            beside = files[0].file_beside(INDEX) if files else None
            if beside is None:
                raise FormatError("chunks need the index.json beside them", path=files[0].name if files else None)
            indexes = [beside]
        found = [(file, read_index(file)) for file in indexes]
        chunks = [chunk for _, index in found for chunk in index.chunks]
        stored = [one for file, index in found for one in shard_files(file, index.chunks, given)]
        plain = [plain_file(file, chunk) for file, chunk in zip(stored, chunks, strict=True)]
        first = plain[0] if plain else None
        if first is not None and not first.is_compressed and first.pread(max(0, first.size - 8), 8) == _FOOTER:
            table = ArrowTable([_rows_of(file) for file in plain], options.spec, options.max_record_bytes)
            for file, chunk, n in zip(plain, chunks, table.counts.tolist(), strict=True):
                if n != chunk.samples:
                    what = "the chunk does not have as many rows as the index says"
                    raise FormatError(what, path=file.name, expected=chunk.samples, found=n)
            return table

        def reader(shards: Sequence[tuple[StoredFile, Shard, LitdataIndex]]) -> MdsReader:
            one = shards[0][2] if shards else found[0][1]
            these = [file for file, _, _ in shards], [chunk for _, chunk, _ in shards]
            return MdsReader(*these, one.spec, is_headless=one.is_tokens)

        of_chunks = [index for _, index in found for _ in index.chunks]
        shards = list(zip(plain, chunks, of_chunks, strict=True))
        return open_union(shards, lambda one: (one[2].spec, one[2].is_tokens), reader, options)


def _rows_of(chunk: StoredFile) -> StoredFile:
    """Return the Arrow IPC file in a chunk.

    Raises:
        FormatError: It is cut or missing.
    """
    end = max(0, chunk.size - 4 - len(_FOOTER))
    tail = chunk.pread(end, 4 + len(_FOOTER))
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _FOOTER or not 0 < length <= end:
        what, expected = "the Arrow rows of the chunk are damaged", f"their length, at most {end}, and {_FOOTER!r}"
        raise FormatError(what, path=chunk.name, offset_bytes=end, expected=expected, found=tail)
    return SplicedFile(chunk, [range(end - length, end)])
