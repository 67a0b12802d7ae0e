"""Ranks: find the rank of this process and the number of processes, for `rank="auto"`."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from dataclasses import dataclass
from typing import Any, Literal

from dataformats.integer_arguments import as_int
from dataformats.storage.remote.node_folder import LOCAL_SIZES

_LOG = logging.getLogger("dataformats")
_WARNED = threading.Event()  # once a process

_LAUNCHERS = (
    # A launcher that starts a process per GPU comes first: srun may have started one torchrun per machine.
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("MPI", "PMI_RANK", "PMI_SIZE"),
    ("jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
    # Not SLURM_NTASKS: a batch script without srun has it too, and is one process.
    ("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)


@dataclass(frozen=True, slots=True)
class _World:
    """A rank, the number of ranks, and where they were found."""

    rank: int
    world_size: int
    where: str

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.world_size}, from {self.where}"


def resolve(rank: int | Literal["auto"], world_size: int = 1) -> tuple[int, int]:
    """Return `(rank, world_size)`, `rank` in `[0, world_size)`.

    `"auto"` looks, in this order, at: `torch.distributed` and JAX, if the program has imported and initialized them;
    the environment of the launcher: torchrun, MPI, jsrun, Slurm. If none is found, the process is alone. The result is
    logged. It is the rank among all processes: if several of them train on the same records (tensor or pipeline
    parallelism), pass `rank` and `world_size` of the data-parallel group, such as `mesh["dp"].get_local_rank()` and
    `mesh["dp"].size()`.

    If the result is 0 of 1 in a process that is one of several, a warning (once per process) says that each of them
    reads all records.

    Args:
        rank: A number or `"auto"`.
        world_size: The number of ranks; with `"auto"`, 1 or the number that must be found.

    Raises:
        ValueError: The rank is out of range, an environment is incomplete, or two places disagree.
        TypeError: An argument is not an integer.
    """
    if isinstance(rank, str):
        return _automatic(rank, world_size)
    rank, world_size = _integer("rank", rank), _integer("world_size", world_size)
    if world_size < 1:
        raise ValueError(f"world_size: expected at least 1, found {world_size}")
    if not 0 <= rank < world_size:
        raise ValueError(
            f"rank: expected a number in [0, {world_size}), found {rank}. world_size={world_size} is the number of all"
        )
    if world_size == 1:
        _warn_if_several()
    return rank, world_size


def nodes_of(world_size: int) -> int:
    """Return the number of nodes of these ranks, at least 1; each rank has its own if no launcher says otherwise.

    It is the same on every rank.
    """
    nodes = os.environ.get("SLURM_STEP_NUM_NODES", "")
    local = next((os.environ[name] for name in LOCAL_SIZES if name in os.environ), "")
    if local.isdecimal() and int(local) > 0:
        return max(1, world_size // int(local))
    return min(int(nodes), world_size) if nodes.isdecimal() and int(nodes) > 0 else world_size


def streams_of_node(rank: int, world_size: int, groups: int) -> range:
    """Return the streams of windows that the ranks of this node read; all if no launcher says which these are."""
    if not any(name in os.environ for name in (*LOCAL_SIZES, "SLURM_STEP_NUM_NODES")):
        return range(groups)
    nodes = nodes_of(world_size)
    node = rank * nodes // world_size
    return range(node * groups // nodes, -(-(node + 1) * groups // nodes))


def processes_of_accelerate(dataset: Any) -> int:
    """Return among how many processes Accelerate divides the batches of the iterable dataset that it iterates now.

    It is 1 for any other dataset. A `DataLoader` that `accelerator.prepare` returned is the active one of Accelerate
    when it calls `set_epoch` of its dataset, before it asks for batches.
    """
    accelerate = sys.modules.get("accelerate.data_loader")
    if accelerate is None or (active := accelerate.GradientState().active_dataloader) is None:
        return 1
    if isinstance(active.dataset, accelerate.IterableDatasetShard) and active.dataset.dataset is dataset:
        return int(active.dataset.num_processes)
    if isinstance(active, accelerate.DataLoaderDispatcher) and active.dataset is dataset:
        return int(active.state.num_processes)
    return 1


def _automatic(rank: str, world_size: int) -> tuple[int, int]:
    if rank != "auto":
        raise ValueError(f"rank: expected an integer or 'auto', found {rank!r}")
    found = _find() or _World(0, 1, "no launcher: this process is alone")
    if _integer("world_size", world_size) not in (1, found.world_size):
        raise ValueError(f"rank='auto' found {found}, which contradicts world_size={world_size}. Leave world_size out")
    _LOG.info("rank='auto': %s", found)
    return found.rank, found.world_size


def _find() -> _World | None:
    """Return the world of a library, else of the launcher, else `None`."""
    live = [found for found in (_of_torch(), _of_jax()) if found is not None]
    if len(live) == 2 and (live[0].rank, live[0].world_size) != (live[1].rank, live[1].world_size):
        raise ValueError(f"found {live[0]}, but also {live[1]}. Pass rank= and world_size=")
    return live[0] if live else _of_environment()


def _of_torch() -> _World | None:
    distributed = sys.modules.get("torch.distributed")  # not imported here: a program that uses it has done so
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return _World(distributed.get_rank(), distributed.get_world_size(), "torch.distributed")


def _of_jax() -> _World | None:
    jax = sys.modules.get("jax")
    if jax is None or not _is_initialized(jax):  # jax.process_index() would initialize its devices
        return None
    return _World(jax.process_index(), jax.process_count(), "JAX")


def _is_initialized(jax: Any) -> bool:
    asked = getattr(getattr(jax, "distributed", None), "is_initialized", None)
    if asked is not None:
        return bool(asked())
    inside = sys.modules.get("jax._src.distributed")  # older releases have no such function
    return getattr(getattr(inside, "global_state", None), "client", None) is not None


def _of_environment() -> _World | None:
    """Return the world of the first launcher whose variables are all set; others may have left some of theirs."""
    incomplete = []
    for launcher, *names in _LAUNCHERS:
        there = {name: os.environ[name] for name in names if name in os.environ}
        if len(there) == len(names):
            return _from(f"{launcher} ({_shown(there)})", *there.values())
        if there and (launcher != "Slurm" or os.environ.get("SLURM_NTASKS", "1") != "1"):
            missing = " and ".join(name for name in names if name not in there)
            incomplete.append(f"the environment of {launcher} has {_shown(there)}, but not {missing}")
    if incomplete:
        raise ValueError(f"{'; '.join(incomplete)}. Start with torchrun, mpirun or srun, or pass rank= and world_size=")
    return None


def _shown(variables: dict[str, str]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in variables.items())


def _from(where: str, *values: str) -> _World:
    try:
        rank, world_size = map(int, values)
    except ValueError:
        raise ValueError(f"expected integers, found {where}. Pass rank= and world_size=") from None
    if not 0 <= rank < world_size:
        raise ValueError(f"expected a rank below the world size, found {where}. Pass rank= and world_size=")
    return _World(rank, world_size, where)


def _warn_if_several() -> None:
    if _WARNED.is_set():
        return
    try:
        found = _find()
    except ValueError:
        return  # a broken environment matters only for rank="auto"
    if found is not None and found.world_size > 1:
        _WARNED.set()
        warnings.warn(
            f"this process is {found}, but its loader reads all records, and so do the other ranks. Pass "
            "rank='auto', or rank= and world_size= of the data-parallel group",
            UserWarning,
            stacklevel=4,
        )


def _integer(name: str, value: Any) -> int:
    try:
        return as_int(value)
    except TypeError:
        raise TypeError(f"{name}: expected an integer, found {value!r}") from None
