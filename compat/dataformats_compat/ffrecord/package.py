"""Packed folders: the files of a folder as the records of one file."""

from __future__ import annotations

import builtins
import os
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dataformats.internals import build_structure, parse_structure, scan_folder, to_ordered_dict, walk
from dataformats_compat.ffrecord.fileio import FileReader, FileWriter, MissingFileError

__all__ = ["MAGIC_BYTES", "PackedFolder", "dump_files", "dump_structure", "pack_folder"]

MAGIC_BYTES = b"piouhjgbr"
"""The first bytes of the record that holds the structure."""


class PackedFolder:
    """The files of a packed folder, by path. Nothing in the file is ever executed.

    Args:
        ffr_file: A file, a folder or a list of files, as for `FileReader`.
        check_data: Check the CRCs of header and records.

    Attributes:
        reader: Reads the records.
        structure: Name to the number of a record (a file), or to the structure of a folder.

    Raises:
        AssertionError: There is no such file.
        FormatError: It is damaged, or not a packed folder; it is a `ValueError`.

    Example:
        >>> from dataformats_compat.ffrecord import PackedFolder
        >>> folder = PackedFolder("tests/golden/ffrecord/packed.ffr")
        >>> folder.num_files(), folder.is_dir("img"), len(folder.read_one("img/a.bin"))
        (5, True, 100)
    """

    def __init__(self, ffr_file: Any, check_data: bool = True) -> None:
        self.reader: FileReader = FileReader(ffr_file, check_data)
        self.structure: OrderedDict[str, Any] = to_ordered_dict(_read_structure(self.reader))

    def num_files(self) -> int:
        """Return the number of files."""
        return self.reader.n - 1

    def read_one(self, fname: str | os.PathLike[str]) -> Any:
        """Return the content of a file, an array uint8[length], writable.

        Raises:
            AssertionError: There is no such file, or it is a folder.
            ReadError: Its record is damaged.
        """
        return self.reader.read_one(self._found(fname, int))

    def read(self, fnames: Sequence[str | os.PathLike[str]]) -> builtins.list[Any]:
        """Return the contents of a list or tuple of files, read together; raises the errors of `read_one`."""
        if not isinstance(fnames, (list, tuple)):
            raise AssertionError(f"expected a list or tuple of names, found {type(fnames).__name__}. Use read_one()")
        return self.reader.read([self._found(name, int) for name in fnames])

    def list(
        self,
        path: str | os.PathLike[str] | None = None,
        list_file: bool = True,
        list_dir: bool = True,
        recursive: bool = False,
    ) -> builtins.list[Any]:
        """Return the names in a folder, in stored order.

        With `recursive`, what is in a folder follows its name, as `Path` relative to `path`.

        Raises:
            AssertionError: There is no such folder.
        """
        return _names(self._found("" if path is None else path, dict), list_file, list_dir, recursive)

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """Return True if there is a file or a folder of that path."""
        return self._look(path) is not None

    def is_file(self, path: str | os.PathLike[str]) -> bool:
        """Return True if there is a file of that path."""
        return isinstance(self._look(path), int)

    def is_dir(self, path: str | os.PathLike[str]) -> bool:
        """Return True if there is a folder of that path."""
        return isinstance(self._look(path), dict)

    def _found(self, path: str | os.PathLike[str], kind: type) -> Any:
        node = self._look(path)
        if node is None:
            raise MissingFileError(f"{os.fspath(path)!r} does not exist in {self.reader.fnames[0]!r}")
        if not isinstance(node, kind):
            found = "a folder, not a file" if kind is int else "a file, not a folder"
            raise AssertionError(f"{os.fspath(path)!r} in {self.reader.fnames[0]!r} is {found}")
        return node

    def _look(self, path: str | os.PathLike[str]) -> Any:
        node: Any = self.structure
        for name in Path(path).parts:
            node = node.get(name) if isinstance(node, dict) else None
        return node


def pack_folder(folder: str | os.PathLike[str], out_file: str | os.PathLike[str], verbose: bool = False) -> None:
    """Write the files of a folder as a packed folder, which appears when it is complete.

    Args:
        folder: The folder; links are followed.
        out_file: The new file, which ends in `.ffr`.
        verbose: Print the number and the path of each file.

    Raises:
        AssertionError: `folder` is not a folder, or `out_file` does not end in `.ffr`.
        ValueError: An entry is neither a file nor a folder, or folders are nested too deep.
    """
    path = Path(folder).absolute()
    if not path.is_dir():
        raise AssertionError(f"expected a folder, found {str(folder)!r}")
    structure: OrderedDict[str, Any] = OrderedDict()
    n = dump_structure(path, structure, 0)
    with FileWriter(out_file, n + 1) as writer:
        dump_files(writer, path, structure, 0, verbose, n)
        writer.write_one(build_structure(structure))


def dump_structure(folder: str | os.PathLike[str], structure: dict[str, Any], counter: int) -> int:
    """Add the files of a folder to a structure, numbered from `counter` on; return the number of the next file."""
    tree, files = scan_folder(Path(folder), counter)
    structure.update(to_ordered_dict(tree))
    return counter + len(files)


def dump_files(
    writer: FileWriter, prefix: str | os.PathLike[str], structure: dict[str, Any], counter: int, verbose: bool, n: int
) -> int:
    """Write the files of a structure below the folder `prefix`; return the number of the next file."""
    for name, number in walk(structure):
        if not isinstance(number, int):
            continue
        path = Path(prefix) / name
        writer.write_one(path.read_bytes())
        counter = number + 1
        if verbose:
            print(f"{number:0{len(str(n))}d}/{n} {path}", flush=True)
    return counter


def _read_structure(reader: FileReader) -> dict[str, Any]:
    path, last = reader.fnames[-1], reader.n - 1
    record = reader.read_one(last).tobytes() if reader.n else b""
    offset_bytes = int(reader.get_offsets(len(reader.fnames) - 1)[-2]) if reader.n else 0
    return parse_structure(record, max(last, 0), path=path, offset_bytes=offset_bytes)


def _names(structure: dict[str, Any], files: bool, folders: bool, recursive: bool) -> builtins.list[Any]:
    found: builtins.list[Any] = []
    for name, node in structure.items():
        is_file = isinstance(node, int)
        if files if is_file else folders:
            found.append(name)
        if recursive and not is_file:
            found += [Path(name) / below for below in _names(node, files, folders, recursive)]
    return found
