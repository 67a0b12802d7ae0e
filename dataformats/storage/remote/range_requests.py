"""Request ranges of files behind one file system: all at once, and again after transient errors."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dataformats.errors import TruncatedError
from dataformats.storage.remote.checked_requests import RangeRequest, no_ranges_error, request_all
from dataformats.storage.remote.errors import as_os_error, chain, is_transient

T = TypeVar("T")

_WAITS_S = (0.1, 0.4, 1.5, 5.0)
"""How long to wait before requests that failed are made again: on top of the retries of the file system itself."""


def get_ranges(fs: Any, requests: Sequence[RangeRequest]) -> list[bytes | memoryview | Exception]:
    """Return the bytes of each range, or the error to raise for it.

    All ranges are requested at once. Those that fail because of throttling, a server error or a broken connection, or
    that come back short, are requested again, four times.
    """
    answers: list[bytes | memoryview | Exception] = [b""] * len(requests)
    waiting = list(range(len(requests)))
    for wait_s in (*_WAITS_S, None):
        answered = request_all(fs, [requests[number] for number in waiting])
        again = []
        for number, answer in zip(waiting, answered, strict=True):
            answers[number] = _checked(requests[number], answer)
            if (isinstance(answer, Exception) and is_transient(answer)) or isinstance(answers[number], TruncatedError):
                again.append(number)
        if wait_s is None or not again:
            break
        _pause(wait_s)
        waiting = again
    return answers


def retry_transient(ask: Callable[[], T]) -> T:
    """Return the answer to a request that is made again, at the same times, if it fails by an error that passes."""
    for wait_s in _WAITS_S:
        try:
            return ask()
        except Exception as error:
            if not is_transient(error):
                raise
        _pause(wait_s)
    return ask()


def first_bytes(fs: Any, path: str, name: str, length: int) -> bytes:
    """Return the first bytes of a file, or all that it has.

    Args:
        fs: The file system.
        path: The path of the file in it.
        name: The path for errors.
        length: How many bytes.

    Raises:
        OSError: There is no such file, or the server does not answer.
    """

    def ask() -> bytes:
        (answer,) = request_all(fs, [RangeRequest(path, name, 0, length)])
        if isinstance(answer, BaseException):
            raise answer
        return bytes(answer)

    try:
        return retry_transient(ask)
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except OSError:
        if fs.info(path)["size"]:
            raise
        return b""  # S3 sends no range of an empty object


def _pause(seconds: float) -> None:
    """Wait half to one and a half times as long, so that many processes do not ask again at once."""
    time.sleep(seconds * random.SystemRandom().uniform(0.5, 1.5))  # leaves the generator of `random` as it is


def _checked(request: RangeRequest, answer: Any) -> bytes | memoryview | Exception:
    """Return an answer if it has the length of the request, else the error."""
    if isinstance(answer, Exception):
        error = as_os_error(answer, request.url)
        if error is not answer:
            chain(error, answer)
        error.add_note(f"while {request.length} bytes of {request.url!r} were read from byte {request.offset} on")
        return error
    if isinstance(answer, BaseException):
        raise answer
    if len(answer) == request.length:
        return answer if isinstance(answer, (bytes, memoryview)) else bytes(answer)
    if len(answer) > request.length:
        return no_ranges_error(request, f"{len(answer)} bytes or more")
    return TruncatedError(
        "the file ends early",
        path=request.url,
        offset_bytes=request.offset,
        expected=f"{request.length} bytes",
        found=f"{len(answer)} bytes",
        remedy="If it changed, open the dataset again.",
    )
