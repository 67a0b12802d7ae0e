"""Finds the media of a folder, in the order of torchvision's `ImageFolder`, their labels, and the files beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.media.kinds import MediaKind
from dataformats.errors import FormatError, Remedy
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.reading.splits import ABOUT_MEDIA, SPLITS
from dataformats.storage.given_files import BytesFile
from dataformats.storage.paths import is_local
from dataformats.storage.threads import concurrent_map

_MAX_DEPTH = 16  # links may lead in a circle
_PROBED_DEPTH, _PROBED_FOLDERS = 4, 3
_TABLES = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
_COCO = ".coco.json"
_ANNOTATIONS, _LABELS = ABOUT_MEDIA
_INSTANCES = "instances"  # begins the name of COCO's document with all boxes
_IMAGES = "images"  # the folder in which YOLO's programs look for them
_CLASSES = ("data.yaml", "classes.txt", "obj.names")  # YOLO's files of class names
_DATA = frozenset(("csv", "json", "jsonl", "parquet", "tsv", "xml"))


@dataclass(slots=True)
class Beside:
    """The files beside media that say more about them.

    Attributes:
        companions: By extension, the number of each medium of one stem, and the file: `1.txt` beside `1.jpg`.
        tables: Files whose rows name media, each with the folder that the names begin from.
        boxes: The number of each medium, and its file of labels in YOLO's layout; `None` if there is no such folder.
        classes: The file with the class names of boxes; `None` without one.
        unread: The paths of files that describe no medium.
        is_whole: False if a call chose some of the media, so that rows of tables may name others.
    """

    companions: defaultdict[str, list[tuple[int, StoredFile]]] = field(default_factory=lambda: defaultdict(list))
    tables: list[tuple[str, StoredFile]] = field(default_factory=list)
    boxes: list[tuple[int, StoredFile]] | None = None
    classes: StoredFile | None = None
    unread: list[str] = field(default_factory=list)
    is_whole: bool = True

    def add(self, kind: MediaKind, path: str, folder: Folder, media: Sequence[str], first: int) -> None:
        """Add the files of a folder that are no media.

        Args:
            kind: The kind of media.
            path: The path of the folder, with a slash unless it is the dataset itself.
            folder: The folder.
            media: The names of the media in it.
            first: The number of the first of them.
        """
        if len(names := folder.names()) == len(media):
            return
        others = [name for name in names if not kind.has(name)]
        numbers = defaultdict(list)
        for number, name in enumerate(media, first):
            numbers[name.rpartition(".")[0]].append(number)
        found: list[tuple[str, list[int], str]] = []
        for name in others:
            stem, extension = name, ""
            while stem not in numbers and "." in stem:
                stem, _, last = stem.rpartition(".")
                extension = f"{last}.{extension}" if extension else last
            if extension and stem in numbers:
                found.append((name, numbers[stem], extension.lower()))
            elif name in _TABLES or name.endswith(_COCO):
                self.tables.append((path, folder.file(name)))
            else:
                self.unread.append(path + name)
        files = folder.files([name for name, _, _ in found])
        for file, (_, of, extension) in zip(files, found, strict=True):
            self.companions[extension] += [(number, file) for number in of]

    def add_documents(self, folder: Folder, labels: Sequence[str]) -> None:
        """Add the documents of COCO for the images in the folders `labels`: `instances_val2017.json` of `val2017`.

        If there are such documents, others are not read: for other folders, of keypoints, of captions.
        """
        names = [name for name in folder.names() if name.endswith(".json")]
        of_labels = [name for name in names if name.removesuffix(".json").endswith(tuple(labels))] or names
        read = [name for name in of_labels if name.startswith(_INSTANCES)] or of_labels
        self.tables += [("", file) for file in folder.files(read)]
        others = [name for name in names if name not in read and not name.startswith(_INSTANCES)]
        self.unread += [f"{_ANNOTATIONS}/{name}" for name in others]

    def add_labels(self, folder: Folder, paths: Sequence[str], skipped: int) -> None:
        """Add YOLO's `labels/train/1.txt` of `images/train/1.jpg`; `skipped` is the number of leading folders."""
        found = {f"{path}{name}": one for path, names, one in _walk(None, folder, "", _MAX_DEPTH) for name in names}
        self.boxes = []
        for number, path in enumerate(paths):
            name = path.split("/", skipped)[-1].rpartition(".")[0] + ".txt"
            if (one := found.pop(name, None)) is not None:
                self.boxes.append((number, one.file(name.rpartition("/")[2])))
        self.unread += [f"{_LABELS}/{name}" for name in sorted(found)]
        self.classes = _classes_of(folder)

    @property
    def unread_data(self) -> list[str]:
        """The unread files that seem to have data: tables, and files like those that are read."""
        texts = {"txt"} if self.boxes else set()
        endings = _DATA.union(texts, (extension.rpartition(".")[2] for extension in self.companions))
        unread = (path for path in self.unread if path.rpartition("/")[2] not in _CLASSES)
        return [path for path in unread if path.rpartition(".")[2].lower() in endings]

    @property
    def files(self) -> Iterator[StoredFile]:
        """The files that are read."""
        for of_extension in self.companions.values():
            yield from (file for _, file in of_extension)
        yield from (file for _, file in (*self.tables, *(self.boxes or ())))


