"""The spec of a dataset: `spec.json`, sequences, and a function for each type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dataformats.errors import UnknownNameError
from dataformats.internals import spec_types

__all__ = ["REFS", "Functions", "functions_of", "has_refs", "is_sequence", "read_spec"]

REFS = "refs"
"""The bag of a dataset of granular 0.21 that has the places of the values of sequences."""

Functions = Mapping[str, Callable[..., Any]] | None
"""Type to encoder or decoder; `None`: values are the stored bytes."""


def is_sequence(kind: str) -> bool:
    """True for the types of granular 0.21 with any number of values in a row."""
    return kind.endswith("[]")


def has_refs(directory: Any, spec: Mapping[str, str]) -> bool:
    """True for a folder with the files of granular 0.21."""
    return REFS not in spec and bool((directory / f"{REFS}.bag").exists())


def functions_of(functions: Functions, spec: Mapping[str, str]) -> dict[str, Callable[..., Any] | None]:
    """Return the function of each field.

    Raises:
        UnknownNameError: A type has no function; it is a `KeyError`.
    """
    if functions is None:
        return dict.fromkeys(spec)
    kinds = {name: kind.removesuffix("[]") for name, kind in spec.items()}
    for name, kind in kinds.items():
        if kind not in functions:
            raise UnknownNameError(f"type of the field {name!r}:", name=kind, known=functions)
    return {name: functions[kind] for name, kind in kinds.items()}


def read_spec(directory: Any) -> dict[str, str]:
    """Return the spec in `spec.json`.

    Raises:
        FormatError: It is not an object of field to type, or a name leads out of the folder.
    """
    path = directory / "spec.json"
    with path.open("rb") as file:
        return spec_types(file.read(), str(path))
