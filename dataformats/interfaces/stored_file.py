"""A file to read, and a folder of such files: on a disk, behind a URL, or in memory."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from dataformats.errors import FormatError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NUMBERS = re.compile(r"(\d+)")
_SHARE = 8  # divides `max_record_bytes`: what decodes to more needs a file that is not much smaller
_EXPANSION = 100  # sound data of this size are rarely compressed more


class BlocksInMemory(NamedTuple):
    """Decompressed blocks of a file in memory.

    Attributes:
        owners: int64[n], the block of each byte that was asked for.
        starts: int64[m], the first byte of each block.
        blocks: The bytes of each block.
    """

    owners: NDArray[np.int64]
    starts: NDArray[np.int64]
    blocks: Sequence[memoryview]


class _Entry(ABC):
    """A file or folder, with other files beside it."""

    name: str

    @property
    def basename(self) -> str:
        """The last part of the name; for an HTTP URL, unquoted and without query and fragment."""
        is_http = self.name.startswith(("http://", "https://"))
        path = unquote(urlsplit(self.name).path) if is_http else self.name
        return path.rstrip("/").rsplit("/", 1)[-1]

    @abstractmethod
    def file_beside(self, name: str) -> StoredFile | None:
        """Return the file called `name` in the same folder, or `None`."""

    def bytes_beside(self, name: str, limit: int) -> tuple[str, bytes] | None:
        """Return path and content of a small file in the same folder, or `None`.

        Raises:
            FormatError: It is longer than `limit` bytes.
        """
        file = self.file_beside(name)
        if file is None:
            return None
        try:
            return file.name, file.read_all(limit)
        finally:
            file.release()


class StoredFile(_Entry):
    """One file to read. Thread-safe, usable after a fork.

    Attributes:
        name: The path or URL, for messages.
        size: Its bytes when it was first looked at.
        identity: Identifies this version of the file: size, then modification time or version.
        local: The local path, or `None`.
        compression: The compression if reads return decompressed bytes, such as `"gzip"`, else `"none"`.
        has_name: True if the name leads to the file, so that an index may be kept for it.
        damage: Why the decompressed bytes end early, once `size` is known; `None` if they do not.
        covers: Other files of the dataset that the reader of this one reads, such as a table beside images: no format
            takes them for its own data.
    """

    name: str
    size: int
    identity: tuple[str, ...]
    local: str | None = None
    compression: str = "none"
    has_name: bool = True
    damage: FormatError | None = None
    covers: Sequence[StoredFile] = ()

    def damaged_ranges(self) -> Sequence[tuple[range, FormatError]]:
        """Return the bytes that reads have found unreadable so far, each with its error: damaged chunks."""
        return ()

    @property
    def is_compressed(self) -> bool:
        """True if reads return decompressed bytes: `size` then costs a pass over the file, and reads may too."""
        return self.compression != "none"

    @property
    def stored(self) -> StoredFile:
        """The file with its stored bytes: the compressed file of a decompressed one, else this file."""
        return self

    @property
    def stored_size(self) -> int:
        """Bytes of the stored file: compressed ones if it is compressed."""
        return self.stored.size

    def decompress(self, first: int, end: int) -> None:
        """Decompress these bytes, and keep them for the next reads; nothing if the file is not compressed.

        Raises:
            FormatError: They are damaged.
        """

    def blocks_in_memory(self, offsets: NDArray[np.int64]) -> BlocksInMemory | None:
        """Return the decompressed blocks that have these bytes, int64[n] in `[0, size)`; `None` if one is not kept."""
        return None

    def most_decoded_bytes(self, max_record_bytes: int) -> int:
        """Return the most bytes that one part may have when it is decoded: kilobytes can stand for gigabytes.

        An eighth of `max_record_bytes`, or 100 times the bytes of the stored file if that is more.
        """
        return max(max_record_bytes // _SHARE, _EXPANSION * self.stored_size)

    def most_record_bytes(self, max_record_bytes: int) -> int:
        """Return the most bytes that a record of this file may have, if the caller allows `max_record_bytes`."""
        most = max_record_bytes
        return min(most, self.most_decoded_bytes(most)) if self.is_compressed else most

    @abstractmethod
    def read_into(self, offset: int, out: memoryview) -> int:
        """Fill `out` from byte `offset` on; return the bytes read, fewer only at the end of the file."""

    def pread(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset` on, fewer only at the end of the file."""
        length = max(0, min(length, self.size - offset))
        out = bytearray(length)
        return bytes(memoryview(out)[: self.read_into(offset, memoryview(out))])

    def pread_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of many ranges, each an offset and a length, as `pread` does for one range.

        A file on a disk is opened once for all of them; a file behind a URL gets all in one request, or as many at once
        as its server allows.

        Example:
            >>> from dataformats.storage.files import LocalFile
            >>> file = LocalFile("tests/golden/ffrecord/one.ffr")
            >>> file.pread_many([(file.size - 2, 100), (file.size - 6, 2)])
            [b'rd', b're']
        """
        return [self.pread(offset, length) for offset, length in ranges]

    def read_all(self, limit: int) -> bytes:
        """Return the whole file.

        Raises:
            FormatError: It is longer than `limit` bytes.
        """
        if self.size > limit:
            raise FormatError("too long to be read whole", path=self.name, expected=f"<= {limit}", found=self.size)
        return self.pread(0, self.size)

    def check_links_below(self, folder: str) -> None:
        """Check the links in a local folder of the dataset, for a library that opens files there by itself.

        Raises:
            FormatError: A link leads out of the dataset, and `open` does not follow such links.
        """

    def release(self) -> None:  # most hold nothing
        """Close the file; reading opens it again."""

    def folder(self) -> Folder | None:
        """Return the folder of the file, or `None` if it is unknown."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Folder(_Entry):
    """The files of one folder, or those that a glob matched.

    Attributes:
        name: The folder's path or URL, or the pattern.
        explicit: True if the user chose each file (a glob): no file is skipped because of its name.
    """

    name: str
    explicit: bool = False

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of the files, hidden ones and our own left out."""

    @abstractmethod
    def file(self, name: str) -> StoredFile:
        """Return the file of that name."""

    def files(self, names: Sequence[str]) -> list[StoredFile]:
        """Return the files of these names."""
        return [self.file(name) for name in names]

    def folders(self) -> list[str]:
        """Return the names of the folders in it, hidden ones left out."""
        return []

    def folder(self, name: str) -> Folder:
        """Return the folder of that name."""
        raise FileNotFoundError(f"{self.name!r} has no folder {name!r}")

    def parent(self) -> Folder | None:
        """Return the folder that it lies in; `None` if that is unknown."""
        return None

    def has(self, name: str) -> bool:
        """Return True if a file or folder of this name is in it, also a hidden one."""
        return name in self.names() or name in self.folders()

    def file_beside(self, name: str) -> StoredFile | None:
        """Return the file called `name` beside the folder itself, or `None`."""
        return None


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that puts `x-2` before `x-10`."""
    parts = _NUMBERS.split(name)  # text and numbers in turn
    return tuple([(0, int(part), part) if place % 2 else (1, 0, part) for place, part in enumerate(parts)])
