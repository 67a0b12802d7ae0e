"""Choose the kernels: those in C if they were compiled, else those in Python and numpy."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import warnings
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import Any

from dataformats.errors import UnknownNameError
from dataformats.kernels import reference

CHOICES = ("auto", "native", "reference")
REMEDY = (
    "install a C compiler, then run `{command}` in {folder}, "
    "or set DATAFORMATS_KERNELS=reference to accept the slower kernels without this message"
)


@dataclass(frozen=True, slots=True)
class _Choice:
    requested: str
    kernels: Any  # the module `_native` or `reference`
    native: ModuleType | None
    why_not_native: str | None


def implementation() -> str:
    """Return `"native"` (C) or `"reference"` (Python and numpy): the kernels that run."""
    return "reference" if _choice.kernels is reference else "native"


def describe() -> dict[str, Any]:
    """Return which kernels run and why, for bug reports.

    `implementation`; `requested`, the value of `DATAFORMATS_KERNELS`; `variants`, the chosen one for each checksum;
    `available`, all that run on this machine, fastest first; `why_not_native` and `remedy`, `None` if C runs.
    """
    available: dict[str, list[str]] = {} if _choice.native is None else _choice.native.variants()
    return {
        "implementation": implementation(),
        "requested": _choice.requested,
        "variants": {name: names[0] for name, names in available.items()},
        "available": available,
        "why_not_native": _choice.why_not_native,
        "remedy": None if _choice.native else _remedy() if _choice.requested == "auto" else "unset DATAFORMATS_KERNELS",
    }


def _choose(requested: str) -> _Choice:
    if requested not in CHOICES:
        raise UnknownNameError("value of DATAFORMATS_KERNELS", name=requested, known=CHOICES)
    if requested == "reference":
        return _Choice(requested, reference, None, "DATAFORMATS_KERNELS=reference")
    try:
        # Not `from dataformats.kernels import _native`, whose error would mention a circular import.
        native = importlib.import_module("dataformats.kernels._native")
    except ImportError as error:
        if requested == "native":
            message = f"DATAFORMATS_KERNELS=native, but the compiled kernels are missing: {_remedy()}"
            raise ImportError(message) from error
        return _Choice(requested, reference, None, f"the compiled kernels could not be imported: {error}")
    return _Choice(requested, native, native, None)


def _remedy() -> str:
    """Return how to get compiled kernels, or where they are if a checkout hides them."""
    package = Path(__file__).resolve().parents[1]
    if (package.parent / "setup.py").exists():
        for installed in (Path(entry, package.name).resolve() for entry in sys.path):
            if installed != package and any(
                (installed / "kernels" / f"_native{suffix}").exists() for suffix in EXTENSION_SUFFIXES
            ):
                return (
                    f"{str(package)!r} comes first on sys.path and hides the compiled {str(installed)!r}; "
                    f"run `pip install -e .` in {str(package.parent)!r}, or start Python in another folder"
                )
        return REMEDY.format(command="pip install -e .", folder=repr(str(package.parent)))
    return REMEDY.format(command="pip install --force-reinstall --no-deps .", folder="a checkout of dataformats")


@functools.cache
def kernels() -> Any:
    """Return the module with the kernels. The first call warns if it is the slow one by default."""
    if _choice.requested == "auto" and _choice.native is None:
        message = f"dataformats runs on its slower reference kernels ({_choice.why_not_native}): {_remedy()}"
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    return _choice.kernels


_choice = _choose(os.environ.get("DATAFORMATS_KERNELS") or "auto")
