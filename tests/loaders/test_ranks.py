"""The rank of a process: from arguments, from libraries, from the environment of launchers."""

from __future__ import annotations

import logging
import subprocess
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dataformats.loaders import ranks
from dataformats.loaders.ranks import nodes_of, resolve
from dataformats.storage.remote.node_folder import LOCAL_SIZES
from dataformats.testing.loop_over import loop_over

LAUNCHERS = {
    "torchrun": ("RANK", "WORLD_SIZE"),
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    "MVAPICH": ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    "MPI": ("PMI_RANK", "PMI_SIZE"),
    "jsrun": ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
    "Slurm": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without launcher and libraries; no warning was given yet."""
    for name in [*sum(LAUNCHERS.values(), ()), "SLURM_NTASKS"]:
        monkeypatch.delenv(name, raising=False)
    for module in ("torch.distributed", "jax", "jax._src.distributed"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    ranks._WARNED.clear()


def torch_of(rank: int, world_size: int, is_initialized: bool = True) -> Any:
    return SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: is_initialized,
        get_rank=lambda: rank,
        get_world_size=lambda: world_size,
    )


def jax_of(rank: int, world_size: int, is_initialized: bool = True) -> Any:
    return SimpleNamespace(
        distributed=SimpleNamespace(is_initialized=lambda: is_initialized),
        process_index=lambda: rank,
        process_count=lambda: world_size,
    )


@loop_over(
    "environment, nodes",
    [
        ({}, 16),
        ({"LOCAL_WORLD_SIZE": "8"}, 2),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, 4),
        ({"LOCAL_WORLD_SIZE": "64"}, 1),
        ({"LOCAL_WORLD_SIZE": "?"}, 16),
        ({"SLURM_STEP_NUM_NODES": "4"}, 4),
        ({"SLURM_STEP_NUM_NODES": "99"}, 16),
        ({"LOCAL_WORLD_SIZE": "8", "SLURM_STEP_NUM_NODES": "1"}, 2),  # torchrun under one srun task a node
    ],
)
def test_nodes(environment: dict[str, str], nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*LOCAL_SIZES, "SLURM_STEP_NUM_NODES"]:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert nodes_of(16) == nodes


def test_numbers_are_taken_as_they_are() -> None:
    assert resolve(0) == (0, 1)
    assert resolve(3, 4) == (3, 4)
    assert resolve(np.int64(1), np.int32(2)) == (1, 2)  # type: ignore[arg-type]


@loop_over(
    "rank, world_size, message",
    [
        (0, 0, "world_size: expected at least 1, found 0"),
        (0, -2, "found -2"),
        (4, 4, r"rank: expected a number in \[0, 4\), found 4\. world_size=4 is the number"),
        (-1, 4, "found -1"),
        (1, 1, r"rank: expected a number in \[0, 1\), found 1"),
        ("all", 1, "rank: expected an integer or 'auto', found 'all'"),
    ],
)
def test_invalid_numbers(rank: Any, world_size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve(rank, world_size)


@loop_over("rank, world_size", [(0.0, 1), (0, 1.0), (True, 2), (None, 2), (0, None), ("auto", "2")])
def test_invalid_types(rank: Any, world_size: Any) -> None:
    with pytest.raises(TypeError, match=r"(rank|world_size): expected an integer, found"):
        resolve(rank, world_size)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_each_launcher(launcher: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for name, value in zip(LAUNCHERS[launcher], ("2", "8"), strict=True):
        monkeypatch.setenv(name, value)
    with caplog.at_level(logging.INFO, "dataformats"):
        assert resolve("auto") == (2, 8)

    assert f"rank 2 of 8, from {launcher} ({LAUNCHERS[launcher][0]}='2'" in caplog.text


def test_no_launcher(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "dataformats"):
        assert resolve("auto") == (0, 1)

    assert "no launcher" in caplog.text


def test_torchrun_within_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm starts one task per machine, and torchrun several processes in it."""
    for name, value in {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "RANK": "5", "WORLD_SIZE": "8"}.items():
        monkeypatch.setenv(name, value)

    assert resolve("auto") == (5, 8)


def test_a_complete_environment_wins_over_an_incomplete_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PMI_RANK": "1", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}.items():
        monkeypatch.setenv(name, value)

    assert resolve("auto") == (1, 2)


@loop_over(
    "environment, message",
    [
        ({"RANK": "1"}, "torchrun has RANK='1', but not WORLD_SIZE.*pass rank= and world_size="),
        ({"WORLD_SIZE": "2"}, "torchrun has WORLD_SIZE='2', but not RANK"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, r"a rank below .*found torchrun \(RANK='2', WORLD_SIZE='2'\)"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "a rank below"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, r"expected integers, found torchrun \(RANK='one'"),
        ({"RANK": "", "WORLD_SIZE": ""}, "expected integers"),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, "but not SLURM_STEP_NUM_TASKS. Start with .*srun"),
    ],
)
def test_broken_environments(environment: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=message):
        resolve("auto")

    assert resolve(0, 1) == (0, 1)  # explicit numbers ignore the environment


def test_a_batch_script_of_slurm_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "1")

    assert resolve("auto") == (0, 1)


def test_libraries_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "16")
    monkeypatch.setitem(sys.modules, "jax", jax_of(3, 4))
    assert resolve("auto") == (3, 4)
    monkeypatch.setitem(sys.modules, "torch.distributed", torch_of(3, 4))
    assert resolve("auto") == (3, 4)


def test_uninitialized_libraries_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.distributed", torch_of(0, 1, False))
    monkeypatch.setitem(sys.modules, "jax", jax_of(0, 1, False))
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "16")

    assert resolve("auto") == (3, 16)


@pytest.mark.parametrize("client", [None, object()])
def test_an_old_jax(client: object, monkeypatch: pytest.MonkeyPatch) -> None:
    jax = jax_of(1, 2)
    del jax.distributed.is_initialized
    monkeypatch.setitem(sys.modules, "jax", jax)
    inside: Any = SimpleNamespace(global_state=SimpleNamespace(client=client))
    monkeypatch.setitem(sys.modules, "jax._src.distributed", inside)

    assert resolve("auto") == ((0, 1) if client is None else (1, 2))


def test_disagreeing_libraries_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.distributed", torch_of(0, 1))
    monkeypatch.setitem(sys.modules, "jax", jax_of(1, 2))
    with pytest.raises(
        ValueError, match=r"rank 0 of 1, from torch\.distributed, but also rank 1 of 2, from JAX\. Pass rank="
    ):
        resolve("auto")


def test_a_world_size_with_auto_must_match(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert resolve("auto", 2) == (1, 2)
    with pytest.raises(ValueError, match=r"rank='auto' found rank 1 of 2, .*contradicts world_size=4"):
        resolve("auto", 4)


def test_reading_all_records_on_every_rank_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert resolve(0, 2) == (0, 2)
    with pytest.warns(UserWarning, match=r"rank 1 of 2, from torchrun .*reads all records.*rank='auto'"):
        resolve(0, 1)
    assert resolve(0, 1) == (0, 1)


def test_a_world_of_one_does_not_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resolve(0, 1) == (0, 1)


def test_nothing_is_imported() -> None:
    code = (
        "import sys; from dataformats.loaders.ranks import resolve\n"
        "resolve('auto'); resolve(0, 1)\n"
        "assert not {'torch', 'jax'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
