"""How stretches of files get into memory: an engine for local files, one call a file system for remote ones."""

from __future__ import annotations

from dataformats.storage.engines.fetching import Piece, fetch
from dataformats.storage.engines.local import NAMES, Engine, describe, engine

__all__ = ["NAMES", "Engine", "Piece", "describe", "engine", "fetch"]
