"""Writes datasets of generation 3, which grow row by row, and of generation 2, which have sequences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import msgpack

from dataformats.backends.granular.bag_appender import BagAppender, ResumePoint
from dataformats.backends.granular.bag_limits import BAG, IDX
from dataformats.backends.granular.bags_writer import BagsWriter
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


class GranularWriter(BagsWriter, FieldsWriter):
    """Appends rows to one dataset.

    The ends of `refs.bag` are written last. In generation 2 the ends are in `.idx` files, too, until `close` copies
    them behind the records.

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
        # Beside partial data, so that it is deleted before their rename, also on the disk.
        journal = journal_path(path if is_partial(path) else path / SPEC)
        names = [*sorted(stored), *([REFS] if generation == 2 else [])]
        files = [path / (name + ending) for name in names for ending in (BAG, IDX)]
        super().__init__(path, generation, RecordJournal(journal, files, n_sizes=len(files)))
        self._stored = stored
        self._types = {name: str(stored[name]) for name in sorted(stored)}
        self._sequences = {name: is_sequence(stored[name]) for name in self._types}
        self._is_named = False
        if not resume:
            atomic.remove(path)
        path.mkdir(parents=True, exist_ok=True)
        resumes = resume and check_spec(path, self._types, generation)
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
        self._appends = {name: bag.append for name, bag in self._bags.items()}
        self.n_bytes: int = sum(bag.end + ENTRY_BYTES * bag.n_records for bag in self._appenders)

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
        self._count(1, n_bytes)

    def append_stored(self, records: StoredRecords) -> None:
        """Append rows, all values of a field at once; in generation 2 one by one."""
        one_each = records.fields.keys() == self._bags.keys() and all(n is None for _, n in records.fields.values())
        if self._refs is not None or not one_each or len(records) > AHEAD_ROWS:
            super().append_stored(records)
            return
        if self._pending_records + len(records) > AHEAD_ROWS:
            self.flush()
        self._require_open()
        n_bytes = sum(bag.append_all(records.fields[name][0]) for name, bag in self._bags.items())
        self._count(len(records), n_bytes)

    @property
    def _row_appenders(self) -> Sequence[BagAppender]:
        return list(self._bags.values()) if self._refs is None else [self._refs]

    def _resume_points(self) -> tuple[int, dict[str, ResumePoint]]:
        if self._generation == 2:
            return refs_resume_points(self._path, self._stored)
        if is_partial(self._path):
            finished: int | None = 0
        else:
            finished = self._journal.bases[1] // ENTRY_BYTES if self._journal.is_found else None
        return column_resume_points(self._path, self._stored, finished)

    def _open_bags(self, points: Mapping[str, ResumePoint], resumes: bool) -> None:
        if self._generation == 2:
            self._refs = self._open_bag(REFS, points)
            self._appenders.append(self._refs)
        if not resumes:
            (self._path / SPEC).write_bytes(json.dumps(self._types).encode())
        for number, name in enumerate(self._types):
            self._bags[name] = self._open_bag(name, points)
            self._appenders.insert(
                number, self._bags[name]
            )  # before refs.bag, which refers to the records of the others

    def _open_bag(self, name: str, points: Mapping[str, ResumePoint]) -> BagAppender:
        return BagAppender(self._path / (name + BAG), self._path / (name + IDX), points.get(name, ResumePoint()))

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

    def _sync_names(self) -> None:
        if not self._is_named:
            atomic.sync(self._path / SPEC)
            atomic.sync(self._path)
            self._is_named = True
