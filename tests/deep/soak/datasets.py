"""The datasets of the soak: records by a formula, in every format, and damaged copies."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from dataformats.testing.records import blob
from tests.cases import FORMATS

_OTHERS = ("jsonl", "mds", "array_record")  # the soak has not run over them
CASES = {case.name: case for case in FORMATS if case.plain and case.format not in _OTHERS}
N = 400
N_SHARDED = 1200
SHARD_RECORDS = 15  # more shards than a process with 64 descriptors may open
N_LARGE = 24
LARGE_SIDE = 1024  # a megabyte each: such arrays are reused


@dataclass(frozen=True)
class Dataset:
    """A dataset, and the arguments of `open` for it.

    Attributes:
        path: Its file or folder.
        n: Its records.
        damaged: The records that cannot be read.
        options: Arguments of `open`.
    """

    path: Path
    n: int
    damaged: frozenset[int] = frozenset()
    options: Mapping[str, Any] | None = None

    def open(self, **options: Any) -> dataformats.RecordSource:
        return dataformats.open(self.path, **(self.options or {}), **options)


class Datasets:
    """Writes the datasets into a folder.

    Attributes:
        small: Maps a format case to a dataset of one file or folder.
        sharded: Maps a format case to a dataset of many shards.
        damaged: Maps a format case to a dataset with some unreadable records.
        large: Few records of a megabyte.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.small = {name: self._write(name, N, "small") for name in CASES}
        names = ("tfrecord", "ffrecord", "granular-3")
        self.sharded = {name: self._write(name, N_SHARDED, "sharded", shard_records=SHARD_RECORDS) for name in names}
        self.damaged = {name: self._damage(name) for name in ("tfrecord", "tfrecord-gzip", "ffrecord", "ofrecord")}
        self.large = self._write("ffrecord", N_LARGE, "large", side=LARGE_SIDE)

    def _write(self, name: str, n: int, kind: str, side: int = 8, **options: Any) -> Dataset:
        case = CASES[name]
        path = self._folder / f"{kind}-{name}{'' if 'shard_records' in options else case.suffix}"
        with dataformats.create(
            path, case.format, spec=spec_of(name, side), **case.create_options, **options
        ) as writer:
            writer.extend(records(name, range(n), side))
        assert len(dataformats.open(path)) == n  # builds the index
        return Dataset(path, n)

    def _damage(self, name: str) -> Dataset:
        sound = self.small[name]
        path = sound.path.with_name(f"damaged-{sound.path.name}")
        shutil.copy(sound.path, path)  # the copy has no sidecar: it would not match
        size = path.stat().st_size
        with path.open("r+b") as file:
            if CASES[name].verifies_records:
                for part in (0.3, 0.5, 0.8):
                    _flip(file, int(size * part))
            else:
                file.truncate(int(size * 0.8))
        options: dict[str, Any] = {"spec": spec_of(name), "payload": CASES[name].payload}
        source = dataformats.open(path, **options)
        batch = source.read(range(len(source)), on_corrupt="omit")
        damaged = frozenset(batch.failed)
        assert damaged
        return Dataset(path, len(source), damaged, options)


def _flip(file: Any, at: int) -> None:
    file.seek(at)
    byte = file.read(1)[0]
    file.seek(at)
    file.write(bytes([byte ^ 0x40]))


def spec_of(name: str, side: int = 8) -> dict[str, str]:
    """Return the spec of the records of a format case."""
    return {"id": "int64", "data": _text(name), "grid": f"uint8[{side},{side}]"}


def records(name: str, numbers: Iterable[int], side: int = 8) -> list[dict[str, Any]]:
    """Return the records of these numbers."""
    return [{"id": i, "data": _data(name, i), "grid": _grid(i, side)} for i in numbers]


def check_batch(name: str, columns: Mapping[str, Any], side: int = 8) -> list[int]:
    """Fail unless the columns belong together; return the numbers of the records."""
    numbers = [int(i) for i in columns["id"]]
    assert list(columns["data"]) == [_data(name, i) for i in numbers]
    if numbers:
        assert np.array_equal(columns["grid"], np.stack([_grid(i, side) for i in numbers]))
    return numbers


def check_records(name: str, source: Iterable[Any], n: int) -> None:
    """Fail unless these are the records `[0, n)`."""
    found = list(source)
    assert len(found) == n, f"{len(found)} records instead of {n}"
    for i, record in enumerate(found):
        assert check_batch(name, {field: [value] for field, value in record.items()}) == [i]


def _text(name: str) -> str:
    return "utf8" if "bytes" in CASES[name].refuses else "bytes"


def _data(name: str, i: int) -> Any:
    data = blob(i, 2000) or b"."
    return data.hex() if _text(name) == "utf8" else data


def _grid(i: int, side: int) -> np.ndarray:
    return np.full((side, side), i * 37 % 251, np.uint8)
