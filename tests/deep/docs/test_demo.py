"""The demo passes, and fails on a poor classifier or on a difference."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import dataformats
from tests.deep.docs.test_docs import matches

DEMO = Path(__file__).parents[3] / "examples" / "demo.py"
README = DEMO.parents[1] / "README.md"

pytestmark = pytest.mark.skipif(
    not DEMO.exists(), reason="runs the demo of a checkout, and these tests stand outside one"
)


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "demo", module)
    monkeypatch.setenv("DATAFORMATS_CACHE", "")  # pytest undoes the demo's change
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "show", lambda *arguments: None)
    return module


def test_it_passes() -> None:
    command = [sys.executable, str(DEMO)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(("digits ", "photos "))]
    formats = ["ffrecord", "ofrecord", "syrah", "granular", "tfrecord"]
    assert [row[:2] for row in rows] == [[data, format] for data in ("digits", "photos") for format in formats]
    assert [row[2] for row in rows] == ["1797"] * 5 + ["12"] * 5
    assert all("yes" in row for row in rows)
    (shown,) = re.findall(r"^    (data .*?^    \(.*?\n)", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    end = done.stdout[done.stdout.rindex("data  ") :]
    assert matches(without_speeds(end), without_speeds(textwrap.dedent(f"    {shown}"))), end


def without_speeds(table: str) -> str:
    return "\n".join(
        line[:36] + line[57:] if line.startswith(("digits ", "photos ")) else line for line in table.splitlines()
    )


def test_it_fails_on_a_poor_classifier(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "train", lambda path: 0.9)
    assert demo.main() == 1
    assert "the accuracy is 0.900" in capsys.readouterr().err


def test_it_fails_if_a_resumed_run_differs(demo: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spec = {"image": "uint8[8,8]", "label": "int64"}
    with dataformats.create(tmp_path / "digits.ffr", "ffrecord", spec=spec) as writer:
        writer.extend({"image": np.full((8, 8), index % 16, np.uint8), "label": index % 10} for index in range(100))
    fit = demo.fit
    assert demo.train(tmp_path / "digits.ffr") >= 0
    monkeypatch.setattr(demo, "fit", lambda *given, **named: (fit(*given)[0] + bool(named), fit(*given)[1]))
    with pytest.raises(RuntimeError, match="resumed"):
        demo.train(tmp_path / "digits.ffr")


def test_it_fails_on_a_difference(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "same", lambda one, other: other.format != "ffrecord")
    assert demo.main() == 1
    assert capsys.readouterr().err.count("digits in ffrecord differ") == 1


def test_values_differ_by_content_and_type(demo: ModuleType) -> None:
    digits = np.arange(3, dtype=np.uint8)
    assert demo.same_value(digits, digits.copy())
    assert not demo.same_value(digits, digits.astype(np.int64))
    assert not demo.same_value(digits, digits + np.uint8(1))
    assert not demo.same_value(1, True)
    assert not demo.same_value(b"a", "a")
