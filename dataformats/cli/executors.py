"""Options that say where a command runs: in processes, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dataformats.cli.options import option


def worker_options(default: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds these options; `default` says how many processes there are without them."""
    title = "Worker options"
    about = f"Processes; by default {default}."
    workers = option("workers", "int", about, type=click.IntRange(0, 9999), section=title)
    engine = option("engine", "", "Run on a cluster instead.", type=click.Choice(["ray"]), section=title)
    cluster = "The cluster; by default RAY_ADDRESS, or this machine."
    address = option("address", "", cluster, metavar="HOST:PORT", section=title)
    return lambda function: workers(engine(address(function)))


def in_workers(given: dict[str, Any]) -> dict[str, Any]:
    """Remove these options from the options of a command; return them as `executor=` or `workers=`."""
    workers, engine, address = (given.pop(name) for name in ("workers", "engine", "address"))
    if engine is None:
        if address is not None:
            raise click.BadParameter("it needs --engine", param_hint="--address")
        return {"workers": workers or 0}
    if workers is not None:
        raise click.BadParameter("the cluster of --engine decides", param_hint="--workers")
    from dataformats.interop.ray import RayExecutor

    return {"executor": RayExecutor(address)}
