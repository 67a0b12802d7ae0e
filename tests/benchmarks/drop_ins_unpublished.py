"""Drop-in modules whose originals PyPI lacks: beside the original's way in Python, and the original if it is built."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks import ffrecord, syrah
from tests.benchmarks.harness import OURS, Case, Data, Side, Target, Work, peer
from tests.benchmarks.ours import at_random, write

KB = 1024
BATCH = 64
PYTHON = "Python"
TOGETHER = 256
"""Records of one step, if they are read one by one."""

Modules = Callable[[], SimpleNamespace]
Loop = Callable[[Any], Iterator[Any]]
"""Yields the result of each step; called with the names of a module."""


def beside(title: str, name: str, loop: Loop, plain: Callable[[Any], Mapping[str, Any]], python: Modules) -> Work:
    """Return the work of a loop with the names of the drop-in module, the original, and Python."""

    def side(names: SimpleNamespace) -> Side:
        return Side(lambda: loop(names), plain)

    sides: dict[str, Callable[[], Side]] = {
        OURS: lambda: side(_names(f"dataformats_compat.{name}", importlib.import_module)),
        name: lambda: side(_names(name, peer)),
        PYTHON: lambda: side(python()),
    }
    return Work(title, sides)


def _names(name: str, load: Callable[[str], Any]) -> SimpleNamespace:
    data = {"ffrecord": ".torch", "syrah": ".utils.data"}[name.rpartition(".")[2]]
    return SimpleNamespace(**{**vars(load(name)), **vars(load(name + data))})


# ---- ffrecord


class Reader(ffrecord.Records):
    """`FileReader` in Python: one `pread` and one CRC32 a record, into an array."""

    def read_one(self, index: int) -> NDArray[np.uint8]:
        """Return a record, checked and writable."""
        return np.frombuffer(bytearray(super().read(index)), np.uint8)

    def read(self, indices: Sequence[int]) -> list[NDArray[np.uint8]]:  # type: ignore[override]  # as ffrecord has it
        """Return records, checked and writable."""
        return [self.read_one(index) for index in indices]


class BatchDataset:
    """`ffrecord.torch.Dataset` for torch's DataLoader, over `Reader`."""

    def __init__(self, path: str) -> None:
        self.reader = Reader(Path(path))

    def __len__(self) -> int:
        return len(self.reader.starts)

    def __getitems__(self, indices: list[int]) -> Any:
        """Return the samples of a batch."""
        return self.process(indices, self.reader.read(indices))

    def process(self, indices: Sequence[int], data: Sequence[Any]) -> Any:
        """Return samples; a subclass defines it."""
        raise NotImplementedError


def ffrecord_in_python() -> SimpleNamespace:
    """Return the names of `ffrecord`, in Python."""
    return SimpleNamespace(FileReader=lambda name: Reader(Path(name)), Dataset=BatchDataset, DataLoader=_dataloader())


def _dataloader() -> Any:
    return peer("torch.utils.data").DataLoader


