"""The symbolic links of a dataset, which must not lead a reader to files elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

from dataformats.errors import FormatError, Remedy

_MAX_NESTED = 2
_REMEDY = Remedy(
    "If you trust the data, pass {follow_links}; else replace the link by what it names, or list the files.",
    follow_links=True,
)


class LinkError(FormatError):
    """A link leads where a dataset may not lead."""


class LinkBounds:
    """The folders to which the links of a dataset may lead: its own, and the blobs of a Hugging Face cache.

    In such a cache `NAME/snapshots/REVISION` holds links alone, which lead to `NAME/blobs`.

    Args:
        folder: The folder of the dataset, which itself may be a link: the caller named it.
        file: A file that the caller named. Links may also lead to the folder in which it really lies.
    """

    def __init__(self, folder: str | Path, file: str | Path | None = None) -> None:
        self._folder = folder
        self._file = file

    def check(self, path: str | Path, n_above: int = 0) -> None:
        """Check a link, or anything behind links.

        Args:
            path: The link.
            n_above: How many links to folders its path has.

        Raises:
            LinkError: It leads out of the folder of the dataset, or behind too many links to folders.
        """
        real = Path(os.path.realpath(path))
        allowed = self._allowed()
        if not any(real.is_relative_to(folder) for folder in allowed):
            what, expected = "the dataset has a link that leads out of its folder", f"a place in {str(allowed[0])!r}"
            raise LinkError(what, path=str(path), expected=expected, found=repr(str(real)), remedy=_REMEDY)
        if n_above >= _MAX_NESTED:
            what = f"links to folders lead in a circle, or are nested more than {_MAX_NESTED} deep"
            raise LinkError(what, path=str(path), found=repr(str(real)), remedy=_REMEDY)

    def check_below(self, folder: str, n_above: int = 0) -> None:
        """Check all links in a folder and below it, for libraries that open the files by themselves.

        Raises:
            LinkError: A link leads out of the folder of the dataset, or links to folders lead in a circle.
        """
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink():
                    self.check(entry.path, n_above * os.path.isdir(entry.path))
                if os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir():
                    self.check_below(entry.path, n_above + entry.is_symlink())

    def _allowed(self) -> list[Path]:
        folder = Path(os.path.realpath(self._folder))
        named = [] if self._file is None else [Path(os.path.realpath(self._file)).parent]
        caches = [one.parent / "blobs" for one in (folder, *folder.parents) if one.name == "snapshots"]
        return [folder, *named, *caches]
