"""Datasets for PyTorch."""

from __future__ import annotations

from dataformats_compat.tfrecord.torch import dataset
from dataformats_compat.tfrecord.torch.dataset import MultiTFRecordDataset, TFRecordDataset

__all__ = ["MultiTFRecordDataset", "TFRecordDataset", "dataset"]
