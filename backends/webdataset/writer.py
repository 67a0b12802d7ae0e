"""Writes one tar file of samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dataformats.backends.webdataset.extensions import KEY, extensions
from dataformats.backends.webdataset.members import BLOCK, SPEC, checksum, padded
from dataformats.backends.webdataset.samples import EMPTY, Samples, split_name
from dataformats.errors import SpecError
from dataformats.indexing.file_index import ArrayIndex
from dataformats.interfaces import FieldsWriter, FilePlace
from dataformats.interfaces.stored_file import StoredFile
from dataformats.spec import Spec
from dataformats.storage.checked_json import pack_checked
from dataformats.writing.appending_writer import AppendingWriter

_HEAD = b"%b0000644\x000000000\x000000000\x00%b00000000000\x00%b%b" + bytes(100) + b"ustar\x0000" + bytes(247)
_MAX_NAME, _MAX_SIZE = 100, 8**11


class WebDatasetWriter(AppendingWriter, FieldsWriter):  # pyright: ignore[reportIncompatibleMethodOverride]  # a record has fields
    """Appends samples to one tar file. The same records give the same bytes.

    Args:
        place: The place of the file in its dataset, for keys: the index of the record, or the numbers of the shard and
            of the record in it if other processes write the records before it.
        resume: Keep the whole samples at the front of the file, and append to them.
    """

    def __init__(self, path: Path, stored: Spec, place: FilePlace, *, resume: bool) -> None:
        types = pack_checked(stored.to_json())
        self.begin: bytes = _member(SPEC, types)
        self.extra: int = len(stored) * (BLOCK + BLOCK // 2)
        self._extensions = {name: b"." + extension.encode() for name, extension in extensions(stored).items()}
        self._required = [name for name in self._extensions if not stored[name].optional]
        self._shard = b"" if place.first_record is not None else b"%06d-" % (place.shard or 0)
        self._first = place.first_record or 0
        self._has_keys = KEY in stored
        self._key: bytes | None = None  # the last one
        super().__init__(path, resume=resume)
        self._row = self.n_records

    def check(self, record: Mapping[str, Sequence[bytes]]) -> None:
        if not self._has_keys:
            return
        (key,) = record[KEY]
        if split_name(key + b".x") != (key, b"x") or b"\0" in key:
            what = "expected a path without a dot in its last part"
            raise SpecError(f"{what}, found {key.decode(errors='replace')!r}", field=KEY)
        if key == self._key:
            raise SpecError(f"expected another key than the record before, found {key.decode()!r} again", field=KEY)
        self._key = key

    def frame(self, record: Mapping[str, Sequence[bytes]]) -> bytes:
        """Return the members of a sample."""
        key = record[KEY][0] if self._has_keys else self._shard + b"%09d" % (self._first + self._row)
        self._row += 1
        found = [_member(key + end, blob) for name, end in self._extensions.items() for blob in record[name]]
        return b"".join(found) or _member(key + b"." + EMPTY, b"")

    def index(self, file: StoredFile) -> Iterator[ArrayIndex]:
        """Yield the whole samples: those before the first that lacks a field, or reaches past the end of the file."""
        samples = Samples(file)
        fields = samples.index().arrays
        edges = np.array(samples.starts, np.int64)
        whole = edges[1:] <= file.size
        for name in self._required:
            whole &= fields[name].length >= 0
        problems = dict[int, Any](next(iter(fields.values())).problems) if fields else {}
        n = min([*problems, *np.flatnonzero(~whole).tolist()], default=len(whole))
        if n and self._has_keys:
            self._key = file.pread(int(fields[KEY].offset[n - 1]), int(fields[KEY].length[n - 1]))
        yield ArrayIndex(edges[:n], edges[1 : n + 1] - edges[:n])

    def end(self) -> bytes:
        """Return the two blocks of zeros behind the last member."""
        return bytes(2 * BLOCK)


def _member(name: bytes, data: bytes) -> bytes:
    """Return a member, with a pax header in front if the name or the size do not fit in the header."""
    records = [(b"path", name)] if len(name) > _MAX_NAME or not name.isascii() else []
    records += [(b"size", b"%d" % len(data))] if len(data) >= _MAX_SIZE else []
    pax = b"".join(_pax_record(*record) for record in records)
    front = _header(b"PaxHeader", len(pax), b"x") + pax + bytes(padded(len(pax)) - len(pax)) if pax else b""
    head = _header(name[:_MAX_NAME], len(data) % _MAX_SIZE, b"0")
    return b"".join((front, head, data, bytes(padded(len(data)) - len(data))))


def _header(name: bytes, size: int, kind: bytes) -> bytes:
    """Return a ustar header: mode 644, owner 0, time 0."""
    parts = name.ljust(100, b"\0"), b"%011o\0" % size
    return _HEAD % (*parts, b"%06o\0 " % checksum(_HEAD % (*parts, bytes(8), kind)), kind)


def _pax_record(name: bytes, value: bytes) -> bytes:
    length = size = len(name) + len(value) + 3
    while length != size + len(str(length)):
        length = size + len(str(length))
    return b"%d %b=%b\n" % (length, name, value)
