"""The splits of a folder, by the names of its files or folders, as in the repositories of Hugging Face."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dataformats.errors import Remedy, SpecError, UnknownNameError
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.storage.selected_files import ListedFolder

SPLITS = frozenset(["train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval"])
"""The words by which names tell training data from test data."""

ABOUT_MEDIA = ("annotations", "labels")
"""Folders that describe media in the folders beside them, in the layouts of COCO and YOLO."""

_DATA = "data"


def split_of(name: str) -> str | None:
    """Return the split that the name of a file tells; `None` if it tells none."""
    return next((word for word in re.split(r"[-_.]", name.lower()) if word in SPLITS), None)


def choose_split(entries: Sequence[StoredFile | Folder], split: str | None) -> Sequence[StoredFile | Folder]:
    """Return the files of a split; without one, the folder `data` if it has all files that tell a split.

    Args:
        entries: The files and folders of a path.
        split: The name of the split.

    Raises:
        SpecError: The path has no splits, and `split` is not `None`.
        UnknownNameError: There is no such split.
    """
    folder = entries[0]
    is_plain = len(entries) == 1 and isinstance(folder, Folder) and not folder.explicit
    if split is None:
        below = _folder_of_data(folder) if is_plain and isinstance(folder, Folder) else None
        return entries if below is None else [below]
    splits = _splits_of(folder) if is_plain and isinstance(folder, Folder) else {}
    if not splits:
        what = f"split={split!r} is for a folder whose files or folders are named for splits, as train-00000.parquet"
        raise SpecError(what, remedy=Remedy("Leave out {split}.", split=split))
    if split not in splits:
        raise UnknownNameError("split", name=split, known=splits)
    return [splits[split]]


def _folder_of_data(folder: Folder) -> Folder | None:
    """Return the folder `data` in a folder without other data, if the names of its files tell splits."""
    if any(map(split_of, folder.names())) or not folder.has(_DATA) or _DATA not in folder.folders():
        return None
    below = folder.folder(_DATA)
    names = below.names()
    return below if names and all(map(split_of, names)) else None


def _splits_of(folder: Folder) -> Mapping[str, Folder]:
    folder = _folder_of_data(folder) or folder
    by_split: dict[str, list[str]] = {}
    for name in folder.names():
        if (word := split_of(name)) is not None:
            by_split.setdefault(word, []).append(name)
    if by_split:
        return {word: ListedFolder(folder, names) for word, names in by_split.items()}
    folders = folder.folders()
    if not set(ABOUT_MEDIA).isdisjoint(folders):
        return {name: ListedFolder(folder, (name, *ABOUT_MEDIA)) for name in folders if name not in ABOUT_MEDIA}
    return {name: folder.folder(name) for name in folders if name.lower() in SPLITS}
