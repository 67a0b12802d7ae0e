"""All drop-in modules and TensorFlow in one process, in either order."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import importlib, pkgutil, sys
if sys.argv[1] == "first":
    import tensorflow
import dataformats_compat
names = [module.name for module in pkgutil.iter_modules(dataformats_compat.__path__)]
ours = {name: importlib.import_module("dataformats_compat." + name) for name in names}
assert ("tensorflow" in sys.modules) == (sys.argv[1] == "first")
import tensorflow as tf

TFRecordWriter = ours["tfrecord"].TFRecordWriter
blob = TFRecordWriter.serialize_tf_example({"a": ([1, 2], "int")})
assert tf.train.Example.FromString(blob).features.feature["a"].int64_list.value == [1, 2]
writer = TFRecordWriter(sys.argv[2])
writer.write({"a": ([1, 2], "int")})
writer.close()
assert [record.numpy() for record in tf.data.TFRecordDataset(sys.argv[2])] == [blob]
"""


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="needs tensorflow")
@pytest.mark.parametrize("order", ["first", "last"])
def test_tensorflow_and_the_drop_in_modules(order: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, order, str(tmp_path / "a.tfrecord")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
