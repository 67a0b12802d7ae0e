"""Granular: bags of byte records, and data sets of one bag a field. Reads all generations, writes the last two."""

from dataformats.backends.granular.backend import BACKEND, GranularBackend

__all__ = ["BACKEND", "GranularBackend"]