def of_batches(data: Data, size: int) -> Work:
    """Return the work of reading random batches."""
    path, n = ffrecord.file_of(data, size)
    steps = [list(map(int, step)) for step in at_random(n, BATCH, data.count(ffrecord.BATCHES[size] // 3, least=1))]

    def loop(names: Any) -> Iterator[Any]:
        reader = names.FileReader(str(path))
        for indices in steps:
            yield reader.read(indices)

    title = f"drop-in ffrecord: {n:,} × {size // KB} KB, `FileReader.read` of {BATCH} at random"
    return beside(title, "ffrecord", loop, _records, ffrecord_in_python)


def of_single_records(data: Data) -> Work:
    """Return the work of reading records one by one."""
    path, n = ffrecord.file_of(data, 16 * KB)
    steps = [list(map(int, step)) for step in at_random(n, TOGETHER, data.count(40))]

    def loop(names: Any) -> Iterator[Any]:
        read_one = names.FileReader(str(path)).read_one
        for indices in steps:
            yield [read_one(index) for index in indices]

    title = f"drop-in ffrecord: {n:,} × 16 KB, `FileReader.read_one` at random"
    return beside(title, "ffrecord", loop, _records, ffrecord_in_python)


def of_pickled_pictures(data: Data) -> Work:
    """Return the work of an epoch of torch's DataLoader over pickled pictures, in the way of the original's example."""
    n = data.count(6_000, least=BATCH)
    path = data.made(f"pickled-{n}.ffr", lambda path: write(path, _pickled(n), "ffrecord", records=n))
    torch = importlib.import_module("torch")

    def loop(names: Any) -> Iterator[Any]:
        class Pictures(names.Dataset):  # type: ignore[misc]  # of whichever module
            def process(self, indices: Sequence[int], records: Sequence[Any]) -> list[Any]:
                return [pickle.loads(record) for record in records]

        generator = torch.Generator().manual_seed(1)
        return iter(names.DataLoader(Pictures(str(path)), BATCH, True, generator=generator, prefetch_factor=None))

    title = f"drop-in ffrecord: {n:,} pickled uint8[3,64,64], a shuffled epoch of `DataLoader`"
    return beside(title, "ffrecord", loop, _tensors, ffrecord_in_python)


def _pickled(n: int) -> Iterator[bytes]:
    rng = np.random.default_rng(n)
    return (pickle.dumps((rng.integers(0, 256, (3, 64, 64), np.uint8), label)) for label in range(n))


def _records(batch: Sequence[NDArray[np.uint8]]) -> dict[str, Any]:
    return {"records": [record.tobytes() for record in batch]}


def _tensors(batch: Sequence[Any]) -> dict[str, Any]:
    return {str(number): column.numpy() for number, column in enumerate(batch)}


# ---- syrah


class File:
    """`syrah.File` in Python: tables in memory that processes share, then seek, read and `frombuffer` for an array."""

    def __init__(self, path: str, mode: str) -> None:
        metadata = syrah.metadata_of(Path(path))
        self.dtypes = {name: table["dtype"] for name, table in metadata.items()}
        tables = [np.frombuffer(table[kind], "<i8") for table in metadata.values() for kind in ("offset", "size")]
        self.shape = len(tables), len(tables[0])
        self.rows = {name: 2 * number for number, name in enumerate(metadata)}
        self.table = RawArray("q", np.concatenate(tables).tolist())
        self.file = Path(path).open(mode + "b")  # noqa: SIM115  # stays open, as in the original

    def num_items(self) -> int:
        """Return the number of items."""
        return self.shape[1]

    def get_array(self, index: int, name: str) -> NDArray[Any]:
        """Return an array of an item."""
        row = self.rows[name]
        self.file.seek(self.table[np.ravel_multi_index((row, index), self.shape)])
        blob = self.file.read(self.table[np.ravel_multi_index((row + 1, index), self.shape)])
        return np.frombuffer(bytearray(blob), self.dtypes[name])  # torch warns of arrays that are read-only

    def get_item(self, index: int) -> dict[str, NDArray[Any]]:
        """Return an item."""
        return {name: self.get_array(index, name) for name in self.dtypes}


class ItemDataset:
    """`SyrahDataset` in Python, over `File`."""

    def __init__(self, path: str, keys: Sequence[str]) -> None:
        self.syr, self.keys = File(path, "r"), keys

    def __len__(self) -> int:
        return self.syr.num_items()

    def __getitem__(self, item: int) -> tuple[NDArray[Any], ...]:
        return tuple([self.syr.get_array(item, key) for key in self.keys])


def syrah_in_python() -> SimpleNamespace:
    """Return the names of `syrah`, in Python."""
    return SimpleNamespace(File=File, SyrahDataset=ItemDataset)


def of_items(data: Data, what: str, read: Callable[[Any, int], Any]) -> Work:
    """Return the work of reading items one by one."""
    path, n = syrah.file_of(data)
    steps = [list(map(int, step)) for step in at_random(n, TOGETHER, data.count(40))]

    def loop(names: Any) -> Iterator[Any]:
        file = names.File(str(path), "r")
        for indices in steps:
            yield [read(file, index) for index in indices]

    title = f"drop-in syrah: {n:,} × {syrah.WIDTH:,} float64 and label, `{what}` at random"
    return beside(title, "syrah", loop, _items, syrah_in_python)


def of_item_batches(data: Data) -> Work:
    """Return the work of an epoch of torch's DataLoader over `SyrahDataset`."""
    path, n = syrah.file_of(data)
    torch = importlib.import_module("torch")

    def loop(names: Any) -> Iterator[Any]:
        generator = torch.Generator().manual_seed(1)
        return iter(_dataloader()(names.SyrahDataset(str(path), ["x", "label"]), 32, True, generator=generator))

    title = f"drop-in syrah: {n:,} × {syrah.WIDTH:,} float64 and label, a shuffled epoch of a `DataLoader`"
    return beside(title, "syrah", loop, _tensors, syrah_in_python)


def _items(items: Sequence[Any]) -> dict[str, Any]:
    dicts = [item if isinstance(item, dict) else {"": item} for item in items]
    return {f"{number} {name}": array for number, item in enumerate(dicts) for name, array in item.items()}


def _case(name: str, build: Callable[[Data], Work], at_least: float, original: str) -> Case:
    return Case(f"drop-in-{name}", build, (Target(PYTHON, at_least), Target(original)))


CASES = (
    _case("ffrecord-1kb", lambda data: of_batches(data, KB), 2.5, "ffrecord"),
    _case("ffrecord-128kb", lambda data: of_batches(data, 128 * KB), 2.5, "ffrecord"),
    _case("ffrecord-single", of_single_records, 1, "ffrecord"),
    _case("ffrecord-loading", of_pickled_pictures, 1, "ffrecord"),
    _case("syrah", lambda data: of_items(data, "get_item", lambda file, index: file.get_item(index)), 1, "syrah"),
    _case(
        "syrah-array",
        lambda data: of_items(data, "get_array", lambda file, index: file.get_array(index, "x")),
        1,
        "syrah",
    ),
    _case("syrah-loading", of_item_batches, 1.3, "syrah"),
)
