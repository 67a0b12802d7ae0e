"""PyTorch's DataLoader with spawned workers."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader

import dataformats
import tests.loaders.test_pytorch as fast
import tests.loaders.test_torchdraws as draws
from dataformats.loaders.pytorch import RecordDataset, collate
from tests.loaders.test_pytorch import all_labels, torch

digits = fast.digits  # fixtures


def test_map_style_under_spawn(digits: dataformats.RecordSource) -> None:
    way: dict[str, Any] = {"num_workers": 1, "multiprocessing_context": "spawn"}
    batches = list(DataLoader(RecordDataset(digits), batch_size=500, collate_fn=collate, **way))
    assert torch.cat([batch["label"] for batch in batches]).tolist() == all_labels(digits)


def test_a_loader_draws_by_position_in_worker_processes() -> None:
    draws.test_a_loader_draws_by_position({"workers": 2, "worker_type": "process"})
