"""Functions in Python that options name."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from dataformats.cli.exit_codes import CRASH, exit_code

__all__ = ["calls", "named_function"]


def named_function(text: str | None, option: str) -> Callable[[Any], Any] | None:
    """Return the function of `module:function`, from the current folder or any installed module; `None` for `None`.

    Raises:
        typer.BadParameter: There is no such function, or its module cannot be imported.
    """
    if text is None:
        return None
    module, _, name = text.partition(":")
    if not (module and name):
        raise typer.BadParameter(f"expected MODULE:FUNCTION, found {text!r}", param_hint=option)
    sys.path.insert(0, os.getcwd())  # worker processes get it, too
    try:
        function = functools.reduce(getattr, name.split("."), importlib.import_module(module))
    except Exception as error:  # of any line in that module
        what = f"cannot import {text!r}: {type(error).__name__}: {error}"
        raise typer.BadParameter(what, param_hint=option) from error
    if not callable(function):
        raise typer.BadParameter(f"expected a function, found {type(function).__name__}", param_hint=option)
    found: Callable[[Any], Any] = function
    return found


@contextmanager
def calls(**functions: Callable[[Any], Any] | None) -> Iterator[None]:
    """Report an unexpected error as one of these functions, if any is given.

    Args:
        **functions: Option to function.

    Raises:
        typer.BadParameter: There was such an error.
    """
    try:
        yield
    except Exception as error:
        given = [f"--{name}" for name, function in functions.items() if function is not None]
        if not given or exit_code(error) != CRASH:
            raise
        what = f"the function raised {type(error).__name__}: {error}"
        raise typer.BadParameter(what, param_hint=" or ".join(given)) from error
