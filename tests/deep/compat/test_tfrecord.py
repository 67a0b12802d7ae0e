"""`compat.tfrecord` beside the `tfrecord` package; in a process of its own, because the latter excludes TensorFlow."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("beside_tfrecord.py")
TENSORFLOW = """
import sys
if sys.argv[1] == "first":
    import tensorflow as tf
from dataformats.compat.tfrecord import TFRecordWriter, example_pb2, tfrecord_loader
import dataformats.compat.ofrecord
import tensorflow as tf
blob = TFRecordWriter.serialize_tf_example({"a": ([1, 2], "int")})
assert tf.train.Example.FromString(blob).features.feature["a"].int64_list.value == [1, 2]
writer = TFRecordWriter(sys.argv[2])
writer.write({"a": ([1, 2], "int")})
writer.close()
assert [record.numpy() for record in tf.data.TFRecordDataset(sys.argv[2])] == [blob]
"""


def needs(*modules: str) -> pytest.MarkDecorator:
    """Skip a test without these modules; they are not imported here, because two of them exclude each other."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(modules)}")


def run(*arguments: str) -> None:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120, env=os.environ)
    assert done.returncode == 0, done.stderr


@needs("tfrecord", "torch")
def test_both_agree(tmp_path: Path) -> None:
    run(str(PROGRAM), str(tmp_path))


@needs("tensorflow")
@pytest.mark.parametrize("order", ["first", "last"])
def test_tensorflow_in_the_same_process(order: str, tmp_path: Path) -> None:
    run("-c", TENSORFLOW, order, str(tmp_path / "a.tfrecord"))
