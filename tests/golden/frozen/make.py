"""Make the files of this folder: run `PYTHONPATH=. python make.py FOLDER` with the package of commit 66af78b.

README.md beside this describes them.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import dataformats

FOLDER = Path(sys.argv[1])
FORMATS = {"tfrecord": "tfrecord", "ofrecord": "ofrecord", "ffrecord": "ffr", "syrah": "syr"}
TIME_NS = 10**18  # when the data files were last modified: an index is of one size and time

FOLDER.mkdir(parents=True, exist_ok=True)
for format, suffix in FORMATS.items():
    path = FOLDER / f"data.{suffix}"
    with dataformats.create(path, format, spec={"id": "int64", "text": "bytes"}) as writer:
        writer.extend({"id": i, "text": b"t" * (i % 7 + 1)} for i in range(40))
    os.utime(path, ns=(TIME_NS, TIME_NS))
    source = dataformats.open(path, index="beside")
    assert source[39]["id"] == 39
with dataformats.create(FOLDER / "train", "tfrecord", spec={"x": "uint8[2,3]?"}, shard_records=4) as writer:
    writer.extend({"x": [[i] * 3] * 2} if i % 3 else {} for i in range(10))
for sidecar in FOLDER.glob("*.dataformats.json"):
    sidecar.unlink()
names = [*(f"data.{suffix}" for suffix in FORMATS.values()), "train"]
prints = {name: dataformats.open(FOLDER / name).fingerprint for name in names}
(FOLDER / "fingerprints.json").write_text(json.dumps(prints, indent=1) + "\n")
