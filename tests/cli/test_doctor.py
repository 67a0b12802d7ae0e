"""`dataformats doctor`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from dataformats.cli import doctor as module
from dataformats.storage.threads import N_THREADS
from tests.cli.conftest import Run


def test_facts(run: Run) -> None:
    facts = run("doctor").facts
    assert facts["kernels"].split(",")[0] in ("native", "reference")
    assert facts["processors"] == f"{N_THREADS} of {os.cpu_count()}"
    assert {"ffrecord", "tfrecord"} <= {*facts["formats"].split(", ")}
    assert {"bytes", "utf8", "jpg", "example"} <= {*facts["codecs"].split(", ")}
    assert f"{os.environ['DATAFORMATS_CACHE']}: 0 MB in 0 files, " in facts["cache folder"]
    as_json = run("doctor", "--json").json["facts"]
    assert [fact["name"] for fact in as_json] == [name for name in facts if name != "  better"]
    assert len(facts) < 25  # one screen


def test_faults_have_remedies(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(module, "_version", lambda name: None if name in ("simplejpeg", "torch") else "1")
    usage = SimpleNamespace(total=64_000_000, used=0, free=64_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    monkeypatch.setattr(module, "_MIN_DESCRIPTORS", 2**62)
    remedies = {fact["name"]: fact["remedy"] for fact in run("doctor", "--json").json["facts"]}
    assert remedies["libjpeg-turbo"] == "pip install simplejpeg"
    assert remedies["extras not installed"] == "pip install 'dataformats[torch]'"
    assert remedies["cache folder"].startswith("export DATAFORMATS_CACHE=")
    assert remedies["shared memory"].startswith("docker run --shm-size=8g")
