"""Reads tar files of samples: the fields are extents of the tar files, the keys are in their headers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dataformats.backends.webdataset.extensions import KEY, declared_type, stored_type_for, type_of_extension
from dataformats.backends.webdataset.members import BLOCK, joined_name
from dataformats.backends.webdataset.samples import Samples
from dataformats.columns.common_type import common_type
from dataformats.fork_hooks import cached_property
from dataformats.indexing.fields_reader import DERIVED, FieldsReader
from dataformats.indexing.file_index import FileIndex
from dataformats.interfaces import ReaderOptions, StoredFile
from dataformats.spec import Spec, Type
from dataformats.storage.compressed.seekable_gzip import DecompressedFile

_END_BYTES = 2 * BLOCK
GZIP = b"\x1f\x8b\x08"
_MANY = 8  # fields with dots and one ending


def decompressed(file: StoredFile) -> StoredFile:
    """Return a tar file, decompressed if it is a gzip file."""
    return DecompressedFile(file, "gzip") if file.pread(0, len(GZIP)) == GZIP else file


class WebDatasetReader(FieldsReader):
    """The samples of some tar files.

    Args:
        files: The tar files, in reading order.
    """

    def __init__(self, files: Sequence[StoredFile], options: ReaderOptions) -> None:
        super().__init__([decompressed(file) for file in files], options, "webdataset-4")

    def index_of(self, file: StoredFile) -> FileIndex:
        samples = Samples(file)
        if file.is_compressed and file.size >= 0 and file.damage:  # a wrong checksum made bytes before it doubtful
            samples = Samples(file)
        index, checksums = samples.index(), file.checksums if isinstance(file, DecompressedFile) else None
        return replace(index, metadata={**index.metadata, "checksums": checksums})

    def kept_index(self, file: StoredFile) -> FileIndex | None:
        index = super().kept_index(file)
        if index is not None and isinstance(file, DecompressedFile):
            file.known_size(int(index.metadata["size"]), file.damage, index.metadata["checksums"])
        return index

    def metadata(self) -> dict[str, str]:
        ends = [(file, file.pread(max(0, file.size - _END_BYTES), _END_BYTES)) for file in self.files if file.local]
        cut = [file.name for file, end in ends if any(end)]
        why = "no blocks of zeros end it, so it was not closed, or copied in part"
        return {"files are cut": f"{len(cut)} of {len(self.files)}, such as {cut[0]!r}: {why}"} if cut else {}

    def derived_file(self, file: StoredFile, file_index: FileIndex) -> StoredFile | None:
        keys = file_index.arrays.get(KEY)
        return _JoinedNames(file) if keys is not None and (keys.offset >= DERIVED).any() else None

    def notes(self) -> Iterator[str]:
        """Yield which fields come from dots in names: many have one ending, and no record has several of them."""
        by_ending: dict[str, dict[str, int]] = {}
        for index in () if self._saved else self.file_indexes:
            for name in index.fields:
                if "." in name:
                    counts = by_ending.setdefault(name.rpartition(".")[2], {})
                    counts[name] = counts.get(name, 0) + int((index.arrays[name].length >= 0).sum())
        for ending, counts in by_ending.items():
            if len(counts) > _MANY and sum(counts.values()) <= self.counts.sum():
                yield (
                    f"{len(counts)} fields end in {'.' + ending!r}, such as {next(iter(counts))!r}, and each record has"
                    " one: names of members have dots, and an extension begins at the first. Rename the files"
                )

    @property
    def stored_spec(self) -> Spec:
        return Spec({name: self._stored_type(name) for name in self.spec or ()})

    def type_of(self, field: str) -> Type:
        return declared_type(self._stored_type(field))

    def stored_type_for(self, field: str, declared: Type) -> Type:
        """Return the type that decodes members as a declared type: text or an array for numbers, else any codec."""
        return stored_type_for(field, self._stored_type(field), declared)

    def _stored_type(self, field: str) -> Type:
        kind = Type("utf8") if field == KEY else self._saved.get(field) or type_of_extension(field)
        return replace(kind, optional=kind.optional or field in self._lacking)

    @cached_property
    def _saved(self) -> Mapping[str, Type]:
        """The stored types in files of this package; of numbers in digits the type that holds all of them."""
        found: dict[str, tuple[Type, str]] = {}
        for file, index in zip(self.files, self.file_indexes, strict=False):
            for name, text in (index.metadata["spec"] or {}).items():
                kind = Type.named(text)
                first, path = found.setdefault(name, (kind, file.name))
                if first.required != kind.required:
                    types = (declared_type(first), path), (declared_type(kind), file.name)
                    first = replace(first, args=(common_type(name, *types, None).codec,))
                found[name] = replace(first, optional=first.optional or kind.optional), path
        return {name: kind for name, (kind, _) in found.items()}


class _JoinedNames(StoredFile):
    """The names of a tar file that its headers hold in two parts, each at the place of its header.

    Args:
        file: The tar file.
    """

    def __init__(self, file: StoredFile) -> None:
        self._file = file
        self.name: str = file.name
        self.size: int = file.size
        self.identity: tuple[str, ...] = (*file.identity, "names")
        self.has_name: bool = False

    def file_beside(self, name: str) -> StoredFile | None:
        return None

    def read_into(self, offset: int, out: memoryview) -> int:
        """Fill `out` with the bytes of the tar file, in which each header begins with its joined name."""
        begin = offset % BLOCK
        data = bytearray(self._file.pread(offset - begin, begin + len(out) + BLOCK))
        blocks = np.frombuffer(bytes(data[: len(data) // BLOCK * BLOCK]), np.uint8).reshape(-1, BLOCK)
        is_header = (blocks[:, 257:263] == np.frombuffer(b"ustar\0", np.uint8)).all(axis=1)
        for number in np.flatnonzero(is_header).tolist():
            at = number * BLOCK
            name = joined_name(bytes(data[at : at + BLOCK]))
            data[at : at + len(name)] = name
        found = data[begin : begin + len(out)]
        out[: len(found)] = found
        return len(found)
