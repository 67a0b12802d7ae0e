"""`python -m dataformats_compat.check`: the names that files use and a drop-in module lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataformats_compat.check import check, main


@pytest.mark.parametrize(
    ("source", "findings"),
    [
        ("import tensorflow as tf\ntf.data.TFRecordDataset(p).map(tf.io.parse_tensor).batch(2)", []),
        ("import tensorflow as tf\n\ntf.keras.Model(tf.io.decode_gif(x))", [(3, "keras"), (3, "io.decode_gif")]),
        (
            "import tensorflow.compat.v1 as tf\ntf.FixedLenFeature, tf.log, tf.placeholder",
            [(2, "compat.v1.placeholder")],
        ),
        ("from tensorflow import io, keras as k\nio.gfile.glob('*')", [(1, "keras")]),
        ("from tensorflow.compat.v1 import Session", [(1, "compat.v1.Session")]),
        (
            "import tensorflow as tf\nd = tf.data.Dataset.range(3)\nd = d.map(f).rebatch(2)",
            [(3, "data.Dataset.rebatch")],
        ),
        ("import tensorflow as tf\ntensorflow = tf.zeros([2])\ntensorflow.foo, tf.constant(1).bar", []),
        ("import numpy as np\nnp.foo", []),
    ],
)
def test_missing_names(source: str, findings: list[tuple[int, str]]) -> None:
    found = [(one.line, one.name.removeprefix("tensorflow.")) for one in check(source)]
    assert sorted(found) == sorted(findings)


@pytest.mark.parametrize(
    ("source", "name", "remedy"),
    [
        ("import granular\ngranular.BagReadr", "granular.BagReadr", "BagReader"),
        ("from ffrecord.torch import Loader", "ffrecord.torch.Loader", "DataLoader"),
        ("from tfrecord.torch.dataset import Foo", "tfrecord.torch.dataset.Foo", "Import tfrecord beside"),
        ("import bags, syrah\nsyrah.Fil", "syrah.Fil", "File"),
        ("import tensorflow as tf\ntf.math.cel(x)", "tensorflow.math.cel", r"tf\.math\.ceil"),
    ],
)
def test_remedies(source: str, name: str, remedy: str) -> None:
    pytest.importorskip("torch", reason="modules of torch are checked")
    (found,) = check(source)
    assert found.name == name
    assert remedy.replace("\\", "") in found.remedy


def test_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, broken = (tmp_path / name for name in ("good.py", "bad.py", "broken.py"))
    good.write_text("import tensorflow as tf\ntf.zeros([1])")
    bad.write_text("import tensorflow as tf\ntf.Session()")
    broken.write_text("print 1")
    assert main([str(good)]) == 0
    assert main([str(good), str(bad), str(broken)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{bad}:2: tensorflow.Session is missing. There are no graphs")
    assert "cannot read it" in lines[1]


def test_variables_of_two_functions_are_told_apart() -> None:
    source = "import tensorflow as tf\ndef f():\n ds = tf.data.TFRecordDataset('x')\ndef g():\n ds = []\n ds.append(1)"
    assert check(source) == []
