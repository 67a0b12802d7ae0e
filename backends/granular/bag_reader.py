"""Reads single bags as sources of bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dataformats.backends.granular import bag_limits
from dataformats.indexing.file_index import ArrayIndex, FileIndex, LazyProblems
from dataformats.indexing.files_reader import FilesReader
from dataformats.interfaces.stored_file import StoredFile


class BagReader(FilesReader):
    """The records of bags, one blob each. A bag with an `.idx` beside it is of generation 3.

    Args:
        files: The bags, in reading order.

    Raises:
        FormatError: A bag has no table of limits, or an unreadable one.
    """

    def __init__(self, files: Sequence[StoredFile]) -> None:
        super().__init__(files)
        self._idx = {file: bag_limits.index_of(file) for file in self.files}
        self._generations = {_generation(file, idx) for file, idx in self._idx.items()}

    def index_of(self, file: StoredFile) -> FileIndex:
        """Return the extents of the records of a bag, from its table; an entry that is torn is one record more."""
        limits = bag_limits.limits_of(file, self._idx[file])
        offset, length, wrong = limits.extents(np.arange(len(limits)))
        torn = limits.layout.torn_entry()
        if torn is None:
            return FileIndex.of_blobs(ArrayIndex(offset, length, None, LazyProblems(wrong, limits.problem)))
        problems = LazyProblems(np.append(wrong, True), lambda at: limits.problem(at) if at < len(limits) else torn)
        return FileIndex.of_blobs(ArrayIndex(np.append(offset, 0), np.append(length, 0), None, problems))

    def metadata(self) -> dict[str, str]:
        """Return the generation."""
        return {"generation": ", ".join(map(str, sorted(self._generations)))} if self._generations else {}


def _generation(bag: StoredFile, idx: StoredFile | None) -> int:
    # A table at the end of a bag is sound, or unreadable as a whole.
    layout = bag_limits.layout_of(bag, idx) if idx is not None else bag_limits.limits_of(bag, None).layout
    return layout.generation
