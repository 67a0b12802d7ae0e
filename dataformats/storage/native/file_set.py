"""The files of one dataset as the kernels see them: addresses, descriptors, sizes and times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import hold_files, reads_batches
from dataformats.storage.descriptors import DESCRIPTORS
from dataformats.storage.files import LocalFile
from dataformats.storage.native.engines import NAMES, Engine, engine
from dataformats.storage.shared_memory_file import MappedFile, MemoryFile, SharedMemory, cache_files

WAYS = (*NAMES, "fsspec", "mmap")


class FileSet(Sequence[StoredFile]):
    """Files that batches are read from. Thread-safe.

    Args:
        files: The files that extents number.
        io: How they are read: see `open`.
        memory: Holds the files in memory, to be shared with processes that are spawned.

    Raises:
        ValueError: No such `io`, or not for these files.

    Attributes:
        engine: Reads the files on the local disk.
        gathers: True if all files are in memory or on the local disk, so that a kernel can read them.
        sizes: int64[n], bytes; 0 for files that are to be in memory and are not yet.
        memories: uint64[n], the address of a file in memory, or 0.
        mtimes_ns: int64[n], when each file was last changed, as of its opening; -1 for those in memory.
        held: `memories`, `sizes` and `mtimes_ns`, as the kernels take them; `None` without compiled kernels.
        local: The files on the local disk; `None` for those that are, or are to be, in memory, and remote ones.
        no_descriptors: int32[n], -1.
        in_memory: The numbers of the files that are, or are to be, in memory.
        waiting: The numbers of those that are not there yet.
    """

    def __init__(self, files: Iterable[StoredFile], io: str = "auto", memory: SharedMemory | None = None) -> None:
        if io not in WAYS:
            raise ValueError(f"expected io to be one of {', '.join(WAYS)}, found {io!r}")
        self._files = list(files)
        self._memory = memory
        if io == "fsspec" and any(file.local is not None for file in self._files):
            raise ValueError("io='fsspec' is for files behind URLs, and these are local; leave it out")
        self.engine: Engine = engine(io if io in NAMES else "auto")
        self.gathers: bool = reads_batches() and all(isinstance(file, LocalFile | MemoryFile) for file in self._files)
        local: list[Any] = [file if isinstance(file, LocalFile) else None for file in self._files]
        self.local = local
        self.sizes: NDArray[np.int64] = np.array([0 if file is None else file.size for file in local], np.int64)
        self.mtimes_ns: NDArray[np.int64] = np.array(
            [-1 if file is None else file.mtime_ns for file in local], np.int64
        )
        self.memories: NDArray[np.uint64] = np.zeros(len(local), np.uint64)
        self.in_memory: frozenset[int] = frozenset(
            n for n, file in enumerate(self._files) if isinstance(file, MemoryFile)
        )
        self.waiting: set[int] = set(self.in_memory)
        self.held: Any = hold_files(self.memories, self.sizes, self.mtimes_ns) if reads_batches() else None
        self.no_descriptors: NDArray[np.int32] = np.full(len(local), -1, np.int32)

    def shared(self) -> Any:
        """Return a handle of the files in memory, for the process that multiprocessing is spawning; or `None`."""
        handle = None if self._memory is None else self._memory.shared()
        if handle is not None:
            self.bring_in(self.waiting)  # so that no worker has to
        return handle

    def __len__(self) -> int:
        return len(self._files)

    @overload
    def __getitem__(self, number: int) -> StoredFile: ...
    @overload
    def __getitem__(self, number: slice) -> list[StoredFile]: ...
    def __getitem__(self, number: int | slice) -> StoredFile | list[StoredFile]:
        return self._files[number]

    def bring_in(self, numbers: Iterable[int]) -> None:
        """Read these files into memory, unless they are there or need not be."""
        for number in self.waiting.intersection(numbers):
            file = self._files[number]
            assert isinstance(file, MemoryFile)  # only these wait
            with suppress(FormatError):  # damaged: the reference path reads what is readable
                memory = file.memory
                self.sizes[number] = len(memory)
                self.memories[number] = memory.ctypes.data
            self.waiting.discard(number)

    def take(self, numbers: Sequence[int]) -> NDArray[np.int32]:
        """Return int32[n], descriptors of the files of these numbers; they stay open until `give_back`.

        Raises:
            FormatError: A file was replaced or changed since it was first looked at.
        """
        if len(numbers) == len(self.local):
            return np.array(DESCRIPTORS.borrow(self.local), np.int32)
        found = self.no_descriptors.copy()
        found[numbers] = DESCRIPTORS.borrow([self.local[number] for number in numbers])
        return found

    def give_back(self, numbers: Sequence[int]) -> None:
        """Give back the descriptors that `take` returned for these numbers."""
        every = len(numbers) == len(self.local)
        DESCRIPTORS.give_back(self.local if every else [self.local[number] for number in numbers])


def open_files(files: Sequence[StoredFile], io: str, in_memory: Sequence[int] = (), memory: Any = None) -> FileSet:
    """Return the files to read from.

    Args:
        files: The files of a reader.
        io: How they are read: see `open`.
        in_memory: The numbers of files to hold in memory.
        memory: The result of `FileSet.shared` in the process that spawned this one.

    Raises:
        ValueError: No such `io`, or the files cannot be mapped.
    """
    if io == "mmap":
        return FileSet([MappedFile(file) for file in files], io)
    cached, shared = cache_files([files[number] for number in in_memory], memory)
    by_number = dict(zip(in_memory, cached, strict=True))
    return FileSet([by_number.get(number, file) for number, file in enumerate(files)], io, shared)
