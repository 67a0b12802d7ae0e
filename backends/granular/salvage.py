"""Finds the whole rows of a damaged dataset, and the sound records of a damaged bag.

The format has no checksums: changed bytes inside a record cannot be noticed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import msgpack
import numpy as np

from dataformats.backends.granular.bag_limits import BAG, IDX, index_of, layout_of, limits_of
from dataformats.backends.granular.bag_reader import BagReader
from dataformats.backends.granular.folder import REFS, SPEC, DatasetFiles, dataset_files, group_files
from dataformats.backends.granular.layout import ENTRY_BYTES, BagLimits
from dataformats.backends.granular.reader import GranularReader
from dataformats.backends.granular.row_index import RowIndex
from dataformats.backends.granular.stored_types import is_sequence
from dataformats.backends.granular.unaligned_rows import held_records, index_layout
from dataformats.errors import FormatError
from dataformats.interfaces import Loss, SalvagePart, ShardSalvage
from dataformats.interfaces.stored_file import StoredFile
from dataformats.reading.salvage_rows import salvage_blobs, salvage_rows
from dataformats.storage.spliced_file import SplicedFile


def salvage(files: Sequence[StoredFile]) -> ShardSalvage:
    """Find the sound rows of one dataset, or the sound records of a single bag.

    Raises:
        FormatError: A file is missing, `spec.json` is not a spec, or a bag has no table.
    """
    (named,) = group_files(files)
    if SPEC not in named:
        return _of_bag(next(iter(named.values())))
    rows, notes = _rows(named)
    dataset = rows.files
    for field in dataset.spec:
        limits = rows.limits(field)
        if isinstance(limits, FormatError):
            raise limits
    # Generation 1 cannot be written: its sequences can in generation 2, its empty records in generation 3.
    generation = rows.generation
    if generation == 1:
        generation = 2 if any(map(is_sequence, dataset.spec.values())) else 3
    parts = salvage_rows(GranularReader([dataset], dataset.spec), rows.n_whole)
    if rows.generation == 1:
        parts = _converted(parts, dataset, generation)
    return ShardSalvage(
        _with_unaligned_rows(parts, dataset, rows.n_whole), dataset.spec, {"generation": generation}, notes
    )


# ---- datasets


def _rows(named: dict[str, StoredFile]) -> tuple[RowIndex, list[str]]:
    """Return the rows of a dataset, and notes; `refs.bag` is built again if all fields have a record a row.

    Then row i has record i of each field.

    Raises:
        FormatError: A file is missing, or nothing shows which records make a row.
    """
    try:
        rows = RowIndex(dataset_files(named))
        rows.generation  # noqa: B018  # reads refs.bag, if there is one
        return rows, []
    except FormatError as error:
        spec_file, damage = named[SPEC], error
    name = spec_file.name.removesuffix(SPEC) + REFS + BAG
    if any(field.endswith(IDX) for field in named):
        raise damage
    dataset = dataset_files({**named, REFS + BAG: SplicedFile(spec_file, [], name)})
    limits = [limits_of(column.bag, None) for column in dataset.columns.values()]
    if any(map(is_sequence, dataset.spec.values())) or len({*map(len, limits)}) > 1:
        raise damage
    records = [cast("bytes", msgpack.packb([row] * len(limits))) for row in range(len(limits[0]))]
    ends = np.cumsum([*map(len, records)], dtype="<u8").tobytes()
    first = bytes(8) if any(one.layout.generation == 1 for one in limits) else b""
    refs = SplicedFile(spec_file, [b"".join(records), first, ends], name)
    note = f"{name}: missing or damaged; built again, because all fields have one record a row"
    return RowIndex(dataset_files({**named, REFS + BAG: refs})), [note]


def _converted(parts: Iterator[SalvagePart], files: DatasetFiles, generation: int) -> Iterator[SalvagePart]:
    """Yield the rows of generation 1 for another generation: integers are signed there, in 2 no value is empty."""
    integers = [name for name, kind in files.spec.items() if kind.codec == "int" and not kind.args]
    first = 0
    for part in parts:
        if isinstance(part, Loss):
            first += part.records or 0
            yield part
            continue
        rows = cast("list[Mapping[str, Sequence[bytes]]]", part)
        for index, row in enumerate(rows, first):
            new = {**row, **{name: [*map(_positive, row[name])] for name in integers}}
            if generation == 2 and not all(map(all, new.values())):
                yield Loss(files.name, "an empty value, which generation 2 cannot hold", index=index, records=1)
            else:
                yield [new]
        first += len(part)


def _positive(blob: bytes) -> bytes:
    """Convert the bytes of an unsigned integer to the bytes of a signed one."""
    return blob + b"\0" if not blob or blob[-1] & 0x80 else blob


def _with_unaligned_rows(parts: Iterator[SalvagePart], files: DatasetFiles, n_whole: int) -> Iterator[SalvagePart]:
    """Yield the parts, then what lies behind the last whole row."""
    yield from parts
    if files.refs is not None:
        held = {name: n for name, n in held_records(files).items() if not is_sequence(files.spec[name])}
        n_lost = max(held.values(), default=n_whole) - n_whole
        if n_lost > 0:
            cause = "refs.bag has fewer rows than fields have records"
            yield Loss(files.refs.name, cause, index=n_whole, records=n_lost)
        return
    layouts = {name: index_layout(column) for name, column in files.columns.items()}
    n_lost = max(layout.n_records for layout in layouts.values()) - n_whole
    if n_lost:
        short = ", ".join(repr(name) for name, layout in layouts.items() if layout.n_records == n_whole)
        yield Loss(files.name, f"fields lack these rows: {short}", index=n_whole, records=n_lost)
    for column in files.columns.values():
        limits = limits_of(column.bag, column.idx)
        yield from _tails(column.bag, column.idx, limits, n_whole, 0 if n_lost else None)


def _tails(
    bag: StoredFile, idx: StoredFile | None, limits: BagLimits, n_kept: int, n_lost: int | None = None
) -> Iterator[Loss]:
    """Yield the bytes of a bag and of its `.idx` behind the last whole record."""
    if n_kept and not limits.believed[n_kept - 1]:
        return  # a part of a record that is lost already
    end = int(limits.edges[n_kept])
    if end < limits.layout.data_bytes:
        yield Loss(bag.name, "bytes behind the last whole record", end, limits.layout.data_bytes, records=n_lost)
    if idx is not None and limits.layout.torn_bytes:
        yield Loss(idx.name, "the index ends within an entry", ENTRY_BYTES * len(limits), idx.size, records=n_lost)


# ---- single bags


def _of_bag(bag: StoredFile) -> ShardSalvage:
    idx = index_of(bag)
    limits = limits_of(bag, idx)
    # Empty records of generation 1 need generation 3.
    generation = 2 if layout_of(bag, idx).generation == 2 else 3
    return ShardSalvage(_bag_parts(bag, idx, limits), options={"generation": generation})


def _bag_parts(bag: StoredFile, idx: StoredFile | None, limits: BagLimits) -> Iterator[SalvagePart]:
    yield from salvage_blobs(BagReader([bag]), len(limits), limits.layout.data_bytes)
    yield from _tails(bag, idx, limits, len(limits))
