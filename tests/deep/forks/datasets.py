"""The datasets that cold processes read."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np

import dataformats

_DATASETS: dict[str, tuple[str, dict[str, Any]]] = {
    "tfrecord": ("tfrecord", {}),
    "records.tfrecord.gz": ("tfrecord", {"compression": "gzip"}),
    "ofrecord": ("ofrecord", {}),
    "ffrecord": ("ffrecord", {"payload": "msgpack"}),
    "syrah": ("syrah", {}),
    "granular/": ("granular", {}),
    "rows.parquet": ("parquet", {}),
    "rows.arrow": ("arrow", {}),
    "lines.jsonl": ("jsonl", {}),
    "lines.jsonl.zst": ("jsonl", {"compression": "zstd"}),
    "samples.tar": ("webdataset", {}),
    "mds/": ("mds", {"compression": "zstd"}),
}
_WITHOUT_PICTURES = ("ffrecord", "jsonl")
NAMES = [*_DATASETS, "samples.tar.gz"]
COMPRESSED = ("records.tfrecord.gz", "lines.jsonl.zst", "samples.tar.gz", "mds/")
ENGINES = ("auto", "uring", "libaio", "threads", "mmap", "fsspec")
WAYS = ("record", "batch", "loader", "window", "arrow")
N_RECORDS = 40


def record(index: int) -> dict[str, Any]:
    """Return a record by its index."""
    picture = np.full((8, 8, 3), index, np.uint8)
    return {"number": index, "text": f"record {index}", "png": picture}


def create_all(folder: Path) -> None:
    """Write each dataset, and the tar file compressed."""
    for name, (format, options) in _DATASETS.items():
        spec = {"number": "int64", "text": "utf8", "png": "png"}
        if format in _WITHOUT_PICTURES:
            del spec["png"]
        types = None if "payload" in options else spec
        with dataformats.create(folder / name, format, spec=types, **options) as writer:
            for index in range(N_RECORDS):
                writer.append({field: record(index)[field] for field in spec})
    (folder / "samples.tar.gz").write_bytes(gzip.compress((folder / "samples.tar").read_bytes()))
