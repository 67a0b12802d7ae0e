"""`dataformats_compat.syrah` in worker processes: pools that open the file in each worker, and torch's DataLoader."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataformats_compat.syrah import File

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch.utils.data import DataLoader  # noqa: E402

from dataformats_compat.syrah.utils.data import SyrahConcatDataset, SyrahDataset  # noqa: E402

N = 60
ITEMS = [{"label": np.array([i]), "features": np.arange(i, i + 50, dtype=np.float32)} for i in range(N)]

_open_file: File


def read_item(i: int) -> tuple[int, float]:
    item = _open_file.get_item(i)
    return int(item["label"][0]), float(_open_file.get_array(i, "features").sum())


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("syrah") / "a.syr"
    with File(path, "w") as syr:
        for item in ITEMS:
            syr.add_item(item)
    return path


@pytest.mark.parametrize("opens", [True, False])
def test_a_pool_reads_the_file_of_its_parent(path: Path, opens: bool) -> None:
    global _open_file  # workers inherit it, like in the original's README
    _open_file = File(path, mode="r")
    assert read_item(3) == (3, float(ITEMS[3]["features"].sum()))
    options: dict[str, Any] = {"initializer": _open_file.open, "initargs": (path, "r")} if opens else {}
    with multiprocessing.get_context("fork").Pool(3, **options) as pool:
        found = pool.map(read_item, range(N))
    assert found == [(i, float(ITEMS[i]["features"].sum())) for i in range(N)]


def test_workers_of_a_loader(path: Path) -> None:
    dataset = SyrahConcatDataset([SyrahDataset(path, ["features", "label"]), SyrahDataset(path, ["features", "label"])])
    loader = DataLoader(dataset, 16, num_workers=2, worker_init_fn=dataset.worker_init_fn)
    labels = [labels for features, labels in loader if features.shape[1:] == (50,)]
    assert torch.cat(labels).flatten().tolist() == 2 * [*range(N)]


def test_random_orders_are_torch_s(path: Path) -> None:
    def labels(dataset: Any) -> list[list[int]]:
        generator = torch.Generator().manual_seed(3)
        loader = DataLoader(dataset, 7, shuffle=True, num_workers=2, generator=generator)
        return [batch.flatten().tolist() for (batch,) in loader]

    assert labels(SyrahDataset(path, ["label"])) == labels([(item["label"],) for item in ITEMS])
