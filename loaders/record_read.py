"""Read records of one source, or of several, as one batch; the order that suits their files, and the cache of that."""

from __future__ import annotations

import functools
import logging
import operator
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import RecordBatch
from dataformats.errors import SpecError
from dataformats.interfaces.record_source import OnCorrupt, RecordSource
from dataformats.loaders.adapters import Readable
from dataformats.loaders.blocks import Blocks
from dataformats.loaders.ranks import nodes_of
from dataformats.loaders.shuffle import Shuffle
from dataformats.reading.concat import interleave
from dataformats.reading.derived_source import joined_sources
from dataformats.storage.remote.block_cache import BlockCache
from dataformats.storage.remote.disk_blocks import PAGE_BYTES
from dataformats.storage.remote.node_folder import local_job
from dataformats.storage.remote.systems import is_url

_LOG = logging.getLogger("dataformats")

_MAX_BYTES = 2**31
_ORDERED_BLOCK_BYTES = 2**20
_ORDERED_BLOCKS = 32
_PARTS_OF_BLOCK = 32  # a block of records touches one more: a part of 32 is read twice
_MAX_BLOCK_RECORDS = 1024
_RECORD_BLOCK_BYTES = 2**20
_WINDOW_BLOCKS = 256
_MIN_WINDOW_BLOCKS = 16

_Numbers = NDArray[np.int64]
_Failures = list[tuple[int, Exception]]

DecodeFields = Callable[[Readable, RecordBatch, _Numbers], RecordBatch]
"""Decodes fields of the records of a source, given the rows that they are of all indices that are read."""


def read_records(
    sources: Sequence[Readable],
    component: _Numbers | None,
    indices: _Numbers,
    on_corrupt: OnCorrupt,
    decode: DecodeFields | None = None,
) -> tuple[RecordBatch, _Numbers | None, _Failures]:
    """Return the records at these indices, in this order, with the damaged ones left out if `on_corrupt="omit"`.

    Args:
        sources: The components of a plan, all with the same spec.
        component: int64[n], the source of each record; `None`: all are of the first one.
        indices: int64[n], the index of each record in its source.
        on_corrupt: How a damaged record is treated: see `RecordSource.read`.
        decode: Decodes fields whose stored bytes the sources give.

    Returns:
        The records; int64[m], the rows of `indices` that they are, ascending, or `None` for all; and the records that
        were left out, as (row of `indices`, error), ascending.

    Raises:
        SpecError: The sources differ in their fields.
    """
    parts = [0] if component is None else np.unique(component).tolist() or [0]
    if len(parts) == 1:
        return _read_one(sources[parts[0]], indices, np.arange(len(indices)), on_corrupt, decode)
    batches, rows_of_part, failures = [], [], []
    for part in parts:
        rows = np.flatnonzero(component == part)
        batch, present, failed = _read_one(sources[part], indices[rows], rows, on_corrupt, decode)
        batches.append(batch)
        rows_of_part.append(rows if present is None else rows[present])
        failures += [(int(rows[row]), error) for row, error in failed]
    _check_fields(parts, batches)
    columns, present = interleave([batch.columns for batch in batches], rows_of_part)
    failures.sort(key=operator.itemgetter(0))
    return RecordBatch(columns, indices[present], {}, batches[0].single), present, failures


def _read_one(
    source: Readable, indices: _Numbers, rows: _Numbers, on_corrupt: OnCorrupt, decode: DecodeFields | None
) -> tuple[RecordBatch, _Numbers | None, _Failures]:
    batch = source.read(indices, on_corrupt=on_corrupt)
    if decode is not None:
        batch = decode(source, batch, rows[~np.isin(indices, list(batch.failed))] if batch.failed else rows)
    if not batch.failed:
        return batch, None, []
    failures = [(row, batch.failed[index]) for row, index in enumerate(indices.tolist()) if index in batch.failed]
    return batch, np.flatnonzero(~np.isin(indices, list(batch.failed))), failures


def _check_fields(components: list[int], batches: list[RecordBatch]) -> None:
    fields = [None if batch.single else sorted(batch.columns) for batch in batches]
    for component, found in zip(components, fields, strict=True):
        if found != fields[0]:
            raise SpecError(
                f"components of the mixture differ: component {components[0]} has {_described(fields[0])}, "
                f"component {component} has {_described(found)}",
                remedy="Make them alike with select() or map() before mix()",
            )


