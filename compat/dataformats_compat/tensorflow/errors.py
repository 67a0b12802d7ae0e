"""TensorFlow's exceptions: the errors of this package that stand for them, and `InvalidArgumentError`."""

from __future__ import annotations

from dataformats.errors import DataFormatsError, FormatError, SpecError

__all__ = [
    "AlreadyExistsError", "DataLossError", "InvalidArgumentError", "NotFoundError", "OpError", "OutOfRangeError",
    "PermissionDeniedError",
]  # fmt: skip


class InvalidArgumentError(SpecError):
    """A record, an image or an argument is not as the call expects."""


class OutOfRangeError(DataFormatsError, IndexError):
    """An iterator has no more elements."""


OpError = DataFormatsError
"""Every error of this package."""

DataLossError = FormatError
"""A file is damaged, truncated or of another format."""

NotFoundError = FileNotFoundError
"""There is no such file."""

AlreadyExistsError = FileExistsError
"""There is such a file."""

PermissionDeniedError = PermissionError
"""The operating system denies access."""
