"""The loader for PyTorch: batches as tensors, copies to a device, and datasets for `torch.utils.data`."""

from __future__ import annotations

from dataformats.loaders.pytorch.device import DeviceCopier, to_torch
from dataformats.loaders.pytorch.iterable_dataset import BatchDataset
from dataformats.loaders.pytorch.map_dataset import RecordDataset, Records, collate
from dataformats.loaders.pytorch.sampler import PlanSampler

__all__ = [
    "BatchDataset",
    "DeviceCopier",
    "PlanSampler",
    "RecordDataset",
    "Records",
    "collate",
    "to_torch",
]
