"""A disk that loses power: the operations that survive on it.

All synced data survive: the bytes and the size of a file by a sync of the file, names by a sync of their folder.
A random part of the rest survives. A file may have the content of any time since its last sync, and its size of one
time with blocks of others, which are zeros where the size grew. Operations on names are there or not, and each of them
is atomic: one of both names is there after a rename, with the whole file.

Not part of the model: the loss of synced data, bytes of deleted files in new ones, syncs that fail,
mode, owner, times and attributes of files, and writes to memory-mapped files.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tests.deep.durability.power_loss.recording import Event, Kind
from tests.deep.durability.power_loss.tree import Entry, Tree

_Order = Literal["journal", "folder", "none"]


@dataclass(frozen=True)
class FileSystem:
    """Promises of a file system beyond POSIX.

    Attributes:
        order: Operations on names survive up to a point of time: `"journal"`, in all folders, and each
            sync writes all of them (ext4, XFS); `"folder"`, each folder has its own point; `"none"`, each operation may
            be lost by itself.
        syncs_names: A sync of a file or a folder also writes its own name and the names of the folders above.
        block: The bytes that are written or lost together.
    """

    order: _Order = "folder"
    syncs_names: bool = False
    block: int = 4096

    @classmethod
    def chosen(cls, rng: random.Random, *, ordered: bool) -> FileSystem:
        orders: tuple[_Order, ...] = ("journal", "folder", "folder") if ordered else ("none",)
        return cls(rng.choice(orders), rng.random() < 0.5, rng.choice((4096, 4096, 4096, 512)))


@dataclass(eq=False, slots=True)
class _Node:
    """A file, folder or link.

    Attributes:
        versions: The contents of a file since its last sync. In each list, no byte that a version has was cut off
            afterwards: bytes that a truncation cuts off do not come back under a new size.
        names: All of its names.
        changes: The operations on names in a folder.
    """

    kind: Literal["file", "folder", "link"]
    inode: int
    versions: list[list[bytes]]
    time_ns: int = 0
    names: list[_Name] = field(default_factory=list)
    changes: list[_Change] = field(default_factory=list)

    @property
    def content(self) -> bytes:
        return self.versions[-1][-1]

    def cut(self, content: bytes) -> None:
        self.versions.append([content])

    def extend(self, content: bytes) -> None:
        self.versions[-1].append(content)

    def sync(self) -> None:
        self.versions = [[self.content]]


@dataclass(eq=False, slots=True)
class _Name:
    """One name of a node, which renames move."""

    node: _Node


_Place = tuple[_Node, str]


@dataclass(eq=False, slots=True)
class _Change:
    """One operation on names: these are afterwards at these places; `None` is nowhere."""

    text: str
    names: Sequence[_Name]
    places: Sequence[_Place | None]
    folders: Sequence[_Node]
    is_synced: bool = False


class Disk:
    """The files of a tree, to which operations are applied.

    Args:
        tree: The first content of the disk, all of it synced.
        file_system: Its promises.
    """

    def __init__(self, tree: Tree, file_system: FileSystem) -> None:
        self._file_system = file_system
        self._nodes: dict[int, _Node] = {}
        self._first: dict[_Place, _Name] = {}
        self._changes: list[_Change] = []
        for path, entry in tree.items():
            node = self._nodes.get(entry.inode) or self._new(entry.kind, entry.inode, entry.content, entry.time_ns)
            if path:
                folder, _, name = path.rpartition("/")
                self._first[self._nodes[tree[folder].inode], name] = self._named(node)
        self._root = self._nodes[tree[""].inode]
        self._now = dict(self._first)

    def apply(self, events: Iterable[Event]) -> None:
        """Carry out operations."""
        for event in events:
            self._apply(event)

    def tree(self) -> Tree:
        """Return the tree that all processes see; it survives if one of them is killed."""
        return dict(self._walk(self._now, lambda node: node.content))

    def paths(self) -> dict[int, str]:
        """Return inode to path."""
        return {entry.inode: path for path, entry in self.tree().items()}

    def tree_after_power_loss(self, rng: random.Random) -> tuple[Tree, list[str]]:
        """Return a tree that may survive a loss of power, and the lost operations."""
        kept = self._kept(rng)
        lost = [f"not done: {change.text}" for change in self._changes if change not in kept]
        contents: dict[_Node, bytes] = {}
        paths = self.paths()

        def content(node: _Node) -> bytes:
            if node not in contents:
                contents[node] = _content_after_power_loss(node.versions, rng, self._file_system.block)
                if contents[node] != node.content:
                    path = paths.get(node.inode, "a deleted file")
                    lost.append(f"not written: {path} has {_difference(contents[node], node.content)}")
            return contents[node]

        places = _places(self._first, (change for change in self._changes if change in kept))
        return dict(self._walk(places, content)), lost

    # ---- operations

    def _apply(self, event: Event) -> None:
        match event.kind:
            case Kind.CREATE:
                node = self._new("file", event.b, b"", event.time_ns)
                if event.a:
                    self._put(event, node)
            case Kind.MKDIR:
                self._put(event, self._new("folder", event.b, b"", event.time_ns))
            case Kind.SYMLINK:
                self._put(event, self._new("link", event.b, event.text2, event.time_ns))
            case Kind.LINK:
                self._put(event, self._nodes[event.b])
            case Kind.REMOVE:
                place = self._place(event.a, event.text)
                name = self._now[place]
                self._change(f"remove {place[1]}", [name], [None], [place[0]])
            case Kind.RENAME:
                self._rename(event)
            case Kind.SYNC:
                self._sync(self._nodes[event.a], with_names=not event.b)
            case Kind.SYNC_ALL:
                for node in self._nodes.values():
                    node.sync()
                self._sync_changes(self._changes)
            case Kind.NOTE:
                pass
            case _:
                self._write(event)

    def _write(self, event: Event) -> None:
        node = self._nodes[event.a]
        old, node.time_ns = node.content, event.time_ns
        if event.kind is Kind.TRUNCATE:
            node.cut(old[: event.b]) if event.b < len(old) else node.extend(old.ljust(event.b, b"\0"))
            return
        new = event.text if event.kind is Kind.WRITE else bytes(max(0, min(event.c, len(old) - event.b)))
        node.extend(old[: event.b].ljust(event.b, b"\0") + new + old[event.b + len(new) :])

    def _rename(self, event: Event) -> None:
        source, target = self._place(event.a, event.text), self._place(event.b, event.text2)
        name, other = self._now[source], self._now.get(target)
        folders = [source[0]] if source[0] is target[0] else [source[0], target[0]]
        if event.c & 2 and other is not None:  # RENAME_EXCHANGE
            self._change(f"exchange {source[1]} and {target[1]}", [name, other], [target, source], folders)
        elif other is None or other.node is not name.node:
            self._change(f"rename {source[1]} to {target[1]}", [name], [target], folders)

    def _put(self, event: Event, node: _Node) -> None:
        place = self._place(event.a, event.text)
        self._change(f"{event.kind.name.lower()} {place[1]}", [self._named(node)], [place], [place[0]])

    def _change(
        self, text: str, names: Sequence[_Name], places: Sequence[_Place | None], folders: Sequence[_Node]
    ) -> None:
        change = _Change(text, names, places, folders)
        self._changes.append(change)
        for folder in folders:
            folder.changes.append(change)
        self._now = _places(self._now, [change])

    def _new(self, kind: Literal["file", "folder", "link"], inode: int, content: bytes, time_ns: int) -> _Node:
        old = self._nodes.get(inode)
        if old is not None:  # its number is free again, so its names are gone for good
            self._sync_changes(change for change in self._changes if any(name.node is old for name in change.names))
        node = self._nodes[inode] = _Node(kind, inode, [[content]], time_ns)
        return node

    def _place(self, folder: int, name: bytes) -> _Place:
        return self._nodes[folder], name.decode()

    @staticmethod
    def _named(node: _Node) -> _Name:
        name = _Name(node)
        node.names.append(name)
        return name

    # ---- syncs

    def _sync(self, node: _Node, *, with_names: bool) -> None:
        node.sync()
        if self._file_system.order == "journal":
            if with_names:
                self._sync_changes(self._changes)
            return
        self._sync_changes(node.changes)
        if with_names and self._file_system.syncs_names:
            self._sync_names(node)

    def _sync_names(self, node: _Node) -> None:
        for (folder, _), name in list(self._now.items()):
            if name.node is node:
                last = max((n for n, change in enumerate(folder.changes, 1) if name in change.names), default=0)
                self._sync_changes(folder.changes[:last])
                self._sync_names(folder)

    def _sync_changes(self, changes: Iterable[_Change]) -> None:
        """Write these changes, and the changes in other folders that go before one of them."""
        for change in changes:
            if not change.is_synced:
                change.is_synced = True
                for folder in change.folders:
                    self._sync_changes(folder.changes[: folder.changes.index(change)])

    # ---- losses

    def _kept(self, rng: random.Random) -> set[_Change]:
        kept = {change for change in self._changes if change.is_synced}
        rest = [change for change in self._changes if not change.is_synced]
        match self._file_system.order:
            case "journal":
                return kept.union(rest[: _cut(rng, len(rest))])
            case "folder":
                return kept.union(_prefixes(rest, rng))
            case "none":
                share = rng.choice((0.1, 0.5, 0.9))
                return kept.union(change for change in rest if rng.random() < share)

    def _walk(self, places: dict[_Place, _Name], content: _Content) -> Iterator[tuple[str, Entry]]:
        held: dict[_Node, list[tuple[str, _Node]]] = {}
        for (folder, name), named in places.items():
            held.setdefault(folder, []).append((name, named.node))
        seen, waiting = set[_Node](), [("", self._root)]
        while waiting:
            path, node = waiting.pop()
            if node.kind == "folder" and node in seen:
                continue
            seen.add(node)
            yield path, Entry(node.kind, node.inode, content(node), node.time_ns)
            waiting += [
                (f"{path}/{name}".lstrip("/"), below)
                for name, below in sorted(held.get(node, []), key=_first, reverse=True)
            ]


_Content = Callable[[_Node], bytes]


def _first(pair: tuple[str, _Node]) -> str:
    return pair[0]


def _places(first: dict[_Place, _Name], changes: Iterable[_Change]) -> dict[_Place, _Name]:
    """Return which name is at which place after some changes."""
    found = dict(first)
    places = {name: place for place, name in found.items()}
    for change in changes:
        for name in change.names:
            if name in places:
                del found[places.pop(name)]
        for name, place in zip(change.names, change.places, strict=True):
            if place is not None:
                replaced = found.get(place)
                if replaced is not None:
                    del places[replaced]
                found[place], places[name] = name, place
    return found


def _prefixes(changes: Sequence[_Change], rng: random.Random) -> list[_Change]:
    """Return the first changes of each folder; a change in two folders is there in both of them, or in none."""
    own: dict[_Node, list[_Change]] = {}
    for change in changes:
        for folder in change.folders:
            own.setdefault(folder, []).append(change)
    kept = {folder: found[: _cut(rng, len(found))] for folder, found in own.items()}
    while True:
        whole = {change for change in changes if all(change in kept[folder] for folder in change.folders)}
        shorter = {folder: list(itertools.takewhile(whole.__contains__, found)) for folder, found in kept.items()}
        if shorter == kept:
            return [change for change in changes if change in whole]
        kept = shorter


def _cut(rng: random.Random, n: int) -> int:
    """Return how many of `n` changes are kept: often all, often none."""
    return rng.choice((0, n, rng.randint(0, n), rng.randint(0, n)))


def _content_after_power_loss(versions: Sequence[Sequence[bytes]], rng: random.Random, block: int) -> bytes:
    own = versions[-1] if rng.random() < 0.5 else rng.choice(versions)
    if len(own) == 1:
        return own[0]
    old, new = own[0], own[-1]
    match rng.choices(("old", "new", "zeros", "blocks"), (2, 2, 3, 4))[0]:
        case "old":
            return old
        case "new":
            return new
        case "zeros":
            return _of_blocks([old], len(new), rng, block)
        case _:
            from_all = rng.random() < 0.3
            return _of_blocks(own if from_all else (old, new), len(rng.choice(own)), rng, block)


def _of_blocks(versions: Sequence[bytes], size: int, rng: random.Random, block: int) -> bytes:
    """Return a file of a size with blocks of random versions, and zeros behind the end of a version."""
    parts = (rng.choice(versions)[at : at + block].ljust(block, b"\0") for at in range(0, size, block))
    return b"".join(parts)[:size]


def _difference(found: bytes, expected: bytes) -> str:
    same = next((at for at, (left, right) in enumerate(zip(found, expected, strict=False)) if left != right), None)
    first = min(len(found), len(expected)) if same is None else same
    zeros = "zeros" if not any(found[first:]) else "others"
    return f"{len(found)} bytes instead of {len(expected)}" + (f", {zeros} from byte {first} on" if same else "")
