"""Read ranges of files into memory: by an engine for local files, by one call per file system for remote files."""

from __future__ import annotations

from dataformats.storage.engines.fetching import Piece, fetch
from dataformats.storage.engines.local import NAMES, Engine, describe, engine

__all__ = ["NAMES", "Engine", "Piece", "describe", "engine", "fetch"]
