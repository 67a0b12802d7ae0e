"""Describe this installation for bug reports: versions, kernels, formats, codecs and extras."""

from __future__ import annotations

import importlib
import platform
import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from dataformats.cli.output import print_fact
from dataformats.errors import UnknownNameError
from dataformats.registry import backends, codecs
from dataformats.spec import NUMBER_TYPES

__all__ = ["EXTRAS", "build", "print_build", "version"]

EXTRAS = {
    "torch": "torch",
    "arrow": "pyarrow",
    "polars": "polars",
    "duckdb": "duckdb",
    "huggingface": "datasets",
    "s3": "s3fs",
    "gcs": "gcsfs",
    "video": "av",
    "hdf5": "h5py",
    "lmdb": "lmdb",
    "zarr": "zarr",
    "lance": "pylance",
    "zstd": "backports-zstd",
    "arrayrecord": "array_record",
    "ray": "ray",
    "grain": "grain",
    "jax": "jax",
    "view": "starlette",
}
"""Extra to the distribution that it installs."""


def version() -> str:
    """Return the version of this package."""
    return str(importlib.import_module("dataformats").__version__)


def build() -> dict[str, Any]:
    """Return the description as plain dicts and lists."""
    return {
        "dataformats": version(),
        "location": str(Path(__file__).parents[1]),
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": f"{sys.platform} {platform.machine()}",
        "numpy": _version("numpy"),
        "kernels": _kernels(),
        "io": _engines(),
        "formats": list(backends),
        "codecs": list(codecs),
        "number types": list(NUMBER_TYPES),
        "extras": {extra: _version(name) for extra, name in EXTRAS.items()},
    }


def print_build(description: dict[str, Any]) -> None:
    """Print the description that `build` returned."""
    for name in ("dataformats", "location", "python", "platform", "numpy"):
        print_fact(name, description[name])
    kernels = description["kernels"]
    print_fact("kernels", kernels["implementation"])
    for name, variant in kernels["variants"].items():
        print_fact(f"kernel {name}", f"{variant} (of {', '.join(kernels['available'][name])})")
    if kernels["why_not_native"]:
        print_fact("why not native", kernels["why_not_native"])
    for name, engine in description["io"].items():
        print_fact(f"io {name}", _engine(engine))
    for name in ("formats", "codecs", "number types"):
        print_fact(name, ", ".join(description[name]))
    for name, found in description["extras"].items():
        print_fact(f"extra {name}", found or f"not installed: pip install 'dataformats[{name}]'")


def _kernels() -> dict[str, Any]:
    """Return the description of the kernels, or the reason why they do not load."""
    try:
        describe = importlib.import_module("dataformats.kernels").describe
    except (ImportError, UnknownNameError) as error:
        return {"implementation": "none", "variants": {}, "available": {}, "why_not_native": str(error)}
    facts: dict[str, Any] = describe()
    return facts


def _engines() -> dict[str, Any]:
    """Return the description of the engines; empty if the kernels do not load."""
    try:
        describe = importlib.import_module("dataformats.storage.native.engines").describe
    except (ImportError, UnknownNameError):
        return {}
    facts: dict[str, Any] = describe()
    return facts


def _engine(description: dict[str, Any]) -> str:
    shown = description["note"] if description["available"] else "not here"
    return f"{shown} ({description['reason']})" if description["reason"] else str(shown)


def _version(distribution: str) -> str | None:
    try:
        return version_of(distribution)
    except PackageNotFoundError:
        return None
