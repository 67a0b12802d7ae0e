"""Tar files as WebDataset writes them: consecutive members with one base name are a record."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from dataformats.errors import FormatError, TruncatedError
from dataformats.importing.blobs import BlobSource, Places, type_of_name
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.compressed.seekable_gzip import DecompressedFile
from dataformats.storage.file_object import FileObject
from dataformats.storage.threads import concurrent_map

__all__ = ["TARS", "TarSource"]

TARS = (".tar", ".tar.gz", ".tgz")
"""The suffixes of tar files."""

_KEY = "__key__"
_Member = tuple[str, str, int, int, int]  # key, extension, number of the file, offset, bytes


class TarSource(BlobSource):
    """The records of tar files: a field for each extension, and the base name as `__key__`.

    The members' headers are read once, when the source is made.

    Args:
        files: The tar files, in order; compressed ones are decompressed where they are read.
    """

    def __init__(self, files: Sequence[StoredFile]) -> None:
        self._files = [file if file.name.endswith(".tar") else DecompressedFile(file, "gzip") for file in files]
        numbered = list(enumerate(self._files))
        is_local = all(file.local is not None for file in files)
        listed = concurrent_map(lambda one: list(_members(*one)), numbered, local=is_local)
        members = [member for part in listed for member in part]
        records = [list(group) for _, group in groupby(members, key=lambda member: (member[2], member[0]))]
        names = dict.fromkeys(member[1] for member in members)
        if _KEY in names:
            raise FormatError(f"a member has the extension {_KEY!r}, which is a field of its own", path=files[0].name)
        table = {name: np.full((3, len(records)), -1, np.int64) for name in names}
        for row, record in enumerate(records):
            for _, name, number, offset, length in record:
                if table[name][0, row] >= 0:
                    message = f"two members of the record {record[0][0]!r} have the extension {name!r}"
                    raise FormatError(message, path=self._files[number].name, index=row, offset_bytes=offset)
                table[name][:, row] = number, offset, length
        if not records:
            raise FormatError("no record: no member is a file with an extension", path=self._files[0].name)
        places = {name: Places(places[0], places[1], np.maximum(places[2], 0)) for name, places in table.items()}
        self._owner = np.array([record[0][2] for record in records])
        kinds = {name: type_of_name(name) for name in names}
        super().__init__(places, kinds, {_KEY: [record[0][0] for record in records]})

    @property
    def format(self) -> str:
        return "webdataset"

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.name for file in self._files)

    def origin(self, index: int) -> tuple[str, int]:
        return self._files[int(self._owner[index])].name, index

    def _file(self, number: int) -> StoredFile:
        return self._files[number]

    def close(self) -> None:
        for file in self._files:
            file.release()


def _members(number: int, file: StoredFile) -> Iterator[_Member]:
    """Yield the files in a tar file whose names have an extension: all behind the first dot of the last part."""
    try:
        with tarfile.open(fileobj=io.BufferedReader(FileObject(file)), mode="r:") as archive:
            for member in archive:
                folder, slash, name = member.name.rpartition("/")
                base, dot, extension = name.partition(".")
                if member.isreg() and base and dot:
                    _check_size(member, file)
                    yield folder + slash + base, extension.lower(), number, member.offset_data, member.size
            if archive.offset >= file.size:  # the headers end without the zeros that follow the last member
                expected = "zeros behind the last member"
                raise TruncatedError("the tar file is truncated", path=file.name, expected=expected, found="no more")
    except (tarfile.TarError, EOFError) as error:
        raise FormatError(f"not a sound tar file: {error}", path=file.name) from error


def _check_size(member: tarfile.TarInfo, file: StoredFile) -> None:
    if not 0 <= member.size <= file.size - member.offset_data:
        raise TruncatedError(
            f"the member {member.name!r}",
            path=file.name,
            offset_bytes=member.offset_data,
            expected=f"{member.size} bytes",
            found=f"{max(0, file.size - member.offset_data)} bytes",
        )
