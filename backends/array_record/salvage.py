"""Finds the sound chunks of an ArrayRecord whose end, with the table of its chunks, is missing or damaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dataformats.backends.array_record.library import BLOCK_BYTES, MAGIC, POSTSCRIPT_BYTES
from dataformats.backends.array_record.reader import ArrayRecordReader
from dataformats.backends.array_record.riegeli import Chunk, ChunkScanner, chunks_of_footer, end_of_file
from dataformats.errors import FormatError
from dataformats.indexing.damaged_scan import scan_past_damage
from dataformats.interfaces import Loss, SalvagePart, ShardSalvage
from dataformats.interfaces.stored_file import StoredFile
from dataformats.reading.salvage_by_reading import salvage_reader
from dataformats.spec import VALUE
from dataformats.storage.spliced_file import SplicedFile


def salvage(file: StoredFile, payload: str) -> ShardSalvage:
    """Find the sound records of a file.

    The library reads chunk by chunk, and verifies each. It needs the table of the chunks: if that cannot be read, the
    chunks are found by their headers, and the library reads the file with another end.

    Args:
        file: The file.
        payload: The codec of whole records.

    Raises:
        FormatError: There is no sound header of a chunk.
    """
    reader = ArrayRecordReader([file])
    try:
        reader.counts  # noqa: B018  # reads the table
        return salvage_reader(reader, payload)
    except FormatError as error:
        damage = error
    parts = _without_footer(file, _scan(file))
    if not any(isinstance(part, Chunk) for part in parts):
        raise damage
    group = Counter(part.n_records for part in parts if isinstance(part, Chunk)).most_common(1)
    chunks, losses, n_records = list[Chunk](), list[tuple[int, Loss]](), 0
    last = next((part for part in parts[::-1] if isinstance(part, Chunk)), None)
    for part in parts:
        if isinstance(part, Loss):
            losses.append((n_records, part))
        elif part.n_records == group[0][0] or (part is last and part.n_records < group[0][0]):
            chunks.append(part)
            n_records += part.n_records
        else:
            cause = f"a chunk has {part.n_records} records, others {group[0][0]}"
            losses.append((n_records, Loss(file.name, cause, part.begin, part.stop, records=part.n_records)))
    found = salvage_reader(_reader_of(file, chunks), payload)
    note = f"{file.name}: the end of the file is damaged ({damage.what}); its chunks were found by their headers"
    return ShardSalvage(_with_losses(found.parts, losses), notes=[note])


def _scan(file: StoredFile) -> list[Chunk | Loss]:
    """Return the chunks of records, and the losses between them."""
    scanner, parts = ChunkScanner(file), list[Chunk | Loss]()
    for found in scan_past_damage(file, scanner.chunks, scanner.find):
        if isinstance(found, FormatError):
            where = found.lost_bytes or range(0)
            parts.append(Loss(file.name, found.what, where.start, where.stop))
        elif found.has_records and MAGIC not in file.pread(found.begin, POSTSCRIPT_BYTES):
            parts.append(found)
    return parts


def _without_footer(file: StoredFile, parts: list[Chunk | Loss]) -> list[Chunk | Loss]:
    """Return the parts without the last chunk if that is the table of the chunks, or a damaged one that may be it."""
    at = max((number for number, part in enumerate(parts) if isinstance(part, Chunk)), default=-1)
    if at < 0:
        return parts
    chunk = parts[at]
    assert isinstance(chunk, Chunk)
    extents = _reader_of(file, [chunk]).locate(np.zeros(1, np.int64), {VALUE: True})[VALUE].extents
    assert extents.fetch is not None  # the library reads
    blobs, problems = extents.fetch(extents)
    n_before = sum(isinstance(part, Chunk) for part in parts) - 1
    if problems and chunk.n_records == n_before + 1:
        cause = "a damaged chunk, of records or the table of the chunks"
        return [*parts[:at], Loss(file.name, cause, chunk.begin, chunk.stop), *parts[at + 1 :]]
    is_footer = not problems and chunks_of_footer(blobs[0]) == chunk.n_records - 1
    return [*parts[:at], *parts[at + 1 :]] if is_footer else parts


def _reader_of(file: StoredFile, chunks: Sequence[Chunk]) -> ArrayRecordReader:
    """Return a reader of the blocks with these chunks, and with a new end."""
    base = chunks[0].begin // BLOCK_BYTES * BLOCK_BYTES if chunks else 0
    data = range(base, min(chunks[-1].stop, file.size) if chunks else base)
    moved = [chunk._replace(begin=chunk.begin - base) for chunk in chunks]
    first = -(-len(data) // BLOCK_BYTES) * BLOCK_BYTES
    return ArrayRecordReader([SplicedFile(file, [data, bytes(first - len(data)), end_of_file(first, moved)])])


def _with_losses(parts: Iterator[SalvagePart], losses: Sequence[tuple[int, Loss]]) -> Iterator[SalvagePart]:
    """Yield the parts, and each loss behind its number of records; it hides the numbers of the records behind it."""
    index, waiting = 0, list(losses[::-1])
    for part in parts:
        n, done = (part.records or 0, 0) if isinstance(part, Loss) else (len(part), 0)
        while waiting and waiting[-1][0] < index + n:
            number, loss = waiting.pop()
            if not isinstance(part, Loss) and number - index > done:
                yield part[done : number - index]
                done = number - index
            yield loss
        if not isinstance(part, Loss):
            yield part[done:]
        else:
            yield replace(part, index=None) if len(waiting) < len(losses) else part
        index += n
    yield from (loss for _, loss in waiting[::-1])
