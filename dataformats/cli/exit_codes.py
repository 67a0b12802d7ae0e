"""Exit codes and messages for errors."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from dataformats.display.text import escape_text
from dataformats.errors import CodecError, DataFormatsError, FormatError, Remedy, SpecError
from dataformats.storage.descriptors import is_shortage

FINDING, USAGE, CRASH = 1, 2, 3
INTERRUPTED, BROKEN_PIPE = 130, 141  # the shells' codes for SIGINT and SIGPIPE
_IN_PYTHON = {"codecs": "a codec", "append": "append=True", "shard_start": "shard_start="}
_OF_FORMATS = (
    "delimiter",
    "dtype",
    "encoding",
    "escape",
    "follow_links",
    "key",
    "names",
    "split",
    "verify_checksums",
    "window",
)
_OF_NEW_FILES = ("generation",)
_EXPECTED = (DataFormatsError, OSError, ImportError, MemoryError)  # no crash: the command cannot run here and now


def exit_code(error: Exception) -> int:
    """Return 1 if the data are wrong, 2 if the command is, 3 for an unexpected error."""
    if isinstance(error, (FormatError, CodecError)):
        return FINDING
    if isinstance(error, SpecError):
        return USAGE if error.index is None else FINDING
    return USAGE if isinstance(error, _EXPECTED) else CRASH


def in_lines(error: Exception) -> str:
    """Return the message of an error in one line, or in one line per problem of a spec."""
    if isinstance(error, SpecError) and error.problems:
        return "\n  ".join(map(in_lines, error.problems))
    if isinstance(error, OSError) and error.strerror:
        name = "" if error.filename is None else f"{error.filename!r}: "
        text = f"{name}{error.strerror.lower()}"
        if is_shortage(error) and "ulimit" not in text:
            text += ". Raise the limit (ulimit -n)"
    elif isinstance(error, MemoryError):
        text = f"not enough memory: {error}" if str(error) else "not enough memory"
    elif isinstance(error, _EXPECTED):
        text = in_options(str(error), getattr(error, "remedy", None))
    else:
        text = f"a bug: {type(error).__name__}: {error} (set DATAFORMATS_DEBUG=1 for the traceback)"
    return escape_text(" ".join(text.splitlines()))


def in_options(message: str, remedy: str | None) -> str:
    """Return the message of an error, which ends with its remedy, with the arguments of that written as options."""
    return message.removesuffix(remedy) + remedy.written(_option) if isinstance(remedy, Remedy) else message


def _option(name: str, value: Any) -> str:
    if name in _IN_PYTHON:
        return f"{_IN_PYTHON[name]} in Python"
    plain = name.removeprefix("from_")
    if plain in _OF_FORMATS:
        text = "VALUE" if value is ... else str(value).lower() if isinstance(value, bool) else value
        return f"--{'option' if plain == name else 'from-option'} {shlex.quote(f'{plain}={text}')}"
    if name in _OF_NEW_FILES:
        return f"--to-option {shlex.quote(f'{name}={value}')}"
    name = name.replace("_", "-")
    if isinstance(value, Mapping):
        return " ".join(f"--{name} {shlex.quote(f'{key}={item}')}" for key, item in value.items())
    if isinstance(value, list):
        return f"--{name} {shlex.quote(','.join(value))}"
    return f"--{name}" if value is ... or value is True else f"--{name} {shlex.quote(str(value))}"
