"""Tar files as WebDataset writes them: consecutive members with one base name are a record."""

from dataformats.backends.webdataset.backend import WebDatasetBackend

__all__ = ["BACKEND", "WebDatasetBackend"]

BACKEND = WebDatasetBackend()
"""The WebDataset format."""
