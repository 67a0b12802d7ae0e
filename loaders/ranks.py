"""Ranks: which of how many processes this one is, where the caller leaves it to us."""

from __future__ import annotations

import logging
import operator
import os
import sys
import threading
import warnings
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["resolve"]

_LOG = logging.getLogger("dataformats")
_WARNED = threading.Event()  # once a process

_LAUNCHERS = (
    # What starts a process for each GPU comes first: srun may have started one torchrun for each machine.
    ("torchrun", "RANK", "WORLD_SIZE"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("MPI", "PMI_RANK", "PMI_SIZE"),
    ("jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
    # Not SLURM_NTASKS: a batch script that was started without srun sees it too, and is one process.
    ("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)


@dataclass(frozen=True, slots=True)
class _Found:
    """A rank, and where it was found."""

    rank: int
    world_size: int
    where: str

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.world_size}, from {self.where}"


def resolve(rank: int | Literal["auto"], world_size: int = 1) -> tuple[int, int]:
    """Return `(rank, world_size)`, `rank` in `[0, world_size)`.

    `"auto"` asks, in this order: `torch.distributed` and JAX, where the program has imported and initialised them; the
    environment of the launcher: torchrun, MPI, jsrun, Slurm. Found nowhere, the process is alone. What was taken is
    logged. It is the rank among all processes: where some of them work on the same records (tensor or pipeline
    parallelism), pass `rank` and `world_size` of the data-parallel group, such as `mesh["dp"].get_local_rank()` and
    `mesh["dp"].size()`.

    With 0 of 1 in a process that is one of several, a warning, once a process, says that all of them read everything.

    Args:
        rank: A number or `"auto"`.
        world_size: With `"auto"` either 1, or what has to be found.

    Raises:
        ValueError: The rank is not in the world, an environment is half set, or two places say different things.
        TypeError: Not integers.
    """
    if isinstance(rank, str):
        return _automatic(rank, world_size)
    rank, world_size = _integer("rank", rank), _integer("world_size", world_size)
    if world_size < 1:
        raise ValueError(f"expected a world_size of at least 1, found {world_size}")
    if not 0 <= rank < world_size:
        raise ValueError(
            f"expected a rank in [0, {world_size}), found {rank}: world_size={world_size} counts all ranks"
        )
    if world_size == 1:
        _warn_if_several()
    return rank, world_size


def _automatic(rank: str, world_size: int) -> tuple[int, int]:
    if rank != "auto":
        raise ValueError(f"expected an integer or 'auto' as rank, found {rank!r}")
    found = _find() or _Found(0, 1, "no launcher: this process is alone")
    if _integer("world_size", world_size) not in (1, found.world_size):
        raise ValueError(f"world_size={world_size} was passed, and rank='auto' found {found}: leave world_size out")
    _LOG.info("rank='auto': %s", found)
    return found.rank, found.world_size


def _find() -> _Found | None:
    """Return what libraries say, else what the launcher says, else `None`."""
    live = [found for found in (_of_torch(), _of_jax()) if found is not None]
    if len(live) == 2 and (live[0].rank, live[0].world_size) != (live[1].rank, live[1].world_size):
        raise ValueError(f"found {live[0]}, but {live[1]}: pass rank= and world_size=")
    return live[0] if live else _of_environment()


def _of_torch() -> _Found | None:
    distributed = sys.modules.get("torch.distributed")  # never imported here: whoever uses it has done so
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return _Found(distributed.get_rank(), distributed.get_world_size(), "torch.distributed")


def _of_jax() -> _Found | None:
    jax = sys.modules.get("jax")
    if jax is None or not _is_initialized(jax):  # asking JAX for the rank would start its devices, alone
        return None
    return _Found(jax.process_index(), jax.process_count(), "JAX")


def _is_initialized(jax: Any) -> bool:
    asked = getattr(getattr(jax, "distributed", None), "is_initialized", None)
    if asked is not None:
        return bool(asked())
    inside = sys.modules.get("jax._src.distributed")  # older releases have no such question
    return getattr(getattr(inside, "global_state", None), "client", None) is not None


def _of_environment() -> _Found | None:
    """Return what the first launcher says whose variables are all there: others may have left some of theirs."""
    half_set = []
    for launcher, *names in _LAUNCHERS:
        there = {name: os.environ[name] for name in names if name in os.environ}
        if len(there) == len(names):
            return _from(f"{launcher} ({_shown(there)})", *there.values())
        if there and (launcher != "Slurm" or os.environ.get("SLURM_NTASKS", "1") != "1"):
            missing = " and ".join(name for name in names if name not in there)
            half_set.append(f"{launcher} has set {_shown(there)}, but not {missing}")
    if half_set:
        raise ValueError(f"{'; '.join(half_set)}: start with torchrun, mpirun or srun, or pass rank= and world_size=")
    return None


def _shown(variables: dict[str, str]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in variables.items())


def _from(where: str, *values: str) -> _Found:
    try:
        rank, world_size = map(int, values)
    except ValueError:
        raise ValueError(f"expected integers, found {where}: pass rank= and world_size=") from None
    if not 0 <= rank < world_size:
        raise ValueError(f"expected a rank below the size of the world, found {where}: pass rank= and world_size=")
    return _Found(rank, world_size, where)


def _warn_if_several() -> None:
    if _WARNED.is_set():
        return
    try:
        found = _find()
    except ValueError:
        return  # a broken environment concerns those who ask for "auto"
    if found is not None and found.world_size > 1:
        _WARNED.set()
        warnings.warn(
            f"this process is {found}, and its loader reads everything, as those of all other ranks do: pass "
            "rank='auto', or rank= and world_size= of the data-parallel group",
            UserWarning,
            stacklevel=4,
        )


def _integer(name: str, value: Any) -> int:
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(f"expected an integer as {name}, found {value!r}")
