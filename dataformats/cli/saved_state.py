"""The file of a training run's state."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click


def read_state(path: str, hint: str) -> Any:
    """Return the content of a file, or of standard input if the path is `-`; an error of JSON names the option."""
    try:
        return json.loads(sys.stdin.read() if path == "-" else Path(path).read_text("utf-8"))
    except ValueError as error:
        found = f"none at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else "other bytes"
        what = f"expected a JSON document, found {found}: write one with json.dump(loader.state_dict(), file)"
        raise click.BadParameter(what, param_hint=hint) from error
