"""Options that say where a command runs: in processes, or on a cluster."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

__all__ = ["Address", "ClusterEngine", "in_workers"]


class Cluster(StrEnum):
    """Clusters that run commands."""

    ray = "ray"


ClusterEngine = Annotated[Cluster | None, typer.Option("--engine", help="Run on a cluster instead.")]
Address = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="The cluster; by default RAY_ADDRESS, or this machine.")
]


def in_workers(engine: Cluster | None, address: str | None, workers: int | None) -> dict[str, Any]:
    """Return these options as `executor=` or `workers=`."""
    if engine is None:
        if address is not None:
            raise typer.BadParameter("it needs --engine", param_hint="--address")
        return {"workers": workers or 0}
    if workers is not None:
        raise typer.BadParameter("the cluster of --engine decides", param_hint="--workers")
    from dataformats.interop.ray import RayExecutor

    return {"executor": RayExecutor(address)}
