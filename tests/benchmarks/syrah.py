"""Syrah: random batches, and opening a file of many items."""

from __future__ import annotations

import multiprocessing
import multiprocessing.sharedctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dataformats
from tests.benchmarks.harness import Case, Data, Side, Target, Work, peer
from tests.benchmarks.ours import Steps, at_random, columns, reads, write

BATCH = 32
WIDTH = 1000
IN_MEMORY = 'dataformats, cache="memory"'
_PLACE = 6  # position in the header of the location of the metadata: int64 offset, int64 length


def metadata_of(path: Path) -> dict[str, dict[str, Any]]:
    """Return the metadata of a file: `{name: {"offset": bytes, "size": bytes, "dtype": str}}`."""
    offset, length = np.fromfile(path, "<i8", 2, offset=_PLACE).tolist()
    with path.open("rb") as file:
        file.seek(offset)
        return dict(peer("bson").decode(file.read(length)))


def one_by_one(path: Path, steps: Steps) -> Side:
    """The original's way, for each array of each item: seek, read, `frombuffer`; the tables are lists beforehand."""
    arrays = [
        (name, np.frombuffer(table["offset"], "<i8").tolist(), np.frombuffer(table["size"], "<i8").tolist(), dtype)
        for name, table in metadata_of(path).items()
        for dtype in [np.dtype(table["dtype"])]
    ]
    file = path.open("rb")
    wanted = [list(map(int, indices)) for indices in steps]

    def item(index: int) -> dict[str, NDArray[Any]]:
        found = {}
        for name, offsets, sizes, dtype in arrays:
            file.seek(offsets[index])
            found[name] = np.frombuffer(file.read(sizes[index]), dtype)
        return found

    def batches() -> Iterator[list[dict[str, NDArray[Any]]]]:
        for indices in wanted:
            yield [item(index) for index in indices]

    return Side(batches, _stacked)


def _stacked(items: list[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    stacked = {name: np.stack([item[name] for item in items]) for name in items[0]}
    return {name: array[:, 0] if array.shape[1] == 1 else array for name, array in stacked.items()}


def file_of(data: Data) -> tuple[Path, int]:
    """Return a Syrah file and how many items it has."""
    n = data.count(10_000, least=BATCH)
    return data.made(f"items-{n}.syr", lambda path: _write_items(path, n, WIDTH)), n


def reading(data: Data) -> Work:
    """Return the work of reading random batches."""
    path, n = file_of(data)
    steps = at_random(n, BATCH, data.count(2_000))
    return Work(
        f"Syrah, {n:,} × {WIDTH:,} float64 and label, random batches of {BATCH}",
        {
            "dataformats": reads(path, steps),
            IN_MEMORY: reads(path, steps, cache="memory"),
            "one by one": lambda: one_by_one(path, steps),
        },
    )


def _write_items(path: Path, n: int, width: int) -> None:
    rng = np.random.default_rng(width)
    items = ({"x": rng.random(width), "label": index % WIDTH} for index in range(n))
    write(path, items, "syrah", spec={"x": f"float64[{width}]", "label": "int64"})


# ---- opening


def opening(data: Data) -> Work:
    """Return the work of opening a file whose metadata are large."""
    n = data.count(1_000_000)
    path = data.made(f"many-{n}.syr", lambda path: _write_items(path, n, 1))
    some = [0, n // 2, n - 1]
    return Work(
        f"Syrah, open a file of {n:,} items",
        {"dataformats": lambda: _ours(path, some), "BSON, RawArray, ravel": lambda: _original(path, some)},
    )


def _ours(path: Path, some: list[int]) -> Side:
    def batches() -> Iterator[Any]:
        source = dataformats.open(path)
        yield source, len(source)

    def plain(opened: Any) -> dict[str, Any]:
        source, n = opened
        batch = columns(source.read(some).columns)
        return {"items": n, "x": batch["x"].reshape(-1), "label": batch["label"]}

    return Side(batches, plain)


def _original(path: Path, some: list[int]) -> Side:
    """All tables in memory that processes share, filled from one long array."""
    peer("bson")

    def batches() -> Iterator[Any]:
        metadata = metadata_of(path)
        tables = np.array(
            [np.frombuffer(metadata[name][kind], "<i8") for name in metadata for kind in ("offset", "size")]
        )
        values: Any = tables.ravel()
        shared = multiprocessing.sharedctypes.RawArray(tables.dtype.char, values)
        yield list(metadata), shared, tables.shape[1]

    def plain(opened: Any) -> dict[str, Any]:
        names, shared, n = opened
        tables = np.frombuffer(shared, "<i8").reshape(-1, n)
        dtypes = {"x": "<f8", "label": "<i8"}
        found = {
            name: np.array([np.fromfile(path, dtypes[name], 1, offset=tables[2 * row, index])[0] for index in some])
            for row, name in enumerate(names)
        }
        return {"items": n, **found}

    return Side(batches, plain)


CASES = (
    Case("syrah", reading, (Target("one by one", 5), Target("one by one", 8, IN_MEMORY))),
    Case("syrah-open", opening, (Target("BSON, RawArray, ravel", 10),), one_thread=True),
)
