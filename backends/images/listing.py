"""Finds the images of a folder, in the order of torchvision's `ImageFolder`, and their labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.reading.detection import SPLITS
from dataformats.storage.given_files import BytesFile
from dataformats.storage.paths import is_local
from dataformats.storage.threads import concurrent_map

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".ppm", ".bmp", ".pgm", ".tif", ".tiff")
"""The endings of image files, in small letters."""

_MAX_DEPTH = 16  # links may lead in a circle
_PROBED_DEPTH, _PROBED_FOLDERS = 4, 3


class ImageNames(BytesFile):
    """The names and labels of images as a file in memory: it precedes the image files that it describes.

    Args:
        name: The folder of the images.
        paths: The path of each image in the folder.
        labels: The label of each; `None` if the images lie in one folder.
        label_names: The names of the labels.
        problem: Why these images are no dataset.
    """

    def __init__(
        self,
        name: str,
        paths: Sequence[str],
        labels: NDArray[np.int64] | None = None,
        label_names: Sequence[str] = (),
        problem: FormatError | None = None,
    ) -> None:
        self.label_names: tuple[str, ...] = tuple(label_names)
        self.problem: FormatError | None = problem
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
        super().__init__(data)
        self.name: str = name
        self.content: bytes = data


def find_images(folder: Folder) -> list[StoredFile]:
    """Return the names of the images in a folder, or in the folders of labels, and the images; else an empty list.

    The images belong to labels if each folder in it, but empty ones, has images, and one of the first three
    is not empty. Labels are in the order of their
    names, images in the order of folder and name.
    """
    beside = sorted(filter(is_image, folder.names()))
    labels = sorted(folder.folders())
    inside = [folder.folder(name) for name in labels]
    if True not in [_probe(one, _PROBED_DEPTH) for one in inside[:_PROBED_FOLDERS]] or False in (
        _probe(one, _PROBED_DEPTH) for one in inside
    ):
        labels, inside = [], []
    pairs = list(zip(labels, inside, strict=True))  # a link has its own name, and not its folder's
    walked = concurrent_map(
        lambda pair: sorted(_walk(pair[1], pair[0], _MAX_DEPTH)), pairs, local=is_local(folder.name)
    )
    if not any(walked):
        return [ImageNames(folder.name, beside), *folder.files(beside)] if beside else []
    problem = None
    if beside:
        remedy = "Move them into a folder that names their label"
        problem = FormatError(f"the image {beside[0]!r} lies beside folders of images", path=folder.name, remedy=remedy)
    elif len(labels) > 1 and SPLITS.issuperset(labels):
        remedy = f"Open one of them, such as {folder.name.rstrip('/') + '/' + labels[-1]!r}"
        problem = FormatError("the folder holds several splits", path=folder.name, found=labels, remedy=remedy)
    files: list[StoredFile] = []
    paths: list[str] = []
    for folders in walked:
        for path, names, one in folders:
            files += one.files(names)
            paths += [f"{path}/{name}" for name in names]
    counts = [sum(len(names) for _, names, _ in folders) for folders in walked]
    numbers = np.repeat(np.arange(len(labels)), counts)
    return [ImageNames(folder.name, paths, numbers, labels, problem), *files]


def is_image(name: str) -> bool:
    """True if a file of this name is an image."""
    return name.lower().endswith(SUFFIXES)


def _walk(folder: Folder, path: str, depth: int) -> Iterator[tuple[str, list[str], Folder]]:
    """Yield each folder that has images, with its path and their names."""
    names = sorted(filter(is_image, folder.names()))
    if names:
        yield path, names, folder
    for name in folder.folders() if depth else ():
        yield from _walk(folder.folder(name), f"{path}/{name}", depth - 1)


def _probe(folder: Folder, depth: int) -> bool | None:
    """Return True if there are images near the top of a folder, `None` if it is empty, False otherwise."""
    names = folder.names()
    if names or not depth:
        return any(map(is_image, names))
    inside = [folder.folder(name) for name in sorted(folder.folders())[:_PROBED_FOLDERS]]
    found = [_probe(one, depth - 1) for one in inside]
    return True if True in found else False if False in found else None
