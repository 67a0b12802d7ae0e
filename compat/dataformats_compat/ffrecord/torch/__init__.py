"""Datasets that are read a batch at a time, and a DataLoader that skips to a step."""

from __future__ import annotations

from dataformats_compat.ffrecord.torch.dataloader import DataLoader
from dataformats_compat.ffrecord.torch.dataset import ConcatDataset, Dataset, ReaderRegistry, Subset

__all__ = ["ConcatDataset", "DataLoader", "Dataset", "ReaderRegistry", "Subset"]
