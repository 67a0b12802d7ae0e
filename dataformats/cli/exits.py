"""From an error to the one line that a user sees, and the code that a program sees."""

from __future__ import annotations

import ast
import re
import shlex

from dataformats.cli.output import printable
from dataformats.errors import CodecError, DataFormatsError, FormatError, SpecError

__all__ = ["CRASH", "FINDING", "USAGE", "exit_code", "in_lines", "in_options"]

FINDING, USAGE, CRASH = 1, 2, 3

_CHANGED_TYPE = re.compile(r"\bspec=\{\*\*src\.spec, '([^']*)': '([^']*)'\}")
_RENAMED = re.compile(r"\brename=(\{[^{}]*\})")
_ARGUMENT = re.compile(r"\b(format|payload|spec|fields|generation)=(?:\.\.\.)?(?=(.?))")
_NEXT_FIELD = re.compile(r"; (?=(?:field )?'[^']*': )")


def exit_code(error: Exception) -> int:
    """Return 1 for what is wrong with data, 2 for what was asked wrongly, 3 for what nobody expected."""
    if isinstance(error, (FormatError, CodecError)):
        return FINDING
    if isinstance(error, SpecError):
        return USAGE if error.index is None else FINDING
    return USAGE if isinstance(error, (DataFormatsError, OSError)) else CRASH


def in_lines(error: Exception) -> str:
    """Return what, where, expected, found, remedy: one line, or one for each of several fields."""
    if isinstance(error, FileExistsError):
        text = str(error).replace("overwrite=True", "--overwrite")
    elif isinstance(error, OSError) and error.strerror:
        name = "" if error.filename is None else f"{error.filename!r}: "
        text = f"{name}{error.strerror.lower()}"
    elif isinstance(error, (DataFormatsError, OSError)):
        text = in_options(str(error))
    else:
        text = f"a bug: {type(error).__name__}: {error} (set DATAFORMATS_DEBUG=1 for the traceback)"
    fields = _NEXT_FIELD.split(" ".join(text.splitlines())) if isinstance(error, SpecError) else text.splitlines()
    return ("\n  " if isinstance(error, SpecError) else " ").join(map(printable, fields))


def in_options(text: str) -> str:
    """Return a remedy, which speaks Python, in terms of the options, which have the same names."""
    text = _CHANGED_TYPE.sub(r"--spec \1=\2, with all other fields", text)
    text = _RENAMED.sub(_rename_options, text)
    return _ARGUMENT.sub(lambda match: f"--{match[1]}{' ' if match[2].strip(' ,;.') else ''}", text)


def _rename_options(match: re.Match[str]) -> str:
    try:
        renamed = ast.literal_eval(match[1])
    except (SyntaxError, ValueError):
        return match[0]
    return " ".join(f"--rename {shlex.quote(f'{old}={new}')}" for old, new in renamed.items())
