"""Writes single bags: one file in generation 2, a `.bag` and an `.idx` in generation 3."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dataformats.backends.granular.bag_appender import BagAppender, ResumePoint
from dataformats.backends.granular.bag_limits import BAG, IDX
from dataformats.backends.granular.bags_writer import BagsWriter
from dataformats.backends.granular.intact_records import intact_records, restore_index, resume_point
from dataformats.backends.granular.layout import ENTRY_BYTES
from dataformats.backends.granular.resume import is_partial
from dataformats.errors import Remedy, SpecError
from dataformats.interfaces import BlobWriter, HasSidecars
from dataformats.storage import atomic
from dataformats.storage.record_journal import RecordJournal, journal_path

_PARTIAL = ".partial"


class BagWriter(BagsWriter, BlobWriter, HasSidecars):
    """Appends records to one bag.

    The ends grow in a separate file. In generation 2 `close` copies them behind the records. In generation 3 they are
    published just before the bag, so that a bag never exists without them.

    Args:
        path: The bag, with or without `.partial` at its end.
        generation: 2 or 3.
        resume: Append to the whole records of the unfinished bag.

    Raises:
        SpecError: The name does not end in `.bag`.
        FormatError: The unfinished bag is damaged.
    """

    def __init__(self, path: Path, generation: int, *, resume: bool = False) -> None:
        self._final_idx, self._idx = _index_paths(path)
        super().__init__(path, generation, RecordJournal(journal_path(path), (path, self._idx), n_sizes=2))
        point = ResumePoint()
        if resume:
            self._restore_files()
            self._journal.resume()
            self._journal.cut()
            point = self._resume_point()
        else:
            atomic.remove(path, self._idx)
        self._bag = BagAppender(path, self._idx, point)
        self._appenders.append(self._bag)
        self.n_records: int = point.n_records
        self.n_bytes: int = point.end + ENTRY_BYTES * point.n_records

    def append(self, blob: bytes) -> None:
        """Append one record.

        Raises:
            SpecError: It is empty, and the generation is 2.
            TypeError: It is not bytes.
        """
        self._require_open()
        if not isinstance(blob, bytes):
            raise TypeError(f"cannot append a record to a bag: expected bytes, found {type(blob).__name__}")
        if not blob and self._generation == 2:
            raise SpecError("generation 2 cannot hold empty records; generation 3 can", index=self.n_records)
        self._count(1, self._bag.append(blob))

    def sidecars(self) -> Mapping[str, Path | None]:
        return {self._final_idx: self._idx if self._generation == 3 else None}

    def _restore_files(self) -> None:
        """Give the bag its unfinished index back, which `close` has published or copied."""
        final = self._path.with_name(self._final_idx)
        bag_is_published = self._path.with_name(self._path.name.removesuffix(_PARTIAL)).exists()
        if self._generation == 3 and not self._idx.exists() and final.exists() and not bag_is_published:
            final.rename(self._idx)  # the writer was killed after it published the index, before the bag
        if self._generation == 2:
            restore_index(self._path, self._idx)

    def _resume_point(self) -> ResumePoint:
        least_end, finished = 1 if self._generation == 2 else 0, 0 if is_partial(self._path) else None
        return resume_point(self._idx, intact_records(self._path, self._idx, least_end, finished))


def _index_paths(path: Path) -> tuple[str, Path]:
    """Return the final name of the index of a bag, and its present path."""
    name = path.name.removesuffix(_PARTIAL)
    if not name.endswith(BAG):
        raise SpecError(
            f"cannot write a single bag: expected a name that ends in {BAG}, found {name!r}",
            remedy=Remedy("For a dataset pass {spec}; only datasets have shards.", spec=...),
        )
    final = name.removesuffix(BAG) + IDX
    return final, path.with_name(final + path.name[len(name) :])