def _described(fields: list[str] | None) -> str:
    return "single values" if fields is None else f"the fields {fields}"


def shuffle_for(
    shuffle: object,
    sources: Sequence[Readable],
    block_records: int | None,
    window_blocks: int | None,
    groups: int | None,
) -> Shuffle:
    """Return the order of these sources: `Shuffle.of`; for `"auto"`, windows if one is remote, compressed or in blocks.

    The numbers of a window order may be `None`: then blocks have about 1 MiB, and at most 1024 records; a window has
    256 blocks, less if several components are compressed or decoded in blocks, because they share a cache; and there is
    one group.

    Raises:
        ValueError: An argument is invalid.
    """
    if shuffle == "auto":
        paths = (path for source in sources if isinstance(source, RecordSource) for path in source.paths)
        url = next(filter(is_url, paths), None)
        shuffle = "window" if decodes_neighbors(sources) or url is not None else True
        if url is not None:
            _log_windows(url)
    if block_records is None:
        files = [source for source in sources if isinstance(source, RecordSource)]
        mean = sum(source.record_bytes() * len(source) for source in files) / max(1, sum(map(len, files)))
        block_records = max(1, min(_MAX_BLOCK_RECORDS, int(_RECORD_BLOCK_BYTES / max(1.0, mean))))
    if window_blocks is None:
        n_decoded = sum(decodes_neighbors([source]) for source in sources)
        window_blocks = max(_MIN_WINDOW_BLOCKS, _WINDOW_BLOCKS // max(1, n_decoded))
    return Shuffle.of(
        shuffle,
        block_records,
        window_blocks,
        1 if groups is None else groups,
    )


def decodes_neighbors(sources: Sequence[Readable]) -> bool:
    """Return True if each process decodes or decompresses what lies around a record, and keeps it."""
    return any(Blocks.of(one) or (isinstance(one, RecordSource) and one.facts.is_compressed) for one in sources)


@functools.cache  # once for each dataset
def _log_windows(url: str) -> None:
    _LOG.info("%s is behind a URL: its records are shuffled in windows. Pass shuffle=True to shuffle all of them", url)


def block_cache_for(sources: Sequence[Readable], shuffle: Shuffle, world_size: int) -> BlockCache | None:
    """Return a cache for the windows of each source that a rank reads from, and the next ones; or for records in order.

    `None` if no file is behind a URL, if records come in any order, or if these windows, and the files, are more than
    2 GiB: then each record is a request.
    """
    every = (part for source in sources if isinstance(source, RecordSource) for part in joined_sources(source))
    files = [source for source in every if source.nbytes and not source.facts.decodes_blocks]
    if shuffle.kind == "global" or not any(is_url(path) for source in files for path in source.paths):
        return None
    n_files = sum(source.facts.files_per_record for source in files)  # that a batch reads from
    job = local_job()
    name = None if job is None else repr([job, *(source.paths for source in files)])
    if shuffle.kind == "none":
        return BlockCache((_ORDERED_BLOCKS + 2 * n_files) * _ORDERED_BLOCK_BYTES, _ORDERED_BLOCK_BYTES, name)
    # The block of one file is an average, because a cache has blocks of one size.
    record_block_bytes = int(sum(source.record_bytes() for source in files) * shuffle.block_records / n_files)
    pages = 2 ** (record_block_bytes // _PARTS_OF_BLOCK // PAGE_BYTES).bit_length() // 2
    block_bytes = min(max(pages, 1) * PAGE_BYTES, _ORDERED_BLOCK_BYTES)  # a power of two: processes share such blocks
    sharers = world_size if name is None else nodes_of(world_size)  # each has a cache
    n_windows = 2 * -(-shuffle.groups // sharers)  # streams take turns: all of their next windows begin at once
    limit = n_windows * shuffle.window_blocks * n_files * (record_block_bytes + 2 * block_bytes)
    n_bytes = sum(source.nbytes + block_bytes * len(source.paths) for source in files)
    limit = min(limit, 2 * n_bytes)  # processes that begin at once request some blocks twice: see `BlockCache.saves`
    return BlockCache(limit, block_bytes, name) if limit <= _MAX_BYTES else None
