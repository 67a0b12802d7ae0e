"""Finds the sound samples of a damaged dataset: of each shard that is there, by its own table of offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from dataformats.backends.mds.files import plain_file
from dataformats.backends.mds.index_file import Shard
from dataformats.backends.mds.reader import MdsReader, read_table
from dataformats.errors import FormatError
from dataformats.interfaces import Loss, SalvagePart
from dataformats.interfaces.stored_file import StoredFile
from dataformats.reading.salvage_rows import salvage_rows
from dataformats.spec import Spec
from dataformats.storage.spliced_file import SplicedFile

_WORD = 4


def salvage_shards(shards: Iterable[tuple[StoredFile | str, Shard]], spec: Spec) -> Iterator[SalvagePart]:
    """Yield the sound samples of shards, and the losses.

    Args:
        shards: The file of each shard, or the path of a missing one, and what the index says about it.
        spec: The types of the columns.
    """
    first = 0
    for file, shard in shards:
        for part in _parts(file, shard, spec):
            if isinstance(part, Loss) and part.index is not None:
                yield replace(part, index=first + part.index)
            else:
                yield part
        first += shard.samples


def _parts(file: StoredFile | str, shard: Shard, spec: Spec) -> Iterator[SalvagePart]:
    if isinstance(file, str):
        yield Loss(file, "the shard is missing", index=0, records=shard.samples)
        return
    try:
        plain = _with_count(plain_file(file, shard), shard.samples)
        read_table(plain, shard.samples)
    except FormatError as error:
        yield Loss(file.name, error.what, 0, file.size, 0, shard.samples)
        return
    yield from salvage_rows(MdsReader([plain], [shard], spec, checks_sizes=True), shard.samples)


def _with_count(file: StoredFile, samples: int) -> StoredFile:
    """Return a shard with the number of samples in front, if only that is damaged: its table shows it as well."""
    at, count = _WORD * (samples + 1), samples.to_bytes(_WORD, "little")
    if file.size < at + _WORD or file.pread(at, _WORD) != file.size.to_bytes(_WORD, "little"):
        return file
    return SplicedFile(file, [count, range(_WORD, file.size)])
