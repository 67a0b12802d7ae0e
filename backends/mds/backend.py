"""The MDS format: recognizes and opens its datasets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dataformats.backends.mds.files import (
    INDEX,
    FoldersBelow,
    basenames,
    file_of_shard,
    files_or_paths,
    plain_file,
    shard_files,
    sniff_listed,
)
from dataformats.backends.mds.index_file import (
    Columns,
    Shard,
    bytes_of_encoding,
    encoding_of_type,
    read_index,
    type_of_encoding,
)
from dataformats.backends.mds.reader import MdsReader
from dataformats.backends.mds.salvage import salvage_shards
from dataformats.backends.mds.writer import MdsWriter
from dataformats.errors import FormatError, SpecError
from dataformats.indexing.union_reader import open_union
from dataformats.interfaces import (
    FieldsBackend,
    Folder,
    Reader,
    ReaderOptions,
    ShardSalvage,
    SniffResult,
    StoredFile,
    SupportsRepair,
    natural_key,
)
from dataformats.spec import NUMBER_TYPES, Spec, Type

_SHARD = re.compile(r".+\.mds(\.(zstd|gz|bz2|br|snappy))?")
_BEGIN = re.compile(rb'\{\s*"(version|shards)"\s*:\s*[\[\d]')


class MdsBackend(FieldsBackend, SupportsRepair):
    """Datasets of MosaicML streaming: folders with `index.json`, perhaps with shards in folders below."""

    name = "mds"
    suffixes: tuple[str, ...] = (".mds",)
    compressions: tuple[str, ...] = ("zstd",)
    in_folders = True
    has_checked_header = True
    stores_full_spec = False

    def matches_name(self, name: str) -> bool:
        """True for `index.json`, and for shards, plain and compressed."""
        return name == INDEX or _SHARD.fullmatch(name) is not None

    def find(self, folder: Folder) -> list[StoredFile]:
        """Return the index of a dataset, and its shards in the order of the index; or these of numbered folders."""
        if INDEX in folder.names():
            return self._find_in(folder)
        inside = sorted(filter(str.isdecimal, folder.folders()), key=natural_key)
        return [file for name in inside for file in self._find_in(folder.folder(name))]

    def _find_in(self, folder: Folder) -> list[StoredFile]:
        index = folder.file(INDEX) if INDEX in folder.names() else None
        if index is None or not _BEGIN.match(index.pread(0, 4096)):
            return []
        below = FoldersBelow(folder)
        return [index, *(file for shard in read_index(index) if (file := file_of_shard(below, shard)) is not None)]

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize an index by its first key and the format of its shards; a shard by the index beside it."""
        return sniff_listed(self, file, _BEGIN, read_index)

    def open(self, files: Sequence[StoredFile], options: ReaderOptions, **_: Any) -> Reader:
        """Return a reader.

        Raises:
            FormatError: An index is missing or damaged, or a shard is missing.
            SpecError: A column has several types, and no type has the values of all.
        """
        return open_union(_chosen(files, shard_files), lambda one: one[1].columns, _reader, options)

    def shards(self, files: Sequence[StoredFile]) -> list[list[StoredFile]]:
        """Return the index and the shards of each dataset of numbered folders."""
        found: list[list[StoredFile]] = []
        for file in files:
            if file.basename == INDEX or not found:
                found.append([])
            found[-1].append(file)
        return found

    def salvage(self, files: Sequence[StoredFile], payload: str) -> ShardSalvage:
        """Find the sound samples of the shards that are there.

        Raises:
            FormatError: The index is missing or damaged, or the shards differ in columns.
        """
        chosen = _chosen(files, files_or_paths)
        for one, shard in chosen:
            if shard.columns != chosen[0][1].columns:
                path = one if isinstance(one, str) else one.name
                raise FormatError("the columns differ from the first shard's", path=path)
        spec = _spec_of(chosen)
        is_zstd = {(shard.compression or "").partition(":")[0] for _, shard in chosen} == {"zstd"}
        return ShardSalvage(salvage_shards(chosen, spec), spec, {"compression": "zstd"} if is_zstd else {})

    def stored_spec(self, spec: Spec, **_: Any) -> Spec:
        """Return the types of the values, and `mds(ndarray:DTYPE)` for numbers of any length.

        Raises:
            SpecError: A field may be missing, is a sequence of other values than numbers, or a pickle.
        """
        problems = [SpecError(what, field=name) for name, kind in spec.items() if (what := _misfit(kind))]
        if problems:
            raise SpecError.of(problems)
        return Spec({name: _stored(kind) for name, kind in spec.items()})

    def create(
        self,
        path: Path,
        *,
        stored: Spec,
        resume: bool = False,
        compression: str = "none",
        size_limit: int = 2**26,
        **_: Any,
    ) -> MdsWriter:
        """Return a writer of a dataset.

        Args:
            compression: `"none"` or `"zstd"`.
            size_limit: The most bytes of a shard.
        """
        if not 0 < size_limit < 2**32:
            raise ValueError(f"size_limit: expected 1 to {2**32 - 1}, found {size_limit}")
        names = tuple(sorted(stored))
        encodings = tuple(encoding_of_type(stored[name]) for name in names)
        columns = Columns(names, encodings, tuple(map(bytes_of_encoding, encodings)))
        return MdsWriter(path, columns, compression, size_limit, resume=resume)

    def shard_names(self, stem: str, count: int, **_: Any) -> list[str]:
        """Return `000000` and so on: each is a folder with an index, for `merge_index` or a `Stream` of MosaicML."""
        return [f"{number:06d}" for number in range(count)]

    def options_like(self, reader: Reader, *, named: bool) -> dict[str, Any]:
        """Return the compression."""
        return {"compression": "zstd" if reader.metadata().get("compression") == "zstd" else "none"}


