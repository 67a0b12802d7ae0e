"""The drop-in `ffrecord` in whole programs: training on pictures with `set_step`, worker processes, many files."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from dataformats_compat.ffrecord import FileReader, FileWriter  # noqa: E402
from dataformats_compat.ffrecord.torch import DataLoader, Dataset  # noqa: E402
from dataformats_compat.ffrecord.utils import dump  # noqa: E402

N, BATCH, RANKS = 96, 8, 2


class Pictures(Dataset):
    """Pickled (uint8[16,16,3], label), as ImageNet is converted for ffrecord, and a transform."""

    def __init__(self, fnames: Any, transform: Any = None) -> None:
        super().__init__(fnames, check_data=True)
        self.transform = transform

    def process(self, indices: Sequence[int], data: Sequence[Any]) -> list[Any]:
        samples = []
        for record in data:
            image, label = pickle.loads(record)
            samples.append((self.transform(image) if self.transform else image, label))
        return samples


class Model(torch.nn.Module):  # type: ignore[misc, name-defined]  # torch may be missing
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(16 * 16 * 3, 10)

    def forward(self, images: Any) -> Any:
        return self.layer(images.flatten(1))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train.ffr")
    rng = np.random.default_rng(0)
    for number in range(3):
        with FileWriter(folder / f"{number:05d}.ffr", N // 3) as writer:
            for index in range(N // 3 * number, N // 3 * (number + 1)):
                writer.write_one(pickle.dumps((rng.integers(0, 256, (16, 16, 3), np.uint8), index % 10)))
    return folder


def as_floats(image: Any) -> Any:
    return torch.from_numpy(image).float() / 255


class Run:
    """One rank of a training run."""

    def __init__(self, folder: Path, rank: int, workers: int) -> None:
        dataset = Pictures(folder, as_floats)
        self.sampler = torch.utils.data.DistributedSampler(dataset, num_replicas=RANKS, rank=rank, seed=7)
        self.loader = DataLoader(dataset, BATCH, sampler=self.sampler, num_workers=workers)
        self.model = Model()

    def train(self, epoch: int, step: int, stop: int | None = None) -> Iterator[float]:
        self.sampler.set_epoch(epoch)
        self.loader.set_step(step)
        for number, (images, labels) in enumerate(self.loader, step):
            if number == stop:
                return
            loss = torch.nn.functional.cross_entropy(self.model(images), labels)
            loss.backward()
            with torch.no_grad():
                for parameter in self.model.parameters():
                    parameter -= 0.1 * parameter.grad
                    parameter.grad = None
            yield loss.item()


@pytest.mark.parametrize(("rank", "workers"), [(0, 0), (1, 2)])
def test_a_resumed_run_trains_as_an_unbroken_one(folder: Path, rank: int, workers: int) -> None:
    unbroken = Run(folder, rank, workers)
    losses = [*unbroken.train(0, 0), *unbroken.train(1, 0)]
    assert len(losses) == 2 * N // RANKS // BATCH

    stopped = Run(folder, rank, workers)
    before = [*stopped.train(0, 0), *stopped.train(1, 0, stop=2)]
    resumed = Run(folder, rank, workers)
    resumed.model.load_state_dict(stopped.model.state_dict())
    assert [*before, *resumed.train(1, 2)] == losses


@pytest.mark.parametrize("persistent", [False, True])
def test_worker_processes_follow_torch_s_order(folder: Path, persistent: bool) -> None:
    def loader(kind: Any, dataset: Any) -> Any:
        generator = torch.Generator().manual_seed(3)
        return kind(dataset, 5, True, num_workers=2, generator=generator, persistent_workers=persistent)

    theirs = loader(torch.utils.data.DataLoader, [(0, index % 10) for index in range(N)])
    ours = loader(DataLoader, Pictures(folder))
    ours.set_step(2)
    for _ in range(2):
        assert [labels.tolist() for _, labels in ours] == [labels.tolist() for _, labels in theirs][2:]


def test_a_worker_sends_the_error_of_a_damaged_record(folder: Path, tmp_path: Path) -> None:
    data = bytearray((folder / "00000.ffr").read_bytes())
    data[-1] ^= 1
    path = tmp_path / "damaged.ffr"
    path.write_bytes(data)
    loader = DataLoader(Pictures(path), BATCH, num_workers=1)
    with pytest.raises(RuntimeError, match=f"record {N // 3 - 1} of"):
        list(loader)


@pytest.mark.parametrize("n_files", [4, 20])
def test_dump_to_many_files(tmp_path: Path, n_files: int) -> None:
    records = [pickle.dumps(number) for number in range(100)]
    dump(records, tmp_path / "all.ffr", n_files)
    reader = FileReader(tmp_path / "all.ffr")
    assert len(reader.fnames) == n_files
    assert [pickle.loads(record) for record in reader.read(range(100))] == [*range(100)]


def test_dump_to_too_many_files(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="3 files, not 4"):
        dump([b"", b"", b"", b"", b""], tmp_path / "all.ffr", 4)
    with pytest.raises(RuntimeError, match=r"PART_00001\.ffr"):
        dump([b"one", b"two", "three", b"four"], tmp_path / "wrong.ffr", 2)
