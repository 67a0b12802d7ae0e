"""Check installed wheels: `python compat/tests/deep/smoke.py` in an environment that has both distributions.

The package stands in the environment, `check` finds a missing name, and two drop-in modules read golden files.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import dataformats
import dataformats_compat
from dataformats_compat import check, ffrecord, tfrecord

GOLDEN = Path(__file__).parents[3] / "tests" / "golden"


def main() -> None:
    place = Path(dataformats_compat.__file__).resolve()
    if Path(sys.prefix).resolve() not in place.parents:
        raise SystemExit(f"smoke: expected dataformats_compat in {sys.prefix}, found {place}")
    if version("dataformats-compat") != dataformats.__version__:
        raise SystemExit(f"smoke: expected {dataformats.__version__}, found {version('dataformats-compat')}")
    with tempfile.NamedTemporaryFile("w", suffix=".py") as program:
        program.write("import tensorflow as tf\ntf.data.Dataset.range(3).rebatch(2)\n")
        program.flush()
        if check.main([program.name]) != 1:
            raise SystemExit("smoke: expected a missing name")
    records = ffrecord.FileReader(GOLDEN / "ffrecord" / "pickled_ints.ffr").n
    examples = sum(1 for _ in tfrecord.tfrecord_loader(str(GOLDEN / "tfrecord" / "vahidk.tfrecord"), None))
    if (records, examples) != (100, 7):
        raise SystemExit(f"smoke: expected 100 records and 7 examples, found {records} and {examples}")
    print(f"dataformats_compat {version('dataformats-compat')} in {sys.prefix}")


if __name__ == "__main__":
    main()
