"""Zarr groups and arrays, versions 2 and 3, read by zarr. A block is some chunks along the first axis."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.tables.arrays_of_rows import (
    blob_column,
    check_block,
    check_names,
    is_in,
    left_out,
    names_of,
    packing,
    rows_of_block,
    same_length,
)
from dataformats.batch import Column, take_column
from dataformats.columns.numbers import type_of_dtype
from dataformats.errors import DataFormatsError, FormatError, SpecError
from dataformats.fork_hooks import cached_property
from dataformats.indexing.files_table import FileBlock, FilesTable
from dataformats.indexing.union_table import open_table_union
from dataformats.interfaces import Backend, BlockTable, Folder, ReaderOptions, SniffResult, StoredFile, damage_of
from dataformats.optional_imports import import_extra
from dataformats.spec import VALUE, Spec, Type
from dataformats.storage.remote.files import FsspecFile

_ROOTS = ("zarr.json", ".zgroup", ".zarray")
_MAX_METADATA_BYTES = 2**24
_CHOOSE = "Choose others with fields=."
_TOGETHER_BYTES = 2**26
_SAMPLED = 8  # chunks of an array, for the fingerprint


class ZarrTable(FilesTable):
    """The rows of the arrays of Zarr groups. Thread-safe, usable after a fork, as zarr is.

    Args:
        roots: The metadata file of each group.
        names: The arrays to read, or groups of them; `None`: all.
        max_block_bytes: The most bytes of a block.
    """

    def __init__(self, roots: Sequence[StoredFile], names: Sequence[str] | None, max_block_bytes: int) -> None:
        every, counts = list[StoredFile](), list[int]()
        self._roots = roots
        self._arrays: list[dict[str, Any]] = []
        specs, block_rows, n_bytes = list[Spec](), list[NDArray[np.int64]](), 0
        for number, root in enumerate(roots):
            found, kinds, failed = _arrays_of(root, names), dict[str, Type](), dict[str, DataFormatsError]()
            for name, array in found.items():
                try:
                    kinds[name] = _type_of(array, name)
                except SpecError as error:
                    failed[name] = error
            arrays = {name: found[name] for name in kinds}
            specs.append(Spec(kinds))
            why = left_out(failed, names, kinds)
            if number == 0:
                self.left_out: Mapping[str, DataFormatsError] = why
                self.single: bool = any(not array.path for array in arrays.values())  # the root is an array
            n = same_length({name: array.shape[0] for name, array in arrays.items()}, root)
            row_bytes = sum(_row_bytes(array) for array in arrays.values())
            rows = rows_of_block(max((one.shards or one.chunks)[0] for one in arrays.values()), n, row_bytes)
            check_block(min(rows, n), row_bytes, 0, max_block_bytes, root)
            self._arrays.append(arrays)
            block_rows.append(np.diff(np.append(np.arange(0, n, rows), n)))
            files = [root, *_sampled_files(root, arrays)]
            every += files
            counts += [n, *(0 for _ in files[1:])]
            n_bytes += n * row_bytes
        super().__init__(roots, specs, block_rows, n_bytes)
        self.files, self.counts = every, np.array(counts, np.int64)
        if all(kind.dtype is not None for kind in self.spec.values()):  # text has an unknown number of bytes
            self.blocks_together: int = 1 + _TOGETHER_BYTES * len(self.block_starts) // max(1, n_bytes)

    def metadata(self) -> dict[str, str]:
        arrays, found = self._arrays[0], dict[str, str]()
        for name, array in arrays.items():
            lacking = 0 if array.shards is not None else array.nchunks - array.nchunks_initialized
            if lacking:
                text = f"{lacking} of {array.nchunks} chunks are not there, and are read as {array.fill_value}"
                found[f"field {name} is sparse"] = text
        return found | packing({name: dict(array.attrs) for name, array in arrays.items()})

    @property
    def nbytes(self) -> int:
        """Bytes of all files in the folders of the groups; `files` has some of the chunks alone."""
        return sum(self._folder_bytes)

    @cached_property
    def _folder_bytes(self) -> list[int]:
        return list(map(_bytes_beside, self._roots))

    def file_summaries(self) -> list[tuple[str, int, int]]:
        """Return the metadata file of each group, its records, and the bytes of its folder."""
        counts = self.counts[[self.files.index(root) for root in self._roots]].tolist()
        return list(zip([root.name for root in self._roots], counts, self._folder_bytes, strict=True))

    def read_blocks(self, blocks: Sequence[int], fields: Sequence[str]) -> Sequence[Mapping[str, Column]]:
        """Read consecutive blocks by one call for each array: a call costs zarr more than a chunk."""
        found: list[Mapping[str, Column]] = []
        places = map(self.place_of, blocks)
        for _, run in groupby(enumerate(places), lambda item: (item[1].number - item[0], item[1].file)):
            parts = [block for _, block in run]
            begin = parts[0].first
            try:
                columns = self.read_rows(parts[0]._replace(end=parts[-1].end), fields)
            except FormatError:  # the block that is damaged raises again
                return super().read_blocks(blocks, fields)
            rows = [np.arange(block.first - begin, block.end - begin) for block in parts]
            found += [{name: take_column(column, one) for name, column in columns.items()} for one in rows]
        return found

    def read_rows(self, block: FileBlock, fields: Sequence[str]) -> Mapping[str, Column]:
        columns: dict[str, Column] = {}
        for name in fields:
            part = f"rows {block.first} to {block.end - 1} of {name!r}"
            with damage_of(self._roots[block.file], Exception, part):  # each codec of zarr raises other errors
                rows = self._arrays[block.file][name][block.first : block.end]
            kind = self.spec[name]
            is_number = kind.dtype is not None
            columns[name] = np.ascontiguousarray(rows, kind.dtype) if is_number else blob_column(rows, kind)
        return columns


def _arrays_of(root: StoredFile, names: Sequence[str] | None) -> dict[str, Any]:
    library = import_extra("zarr", "Zarr", "zarr")
    if root.local is not None:
        store: Any = os.path.dirname(root.local) or "."
        root.check_links_below(store)
    elif isinstance(root, FsspecFile):
        store = root.fs.get_mapper(root.path.rpartition("/")[0])
    else:
        raise SpecError(f"zarr cannot read {root.name!r}", remedy="Copy the folder to the local disk.")
    with damage_of(root, Exception, "the group"):
        opened = library.open(store, mode="r")
        is_array = isinstance(opened, library.Array)
        found = {VALUE: opened} if is_array else dict(opened.members(max_depth=None))
    arrays = {name: one for name, one in sorted(found.items()) if isinstance(one, library.Array) and one.shape}
    check_names(names, arrays, root)
    return {name: one for name, one in arrays.items() if names is None or any(is_in(name, each) for each in names)}


def _type_of(array: Any, name: str) -> Type:
    dtype, shape = array.dtype, array.shape[1:]
    codecs = {getattr(one, "codec_id", None) for one in (*(array.filters or ()), *array.compressors)}
    if "pickle" in codecs:
        raise SpecError("its chunks are pickles, which could run code", field=name, remedy=_CHOOSE)
    is_text = dtype.kind in "UT" or (dtype.kind == "O" and "vlen-utf8" in codecs)
    if is_text and not shape:
        return Type("utf8")
    if not shape and (dtype.kind == "S" or "variable" in str(array.metadata.dtype).lower()):
        return Type("bytes")
    if dtype.hasobject or dtype.kind == "T":
        raise SpecError(f"no field has the type {dtype} and the shape {shape}", field=name, remedy=_CHOOSE)
    return type_of_dtype(dtype, shape)


def _bytes_beside(root: StoredFile) -> int:
    """Return the bytes of all files in the folder of a group, and below it."""
    if isinstance(root, FsspecFile):
        return _bytes_in(root.fs, root.path.rpartition("/")[0])
    walked = os.walk(os.path.dirname(str(root.local)) or ".")
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in walked for name in names)


def _bytes_in(fs: Any, folder: str) -> int:
    """Return the bytes of all files in a folder, and below it; our own reader of S3 has no `du`."""
    entries = [entry for entry in fs.ls(folder, detail=True) if entry["name"].rstrip("/") != folder]
    return sum(_bytes_in(fs, one["name"].rstrip("/")) if one["type"] == "directory" else one["size"] for one in entries)


def _row_bytes(array: Any) -> int:
    return int(array.dtype.itemsize * np.prod(array.shape[1:], dtype=np.float64))


def _sampled_files(root: StoredFile, arrays: Mapping[str, Any]) -> Iterator[StoredFile]:
    """Yield the metadata and some chunks of the arrays: the fingerprint covers these."""
    folder = root.folder()
    if folder is None:
        return
    for name, array in arrays.items():
        metadata = "zarr.json" if array.metadata.zarr_format == 3 else ".zarray"
        n_chunks = array.cdata_shape[0] if array.shards is None else -(-array.shape[0] // array.shards[0])
        places = sorted({int(place) for place in np.linspace(0, max(0, n_chunks - 1), _SAMPLED)})
        rest = (0,) * (len(array.shape) - 1)
        for key in (metadata, *(array.metadata.encode_chunk_key((place, *rest)) for place in places)):
            path = key if name == VALUE and not array.path else f"{array.path}/{key}"
            with suppress(FileNotFoundError, NotADirectoryError):
                if path != root.basename:
                    yield _file_at(folder, path)


def _file_at(folder: Folder, path: str) -> StoredFile:
    *folders, name = path.split("/")
    for part in folders:
        folder = folder.folder(part)
    return folder.file(name)


class ZarrBackend(Backend):
    """Zarr: a folder with `zarr.json`, `.zgroup` or `.zarray`."""

    name = "zarr"
    suffixes: tuple[str, ...] = (".zarr",)
    in_folders = True
    has_checked_header = True

    def matches_name(self, name: str) -> bool:
        return name in _ROOTS

    def find(self, folder: Folder) -> list[StoredFile]:
        names = folder.names()
        if "zarr.json" in names:
            return [folder.file("zarr.json")]
        for name in _ROOTS[1:] if folder.basename.endswith(".zarr") else ():  # hidden names are not listed
            with suppress(FileNotFoundError):
                return [folder.file(name)]
        return []

    def sniff(self, file: StoredFile) -> SniffResult:
        if file.basename not in _ROOTS:
            return SniffResult("no", f"its name is not {', '.join(_ROOTS)}")
        content = file.pread(0, _MAX_METADATA_BYTES)
        is_zarr = content.lstrip().startswith(b"{") and b'"zarr_format"' in content
        return SniffResult("yes") if is_zarr else SniffResult("no", f"{file.basename} has no zarr_format")

    def open(
        self,
        files: Sequence[StoredFile],
        options: ReaderOptions,
        *,
        fields: str | Sequence[str] | None = None,
        **_: Any,
    ) -> BlockTable:
        """Return a table.

        Args:
            files: The metadata file of each group.
            fields: The arrays to read, or groups of them: a list, or their names with commas. `None`: all.

        Raises:
            SpecError: An array has several types, and no type has the values of all groups.
        """
        return open_table_union(files, lambda run: ZarrTable(run, names_of(fields), options.max_record_bytes), options)


BACKEND = ZarrBackend()
