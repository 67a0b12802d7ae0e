"""Writes datasets of generation 3, which grow row by row, and of generation 2, which have sequences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import msgpack

from dataformats.backends.granular.bag_appender import BagAppender, ResumePoint
from dataformats.backends.granular.bag_limits import BAG, IDX
from dataformats.backends.granular.folder import REFS, SPEC
from dataformats.backends.granular.layout import ENTRY_BYTES
from dataformats.backends.granular.resume import (
    AHEAD_ROWS,
    check_spec,
    column_resume_points,
    is_partial,
    refs_resume_points,
)
from dataformats.backends.granular.stored_types import is_sequence
from dataformats.batch import StoredRecords
from dataformats.errors import SpecError
from dataformats.interfaces import FieldsWriter
from dataformats.spec import Spec
from dataformats.storage import atomic
from dataformats.storage.record_journal import RecordJournal, journal_path

_PENDING_BYTES = 2**20  # written while they are in the processor's cache


class GranularWriter(FieldsWriter):
    """Appends rows to one dataset.

    Records are written first, then their ends, and the ends of `refs.bag` last. So a killed writer leaves whole rows,
    and perhaps bytes behind them. In generation 2 the ends are in `.idx` files, too, until `close` copies them behind
    the records.

    Args:
        path: The folder.
        stored: The types of the fields, by the format's own names.
        generation: 2 or 3.
        resume: Append to the whole rows of the dataset in the folder.

    Raises:
        SpecError: The dataset in the folder has another spec or generation.
        FormatError: The dataset in the folder is damaged.
    """

    def __init__(self, path: Path, stored: Spec, generation: int, *, resume: bool = False) -> None:
        self._folder = path
        self._stored = stored
        self._types = {name: str(stored[name]) for name in sorted(stored)}
        self._sequences = {name: is_sequence(stored[name]) for name in self._types}
        self._generation = generation
        self._pending_bytes = self._pending_rows = 0
        self._is_named = False
        if not resume:
            atomic.remove(path)
        path.mkdir(parents=True, exist_ok=True)
        resumes = resume and check_spec(path, self._types, generation)
        # Beside partial data, so that it is deleted before their rename, also on the disk.
        journal = journal_path(path if is_partial(path) else path / SPEC)
        names = [*self._types, *([REFS] if generation == 2 else [])]
        files = [path / (name + ending) for name in names for ending in (BAG, IDX)]
        self._journal = RecordJournal(journal, files, n_sizes=len(files))
        if resumes:
            self._journal.resume()
        n_records, points = self._resume_points() if resumes else (0, {})
        if self._journal.cut():  # not before the finished rows are found to be sound
            n_records, points = self._resume_points()
        self.n_records: int = n_records
        self._refs: BagAppender | None = None
        self._bags: dict[str, BagAppender] = {}
        try:
            self._open_bags(points, resumes)
        except BaseException:
            self._close_files()
            raise
        self._open = True
        self._appends = {name: bag.append for name, bag in self._bags.items()}
        self.n_bytes: int = sum(bag.end + ENTRY_BYTES * bag.n_records for bag in self._all)

    def append(self, blobs: Mapping[str, Sequence[bytes]]) -> None:
        """Append one row.

        Raises:
            SpecError: A field has no blob, or several without being a sequence, or in generation 2 an empty one.
        """
        self._require_open()
        self._check(blobs)
        n_bytes = 0
        if self._refs is not None:
            n_bytes += self._refs.append(self._row(blobs))
        for name, append in self._appends.items():
            for blob in blobs[name]:
                n_bytes += append(blob)
        self.n_records += 1
        self._pending_rows += 1
        self._pending_bytes += n_bytes
        self.n_bytes += n_bytes
        if self._pending_bytes >= _PENDING_BYTES or self._pending_rows >= AHEAD_ROWS:
            self.flush()

    def append_stored(self, records: StoredRecords) -> None:
        """Append rows, all values of a field at once; in generation 2 one by one."""
        one_each = records.fields.keys() == self._bags.keys() and all(n is None for _, n in records.fields.values())
        if self._refs is not None or not one_each or len(records) > AHEAD_ROWS:
            super().append_stored(records)
            return
        if self._pending_rows + len(records) > AHEAD_ROWS:
            self.flush()
        self._require_open()
        n_bytes = sum(bag.append_all(records.fields[name][0]) for name, bag in self._bags.items())
        self.n_records += len(records)
        self._pending_rows += len(records)
        self._pending_bytes += n_bytes
        self.n_bytes += n_bytes
        if self._pending_bytes >= _PENDING_BYTES:
            self.flush()

    def flush(self, *, sync: bool = False) -> None:
        """Hand all rows to the operating system, with `sync` also to the disk; may be repeated after an error."""
        self._flush(sync=sync, to_disk=sync)

    def _flush(self, *, sync: bool, to_disk: bool) -> None:
        self._require_open()
        self._check_whole()
        if self._pending_rows:
            # What finds the rows comes before them: after a loss of power, there are no rows without it.
            self._sync_names()
            self._journal.begin(self._sizes)
        # Records before ends, on the disk too: an end is useless without its record.
        for bag in self._all:
            bag.write_records()
        if sync:
            for bag in self._all:
                bag.sync_records()
        self._journal.append()
        if to_disk:
            self._journal.sync(self._sizes)
        for bag in self._all:
            bag.write_ends()
        self._pending_bytes = self._pending_rows = 0
        if sync:
            for bag in self._all:
                bag.sync_ends()

    def close(self) -> None:
        """Complete the dataset and sync it."""
        if not self._open:
            return
        # In place, rows are finished without a rename: a journal that comes back must not cost them.
        in_place = not is_partial(self._folder)
        self._flush(sync=True, to_disk=in_place)
        self._journal.remove()
        if in_place:
            atomic.sync(self._folder)
        if self._generation == 2:
            for bag in self._all:
                bag.append_index()
            for bag in self._all:
                bag.drop_index()
            atomic.sync(self._folder)
        self._close_files()

    def suspend(self) -> None:
        """Flush buffers to the operating system and close the files."""
        if self._open:
            try:
                # The bytes behind the kept rows stay unchanged if there are no new rows.
                if self._pending_rows:
                    self.flush()
            finally:
                self._close_files()

    def discard(self) -> None:
        """Delete the folder."""
        self._close_files()
        atomic.remove(self._folder)
        self._journal.remove()

    @property
    def _all(self) -> list[BagAppender]:
        # refs.bag last: it refers to the records of the others.
        return [*self._bags.values(), *([] if self._refs is None else [self._refs])]

    @property
    def _sizes(self) -> list[int]:
        """Bytes that are written to each file of the journal."""
        return [size for bag in self._all for size in bag.sizes]

    def _resume_points(self) -> tuple[int, dict[str, ResumePoint]]:
        if self._generation == 2:
            return refs_resume_points(self._folder, self._stored)
        if is_partial(self._folder):
            finished: int | None = 0
        else:
            finished = self._journal.bases[1] // ENTRY_BYTES if self._journal.is_found else None
        return column_resume_points(self._folder, self._stored, finished)

    def _open_bags(self, points: Mapping[str, ResumePoint], resumes: bool) -> None:
        if self._generation == 2:
            self._refs = self._open_bag(REFS, points, 2 * len(self._types))
        if not resumes:
            (self._folder / SPEC).write_bytes(json.dumps(self._types).encode())
        for number, name in enumerate(self._types):
            self._bags[name] = self._open_bag(name, points, 2 * number)

    def _open_bag(self, name: str, points: Mapping[str, ResumePoint], number: int) -> BagAppender:
        bag, idx = self._folder / (name + BAG), self._folder / (name + IDX)
        return BagAppender(bag, idx, points.get(name, ResumePoint()), self._journal, number)

    def _check(self, blobs: Mapping[str, Sequence[bytes]]) -> None:
        if blobs.keys() != self._bags.keys():
            raise SpecError(
                f"cannot append a row: expected the fields {', '.join(self._bags)}, found {', '.join(blobs)}"
            )
        for name, found in blobs.items():
            if len(found) != 1 and not self._sequences[name]:
                raise SpecError(f"expected one value for {self._types[name]}, found {len(found)}", field=name)
            if self._generation == 2 and not all(found):
                raise SpecError(
                    "generation 2 cannot hold empty values, because its readers cannot recognize them. "
                    "Generation 3 can, but it has no sequences",
                    field=name,
                    index=self.n_records,
                )

    def _row(self, blobs: Mapping[str, Sequence[bytes]]) -> bytes:
        """Return the record of `refs.bag` for a row whose blobs come next."""
        row = []
        for name, bag in self._bags.items():
            count = len(blobs[name])
            sequence = [bag.n_records, count] if count else []
            row.append(sequence if self._sequences[name] else bag.n_records)
        return cast("bytes", msgpack.packb(row))

    def _check_whole(self) -> None:
        """Refuse a state that an interrupt (Ctrl-C) in an append left half changed."""
        counted = list(self._bags.values()) if self._refs is None else [self._refs]
        if any(bag.n_records != self.n_records for bag in counted):
            raise RuntimeError(f"an append to {str(self._folder)!r} was interrupted; continue with resume=True")

    def _sync_names(self) -> None:
        if not self._is_named:
            atomic.sync(self._folder / SPEC)
            atomic.sync(
                self._folder if is_partial(self._folder) else self._folder.parent
            )  # the journal syncs the other
            self._is_named = True

    def _close_files(self) -> None:
        self._open = False
        for bag in self._all:
            bag.close()
        self._journal.close()

    def _require_open(self) -> None:
        if not self._open:
            raise ValueError(f"the writer of {str(self._folder)!r} is closed")
