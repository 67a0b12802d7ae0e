"""Salvages damaged files through the reader of their format: what it reads is sound, the rest is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import CodecError, FormatError, Remedy
from dataformats.interfaces import Backend, Codec, Loss, Reader, ReaderOptions, SalvagePart, ShardSalvage
from dataformats.interfaces.stored_file import StoredFile
from dataformats.interfaces.table import Table
from dataformats.reading.copied_records import refused_copy
from dataformats.reading.salvage_rows import salvage_blobs, salvage_rows
from dataformats.spec import VALUE, Type

_OMIT = Remedy("Write the records that can be read with convert and {on_corrupt}.", on_corrupt="omit")


def salvage_by_reading(backend: Backend, files: Sequence[StoredFile], payload: str) -> ShardSalvage:
    """Return the records of one shard that can be read and whose payload parses, and a loss for each other.

    Args:
        backend: The format.
        files: The files of the shard.
        payload: The codec of whole records.

    Raises:
        FormatError: No record can be located.
        SpecError: The format stores no records that can be copied.
    """
    reader = backend.open(files, ReaderOptions()) if backend.copies_records else None
    if reader is None or isinstance(reader, Table):
        raise refused_copy(backend.name, _OMIT)
    return salvage_reader(reader, payload)


def salvage_reader(reader: Reader, payload: str) -> ShardSalvage:
    """Return the records of a reader that can be read and whose payload parses, and a loss for each other.

    Args:
        reader: The reader of one shard.
        payload: The codec of whole records.
    """
    n = int(reader.counts.sum())
    if reader.spec is not None:
        return ShardSalvage(salvage_rows(reader, n), reader.stored_spec)
    codec = CodecResolver(trusted=False).known_codec(Type.named(payload))
    is_fetched = n > 0 and reader.locate(reader.counts[:0], {VALUE: True})[VALUE].extents.fetch is not None
    parts = salvage_rows(reader, n) if is_fetched else salvage_blobs(reader, n, reader.files[-1].size)
    return ShardSalvage(_parsed(parts, codec, reader.files[0].name))


def _parsed(parts: Iterator[SalvagePart], codec: Codec, name: str) -> Iterator[SalvagePart]:
    """Yield the parts; a record whose payload does not parse is a loss."""
    index: int | None = 0
    for part in parts:
        if isinstance(part, Loss):
            index = None if index is None or part.records is None else index + part.records
            yield part
            continue
        good: list[Any] = []
        for record in part:
            try:
                codec.decode(record if isinstance(record, bytes) else record[VALUE][0])
                good.append(record)
            except (FormatError, CodecError, ValueError) as error:
                if good:
                    yield good
                good = []
                yield Loss(name, getattr(error, "what", "") or str(error), index=index, records=1)
            index = None if index is None else index + 1
        if good:
            yield good
