"""BagsWriter: what the writers of a dataset and of a single bag share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dataformats.backends.granular.bag_appender import BagAppender
from dataformats.backends.granular.resume import AHEAD_ROWS, is_partial
from dataformats.interfaces import FileWriter
from dataformats.storage import atomic
from dataformats.storage.record_journal import Entries, RecordJournal, interrupted_append

_PENDING_BYTES = 2**20  # written while they are in the processor's cache


class BagsWriter(FileWriter):
    """Appends to bags that are flushed together. One journal covers all their files.

    Records are written first, then their ends. So a killed writer leaves whole records, and perhaps bytes behind them.

    Args:
        path: The dataset or the bag.
        generation: 2 or 3.
        journal: The journal of all files.

    Attributes:
        n_records: Rows of the dataset, or records of the bag.
        n_bytes: Their bytes, with their ends.
    """

    def __init__(self, path: Path, generation: int, journal: RecordJournal) -> None:
        self.n_records: int = 0
        self.n_bytes: int = 0
        self._path, self._generation, self._journal = path, generation, journal
        self._appenders: list[BagAppender] = []  # in the order of writing
        self._pending_bytes = self._pending_records = 0
        self._open = True

    @property
    def _row_appenders(self) -> Sequence[BagAppender]:
        """The appenders of bags with one record for each of the writer."""
        return self._appenders

    @property
    def _sizes(self) -> list[int]:
        """Bytes that are written to each file of the journal."""
        return [size for bag in self._appenders for size in bag.sizes]

    def _count(self, n_records: int, n_bytes: int) -> None:
        """Count records that the appenders hold now, and write them if they are many."""
        self.n_records += n_records
        self.n_bytes += n_bytes
        self._pending_records += n_records
        self._pending_bytes += n_bytes
        if self._pending_bytes >= _PENDING_BYTES or self._pending_records >= AHEAD_ROWS:
            self.flush()

    def flush(self, *, sync: bool = False) -> None:
        """Hand all records to the operating system, with `sync` also to the disk; may be repeated after an error."""
        self._flush(sync=sync, to_disk=sync)

    def _flush(self, *, sync: bool, to_disk: bool) -> None:
        self._require_open()
        if not self._is_whole:
            raise interrupted_append(self._path)
        if self._pending_records:
            # What finds the records comes before them: after a loss of power, there are no records without it.
            self._sync_names()
            self._journal.begin(self._sizes)
        # Records before ends, on the disk too: an end is useless without its record.
        entries = Entries.of_files(*[parts for bag in self._appenders for parts in bag.write_records()])
        if sync:
            for bag in self._appenders:
                bag.sync_records()
        # The journal has the ends before the index: so it proves all rows that a reader of growing data finds.
        self._journal.unlisted = [entries] if entries.sizes.any() else []
        self._journal.append()
        for bag in self._appenders:
            bag.finish_records()
        if to_disk:
            self._journal.sync(self._sizes)
        for bag in self._appenders:
            bag.write_ends()
        self._pending_bytes = self._pending_records = 0
        if sync:
            for bag in self._appenders:
                bag.sync_ends()

    def close(self) -> None:
        """Complete the data and sync them."""
        if not self._open:
            return
        # In place, records are finished without a rename: a journal that comes back must not cost them.
        in_place = not is_partial(self._path)
        self._flush(sync=True, to_disk=in_place)
        self._journal.remove()
        if in_place:
            atomic.sync(self._journal.path.parent)
        if self._generation == 2:
            for bag in self._appenders:
                bag.append_index()
            for bag in self._appenders:
                bag.drop_index()
            atomic.sync(self._path if self._path.is_dir() else self._path.parent)
        self._close_files()

    def suspend(self) -> None:
        """Flush buffers to the operating system and close the files."""
        if self._open:
            try:
                # The bytes behind the kept records stay unchanged if there are no new ones.
                if self._pending_records and self._is_whole:
                    self.flush()
            finally:
                self._close_files()

    def discard(self) -> None:
        """Delete the data."""
        self._close_files()
        atomic.remove(self._path, *(bag.index for bag in self._appenders))
        self._journal.remove()

    def _sync_names(self) -> None:
        """Sync what finds the files, besides the folder of the journal."""

    @property
    def _is_whole(self) -> bool:
        """False if an interrupt (Ctrl-C) left an append or a flush half done."""
        return self._journal.covers(self._sizes) and all(bag.n_records == self.n_records for bag in self._row_appenders)

    def _close_files(self) -> None:
        self._open = False
        for bag in self._appenders:
            bag.close()
        self._journal.close()

    def _require_open(self) -> None:
        if not self._open:
            raise ValueError(f"the writer of {str(self._path)!r} is closed")
