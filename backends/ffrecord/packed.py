"""Packed folders: files as the records of one FFRecord file, their structure as the last record."""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from dataformats.backends.ffrecord.packed_tree import MAX_DEPTH, Tree, build_structure, parse_structure
from dataformats.backends.ffrecord.reader import FFRecordReader
from dataformats.errors import FormatError
from dataformats.interfaces.stored_file import StoredFile
from dataformats.spec import VALUE
from dataformats.storage.paths import resolve
from dataformats.storage.reference_read import read_blobs
from dataformats.writing.creating import create

_MAX_STRUCTURE_BYTES = 2**30


class PackedFolder:
    """The files of a packed folder, by path. Thread-safe; nothing in the file is ever executed.

    Paths are relative, with "/" between names. "." and doubled slashes are ignored, ".." is never found.

    Args:
        path: The `.ffr` file: a path, a URL that fsspec knows, or a path object.
        verify_checksums: Check the CRCs of header and records.
        storage_options: Options of the fsspec file system.

    Raises:
        FormatError: Not an FFRecord file, or not a packed folder.

    Example:
        >>> from dataformats.backends.ffrecord import PackedFolder
        >>> with PackedFolder("images.ffr") as folder:  # doctest: +SKIP
        ...     folder.list("train")
        ['0.jpg', '1.jpg']
    """

    def __init__(
        self, path: Any, *, verify_checksums: bool = True, storage_options: dict[str, Any] | None = None
    ) -> None:
        self._file = _one_file(path, storage_options)
        self._reader = FFRecordReader([self._file], verify_checksums=verify_checksums)
        self._tree = self._read_structure()
        self._n_files = sum(1 for _, node in walk(self._tree) if isinstance(node, int))

    @property
    def num_files(self) -> int:
        """Number of files."""
        return self._n_files

    def list(
        self,
        dir: str | os.PathLike[str] = "",  # noqa: A002  # the name that users of the original expect
        *,
        files: bool = True,
        folders: bool = True,
        recursive: bool = False,
    ) -> list[str]:
        """Return the names in a folder, in stored order; with `recursive`, relative paths, depth first.

        Raises:
            FileNotFoundError: There is no such folder.
            NotADirectoryError: It is a file.
        """
        node = self._find(dir)
        if not isinstance(node, dict):
            raise NotADirectoryError(f"{os.fspath(dir)!r} in {self._file.name!r} is a file")
        found = walk(node) if recursive else iter(node.items())
        return [name for name, child in found if (files if isinstance(child, int) else folders)]

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """True if there is a file or a folder of that path."""
        return self._look(path) is not None

    def is_file(self, path: str | os.PathLike[str]) -> bool:
        """True if there is a file of that path."""
        return isinstance(self._look(path), int)

    def is_dir(self, path: str | os.PathLike[str]) -> bool:
        """True if there is a folder of that path."""
        return isinstance(self._look(path), dict)

    def read(self, paths: Iterable[str | os.PathLike[str]]) -> builtins.list[bytes]:
        """Return the contents of these files, read together.

        Raises:
            FileNotFoundError: One does not exist.
            IsADirectoryError: One is a folder.
            FormatError: The record of one is damaged.
            TypeError: `paths` is a single path.
        """
        if isinstance(paths, (str, os.PathLike)):
            raise TypeError("read() expects several paths, found one. Use read_one()")
        return [*self._records([self._index(path) for path in paths])]

    def read_one(self, path: str | os.PathLike[str]) -> bytes:
        """Return the content of one file; raises the errors of `read`."""
        return self._records([self._index(path)])[0]

    def close(self) -> None:
        """Close the file; reading opens it again."""
        self._file.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"PackedFolder({self._file.name!r}, {self._n_files} files)"

    def _read_structure(self) -> Tree:
        n = int(self._reader.starts[-1])
        if n == 0:
            what = "not a packed folder: there is no last record with the folder structure"
            raise FormatError(what, path=self._file.name)
        offset = int(self._reader.part(0, n - 1, n).offset[0])
        record = self._records([n - 1], _MAX_STRUCTURE_BYTES)[0]
        return parse_structure(record, n - 1, path=self._file.name, offset_bytes=offset)

    def _records(self, indices: Sequence[int], max_bytes: int | None = None) -> Sequence[bytes]:
        wanted = np.array(indices, np.int64)
        located = self._reader.locate(wanted, {VALUE: True})[VALUE].extents
        limit = self._file.size if max_bytes is None else max_bytes
        fetched = read_blobs([self._file], [located], max_bytes=limit)[0]
        if fetched.problems:
            row = min(fetched.problems)
            raise fetched.problems[row].at(int(wanted[row]))
        return [bytes(blob) for blob in fetched.blobs]

    def _index(self, path: str | os.PathLike[str]) -> int:
        node = self._find(path)
        if not isinstance(node, int):
            raise IsADirectoryError(f"{os.fspath(path)!r} in {self._file.name!r} is a folder")
        return node

    def _find(self, path: str | os.PathLike[str]) -> int | Tree:
        node = self._look(path)
        if node is None:
            raise FileNotFoundError(f"{os.fspath(path)!r} is not in {self._file.name!r}")
        return node

    def _look(self, path: str | os.PathLike[str]) -> int | Tree | None:
        text = os.fspath(path)
        node: int | Tree | None = None if text.startswith("/") else self._tree
        for name in text.split("/"):
            if name in ("", "."):
                continue
            node = node.get(name) if isinstance(node, dict) else None
        return node


def pack_folder(folder: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Write the files of a folder as a packed folder, byte for byte like the original's `pack_folder`.

    Follows links. The file is published when it is complete.

    Raises:
        NotADirectoryError: `folder` is not a folder.
        TargetInUseError: Another writer has the name `path`.
        ValueError: An entry is neither a file nor a folder, or folders are nested too deep, for example by a link
            to a parent folder.
    """
    tree, files = scan_folder(Path(folder))
    with create(path, "ffrecord", records=len(files) + 1, overwrite=True) as writer:
        for file in files:
            writer.append_bytes(file.read_bytes())
        writer.append_bytes(build_structure(tree))


def scan_folder(folder: Path, first: int = 0) -> tuple[Tree, list[Path]]:
    """Return the tree of a folder, and its files in the order of their numbers, which begin with `first`."""
    files: list[Path] = []
    return _scan(folder, files, first, 1), files


def _scan(folder: Path, files: list[Path], first: int, depth: int) -> Tree:
    if depth > MAX_DEPTH:
        raise ValueError(f"cannot pack {str(folder)!r}: folders are nested more than {MAX_DEPTH} deep")
    tree: Tree = {}
    for name in sorted(os.listdir(folder)):
        child = folder / name
        if child.is_dir():
            tree[name] = _scan(child, files, first, depth + 1)
        elif child.is_file():
            tree[name] = first + len(files)
            files.append(child)
        else:
            raise ValueError(f"cannot pack {str(child)!r}: expected a file or a folder")
    return tree


def _one_file(path: Any, storage_options: dict[str, Any] | None) -> StoredFile:
    found = resolve(path, storage_options)
    if len(found) != 1 or not isinstance(found[0], StoredFile):
        raise IsADirectoryError(f"cannot open {str(path)!r}: a packed folder is one file")
    return found[0]


def walk(tree: Tree) -> Iterator[tuple[str, int | Tree]]:
    """Yield path and node of everything in a folder and the folders below it, depth first."""
    for name, node in tree.items():
        yield name, node
        if isinstance(node, dict):
            for below, child in walk(node):
                yield f"{name}/{below}", child
