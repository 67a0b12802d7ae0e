"""Two processes of `torch.distributed`: each record once, and a state that one or three ranks can resume from."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the extra torch is not installed")

DIGITS = str(Path(__file__).parents[2] / "golden" / "real" / "digits-*.tfrecord")
SPEC = {"image": "uint8[8,8]", "label": "int64"}
STEPS_BEFORE = 7

RANK = f"""
import json, pathlib, sys
import torch.distributed as dist
import dataformats

rank, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{{folder}}/meeting", rank=rank, world_size=2)
digits = dataformats.open({DIGITS!r}, spec={SPEC!r})
loader = dataformats.Loader(digits, 50, seed=3, rank="auto", to="torch")
given, states = [], []
for batch in loader:
    given.append([batch.positions.tolist(), batch["label"].tolist(), int(batch["image"].sum())])
    states.append(loader.state_dict())
everybodys = [None, None]
dist.all_gather_object(everybodys, states)
assert everybodys[0] == everybodys[1]
(folder / f"{{rank}}.json").write_text(json.dumps({{"given": given, "states": states}}))
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The batches of two ranks in an epoch: for each step positions, labels, the sum of the pixels."""
    folder = tmp_path_factory.mktemp("ranks")
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "DATAFORMATS_CACHE": str(folder / "cache")}
    command = [sys.executable, "-W", "error::UserWarning", "-c", RANK]
    running = [
        subprocess.Popen([*command, str(rank), str(folder)], env=environment, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    for process in running:
        _, errors = process.communicate(timeout=200)
        assert process.returncode == 0, errors
    return [json.loads((folder / f"{rank}.json").read_text("utf-8")) for rank in range(2)]


@pytest.fixture(scope="module")
def whole() -> list[int]:
    """The labels of the epoch in the order of positions, from one rank that is never interrupted."""
    return [label for batch in loader(100, 0, 1) for label in batch["label"].tolist()]


def loader(batch_size: int, rank: int, world_size: int) -> dataformats.Loader:
    digits = dataformats.open(DIGITS, spec=SPEC)
    return dataformats.Loader(digits, batch_size, seed=3, rank=rank, world_size=world_size, workers=0)


def in_order(steps: Iterator[tuple[tuple[list[int], list[int]], ...]]) -> tuple[list[int], list[int]]:
    """Return positions and labels of steps; each step has the records of every rank."""
    parts = [part for step in steps for part in step]
    return [p for positions, _ in parts for p in positions], [x for _, labels in parts for x in labels]


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [50, 31])
def test_resumed_by_another_number_of_ranks(
    ranks: list[dict[str, Any]], whole: list[int], world_size: int, batch_size: int
) -> None:
    state = ranks[1]["states"][STEPS_BEFORE - 1]
    first = STEPS_BEFORE * 100
    assert state["position"] == first
    resumed = [loader(batch_size, rank, world_size) for rank in range(world_size)]
    for one in resumed:
        one.load_state_dict(state)
    steps = [[(batch.positions.tolist(), batch["label"].tolist()) for batch in one] for one in resumed]
    positions, labels = in_order(zip(*steps, strict=True))
    assert positions == list(range(first, 1797))
    assert labels == whole[first:]
    assert all(one.epoch == 1 and one.position == 1797 for one in resumed)


def test_resume_after_every_step(ranks: list[dict[str, Any]], whole: list[int]) -> None:
    one = loader(64, 0, 1)
    for state in ranks[0]["states"]:
        one.load_state_dict(state)
        first = state["position"]
        (batch,) = islice(one, 1)
        expected = whole[first : first + 64] if first < 1797 else batch["label"].tolist()
        assert batch["label"].tolist() == expected
        assert batch.positions[0] == first


def test_each_record_once(ranks: list[dict[str, Any]], whole: list[int]) -> None:
    given = [[(positions, labels) for positions, labels, _ in rank["given"]] for rank in ranks]
    positions, labels = in_order(zip(*given, strict=True))
    assert positions == list(range(1797))
    assert labels == whole
    digits = dataformats.open(DIGITS, spec=SPEC)
    pixels = sum(pixels for rank in ranks for _, _, pixels in rank["given"])
    assert pixels == digits.read(range(1797))["image"].sum(dtype=np.int64)
    assert sorted(labels) == sorted(digits.read(range(1797))["label"].tolist())
