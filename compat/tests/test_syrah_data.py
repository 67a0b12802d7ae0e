"""`dataformats_compat.syrah.utils.data`: samples are tuples of arrays, in torch's DataLoader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch.utils.data import DataLoader  # noqa: E402

from dataformats_compat.syrah import File  # noqa: E402
from dataformats_compat.syrah.utils.data import SyrahConcatDataset, SyrahDataset  # noqa: E402

N = 20


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("syrah") / "a.syr"
    with File(path, "w") as syr:
        for i in range(N):
            syr.add_item({"label": np.array([i]), "features": np.full(4, i, np.float32), "name": np.array([f"n{i}"])})
    return path


def test_samples_are_tuples_in_the_order_of_the_keys(path: Path) -> None:
    dataset = SyrahDataset(str(path), ["features", "label", "name"])
    assert (len(dataset), dataset.len, dataset.file_path, dataset.keys) == (
        N,
        N,
        str(path),
        ["features", "label", "name"],
    )
    assert dataset.syr.num_items() == N
    features, label, name = dataset[7]
    assert (features.tolist(), label.tolist(), name.tolist()) == ([7.0] * 4, [7], ["n7"])
    assert [[array.tolist() for array in row] for row in dataset.__getitems__([7, 7])] == 2 * [[[7.0] * 4, [7], ["n7"]]]
    with pytest.raises(IndexError):
        dataset[N]
    with pytest.raises(KeyError):
        SyrahDataset(path, ["none"])[0]


def test_functions_are_applied_item_by_item(path: Path) -> None:
    seen: list[float] = []

    def note(array: Any) -> Any:
        seen.append(float(array[0]))
        return -array

    dataset = SyrahDataset(path, ["features", "label", "name"], {"label": note, "features": note})
    rows = dataset.__getitems__([2, 1])
    assert seen == [2.0, 2.0, 1.0, 1.0]
    assert (
        [array.tolist() for array in rows[0]] == [array.tolist() for array in dataset[2]] == [[-2.0] * 4, [-2], ["n2"]]
    )


def test_a_loader_stacks_them(path: Path, recwarn: pytest.WarningsRecorder) -> None:
    dataset = SyrahDataset(path, ["features", "label"])
    batches = list(DataLoader(dataset, batch_size=8))
    assert [tuple(features.shape) for features, _ in batches] == [(8, 4), (8, 4), (4, 4)]
    assert torch.cat([labels for _, labels in batches]).flatten().tolist() == [*range(N)]
    assert not recwarn.list


def test_a_subclass_has_the_last_word(path: Path) -> None:
    class Shifted(SyrahDataset):
        def __init__(self, path: Path) -> None:
            super().__init__(path, ["label"])

        def __getitem__(self, item: int) -> Any:
            (label,) = super().__getitem__(item)
            return label + 100

    assert torch.cat(list(DataLoader(Shifted(path), batch_size=8))).flatten().tolist() == [*range(100, 100 + N)]


def test_several_files(path: Path) -> None:
    both = SyrahConcatDataset([SyrahDataset(path, ["label"]), SyrahDataset(path, ["label"])])
    both.worker_init_fn(0)
    assert (len(both), both[N + 3][0].tolist(), both[-1][0].tolist()) == (2 * N, [3], [N - 1])
    assert sum(len(labels) for (labels,) in DataLoader(both, batch_size=7)) == 2 * N
