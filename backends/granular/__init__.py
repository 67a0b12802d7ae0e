"""Granular: bags of byte records, and datasets of one bag per field. Reads all generations, writes the last two."""

from dataformats.backends.granular.backend import GranularBackend

BACKEND = GranularBackend()
