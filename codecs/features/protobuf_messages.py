"""The protobuf messages of TFRecord and OFRecord payloads.

Protobuf is imported when a message is first used: kernels parse most records without it, and its import takes longer
than the rest of the first batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from dataformats.errors import CorruptRecordError, Remedy


@cache
def message_class(name: str) -> Any:
    """Return the class of a message by its full name, such as `tensorflow.Features`: always the same one."""
    from google.protobuf.message_factory import GetMessageClass

    from dataformats.codecs.features.message_pool import POOL

    return GetMessageClass(POOL.FindMessageTypeByName(name))


class _Message:
    """The class of a message, found when it is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute not in ("DESCRIPTOR", "FromString"):  # `ABCMeta` asks for others
            raise AttributeError(attribute)
        found = getattr(message_class(self._name), attribute)
        setattr(self, attribute, found)
        return found

    def __call__(self) -> Any:
        return message_class(self._name)()


EXAMPLE_MESSAGE: Any = _Message("tensorflow.Example")
"""`tensorflow.Example`."""

SEQUENCE_MESSAGE: Any = _Message("tensorflow.SequenceExample")
"""`tensorflow.SequenceExample`."""

FEATURE_MESSAGE: Any = _Message("tensorflow.Feature")
"""`tensorflow.Feature`."""

OFRECORD_MESSAGE: Any = _Message("oneflow.OFRecord")
"""`oneflow.OFRecord`."""


def parse(message: Any, blob: bytes | memoryview, index: int | None = None) -> Any:
    """Return the message in `blob`.

    Raises:
        CorruptRecordError: The blob does not parse.
    """
    try:
        return message.FromString(blob)
    except parse_errors() as error:
        raise corrupt_message(message, len(blob), index, f" ({error})") from error


def parse_sound(message: Any, blobs: Iterable[bytes]) -> Iterator[Any]:
    """Yield the messages in the blobs that parse."""
    errors = parse_errors()
    for blob in blobs:
        try:
            yield message.FromString(blob)
        except errors:
            continue


def parse_errors() -> tuple[type[Exception], ...]:
    """Return the errors of blobs that do not parse."""
    from google.protobuf.message import DecodeError

    return DecodeError, UnicodeDecodeError


def corrupt_message(message: Any, n_bytes: int, index: int | None = None, why: str = "") -> CorruptRecordError:
    """Return the error of `n_bytes` bytes that do not parse as a message."""
    name = message.DESCRIPTOR.full_name
    return CorruptRecordError(
        f"the payload does not parse as {name}{why}",
        index=index,
        expected=f"{name}, {n_bytes} bytes",
        remedy=Remedy("Pass {payload} if it is something else.", payload="bytes"),
    )
