"""A drop-in module imports neither its original nor torch, and registers no messages for the whole process."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys

import dataformats.compat

PROGRAM = """
import importlib, json, sys
from google.protobuf import descriptor_pool
names = json.loads(sys.argv[1])
for name in names:
    importlib.import_module("dataformats.compat." + name)
found = sorted({*names, "torch", "oneflow"} & sys.modules.keys())
for message in ("tensorflow.Example", "oneflow.OFRecord"):
    try:
        descriptor_pool.Default().FindMessageTypeByName(message)
    except KeyError:
        continue
    found.append(message)
print(json.dumps(found))
"""


def test_drop_in_modules_come_alone() -> None:
    names = [module.name for module in pkgutil.iter_modules(dataformats.compat.__path__)]
    assert "ffrecord" in names
    command = [sys.executable, "-c", PROGRAM, json.dumps(names)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert json.loads(done.stdout) == []
