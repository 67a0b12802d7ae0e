"""The structure of a packed folder: a pickle of nested `OrderedDict`, parsed opcode by opcode.

The pickle module's loader is never used, because it executes code from the data. Here an opcode outside a short list
is an error, and so is any global but `collections.OrderedDict`, any call with arguments, and any folder used twice.
The result is a tree of names, whatever the bytes.
"""

from __future__ import annotations

import pickle
import pickletools
import struct
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from dataformats.errors import FormatError

MAGIC = b"piouhjgbr"
MAX_DEPTH = 64
MAX_FOLDERS = 2**20
_PROTOCOL = 4  # the default of Python 3.8 to 3.13, and so of the original on any of them
_MAX_PROTOCOL = 5
_CLASS = "collections OrderedDict"

Tree: TypeAlias = "dict[str, int | Tree]"
"""A folder: name to record index (a file) or to another folder."""


def build_structure(tree: Tree) -> bytes:
    """Return the record of a structure, byte for byte like the original's."""
    return MAGIC + pickle.dumps(to_ordered_dict(tree), protocol=_PROTOCOL)


def parse_structure(record: bytes, n_files: int, *, path: str, offset_bytes: int) -> Tree:
    """Return the tree in a record.

    Args:
        record: The last record of the file.
        n_files: Records before it; every index must be in [0, n_files).
        path: The file, for messages.
        offset_bytes: The offset of the record in the file.

    Raises:
        FormatError: Not a structure, or one that holds more than names, indices and folders.
    """
    if not record.startswith(MAGIC):
        found = record[: len(MAGIC)]
        what = "not a packed folder: the last record is not a folder structure"
        raise FormatError(what, path=path, offset_bytes=offset_bytes, expected=MAGIC, found=found)
    parser = _PickleParser(n_files, path, offset_bytes + len(MAGIC))
    tree = parser.run(record[len(MAGIC) :])
    if _depth(tree) > MAX_DEPTH:
        what = "folders are nested too deep"
        raise FormatError(what, path=path, offset_bytes=offset_bytes, expected=f"<= {MAX_DEPTH} levels")
    return tree


@dataclass(frozen=True, slots=True)
class _Token:
    """An item of the stack that is not a value: a mark, an empty tuple, the class."""

    what: str


_MARK, _EMPTY, _ORDERED = _Token("a mark"), _Token("an empty tuple"), _Token("the class OrderedDict")
_Item: TypeAlias = "str | int | Tree | _Token"


