"""Read written records back, and compare them with the bytes that were to be written."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs, RecordBatch, StoredRecords
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import FormatError
from dataformats.interfaces import Backend, BlockTable, ReaderOptions, Table
from dataformats.kernels import crc32, crc32_extents
from dataformats.spec import VALUE, Spec
from dataformats.storage.files import LocalFile, LocalFolder
from dataformats.writing.encoding import FieldsEncoder

if TYPE_CHECKING:
    from dataformats.reading.blob_reader import BlobReader

Content = dict[str, list[int]]
"""Field to a CRC-32 of the lengths and checksums of its blobs in some records, and one of their counts."""

_STEP_BYTES = 8 * 2**20
_MAX_STEP = 8192
_MAX_BYTES = 2**62
_ROW = np.dtype([("length", "<i8"), ("crc32", "<u4")])


def content_of(records: StoredRecords, before: Content) -> Content:
    """Return the content of these records behind others, in whatever portions they come.

    Args:
        records: The records.
        before: The content of the records before them; `{}`: there are none.
    """
    content = {}
    for name, (blobs, counts) in records.fields.items() if len(records) else ():
        rows = np.empty(len(blobs), _ROW)
        rows["length"] = blobs.lengths
        rows["crc32"] = crc32_extents(blobs.buffer, blobs.starts, blobs.lengths)
        of_blobs, of_counts = before.get(name, (0, 0))
        each = np.ones(len(blobs), np.int64) if counts is None else counts
        content[name] = [crc32(rows.tobytes(), of_blobs), crc32(each.tobytes(), of_counts)]
    return content or before


def check_written(
    backend: Backend, files: Mapping[str, Path], n_records: int, content: Content, stored: Spec | None = None
) -> None:
    """Read a file back, and compare its records with the records that were to be written.

    Args:
        backend: The format.
        files: Final name to present path, of the file or the folder first, then of the files beside it.
        n_records: How many records were written.
        content: Their content.
        stored: The types under which their fields are stored.

    Raises:
        FormatError: They differ, or a record is damaged.
    """
    n, found = 0, Content()
    with contextlib.closing(_stored(backend, files, stored)) as steps:
        for records in steps:
            n, found = n + len(records), content_of(records, found)
    if (n, found) != (n_records, content):
        what = f"the {n_records} records that were written were read back otherwise, as {n}"
        remedy = "The disk or the memory may be faulty: convert again."
        raise FormatError(what, path=str(next(iter(files.values()))), remedy=remedy)


def _stored(backend: Backend, files: Mapping[str, Path], stored: Spec | None) -> Generator[StoredRecords]:
    """Yield the records of a file, or of all files in a folder, a few megabytes each."""
    from dataformats.reading.blob_reader import BlobReader  # only conversions read back

    with _opened(files) as opened:
        found = backend.find(opened) if isinstance(opened, LocalFolder) else [opened]
        reader = backend.open(found, ReaderOptions(max_record_bytes=_MAX_BYTES, saved=stored))
        if isinstance(reader, Table):
            assert isinstance(reader, BlockTable)  # the others are not written
            yield from _encoded(backend, reader)
            return
        blobs = BlobReader(reader, "auto", None, _MAX_BYTES)
        try:
            if blobs.reads_sequentially:
                for run, problem in blobs.runs():
                    yield StoredRecords(backend.name, {VALUE: (run.blobs, None)})
                    if problem is not None:
                        raise problem
                return
            n = int(reader.counts.sum())
            mean = sum(file.size for file in reader.files) // max(1, n)
            step = min(_MAX_STEP, max(1, _STEP_BYTES // max(1, mean)))
            for first in range(0, n, step):
                yield StoredRecords(backend.name, _fetched(blobs, np.arange(first, min(first + step, n))))
        finally:
            blobs.close()


def _encoded(backend: Backend, table: BlockTable) -> Iterator[StoredRecords]:
    """Yield the records of each block of a table as they were before its library encoded them."""
    encoder = FieldsEncoder(table.spec, table.spec, CodecResolver(trusted=True))
    ends = np.append(table.block_starts, table.counts.sum())[1:]
    for block in range(len(ends)):
        columns = table.read_block(block, tuple(table.spec))
        found = encoder.columns(backend.name, columns)
        rows = np.arange(table.block_starts[block], ends[block])
        yield found or encoder.rows(backend.name, list(RecordBatch(columns, rows)))[0]


def _fetched(reader: BlobReader, records: NDArray[np.int64]) -> dict[str, tuple[Blobs, NDArray[np.int64] | None]]:
    located = reader.locate(records, reader.fields)
    columns = {}
    for name, fetched in reader.fetch_located(located).items():
        for problem in fetched.problems.values():
            raise problem
        columns[name] = (fetched.blobs, located[name].counts)
    return columns


@contextlib.contextmanager
def _opened(files: Mapping[str, Path]) -> Iterator[LocalFile | LocalFolder]:
    """Yield the file or folder, under its final name if there are files beside it that are found by their names."""
    name, path = next(iter(files.items()))
    if path.is_dir():
        yield LocalFolder(path)
    elif len(files) == 1:
        yield LocalFile(path)
    else:
        with tempfile.TemporaryDirectory(prefix="dataformats-") as folder:
            for other, now in files.items():
                Path(folder, other).symlink_to(now.absolute())
            yield LocalFile(Path(folder, name))
