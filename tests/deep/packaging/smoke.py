"""Check an installed wheel: `python tests/deep/packaging/smoke.py` in its environment.

The wheel has compiled kernels, stands in the environment, and reads a golden file of every format.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import dataformats
import dataformats.kernels

GOLDEN = Path(__file__).parents[2] / "golden"
FILES = {
    "ffrecord": "many_1000.ffr",
    "granular": "v3/many",
    "ofrecord": "many_1000.ofrecord",
    "syrah": "many_2000.syr",
    "tfrecord": "many_1000.tfrecord",
}
WHOLE_RECORDS = {"ffrecord", "ofrecord", "tfrecord"}  # formats that store a record as one blob


def check_installation() -> None:
    place = Path(dataformats.__file__).resolve()
    if Path(sys.prefix).resolve() not in place.parents:
        raise SystemExit(f"smoke: expected dataformats in {sys.prefix}, found {place}")
    kernels = dataformats.kernels.describe()
    if kernels["implementation"] != "native":
        raise SystemExit(f"smoke: expected compiled kernels, found {kernels}")


def check_format(name: str) -> None:
    entries = json.loads((GOLDEN / name / "expected.json").read_text("utf-8"))["entries"]
    (expected,) = (entry for entry in entries if entry["path"] == FILES[name])
    path = GOLDEN / name / FILES[name]
    report = dataformats.verify(path)
    if (report.format, report.records, report.findings) != (name, expected["n"], ()):
        raise SystemExit(f"smoke: expected {expected['n']} sound records of {name}, found {report}")
    if name in WHOLE_RECORDS:
        source = dataformats.open(path, payload="bytes")
        digests = [hashlib.sha256(source[index]).hexdigest() for index in expected["records"]["index"]]
        if digests != expected["records"]["sha256"]:
            raise SystemExit(f"smoke: expected other records in {path}")


def main() -> None:
    check_installation()
    for name in FILES:
        check_format(name)
    print(f"dataformats {dataformats.__version__} in {sys.prefix}: {dataformats.kernels.describe()['variants']}")


if __name__ == "__main__":
    main()
