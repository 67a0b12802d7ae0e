"""`dataformats doctor`: what would make a dataset, or this installation and this machine, better."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from dataformats.cli import options
from dataformats.cli.exit_codes import FINDING
from dataformats.cli.output import format_count, print_fact, print_json
from dataformats.cli.progress import bar
from dataformats.cli.verify import print_report
from dataformats.errors import UnknownNameError
from dataformats.registry import backends, codecs

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

_MIN_DESCRIPTORS = 1024  # a reader keeps at most a quarter of the limit open, and 256
_LITTLE_MEMORY = 2**30


class Fact(NamedTuple):
    """A fact about the installation or the machine, and a command that would make it better, if it could be."""

    name: str
    found: str
    remedy: str | None = None


@options.path_argument(
    "paths",
    "[PATH]...",
    "Files, a folder, a URL or a quoted glob.",
    nargs=-1,
    callback=options.parsed(options.one_or_all),
)
@options.of("dataformats.inspecting.diagnosis:doctor")
@options.reading
@options.as_json
def doctor(paths: str | list[str] | None, as_json: bool, **given: Any) -> None:
    """Check a dataset before a training run, or this installation.

    With PATH, all that verify checks, and what stands out in sound records: few that lack a field, repeat a key or
    another record, hold NaN or have odd sizes; images that do not decode; constant fields, rare classes. Each finding
    has the line to type next, and the exit code is then 1.

    Without PATH, this installation and this machine, and the commands that would make them better.
    """
    if paths is not None:
        _diagnose(paths, as_json, given)
        return
    if any(given[name] is not None for name in ("format", "payload", "spec", "option")):
        raise click.BadParameter("expected a dataset, to which the options belong, found none", param_hint="PATH")
    facts = [fact for check in _CHECKS for fact in _found_by(check)]
    if as_json:
        print_json({"facts": [fact._asdict() for fact in facts]})
        return
    for fact in facts:
        print_fact(fact.name, fact.found)
        if fact.remedy is not None:
            print_fact("  better", fact.remedy)


def _diagnose(paths: str | list[str], as_json: bool, given: dict[str, Any]) -> None:
    from dataformats.inspecting.diagnosis import doctor as diagnosed

    with bar("examining") as progress:
        report = diagnosed(paths, progress=progress, **options.arguments(given))
    print_json(report.to_json()) if as_json else print_report(report)
    if not report.ok:
        raise SystemExit(FINDING)


def version() -> str:
    """Return the version of this package."""
    return str(importlib.import_module("dataformats").__version__)


def _found_by(check: Callable[[], Iterator[Fact]]) -> Iterator[Fact]:
    """Yield the facts that a check finds; if the package does not load, why."""
    try:
        yield from check()
    except (ImportError, UnknownNameError) as error:
        yield Fact(check.__name__.lstrip("_"), f"unknown: {error}")


def _versions() -> Iterator[Fact]:
    yield Fact("dataformats", f"{version()} in {Path(__file__).parents[1]}")
    python = f"{platform.python_version()} ({platform.python_implementation()})"
    yield Fact("python", f"{python}, numpy {_version('numpy')}, {sys.platform} {platform.machine()}")


def _kernels() -> Iterator[Fact]:
    facts: dict[str, Any] = importlib.import_module("dataformats.kernels").describe()
    engines = importlib.import_module("dataformats.storage.native.engines").describe()
    parts = [facts["implementation"], *(f"{name} by {variant}" for name, variant in facts["variants"].items())]
    yield Fact("kernels", ", ".join([*parts, *filter(None, [facts["why_not_native"]])]), facts["remedy"])
    for name, engine in engines.items():
        if name in ("uring", "libaio", "auto"):
            reason = f" ({engine['reason']})" if engine["reason"] else ""
            yield Fact(f"io {name}", f"{engine['note']}{reason}")
    for name, library, slower in (
        ("libjpeg-turbo", "simplejpeg", "Pillow decodes JPEGs"),
        ("JSON", "msgspec", "the standard library decodes JSON"),
    ):
        found = _version(library)
        remedy = None if found else f"pip install {library}"
        yield Fact(name, f"{library} {found}" if found else f"missing: {slower}, slower", remedy)


def _machine() -> Iterator[Fact]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Fact("processors", f"{usable} of {os.cpu_count()}")
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_few = soft != resource.RLIM_INFINITY and soft < min(_MIN_DESCRIPTORS, hard % 2**63)
    yield Fact("descriptors", f"{soft}, at most {hard}", f"ulimit -n {hard}" if is_few else None)
    if os.path.isdir("/dev/shm"):
        usage = shutil.disk_usage("/dev/shm")
        remedy = "docker run --shm-size=8g" if usage.total < _LITTLE_MEMORY else None
        yield Fact("shared memory", f"{_megabytes(usage.free)} free of {_megabytes(usage.total)}", remedy)


def _cache() -> Iterator[Fact]:
    from dataformats.indexing.index_cache import cache_folder

    folder = cache_folder()
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        yield Fact("cache folder", f"{folder}: cannot be written", "export DATAFORMATS_CACHE=/tmp/dataformats")
        return
    sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    free = _megabytes(shutil.disk_usage(above).free)
    yield Fact("cache folder", f"{folder}: {_megabytes(sum(sizes))} in {format_count(len(sizes), 'file')}, {free} free")


def _extras() -> Iterator[Fact]:
    yield Fact("formats", ", ".join(backends))
    yield Fact("codecs", ", ".join(codecs))
    found = {extra: _version(name) for extra, name in EXTRAS.items()}
    yield Fact("extras", ", ".join(f"{extra} ({EXTRAS[extra]} {one})" for extra, one in found.items() if one) or "none")
    missing = [extra for extra, one in found.items() if not one]
    if missing:
        yield Fact("extras not installed", ", ".join(missing), f"pip install 'dataformats[{','.join(missing)}]'")


_CHECKS: tuple[Callable[[], Iterator[Fact]], ...] = (_versions, _kernels, _machine, _cache, _extras)


def _megabytes(n: int) -> str:
    return f"{n / 1e6:,.0f} MB"


def _version(distribution: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
