"""Chunks of litdata: a folder of `chunk-0-0.bin`, and `index.json` that lists them. Only read."""

from dataformats.backends.litdata.backend import LitdataBackend

BACKEND = LitdataBackend()
"""The backend of litdata."""
