"""Python functions and conditions that options name."""

from __future__ import annotations

import functools
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from dataformats.cli.exit_codes import CRASH, exit_code

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dataformats.interfaces.record_source import RecordSource
    from dataformats.reading.conditions import Condition

_FUNCTION = re.compile(r"[\w.]+:[\w.]+")


def condition(text: str) -> Callable[[Any], Any] | Condition:
    """Return the condition that `--where` gives.

    Raises:
        ValueError: There is no such function, or no such mask.
    """
    if _FUNCTION.fullmatch(text):
        return named_function(text)
    if text.endswith(".npy"):
        return _stored_mask(text)
    from dataformats.reading.conditions import SqlCondition

    return SqlCondition(text)


def _stored_mask(path: str) -> Condition:
    import numpy as np

    from dataformats.reading.conditions import Mask

    try:
        return Mask(np.load(path, allow_pickle=False), path)
    except (ValueError, EOFError) as error:
        raise ValueError(f"expected an array of bools in a .npy file, found {path!r}: {error}") from error


def matches(
    source: RecordSource, where: Callable[[Any], Any] | Condition, failed: Callable[[int, Exception], object] | None
) -> Iterator[NDArray[np.int64]]:
    """Yield the indices of the records for which a condition is true, in parts: see `Condition.indices`."""
    import numpy as np

    from dataformats.reading.conditions import is_true
    from dataformats.reading.scan import scan_sound

    if not callable(where):
        yield from where.indices(source, failed)
        return
    for batch in scan_sound(source, None, None, failed):
        yield batch.indices[np.array([is_true(where, record) for record in batch])]


def named_function(text: str) -> Callable[[Any], Any]:
    """Return the function of `module:function`, from the current folder or any installed module.

    Raises:
        ValueError: There is no such function, or its module cannot be imported.
    """
    module, _, name = text.partition(":")
    if not (module and name):
        raise ValueError(f"expected MODULE:FUNCTION, found {text!r}")
    sys.path.insert(0, os.getcwd())  # worker processes get it, too
    try:
        function = functools.reduce(getattr, name.split("."), importlib.import_module(module))
    except Exception as error:  # any line in that module may raise
        raise ValueError(f"cannot import {text!r}: {type(error).__name__}: {error}") from error
    if not callable(function):
        raise ValueError(f"expected a function, found {type(function).__name__}")
    found: Callable[[Any], Any] = function
    return found


@contextmanager
def report_failures_of(**functions: Callable[[Any], Any] | Condition | None) -> Iterator[None]:
    """Report an unexpected error as one of these functions or conditions, if any is given.

    Args:
        **functions: Option to function.

    Raises:
        click.BadParameter: There was such an error.
    """
    try:
        yield
    except click.ClickException:
        raise
    except Exception as error:
        given = [f"--{name}" for name, function in functions.items() if function is not None]
        if not given or exit_code(error) != CRASH:
            raise
        what = f"the function raised {type(error).__name__}: {error}"
        raise click.BadParameter(what, param_hint=" or ".join(given)) from error
