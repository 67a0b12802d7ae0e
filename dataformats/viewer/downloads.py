"""Downloads: the shown records as JSON lines, as Parquet or as a zip of images, made while the browser takes them."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import RecordBatch
from dataformats.display.json_values import batch_as_json
from dataformats.display.media import as_image, media_of
from dataformats.interfaces.record_source import RecordSource
from dataformats.reading.scan import scan_sound, split_by_bytes
from dataformats.viewer.dataset import ViewedDataset, in_words

if TYPE_CHECKING:
    from dataformats.display.cells import Cell

_LISTED = 100  # damaged records that the page lists
_MAX_IMAGES = 1_000_000  # a zip keeps the names of all until its end


class Download:
    """Records as one file. Memory holds a few megabytes of them at a time.

    Damaged records are left out and counted. Any other error ends the response early, which the browser reports.

    Args:
        dataset: Whose records are sent.
        kind: `"jsonl"`, `"parquet"` or `"zip"`, which has the images.
        fields: The positions of the fields.
        records: Their indices, in order; `None` is all.

    Attributes:
        state: `waiting`, `asked`, `running`, `done`, `failed` or `canceled`.

    Raises:
        LookupError: There is no such kind or field.
    """

    def __init__(
        self, dataset: ViewedDataset, kind: str, fields: Sequence[int], records: NDArray[np.integer[Any]] | None
    ) -> None:
        self.kind: str = kind
        self.state: str = "waiting"
        self.fields: dict[str, int] = {dataset.fields[field]: field for field in fields}
        self._dataset = dataset
        self.source: RecordSource = dataset.source
        self._write, self._records = _WRITERS[kind], records
        self._written = self._n_failed = 0
        self._failed: list[Cell] = []
        self._error: Cell | None = None

    def cancel(self) -> None:
        """End the file early."""
        self.state = "canceled"

    def chunks(self) -> Generator[bytes]:
        """Return the bytes of the file, in parts; once only.

        Raises:
            ValueError: They were returned before, or the download was canceled.
        """
        if self.state != "waiting":
            raise ValueError("this file was sent before: export the records again")
        self.state = "asked"
        return self._chunks()

    def _chunks(self) -> Generator[bytes]:
        self.state = "running"
        sink = _Sink()
        try:
            for n in self._write(self, sink):
                self._written += n
                yield sink.taken()
            yield sink.taken()  # the end of the file, which its writer wrote as it closed
            self.state = "done"
        except Exception as error:
            self.state, self._error = "failed", in_words(error)
            raise
        finally:
            if self.state == "running":  # the browser went away
                self.cancel()

    def snapshot(self) -> Cell:
        """Return the state, how much was `written`, and the damaged records that were left out."""
        facts = {"state": self.state, "written": self._written, "failed": self.damage}
        return facts if self._error is None else facts | {"error": self._error}

    @property
    def damage(self) -> Cell:
        """The number of damaged records so far, and the first of them with their errors."""
        return {"count": self._n_failed, "records": self._failed}

    def batches(self, source: RecordSource) -> Iterator[RecordBatch]:
        """Yield the sound records, read from a source of the same records."""
        parts = None if self._records is None else split_by_bytes(source, self._records.astype(np.int64))
        with closing(scan_sound(source, parts, list(self.fields), self._leave_out)) as found:  # type: ignore[type-var]  # a generator
            for batch in found:
                if self.state != "running":
                    raise ValueError("the download was canceled")
                yield batch

    def _leave_out(self, index: int, error: Exception) -> None:
        self._n_failed += 1
        self._dataset.check_failure(self._n_failed)
        if len(self._failed) < _LISTED:
            self._failed.append({"record": index, "error": in_words(error)})


class _Sink(io.RawIOBase):
    """A file that is taken away in parts; it cannot seek."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def taken(self) -> bytes:
        """Return what was written since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _write_json_lines(download: Download, sink: _Sink) -> Iterator[int]:
    encode = json.JSONEncoder(allow_nan=False).encode
    for batch in download.batches(download.source):
        for record in batch_as_json(batch):
            sink.write(f"{encode(record)}\n".encode())
        yield len(batch)


def _write_parquet(download: Download, sink: _Sink) -> Iterator[int]:
    from pyarrow import RecordBatch as Table
    from pyarrow.parquet import ParquetWriter

    from dataformats.reading.arrow_stream import ArrowRows, join_batches

    rows = ArrowRows(download.source, list(download.fields))
    found = (Table.from_arrays(rows.arrays(batch), schema=rows.schema) for batch in download.batches(rows.source))
    with ParquetWriter(sink, rows.schema) as writer:
        for table in join_batches(found):
            writer.write_batch(table)
            yield table.num_rows


def _write_images(download: Download, sink: _Sink) -> Iterator[int]:
    with zipfile.ZipFile(sink, "w") as archive:  # they are compressed already
        for batch in download.batches(download.source):
            for name, blob in _images_of(batch, download.fields):
                if len(archive.filelist) == _MAX_IMAGES:
                    raise ValueError(f"a zip has at most {_MAX_IMAGES:,} images: dataformats convert copies more")
                archive.writestr(name, blob)
                yield 1
        if download.damage["count"]:
            archive.writestr("damaged.json", json.dumps(download.damage))


def _images_of(batch: RecordBatch, fields: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
    """Yield a name and the bytes of each image. The name has the position of its field, whose name may be a path."""
    for name, position in fields.items():
        column: Any = batch.columns[name]
        for row, index in enumerate(batch.indices.tolist()):
            value = column[row]
            items = list(enumerate(value)) if isinstance(value, list) else [("", value)]
            for item, (suffix, blob) in ((item, _image(one)) for item, one in items):
                if blob:
                    place = f"{index}-field-{position}" if item == "" else f"{index}-field-{position}-item-{item}"
                    yield f"record-{place}.{suffix}", blob


def _image(value: Any) -> tuple[str, bytes]:
    """Return an image as a file, with its suffix; no bytes for other values."""
    if isinstance(value, bytes):
        media = media_of(value)
        return (media.name.lower(), value) if media is not None and media.kind == "image" else ("", b"")
    pixels = as_image(value)
    if pixels is None:
        return "", b""
    from PIL import Image

    Image.fromarray(np.ascontiguousarray(pixels)).save(stream := io.BytesIO(), "PNG")
    return "png", stream.getvalue()


_WRITERS: dict[str, Callable[[Download, _Sink], Iterator[int]]] = {
    "jsonl": _write_json_lines,
    "parquet": _write_parquet,
    "zip": _write_images,
}
