"""From an error to the one line that a user sees, and the code that a program sees."""

from __future__ import annotations

import re

from dataformats.cli.output import printable
from dataformats.errors import CodecError, DataFormatsError, FormatError, SpecError

__all__ = ["CRASH", "FINDING", "USAGE", "exit_code", "in_one_line", "in_options"]

FINDING, USAGE, CRASH = 1, 2, 3

_CHANGED_TYPE = re.compile(r"\bspec=\{\*\*src\.spec, '([^']*)': '([^']*)'\}")
_ARGUMENT = re.compile(r"\b(format|payload|spec)=(?:\.\.\.)?(?=(.?))")


def exit_code(error: Exception) -> int:
    """Return 1 for what is wrong with data, 2 for what was asked wrongly, 3 for what nobody expected."""
    if isinstance(error, (FormatError, CodecError)):
        return FINDING
    if isinstance(error, SpecError):
        return USAGE if error.index is None else FINDING
    return USAGE if isinstance(error, (DataFormatsError, OSError)) else CRASH


def in_one_line(error: Exception) -> str:
    """Return one line: what, where, expected, found, remedy."""
    if isinstance(error, FileExistsError):
        text = str(error).replace("overwrite=True", "--overwrite")
    elif isinstance(error, OSError) and error.strerror:
        name = "" if error.filename is None else f"{error.filename!r}: "
        text = f"{name}{error.strerror.lower()}"
    elif isinstance(error, (DataFormatsError, OSError)):
        text = in_options(str(error))
    else:
        text = f"a bug: {type(error).__name__}: {error} (set DATAFORMATS_DEBUG=1 for the traceback)"
    return printable(" ".join(text.splitlines()))


def in_options(text: str) -> str:
    """Return a remedy, which speaks Python, in terms of the options, which have the same names."""
    text = _CHANGED_TYPE.sub(r"--spec \1=\2, with all other fields", text)
    return _ARGUMENT.sub(lambda match: f"--{match[1]}{' ' if match[2].strip(' ,;.') else ''}", text)
