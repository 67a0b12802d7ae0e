"""Warnings of the package and of Python: one line each on standard error, once."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from dataformats.cli.output import printable

__all__ = ["warnings_in_one_line"]


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Print what comes as a warning, as a line of the log, or as both, in one line and once."""
    lines, logger = _Lines(logging.WARNING), logging.getLogger("dataformats")
    logger.addHandler(lines)
    try:
        with warnings.catch_warnings():  # which puts `showwarning` back
            warnings.showwarning = lines.warn
            yield
    finally:
        logger.removeHandler(lines)


class _Lines(logging.Handler):
    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        self._say(record.getMessage())

    def warn(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        """Take the place of `warnings.showwarning`."""
        self._say(str(message))

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            print(f"dataformats: warning: {printable(text)}", file=sys.stderr)
