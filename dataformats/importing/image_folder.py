"""A folder of images, with a folder for each label."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dataformats.batch import Column
from dataformats.errors import FormatError
from dataformats.importing.blobs import BlobSource, Places, type_of_name
from dataformats.interfaces.stored_file import Folder, StoredFile, natural_key
from dataformats.spec import Type
from dataformats.storage.paths import is_local
from dataformats.storage.threads import concurrent_map

__all__ = ["ImageFolder", "has_images"]

_IMAGES = (".jpg", ".jpeg", ".png", ".webp")


def has_images(folder: Folder) -> bool:
    """Return True if the folder, or one of the folders in it, has an image."""
    folders = [folder, *map(folder.folder, folder.folders())]
    return any(name.lower().endswith(_IMAGES) for one in folders for name in one.names())


class ImageFolder(BlobSource):
    """The images of a folder: `image`, its `path`, and in folders within it the number and the name of their `label`.

    The folders, in the order of their names, are the labels 0, 1, ...; images in folders within them belong to them.
    If there are images of several kinds, `image` is the bytes of their files.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._folders = {"": folder}  # path to folder: each lists its files once
        labels = sorted(folder.folders(), key=natural_key)
        found = [(label, path) for label, name in enumerate(labels) for path in self._images(name)]
        beside = sorted((name for name in folder.names() if name.lower().endswith(_IMAGES)), key=natural_key)
        if found and beside:
            remedy = "Move them into a folder that names their label"
            raise FormatError(f"the image {beside[0]!r} lies beside folders of images", path=folder.name, remedy=remedy)
        if not found:
            found, labels = [(0, path) for path in beside], []
        self._names_of_files = [path for _, path in found]
        sizes = concurrent_map(lambda name: self._by_name(name).size, self._names_of_files, local=is_local(folder.name))
        n = len(found)
        places = Places(np.arange(n), np.zeros(n, np.int64), np.array(sizes, np.int64))
        kinds = {type_of_name(path).codec for path in self._names_of_files}
        names: dict[str, Column] = {"path": list(self._names_of_files)}
        if labels:
            names["label"] = np.array([label for label, _ in found], np.int64)
            names["label_name"] = [labels[label] for label, _ in found]
        super().__init__({"image": places}, {"image": Type(kinds.pop() if len(kinds) == 1 else "bytes")}, names)

    @property
    def format(self) -> str:
        return "images"

    @property
    def paths(self) -> tuple[str, ...]:
        return (self._folder.name,)

    def origin(self, index: int) -> tuple[str, int]:
        return f"{self._folder.name}/{self._names_of_files[index]}", index

    def _file(self, number: int) -> StoredFile:
        return self._by_name(self._names_of_files[number])

    def _by_name(self, path: str) -> StoredFile:
        outer, _, name = path.rpartition("/")
        return self._inner(outer).file(name)

    def _inner(self, path: str) -> Folder:
        if path not in self._folders:
            outer, _, name = path.rpartition("/")
            self._folders[path] = self._inner(outer).folder(name)
        return self._folders[path]

    def _images(self, path: str) -> Iterator[str]:
        """Yield the images in a folder and in those within it, by path."""
        folder = self._inner(path)
        for name in sorted(folder.names(), key=natural_key):
            if name.lower().endswith(_IMAGES):
                yield f"{path}/{name}"
        for name in sorted(folder.folders(), key=natural_key):
            yield from self._images(f"{path}/{name}")
