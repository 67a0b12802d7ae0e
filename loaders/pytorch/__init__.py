"""The loader for PyTorch: batches as tensors, copies to a device, and datasets for `torch.utils.data`."""

from __future__ import annotations

from dataformats.loaders.pytorch.datasets import (
    BatchDataset,
    DeviceCopier,
    RecordDataset,
    Records,
    collate,
    to_torch,
)

__all__ = [
    "BatchDataset",
    "DeviceCopier",
    "RecordDataset",
    "Records",
    "collate",
    "to_torch",
]
