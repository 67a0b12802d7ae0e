"""`dataformats_compat.ffrecord.torch`: lists of indices, torch's orders, and `set_step`."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from dataformats_compat.ffrecord import FileReader, FileWriter  # noqa: E402
from dataformats_compat.ffrecord.torch import (  # noqa: E402
    ConcatDataset,
    DataLoader,
    Dataset,
    ReaderRegistry,
    Subset,
)

N = 40


class Samples(Dataset):
    """Pickled samples, by `process`."""

    def process(self, indices: Sequence[int], data: Sequence[Any]) -> list[Any]:
        assert len(indices) == len(data)
        return [pickle.loads(record) for record in data]


class OwnGetItem(Dataset):
    """A dataset from the original's README, which does not call the constructor of `Dataset`."""

    def __init__(self, path: Path) -> None:
        self.reader = FileReader(path)
        self.asked: list[object] = []

    def __len__(self) -> int:
        return self.reader.n

    def __getitem__(self, indices: Any) -> list[Any]:
        self.asked.append(indices)
        return [pickle.loads(record) for record in self.reader.read(indices)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ffrecord") / "a.ffr"
    with FileWriter(path, N) as writer:
        for number in range(N):
            writer.write_one(pickle.dumps((number, 3 * number)))
    return path


def rows(batches: Any) -> list[list[int]]:
    return [numbers.tolist() for numbers, _ in batches]


def test_datasets_take_lists(path: Path) -> None:
    dataset = Samples(str(path), check_data=True)
    assert (len(dataset), dataset.fnames, dataset.reader.n) == (N, str(path), N)
    assert dataset[[3, 1, 3]] == [(3, 9), (1, 3), (3, 9)]
    assert dataset[(5,)] == [(5, 15)]
    for wrong in (3, np.array([1]), slice(0, 2)):
        with pytest.raises(TypeError, match="list of indices"):
            dataset[wrong]
    with pytest.raises(NotImplementedError, match="process"):
        Dataset(path)[[0]]


def test_subset_and_concat(path: Path) -> None:
    dataset = Samples(path)
    assert Subset(dataset, np.array([7, 3]))[[0, 1, 1]] == [(7, 21), (3, 9), (3, 9)]
    both = dataset + Subset(dataset, [9, 8])
    assert isinstance(both, ConcatDataset)
    assert (len(both), both.cumulative_sizes) == (N + 2, [N, N + 2])
    assert [number for number, _ in both[[N, 0, N + 1, -1, N, -N - 2]]] == [9, 0, 8, 8, 9, 0]
    with pytest.raises(IndexError):
        both[[N + 2]]
    with pytest.raises(ValueError, match="out of range"):
        both[[-N - 3]]
    for wrong in ([], [[1, 2]]):
        with pytest.raises(AssertionError):
            ConcatDataset(wrong)  # type: ignore[arg-type]


def test_readers_are_registered(path: Path) -> None:
    class Two(ReaderRegistry):
        def __init__(self) -> None:
            self.one, self.other, self.name = FileReader(path), FileReader(path), "two"

    class Nested(Samples):
        def __init__(self) -> None:
            super().__init__(path)
            self.two = Two()

    nested = Nested()
    assert nested.ffreaders() == [nested.reader, nested.two.one, nested.two.other]
    del nested.two
    assert nested.ffreaders() == [nested.reader]


def test_batches_are_read_at_once(path: Path) -> None:
    dataset = OwnGetItem(path)
    found = rows(DataLoader(dataset, batch_size=16))
    assert found == dataset.asked == [[*range(16)], [*range(16, 32)], [*range(32, N)]]


@pytest.mark.parametrize("shuffle", [False, True])
def test_orders_are_torch_s_also_from_a_step_on(path: Path, shuffle: bool) -> None:
    def loader(kind: Any, dataset: Any) -> Any:
        return kind(dataset, batch_size=3, shuffle=shuffle, generator=torch.Generator().manual_seed(5))

    theirs = loader(torch.utils.data.DataLoader, [(number, 3 * number) for number in range(N)])
    epochs = [rows(theirs) for _ in range(3)]
    ours = loader(DataLoader, Samples(path))
    assert [rows(ours), rows(ours)] == epochs[:2]
    resumed = loader(DataLoader, Samples(path))
    resumed.set_step(4)
    assert len(resumed) == len(theirs) - 4
    assert rows(resumed) == epochs[0][4:]
    assert rows(resumed) == epochs[1][4:]
    resumed.set_step(0)
    assert rows(resumed) == epochs[2]


def test_steps_out_of_range(path: Path) -> None:
    loader = DataLoader(Samples(path), batch_size=10)
    loader.set_step(3)
    for step in (-1, 4):
        with pytest.raises(AssertionError, match=r"step in \[0, 4\)"):
            loader.set_step(step)
    assert rows(loader) == [[*range(30, N)]]
    with pytest.raises(AssertionError, match="skippable"):
        DataLoader(Samples(path), skippable=False).set_step(0)
    with pytest.raises(AssertionError, match="batch_size"):
        DataLoader(Samples(path), batch_size=None)


def test_own_samplers(path: Path) -> None:
    loader = DataLoader(Samples(path), batch_sampler=[[1, 2], [3]])
    loader.set_step(1)
    assert rows(loader) == [[3]]
    sampler = torch.utils.data.DistributedSampler(Samples(path), num_replicas=2, rank=1, seed=3)
    loader = DataLoader(Samples(path), batch_size=5, sampler=sampler)
    loader.set_step(2)
    assert [number for batch in rows(loader) for number in batch] == list(sampler)[10:]


def test_other_datasets_are_read_as_torch_reads_them() -> None:
    loader = DataLoader(range(10), batch_size=4, collate_fn=list, prefetch_factor=None)
    loader.set_step(1)
    assert list(loader) == [[4, 5, 6, 7], [8, 9]]
