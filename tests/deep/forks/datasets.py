"""The datasets that cold processes read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import dataformats

__all__ = ["ENGINES", "FORMATS", "N_RECORDS", "WAYS", "create_all", "record"]

FORMATS = ("tfrecord", "tfrecord.gz", "ofrecord", "ffrecord", "syrah", "granular")
ENGINES = ("auto", "uring", "libaio", "threads", "mmap", "fsspec")
WAYS = ("record", "batch", "loader", "window", "arrow")
N_RECORDS = 40


def record(index: int) -> dict[str, Any]:
    """Return a record by its index."""
    picture = np.full((8, 8, 3), index, np.uint8)
    return {"number": index, "text": f"record {index}", "png": picture}


def create_all(folder: Path) -> None:
    """Write a dataset of each format: its name is the format's."""
    for format in FORMATS:
        name, _, gz = format.partition(".")
        options: dict[str, Any] = {"payload": "msgpack"} if name == "ffrecord" else {}
        if gz:
            options["compression"] = "gzip"
        spec = None if name == "ffrecord" else {"number": "int64", "text": "utf8", "png": "png"}
        with dataformats.create(folder / format, name, spec=spec, **options) as writer:
            for index in range(N_RECORDS):
                writer.append(record(index) if spec else {"number": index, "text": f"record {index}"})