def _reader(chosen: Sequence[tuple[StoredFile, Shard]]) -> MdsReader:
    """Return a reader of shards with the same columns."""
    return MdsReader([plain_file(*one) for one in chosen], [shard for _, shard in chosen], _spec_of(chosen))


File = TypeVar("File", bound=StoredFile | str)


def _chosen(
    files: Sequence[StoredFile],
    find: Callable[[StoredFile, Sequence[Shard], Mapping[str, StoredFile]], Sequence[File]],
) -> list[tuple[File | StoredFile, Shard]]:
    """Return the file of each shard, and what its index says about it.

    Args:
        files: Indexes and shards.
        find: Returns the files of the shards of an index, perhaps some of the given ones.

    Raises:
        FormatError: An index is missing or damaged.
    """
    chosen: list[tuple[File | StoredFile, Shard]] = []
    given = {file.name: file for file in files}
    covered: set[str] = set()
    for file in files:
        if file.basename == INDEX:
            shards = read_index(file)
            found = find(file, shards, given)
            covered |= {one if isinstance(one, str) else one.name for one in found}
            chosen += zip(found, shards, strict=True)
    beside: dict[str, dict[str, Shard]] = {}
    chosen += [(file, _listed(file, beside)) for file in files if file.basename != INDEX and file.name not in covered]
    return chosen


def _spec_of(chosen: Sequence[tuple[object, Shard]]) -> Spec:
    """Return the types of the columns of shards."""
    columns = chosen[0][1].columns if chosen else None
    pairs = zip(columns.names, columns.encodings, strict=True) if columns is not None else ()
    return Spec({name: type_of_encoding(encoding) for name, encoding in pairs})


def _misfit(kind: Type) -> str:
    if kind.optional:
        return f"{str(kind)!r} may be missing, but every sample has every column"
    if kind.codec not in NUMBER_TYPES:
        what = "is a pickle, which can run code" if kind.codec == "pickle" else ""
        what = "is a sequence, which MDS does not have" if kind.dims else what
        return f"{str(kind)!r} {what}" if what else ""
    if None in kind.dims[1:] or 0 in kind.dims:
        return f"{str(kind)!r} has no size: expected [] first, and no 0"
    return f"{str(kind)!r} has no encoding" if kind.codec == "float128" else ""


def _stored(kind: Type) -> Type:
    """Return the type under which values are stored."""
    if None in kind.dims:
        return Type("mds", args=(f"ndarray:{kind.codec}",)) if kind.codec != "bool" else kind
    return kind


def _listed(file: StoredFile, beside: dict[str, dict[str, Shard]]) -> Shard:
    """Return what the index beside a shard says about it; `beside` keeps the index of each folder."""
    folder = file.name.removesuffix(file.basename)
    if folder not in beside:
        index = file.file_beside(INDEX)
        shards = [] if index is None else read_index(index)
        beside[folder] = {name: shard for shard in reversed(shards) for name in basenames(shard)}
    if file.basename not in beside[folder]:
        what = "a shard needs the index.json beside it, which has the columns"
        raise FormatError(what, path=file.name, expected="an index that lists the shard")
    return beside[folder][file.basename]
