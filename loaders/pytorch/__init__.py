"""The loader for PyTorch: batches as tensors, copies to a device, and datasets for `torch.utils.data`."""

from __future__ import annotations

from dataformats.loaders.pytorch.device import DeviceCopier, to_torch
from dataformats.loaders.pytorch.iterable_dataset import BatchDataset
from dataformats.loaders.pytorch.map_dataset import RecordDataset, Records, collate

__all__ = [
    "BatchDataset",
    "DeviceCopier",
    "RecordDataset",
    "Records",
    "collate",
    "to_torch",
]