class MediaNames(BytesFile):
    """The names and labels of media as a file in memory: it precedes the files that it describes.

    Args:
        name: The folder of the media.
        paths: The path of each medium in the folder.
        beside: The files beside them.
        labels: The label of each; `None` if the media lie in one folder.
        label_names: The names of the labels.
        problem: Why these media are no dataset.
    """

    def __init__(
        self,
        name: str,
        paths: Sequence[str],
        beside: Beside,
        *,
        labels: NDArray[np.int64] | None = None,
        label_names: Sequence[str] = (),
        problem: FormatError | None = None,
    ) -> None:
        self.paths: Sequence[str] = paths
        self.label_names: tuple[str, ...] = tuple(label_names)
        self.problem: FormatError | None = problem
        self.beside: Beside = beside
        texts = [path.encode(errors="surrogateescape") for path in (*label_names, *paths)]
        lengths = np.array([len(text) for text in texts], np.int64)
        ends = np.cumsum(lengths)
        n = len(label_names)
        self.places: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {
            "path": (ends[n:] - lengths[n:], lengths[n:])
        }
        data = b"".join(texts)
        if labels is not None:
            first = len(data) + 8 * np.arange(len(labels))
            self.places["label"] = first, np.full(len(labels), 8, np.int64)
            self.places["label_name"] = (ends[:n] - lengths[:n])[labels], lengths[:n][labels]
            data += labels.astype("<i8").tobytes()
        super().__init__(data, name)
        self.content: bytes = data
        self.covers: Sequence[StoredFile] = [*beside.files]


