"""States, fingerprints, indexes and sidecars are frozen: files that an earlier commit made."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.indexing.index_cache import IndexCache
from dataformats.storage.files import LocalFile
from tests.cases import GOLDEN

COMPAT = GOLDEN / "compat"
STATES = json.loads((COMPAT / "states.json").read_text())
FINGERPRINTS = json.loads((COMPAT / "fingerprints.json").read_text())
RECORDS = [{"id": i, "text": b"t" * (i % 7 + 1)} for i in range(40)]


def script() -> Any:
    """Return the module that made the files."""
    spec = importlib.util.spec_from_file_location("make_compat", COMPAT / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.argv", ["make.py", "."])
        spec.loader.exec_module(module)
    return module


MAKE = script()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the files, with the times that the indexes know."""
    shutil.copytree(COMPAT, tmp_path / "compat")
    for path in (tmp_path / "compat").glob("data.*"):
        os.utime(path, ns=(MAKE.TIME_NS, MAKE.TIME_NS))
    return tmp_path / "compat"


def known(state: dict[str, Any]) -> dict[str, Any]:
    """Return what every state has; later ones have the sizes of steps, too."""
    return {name: state.get(name) for name in STATES[0]["state"] | {"weights": None} if name != "check"}


@pytest.mark.parametrize("case", STATES, ids=lambda case: str(case["name"]))
def test_states_continue_with_the_same_records(case: dict[str, Any]) -> None:
    loader = MAKE.loader_of({**case["options"], "leave_out": [], "skipped": 0})
    loader.load_state_dict(case["state"])
    assert known(loader.state_dict()) == known(case["state"])
    assert MAKE.take(loader, 5) == case["next"]


@pytest.mark.parametrize("case", STATES, ids=lambda case: str(case["name"]))
def test_states_are_made_as_they_were(case: dict[str, Any]) -> None:
    loader = MAKE.loader_of(case["options"])
    assert known(loader.state_dict()) == known(case["state"])
    assert MAKE.take(loader, 5) == case["next"]


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_datasets_have_the_same_fingerprint(name: str, folder: Path) -> None:
    assert dataformats.open(folder / name).fingerprint == FINGERPRINTS[name]
    assert dataformats.verify(folder / name).ok


@pytest.mark.parametrize("suffix", ["tfrecord", "ofrecord", "ffr", "syr"])
def test_sidecars_declare_spec_and_payload(suffix: str, folder: Path) -> None:
    source = dataformats.open(folder / f"data.{suffix}")
    assert source.spec == {"id": "int64", "text": "bytes"}
    assert list(source) == RECORDS


def test_the_sidecar_of_a_folder(folder: Path) -> None:
    source = dataformats.open(folder / "train")
    assert source.spec == {"x": "uint8[2,3]?"}
    found = [np.asarray(record["x"]).tolist() if record else None for record in source]
    assert found == [[[i] * 3] * 2 if i % 3 else None for i in range(10)]


@pytest.mark.parametrize("where", ["beside", "cache"])
@pytest.mark.parametrize("suffix", ["tfrecord", "ofrecord"])
def test_indexes_are_not_built_again(
    suffix: str, where: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(IndexCache, "save", lambda *_: pytest.fail("the index is built again"))
    path = folder / f"data.{suffix}"
    index = path.with_name(path.name + ".dataformats.idx")
    if where == "cache":
        name = hashlib.blake2b(str(path).encode(), digest_size=16).hexdigest() + ".dataformats.idx"
        (tmp_path / "cache" / "indexes").mkdir(parents=True)
        index = index.rename(tmp_path / "cache" / "indexes" / name)
        assert IndexCache("cache").path(LocalFile(path)) == str(index)
    whole = index.read_bytes()
    source = dataformats.open(path, index=where)
    assert [source[39], source[7]] == [RECORDS[39], RECORDS[7]]
    assert list(source.read(range(40))) == RECORDS
    assert index.read_bytes() == whole
