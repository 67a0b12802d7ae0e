"""Import the libraries that extras install."""

from __future__ import annotations

import importlib
from typing import Any

from dataformats.errors import MissingExtraError


def import_extra(module: str, what: str, extra: str) -> Any:
    """Return a module that an extra of this package installs.

    Args:
        module: The module.
        what: The feature that needs it, for the error.
        extra: The extra.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(what, extra=extra) from error
