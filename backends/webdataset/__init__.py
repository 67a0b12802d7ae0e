"""Tar files as WebDataset writes them: consecutive members with one base name are a record."""

from dataformats.backends.webdataset.backend import WebDatasetBackend

BACKEND = WebDatasetBackend()
"""The WebDataset format."""
