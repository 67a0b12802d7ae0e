"""Print warnings of the package and of Python on standard error: one line each, once."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from dataformats.display.text import escape_text


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Print each warning and each warning in the log in one line, and only once."""
    lines, logger = _Lines(logging.WARNING), logging.getLogger("dataformats")
    logger.addHandler(lines)
    try:
        with warnings.catch_warnings():  # restores `showwarning`
            warnings.showwarning = lines.warn
            yield
    finally:
        logger.removeHandler(lines)


class _Lines(logging.Handler):
    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._printed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        self._print_once(record.getMessage())

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
        self._print_once(str(message))

    def _print_once(self, text: str) -> None:
        if text not in self._printed:
            self._printed.add(text)
            from tqdm import tqdm

            tqdm.write(f"dataformats: warning: {escape_text(text)}", file=sys.stderr)  # above a bar, if one is shown
