"""Writes a dataset: shards of a limited size, and their index at close."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dataformats.backends.mds.files import INDEX
from dataformats.backends.mds.index_file import Columns
from dataformats.errors import SpecError
from dataformats.interfaces import FieldsWriter
from dataformats.storage import atomic
from dataformats.storage.compressed.zstd_frames import decode_zstd, encode_zstd

_MAX_OFFSET = 2**32 - 1  # offsets are uint32


class MdsWriter(FieldsWriter):
    """Appends samples as MDSWriter of mosaicml-streaming does: the same bytes for the same values.

    The samples of a shard are in memory until it is full. `flush` writes the last shard as far as it goes; a
    writer that resumes takes its samples back.

    Args:
        path: The folder.
        columns: The columns, sorted by name.
        compression: `"none"` or `"zstd"`.
        size_limit: The most bytes of a shard before compression; a sample of more has a shard alone.
        resume: Continue the unfinished dataset in the folder.

    Raises:
        SpecError: The unfinished dataset has other columns, or other options.
    """

    def __init__(self, path: Path, columns: Columns, compression: str, size_limit: int, *, resume: bool) -> None:
        self._folder, self._columns, self._limit = path, columns, size_limit
        self._ending = "" if compression == "none" else f".{compression}"
        self._config: dict[str, Any] = {
            "version": 2,
            "format": "mds",
            "compression": None if compression == "none" else compression,
            "hashes": [],
            "size_limit": size_limit,
            "column_names": list(columns.names),
            "column_encodings": list(columns.encodings),
            "column_sizes": list(columns.sizes),
        }
        self._text = json.dumps(self._config, sort_keys=True).encode()
        self._shards: list[dict[str, Any]] = []
        self._samples: list[bytes] = []
        self._n_bytes = self._empty_bytes = 8 + len(self._text)
        self._is_written = True
        self.n_records: int = 0
        self.n_bytes: int = 0
        if not resume:
            atomic.remove(path)
        path.mkdir(parents=True, exist_ok=True)
        if resume:
            self._resume()

    def append(self, blobs: Mapping[str, Sequence[bytes]]) -> None:
        """Append one sample.

        Raises:
            SpecError: A field has not one value, or one of another size, or the sample is too long for any shard.
        """
        values = []
        for name, size in zip(self._columns.names, self._columns.sizes, strict=True):
            found = blobs[name]
            if len(found) != 1 or (size is not None and len(found[0]) != size):
                sizes = [len(value) for value in found]
                raise SpecError(f"expected one value of {size or 'any'} bytes, found {sizes}", field=name)
            values.append(found[0])
        sizes = [len(value) for value, size in zip(values, self._columns.sizes, strict=True) if size is None]
        n_bytes = 4 * len(sizes) + sum(map(len, values))
        if self._empty_bytes + n_bytes + 4 > _MAX_OFFSET:
            raise SpecError(f"expected a sample of less than 4 GiB, found {n_bytes} bytes", index=self.n_records)
        if self._samples and self._n_bytes + n_bytes + 4 > self._limit:
            self._complete_shard()
        self._samples.append(b"".join([np.array(sizes, "<u4").tobytes(), *values]))
        self._n_bytes += n_bytes + 4
        self._is_written = False
        self.n_records += 1
        self.n_bytes += n_bytes + 4

    def flush(self, *, sync: bool = False) -> None:
        """Write the last shard as far as it goes, and sync it."""
        if not self._is_written:
            self._write_shard()

    def close(self) -> None:
        """Write the last shard and the index."""
        if self._samples or not self._shards:  # an empty shard tells the columns
            self._complete_shard()
        index = json.dumps({"version": 2, "shards": self._shards}, sort_keys=True).encode()
        atomic.write_chunks(self._folder / INDEX, [index])

    def suspend(self) -> None:
        """Write the last shard as far as it goes."""
        self.flush()

    def discard(self) -> None:
        """Delete the folder."""
        atomic.remove(self._folder)

    def _name(self, number: int) -> str:
        return f"shard.{number:05d}.mds"

    def _write_shard(self) -> dict[str, Any]:
        lengths = np.array([0, *map(len, self._samples)], np.int64)
        offsets = 4 + 4 * len(lengths) + len(self._text) + np.cumsum(lengths)
        head = np.array([len(self._samples), *offsets], "<u4").tobytes()
        name = self._name(len(self._shards))
        plain = b"".join([head, self._text, *self._samples])
        stored = encode_zstd(plain) if self._ending else plain
        atomic.write_chunks(self._folder / (name + self._ending), [stored])
        self._is_written = True
        return self._entry(name, len(self._samples), len(plain), len(stored))

    def _entry(self, name: str, samples: int, plain: int, stored: int) -> dict[str, Any]:
        packed = {"basename": name + self._ending, "bytes": stored, "hashes": {}} if self._ending else None
        raw = {"basename": name, "bytes": plain, "hashes": {}}
        return {**self._config, "samples": samples, "raw_data": raw, "zip_data": packed}

    def _complete_shard(self) -> None:
        self._shards.append(self._write_shard())
        self._samples, self._n_bytes = [], self._empty_bytes

    def _resume(self) -> None:
        """Take over the whole shards of the folder; the samples of the last one come back into memory."""
        (self._folder / INDEX).unlink(missing_ok=True)
        while (found := self._stored_shard(len(self._shards))) is not None:
            stored, plain, samples = found
            self._shards.append(self._entry(self._name(len(self._shards)), len(samples), plain, stored))
            self.n_records += len(samples)
            self.n_bytes += sum(map(len, samples)) + 4 * len(samples)
            self._samples = samples
        if self._shards:
            self._shards.pop()
            self._n_bytes = self._empty_bytes + sum(map(len, self._samples)) + 4 * len(self._samples)
        kept = {self._name(number) + self._ending for number in range(len(self._shards) + 1)}
        for path in self._folder.iterdir():
            if path.name not in kept:
                atomic.remove(path)

    def _stored_shard(self, number: int) -> tuple[int, int, list[bytes]] | None:
        """Return stored bytes, plain bytes and samples of a shard in the folder; `None` if it is not whole.

        Raises:
            SpecError: It has other columns or options.
        """
        path = self._folder / (self._name(number) + self._ending)
        if not path.is_file():
            return None
        stored = path.read_bytes()
        try:
            plain = decode_zstd(stored, _MAX_OFFSET) if self._ending else stored
        except Exception:  # a crash of the machine may leave anything
            return None
        count = int.from_bytes(plain[:4], "little")
        offsets = np.frombuffer(plain[4 : 8 + 4 * count], "<u4").astype(np.int64)
        if len(offsets) != count + 1 or offsets[-1] != len(plain) or (np.diff(offsets) < 0).any():
            return None
        if plain[8 + 4 * count : offsets[0]] != self._text:
            what = f"cannot resume {str(path)!r}: it has other columns or options"
            raise SpecError(what, remedy="Pass the same spec and options, or write without resume")
        ends = offsets.tolist()
        return len(stored), len(plain), [plain[start:stop] for start, stop in itertools.pairwise(ends)]
