"""Optional capabilities of backends, readers, file writers and sources: inherit from those that one has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dataformats.interfaces.file_writer import BlobWriter

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import ArrayLike

    from dataformats.interfaces.record_source import Fields


class AppendsInPlace(ABC):
    """A backend whose published data can grow under their final name."""

    @abstractmethod
    def can_append_in_place(self, path: Path) -> bool:
        """True if the data at this final name can be appended to in place."""

    @abstractmethod
    def grows(self, name: str) -> bool:
        """True if a file of this name in such data becomes longer; the others stay as they are."""


class ResumesFinishedFiles:
    """A backend whose writer can resume a finished file as if it were unfinished: the file has no table of records."""

    def extension_problem(self, path: Path, **backend_options: Any) -> str | None:
        """Return why this finished file cannot be resumed, in words that follow its name; `None` if it can.

        Args:
            path: The file.
            **backend_options: The options of `create`.
        """
        return None


class WritesSingleValues(ABC):
    """A backend of fields that also has files of single values, written without a spec."""

    @abstractmethod
    def create_values(self, path: Path, *, resume: bool = False, **backend_options: Any) -> BlobWriter:
        """Return a writer of one file of single values at `path`: see `BlobBackend.create`."""


class HasSidecars(ABC):
    """A file writer that leaves more files beside the one it writes. Its files cannot be shards."""

    @abstractmethod
    def sidecars(self) -> Mapping[str, Path | None]:
        """Return the final name and present path of each file that belongs beside the closed one.

        They are published just before the file. `None` instead of a path: delete any file of that name.
        """


class CachesIndexes(ABC):
    """A reader whose indexes of files may be of other files that had the same name, size and time."""

    @abstractmethod
    def compare_index(self, path: str) -> None:
        """Compare the index of a file with the file, because a blob was not where the index says.

        If the file is sound and the index is of another one, the index is replaced. If the file is damaged, the index
        is kept, and the result is remembered.

        Raises:
            OutdatedIndexError: The file has another number of records than the index. The new index is cached: it is
                used if the files are opened again.
        """

    @property
    def index_failure(self) -> str | None:
        """Why an index could not be written; `None` if all were."""
        return None


class FilesPerField(ABC):
    """A reader whose fields have separate files, so that `open(cache=)` can hold some fields in memory."""

    @abstractmethod
    def files_of(self, field: str) -> Sequence[int]:
        """Return the numbers of the files that hold the blobs of a field."""


class FetchesRecords(ABC):
    """A source that can prepare a read of some records, as a `Loader` does with the next window of them."""

    @abstractmethod
    def fetch(self, indices: ArrayLike, fields: Fields = None) -> None:
        """Prepare a `read` of these records. Leaves errors to `read`.

        Bytes of remote files are fetched into the cache through which this thread reads, if any; blocks are decoded.
        """
