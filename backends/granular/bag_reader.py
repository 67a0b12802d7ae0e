"""Reads single bags as sources of bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dataformats.backends.granular.bags import index_of, layout_of, limits_of
from dataformats.indexing.indexed_reader import FileIndex, IndexedReader, LazyProblems
from dataformats.interfaces.stored_file import StoredFile

__all__ = ["BagReader"]


class BagReader(IndexedReader):
    """The records of bags, one blob each. A bag with an `.idx` beside it is of generation 3.

    Args:
        files: The bags, in reading order.

    Raises:
        FormatError: A bag has no table of limits.
    """

    def __init__(self, files: Sequence[StoredFile]) -> None:
        super().__init__(files)
        self._idx = [index_of(file) for file in self.files]
        pairs = zip(self.files, self._idx, strict=True)
        self._generations = {layout_of(file, idx).generation for file, idx in pairs}

    def load_index(self, file: int) -> FileIndex:
        """Return the extents of the records of a bag, from its table."""
        limits = limits_of(self.files[file], self._idx[file])
        offset, length, wrong = limits.extents(np.arange(len(limits)))
        return FileIndex(offset, length, None, LazyProblems(wrong, limits.problem))

    def metadata(self) -> dict[str, str]:
        """Return the generation."""
        return {"generation": ", ".join(map(str, sorted(self._generations)))} if self._generations else {}