class _PickleParser:
    """Parses a pickle in one pass, with the stack and the memo of the pickle machine."""

    def __init__(self, n_files: int, path: str, start: int) -> None:
        self._n_files = n_files
        self._path = path
        self._start = start
        self._stack: list[_Item] = []
        self._memo: dict[int, _Item] = {}
        self._left = n_files
        self._folders = 0
        self._at = 0
        self._opcode = ""

    def run(self, pickled: bytes) -> Tree:
        for name, argument in self._opcodes(pickled):
            self._step(name, argument)
        if self._at + 1 != len(pickled):
            raise self._error("bytes follow the end of the pickle")
        if len(self._stack) != 1 or not isinstance(self._stack[0], dict):
            raise self._error("the pickle does not hold a folder")
        return self._stack[0]

    def _opcodes(self, pickled: bytes) -> Iterator[tuple[str, object]]:
        tokens = pickletools.genops(pickled)
        while True:
            try:
                opcode, argument, at = next(tokens)
            except StopIteration:
                return
            except (ValueError, OverflowError, EOFError, struct.error) as error:
                raise self._error("the pickle is cut short or broken behind this opcode") from error
            self._opcode, self._at = opcode.name, at or 0
            yield opcode.name, argument

    def _step(self, name: str, argument: object) -> None:
        if name in _STRINGS or name in _INTEGERS:
            self._stack.append(argument)  # type: ignore[arg-type]  # str or int, by the opcode
        elif name in _FIXED:
            self._stack.append(_FIXED[name])
        elif name in _ACTIONS:
            _ACTIONS[name](self, argument)
        elif name not in _SILENT:
            raise self._error("an opcode that folder structures do not use")

    def _protocol(self, version: object) -> None:
        if not isinstance(version, int) or version > _MAX_PROTOCOL:
            raise self._error(f"pickle protocol {version}")

    def _global(self, name: object) -> None:
        if name != _CLASS:
            raise self._error(f"a structure may name only {_CLASS!r}, found {name!r}, which was not executed")
        self._stack.append(_ORDERED)

    def _stack_global(self, _: object) -> None:
        name, module = self._pop(), self._pop()
        self._global(f"{module} {name}")

    def _call(self, _: object) -> None:
        arguments, called = self._pop(), self._pop()
        if arguments is not _EMPTY or called is not _ORDERED:
            raise self._error("only OrderedDict() may be called, without arguments")
        self._new_folder(None)

    def _new_folder(self, _: object) -> None:
        self._folders += 1
        if self._folders > MAX_FOLDERS:
            raise self._error(f"more than {MAX_FOLDERS} folders")
        self._stack.append({})

    def _put(self, slot: object) -> None:
        item = self._stack[-1] if self._stack else _MARK
        if item is _MARK:
            raise self._error("the stack has no item to store in the memo")
        self._memo[len(self._memo) if slot is None else slot] = item  # type: ignore[index]  # an int, by the opcode

    def _get(self, slot: object) -> None:
        item = self._memo.get(slot)  # type: ignore[call-overload]  # an int, by the opcode
        if item is None:
            raise self._error(f"the memo has no item {slot}")
        if isinstance(item, dict):
            # A folder inside itself, or in two places.
            raise self._error("a folder is used twice")
        self._stack.append(item)

    def _set_item(self, _: object) -> None:
        value, key = self._pop(), self._pop()
        self._fill([key, value])

    def _set_items(self, _: object) -> None:
        items: list[_Item] = []
        while (item := self._pop(mark=True)) is not _MARK:
            items.append(item)
        self._fill(items[::-1])

    def _fill(self, items: list[_Item]) -> None:
        folder = self._stack[-1] if self._stack else _MARK
        if not isinstance(folder, dict) or len(items) % 2:
            raise self._error("names and values without a folder to put them in")
        for key, value in zip(items[::2], items[1::2], strict=True):
            folder[self._name(key, folder)] = self._value(value)

    def _name(self, key: _Item, folder: Tree) -> str:
        if not isinstance(key, str):
            raise self._error("a name is not a string")
        if key in ("", ".", "..") or "/" in key or "\0" in key:
            raise self._error(f"{key!r} cannot be the name of a file")
        if key in folder:
            raise self._error(f"the name {key!r} occurs twice in one folder")
        return key

    def _value(self, value: _Item) -> int | Tree:
        if isinstance(value, dict):
            return value
        if not isinstance(value, int):
            raise self._error("a file is neither a record index nor a folder")
        if not 0 <= value < self._n_files:
            raise self._error(f"record index {value} is out of range [0, {self._n_files})")
        self._left -= 1
        if self._left < 0:
            raise self._error(f"more files than the {self._n_files} records")
        return value

    def _pop(self, *, mark: bool = False) -> _Item:
        item = self._stack.pop() if self._stack else _MARK
        if item is _MARK and not (mark and self._opcode == "SETITEMS"):
            raise self._error("the pickle pops from an empty stack")
        return item

    def _error(self, message: str) -> FormatError:
        return FormatError(
            f"{message} (opcode {self._opcode or 'none'})",
            path=self._path,
            offset_bytes=self._start + self._at,
            expected="a pickle of nested OrderedDicts: name to record index or folder",
        )


_STRINGS = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})
_INTEGERS = frozenset({"BININT", "BININT1", "BININT2", "LONG1"})
_FIXED = {"MARK": _MARK, "EMPTY_TUPLE": _EMPTY}
_SILENT = frozenset({"FRAME", "STOP"})
_ACTIONS = {
    "PROTO": _PickleParser._protocol,
    "GLOBAL": _PickleParser._global,
    "STACK_GLOBAL": _PickleParser._stack_global,
    "REDUCE": _PickleParser._call,
    "NEWOBJ": _PickleParser._call,
    "EMPTY_DICT": _PickleParser._new_folder,
    "BINPUT": _PickleParser._put,
    "LONG_BINPUT": _PickleParser._put,
    "MEMOIZE": _PickleParser._put,
    "BINGET": _PickleParser._get,
    "LONG_BINGET": _PickleParser._get,
    "SETITEM": _PickleParser._set_item,
    "SETITEMS": _PickleParser._set_items,
}


def to_ordered_dict(tree: Tree) -> OrderedDict[str, object]:
    """Return a tree as the nested `OrderedDict` of the original."""
    return OrderedDict(
        (name, to_ordered_dict(value) if isinstance(value, dict) else value) for name, value in tree.items()
    )


def _depth(tree: Tree) -> int:
    """Return the depth of nested folders; without recursion, because the depth may be too great for it."""
    depth, level = 0, [tree]
    while level:
        depth += 1
        level = [child for folder in level for child in folder.values() if isinstance(child, dict)]
    return depth
