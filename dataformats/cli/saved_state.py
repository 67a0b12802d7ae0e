"""The file of a training run's state."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer

__all__ = ["read_state"]


def read_state(path: str, hint: str) -> Any:
    """Return the content of a file, or of standard input if the path is `-`; an error of JSON names the option."""
    try:
        return json.loads(sys.stdin.read() if path == "-" else Path(path).read_text("utf-8"))
    except ValueError as error:
        raise typer.BadParameter(f"expected a JSON document, found {error}", param_hint=hint) from error