def find_media(kind: MediaKind, folder: Folder) -> list[StoredFile]:
    """Return the names of the media in a folder, or in the folders of labels, and the media; else an empty list.

    The media belong to labels if each folder in it, but empty ones, has media, and one of the first three is not
    empty. Labels are in the order of their names, media in the order of folder and name. Folders `labels` and
    `annotations` without media describe those in the other folders, as in the layouts of YOLO and COCO.
    """
    media = sorted(filter(kind.has, folder.names()))
    labels = sorted(folder.folders())
    about = {name: folder.folder(name) for name in labels if name in ABOUT_MEDIA}
    about = {name: one for name, one in about.items() if _probe(kind, one, _PROBED_DEPTH) is False}
    labels = [name for name in labels if name not in about]
    inside = [folder.folder(name) for name in labels]
    if True not in [_probe(kind, one, _PROBED_DEPTH) for one in inside[:_PROBED_FOLDERS]] or False in (
        _probe(kind, one, _PROBED_DEPTH) for one in inside
    ):
        labels, inside = [], []
    pairs = list(zip(labels, inside, strict=True))  # a link has its own name, and not its folder's
    walked = concurrent_map(
        lambda pair: sorted(_walk(kind, pair[1], f"{pair[0]}/", _MAX_DEPTH), key=lambda found: found[0].rstrip("/")),
        pairs,
        local=is_local(folder.name),
    )
    if not media and not any(names for folders in walked for _, names, _ in folders):
        return []
    problem = None
    if media and labels:
        remedy = "Move them into a folder that names their label"
        what = f"the {kind.field} {media[0]!r} lies beside folders of {kind.name}"
        problem = FormatError(what, path=folder.name, remedy=remedy)
    elif len(labels) > 1 and (about or SPLITS.issuperset(labels)):
        remedy_of_split = Remedy("Pass {split}, or another one.", split=labels[-1])
        problem = FormatError("the folder holds several splits", path=folder.name, found=labels, remedy=remedy_of_split)
    elif (
        about
        and labels
        and len(splits := {path.split("/")[1] for path, _, _ in walked[0]}) > 1
        and SPLITS.issuperset(splits)
    ):
        remedy = f"Open one of them, such as {folder.name.rstrip('/') + f'/{labels[0]}/' + max(splits)!r}"
        problem = FormatError("the folder holds several splits", path=folder.name, found=sorted(splits), remedy=remedy)
    files: list[StoredFile] = folder.files(media)
    paths, beside = [*media], Beside()
    beside.add(kind, "", folder, media, 0)
    counts = np.zeros(len(labels), np.int64)
    for number, folders in enumerate(walked):
        for path, names, one in folders:
            beside.add(kind, path, one, names, len(paths))
            files += one.files(names)
            paths += [path + name for name in names]
            counts[number] += len(names)
    if _ANNOTATIONS in about:
        beside.add_documents(about[_ANNOTATIONS], labels)
    boxes = about.get(_LABELS) or (_boxes_beside(folder) if media else None)
    if boxes is not None:
        beside.add_labels(boxes, paths, min(len(labels), 1))
    if about or not labels:
        return [MediaNames(folder.name, paths, beside, problem=problem), *files]
    numbers = np.repeat(np.arange(len(labels)), counts)
    return [MediaNames(folder.name, paths, beside, labels=numbers, label_names=labels, problem=problem), *files]


def _boxes_beside(folder: Folder) -> Folder | None:
    """Return YOLO's `labels` or `labels/train` beside a folder `images` or `images/train`; `None` without one."""
    inner = [] if folder.basename == _IMAGES else [folder.basename]
    images = folder.parent() if inner else folder
    found = None if images is None or images.basename != _IMAGES else images.parent()
    with suppress(OSError):  # there may be no right to list it
        for name in (_LABELS, *inner):
            found = found.folder(name) if found is not None and name in found.folders() else None
        return found
    return None


def _classes_of(labels: Folder) -> StoredFile | None:
    """Return the file with class names in YOLO's folder of labels, or in a folder above it; `None` without one."""
    folder: Folder | None = labels
    with suppress(OSError):  # there may be no right to list it
        while folder is not None:
            if found := [name for name in _CLASSES if name in folder.names()]:
                return folder.file(found[0])
            folder = folder.parent() if folder.basename in (_LABELS, *SPLITS) else None
    return None


def names_of(kind: MediaKind, files: Sequence[StoredFile]) -> MediaNames:
    """Return the names of media that a call lists one by one, with the files beside them."""
    beside = Beside(is_whole=False)
    folders = defaultdict(list)
    for number, file in enumerate(files):
        folders[file.name.rpartition("/")[0]].append(number)
    for numbers in folders.values():
        folder = files[numbers[0]].folder()
        if folder is not None and numbers == list(range(numbers[0], numbers[-1] + 1)):
            beside.add(kind, "", folder, [files[number].basename for number in numbers], numbers[0])
    return MediaNames(files[0].name, [file.basename for file in files], beside)


def _walk(kind: MediaKind | None, folder: Folder, path: str, depth: int) -> Iterator[tuple[str, list[str], Folder]]:
    """Yield each folder with files, with its path and the names of the media; `None`: of all files."""
    names = folder.names()
    if names:
        yield path, sorted(name for name in names if kind is None or kind.has(name)), folder
    for name in folder.folders() if depth else ():
        yield from _walk(kind, folder.folder(name), f"{path}{name}/", depth - 1)


def _probe(kind: MediaKind, folder: Folder, depth: int) -> bool | None:
    """Return True if there are media near the top of a folder, `None` if it is empty, False otherwise."""
    names = folder.names()
    if names or not depth:
        return any(map(kind.has, names))
    inside = [folder.folder(name) for name in sorted(folder.folders())[:_PROBED_FOLDERS]]
    found = [_probe(kind, one, depth - 1) for one in inside]
    return True if True in found else False if False in found else None
