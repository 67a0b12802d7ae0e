"""Symbolic links in the folder of a dataset, which must not lead a reader to files elsewhere."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from dataformats.errors import FormatError
from dataformats.interfaces.stored_file import StoredFile


def check_links(dataset: str, files: Sequence[StoredFile]) -> None:
    """Refuse links that lead out of a dataset.

    The caches of downloaded files have a folder of links for each version, and all lead to one other folder. So files
    may also lie in the folder in which `spec.json` really lies: then the whole dataset lies there.

    Args:
        dataset: The folder that the caller of `open` named.
        files: The files in it, or in one of its shards; `spec.json` first.

    Raises:
        FormatError: A link leads to another folder.
    """
    paths = [Path(file.local) for file in files if file.local is not None]
    if not paths:
        return
    home = Path(os.path.realpath(dataset))
    shard = paths[0].parent
    if shard != Path(dataset):
        _check_link(shard, (home,))
    spec = Path(os.path.realpath(paths[0]))
    for path in paths:
        _check_link(path, (home, spec.parent))


def _check_link(path: Path, allowed: Sequence[Path]) -> None:
    if not path.is_symlink():
        return
    real = Path(os.path.realpath(path))
    if not any(real.is_relative_to(folder) for folder in allowed):
        raise FormatError(
            "the dataset has a link that leads out of its folder",
            path=str(path),
            expected=f"a file in {' or '.join(repr(str(folder)) for folder in dict.fromkeys(allowed))}",
            found=repr(str(real)),
            remedy="Replace the link by what it names, or pass the files, or the folders of the shards, by name",
        )
