"""Make the files of this folder: run `PYTHONPATH=. python make.py FOLDER` with the package of commit 66af78b.

README.md beside this describes them.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import dataformats

FOLDER = Path(sys.argv[1])
DIGITS = str(Path(__file__).parents[1] / "real" / "digits-*.tfrecord")
SPEC = {"image": "uint8[8,8]", "label": "int64"}
TIME_NS = 10**18  # when the data files were last modified: an index is of one size and time

LOADERS: dict[str, dict[str, Any]] = {
    "in order": {"shuffle": False},
    "shuffled": {"seed": 3},
    "shuffled over the end of an epoch": {"seed": 2**62 + 1, "drop_last": False, "skipped": 55},
    "window": {"shuffle": "window", "seed": 5, "block_records": 16, "window_blocks": 4},
    "rank 1 of 3": {"seed": 3, "rank": 1, "world_size": 3},
    "left out": {"seed": 3, "leave_out": [[64, 96], [200, 300]]},
    "mixture": {"seed": 7, "mixed": True},
}


def loader_of(options: dict[str, Any]) -> Any:
    """Return a loader that skips the left-out ranges, after a few batches."""
    options = {"drop_last": True, **options}
    ranges, skipped, mixed = options.pop("leave_out", []), options.pop("skipped", 4), options.pop("mixed", False)
    source: Any = dataformats.open(DIGITS, spec=SPEC)
    if mixed:
        source = dataformats.mix({"even": source[::2], "odd": source[1::2]}, weights={"even": 3, "odd": 1})
    loader = dataformats.Loader(source, 32, **options)
    for first, last in ranges:
        loader.skip(first, last)
    take(loader, skipped)
    return loader


def take(loader: Any, n: int) -> list[dict[str, Any]]:
    """Return facts of the next batches, over the ends of epochs: labels, the sum of the pixels, the position."""
    found: list[dict[str, Any]] = []
    while len(found) < n:
        for batch in loader:
            pixels = int(batch["image"].sum())
            found.append({"labels": batch["label"].tolist(), "pixels": pixels, "position": loader.position})
            if len(found) == n:
                break
    return found


def write_states() -> None:
    states = []
    for name, options in LOADERS.items():
        loader = loader_of(options)
        states.append({"name": name, "options": options, "state": loader.state_dict(), "next": take(loader, 5)})
    (FOLDER / "states.json").write_text("[\n" + ",\n".join(map(json.dumps, states)) + "\n]\n")


def write_data() -> None:
    """Datasets with sidecars; TFRecord and OFRecord with the index beside the data."""
    for format, suffix in (("tfrecord", "tfrecord"), ("ofrecord", "ofrecord"), ("ffrecord", "ffr"), ("syrah", "syr")):
        path = FOLDER / f"data.{suffix}"
        with dataformats.create(path, format, spec={"id": "int64", "text": "bytes"}) as writer:
            writer.extend({"id": i, "text": b"t" * (i % 7 + 1)} for i in range(40))
        os.utime(path, ns=(TIME_NS, TIME_NS))
        source = dataformats.open(path, index="beside")
        assert source[39]["id"] == 39
    with dataformats.create(FOLDER / "train", "tfrecord", spec={"x": "uint8[2,3]?"}, shard_records=4) as writer:
        writer.extend({"x": [[i] * 3] * 2} if i % 3 else {} for i in range(10))
    names = ("data.tfrecord", "data.ofrecord", "data.ffr", "data.syr", "train")
    prints = {name: dataformats.open(FOLDER / name).fingerprint for name in names}
    (FOLDER / "fingerprints.json").write_text(json.dumps(prints, indent=1) + "\n")


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_states()
    write_data()
