"""Datasets below a folder that is no dataset itself, by the names of their files."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from dataformats.errors import DataFormatsError
from dataformats.interfaces import Backend
from dataformats.interfaces.stored_file import Folder, natural_key
from dataformats.storage.links import LinkError

_DEPTH, _FOLDERS, _DATASETS = 4, 200, 20


@dataclass(frozen=True, slots=True)
class DatasetBelow:
    """A folder with files of a format.

    Attributes:
        path: The folder.
        format: The format that the names of the files are of; `" or "` joins several.
        files: The number of files.
    """

    path: str
    format: str
    files: int


def datasets_below(folder: Folder, backends: Iterable[Backend]) -> list[DatasetBelow]:
    """Return the first datasets in the folders below a folder, the upper levels first.

    At most 20 are returned, and 200 folders on 4 levels are looked into; so links that lead in a circle do not matter.
    Folders that cannot be read are left out.

    Args:
        folder: The folder.
        backends: The formats.
    """
    backends = tuple(backends)
    found: list[DatasetBelow] = []
    waiting = deque((one, 1) for one in _folders(folder))
    for _ in range(_FOLDERS):
        if not waiting or len(found) == _DATASETS:
            break
        one, depth = waiting.popleft()
        dataset = _dataset(one, backends)
        if dataset is not None:
            found.append(dataset)
        elif depth < _DEPTH:
            waiting.extend((inner, depth + 1) for inner in _folders(one))
    return found


def _dataset(folder: Folder, backends: Iterable[Backend]) -> DatasetBelow | None:
    try:
        names = folder.names()
        files = {backend.name: sum(map(backend.matches_name, names)) for backend in backends}
        if not names:  # a sharded Granular dataset holds folders alone
            files = {backend.name: len(backend.find(folder)) for backend in backends}
    except (OSError, DataFormatsError):
        return None
    formats = [name for name, n in files.items() if n]
    return DatasetBelow(folder.name, " or ".join(formats), sum(files.values())) if formats else None


def _folders(folder: Folder) -> Iterator[Folder]:
    with suppress(OSError):
        for name in sorted(folder.folders(), key=natural_key):
            with suppress(LinkError):  # a link that is not followed
                yield folder.folder(name)
