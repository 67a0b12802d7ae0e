"""Syrah (`.syr`): arrays back to back, and a BSON document of where each of them lies."""

from dataformats.backends.syrah.backend import BACKEND, SyrahBackend

__all__ = ["BACKEND", "SyrahBackend"]
