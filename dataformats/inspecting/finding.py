"""One error that `verify` found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_CHARACTERS = 2000  # the longest message: names and values in data may have megabytes


@dataclass(frozen=True, slots=True)
class Finding:
    """One error found by `verify`, or a remark of `doctor` about sound records.

    Attributes:
        kind: The name of the error class; `"Difference"` if a value differs from `against=`; see `doctor`.
        message: The message of the error; a long one is cut, and has no remedy then.
        path: The file; this and all attributes below are `None` if unknown.
        index: The record.
        offset_bytes: The byte offset.
        expected: The content that the format requires, or that the source has.
        found: The content of the file.
        remedy: How to fix it.
        field: The field.

    Example:
        >>> import dataformats
        >>> finding = dataformats.verify("tests/golden/tfrecord/corrupt/data_bit.tfrecord").findings[0]
        >>> finding.kind, finding.index, finding.expected
        ('ChecksumError', 3, '... (stored)')
    """

    kind: str
    message: str
    path: str | None = None
    index: int | None = None
    offset_bytes: int | None = None
    expected: str | None = None
    found: str | None = None
    remedy: str | None = None
    field: str | None = None

    @classmethod
    def of(cls, error: Exception, index: int | None = None) -> Finding:
        """Return the finding for an error.

        Args:
            error: The error.
            index: The record, if the error does not name one.
        """
        names = ("path", "index", "offset_bytes", "field", "remedy")
        facts: dict[str, Any] = {name: getattr(error, name, None) for name in names}
        texts = {name: getattr(error, name, None) for name in ("expected", "found")}
        facts |= {name: None if value is None else shorten_text(str(value)) for name, value in texts.items()}
        if facts["index"] is None:
            facts["index"] = index
        message = str(error)
        if len(message) > _CHARACTERS:
            facts["remedy"] = None
        return cls(type(error).__name__, shorten_text(message), **facts)


def shorten_text(text: str) -> str:
    """Return a text of bounded length."""
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}..."
