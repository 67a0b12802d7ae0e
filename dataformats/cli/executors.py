"""Options that say where a command runs: in processes, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dataformats.cli import options


def worker_options(default: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds these options; `default` says how many processes there are without them."""
    return options.section(
        "Worker options",
        click.option("--workers", type=click.IntRange(0, 9999), metavar="N", help=f"Processes; by default {default}."),
        click.option("--engine", type=click.Choice(["ray"]), help="Run on a cluster instead."),
        click.option("--address", metavar="HOST:PORT", help="The cluster; by default RAY_ADDRESS, or this machine."),
    )


def in_workers(workers: int | None, engine: str | None, address: str | None) -> dict[str, Any]:
    """Return these options as `executor=` or `workers=`."""
    if engine is None:
        if address is not None:
            raise click.BadParameter("it needs --engine", param_hint="--address")
        return {"workers": workers or 0}
    if workers is not None:
        raise click.BadParameter("the cluster of --engine decides", param_hint="--workers")
    from dataformats.interop.ray import RayExecutor

    return {"executor": RayExecutor(address)}
