"""A drop-in module imports neither its original nor torch, and registers no messages for the whole process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import dataformats_compat

PROGRAM = """
import importlib, json, sys
from google.protobuf import descriptor_pool
names = json.loads(sys.argv[1])
for name in names:
    importlib.import_module("dataformats_compat." + name)
originals = {name.partition(".")[0] for name in names}
found = sorted({*originals, "torch", "oneflow"} & sys.modules.keys())
for message in ("tensorflow.Example", "oneflow.OFRecord"):
    try:
        descriptor_pool.Default().FindMessageTypeByName(message)
    except KeyError:
        continue
    found.append(message)
print(json.dumps(found))
"""


NEED_TORCH = ("ffrecord.torch", "syrah.utils.data", "tfrecord.torch")


def test_drop_in_modules_come_alone() -> None:
    folder = Path(dataformats_compat.__path__[0])
    paths = [path.relative_to(folder).with_suffix("").parts for path in folder.rglob("*.py")]
    names = sorted(".".join(parts).removesuffix(".__init__") for parts in paths if parts != ("__init__",))
    names = [name for name in names if not name.startswith(NEED_TORCH)]
    assert "ffrecord" in names
    command = [sys.executable, "-c", PROGRAM, json.dumps(names)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert json.loads(done.stdout) == []
