"""Syrah (`.syr`): arrays back to back, and a BSON document with the place of each."""

from dataformats.backends.syrah.backend import SyrahBackend

BACKEND = SyrahBackend()
