"""Errors of file systems behind URLs: one type for each cause, with the URL and a remedy."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dataformats.errors import DataFormatsError
from dataformats.storage.remote.names import shown_text, shown_url

_CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or pass storage_options={'key': ..., "
    "'secret': ...}; a public bucket is read with {'anon': True}",
    "gs": "run `gcloud auth application-default login`, or pass storage_options={'token': PATH_OF_A_KEY}; a public "
    "bucket is read with {'token': 'anon'}",
    "abfs": "set AZURE_STORAGE_CONNECTION_STRING, or pass storage_options={'account_name': ..., 'account_key': ...}; a "
    "public container is read with {'anon': True}",
    "hf": "set HF_TOKEN, or pass storage_options={'token': ...}",
    "https": "pass storage_options={'headers': {'Authorization': ...}}",
}
_ALIASES = {"s3a": "s3", "gcs": "gs", "az": "abfs", "abfss": "abfs", "http": "https"}
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, NotImplementedError, ImportError)
_BUGS = (MemoryError, DataFormatsError, ValueError, TypeError, AttributeError, LookupError)
_FINAL_NUMBERS = (errno.EINVAL, errno.ENOSPC, errno.ENAMETOOLONG)
_MAX_TEXT = 2**16
_TRANSIENT_STATUS = (408, 425, 429, 500, 502, 503, 504)


def is_transient(error: BaseException) -> bool:
    """Return True if the same request may succeed later: throttling, a failing server, a connection that broke."""
    error = _root(error)
    status = _status(error)
    if status:
        return status in _TRANSIENT_STATUS
    if isinstance(error, (*_FINAL, *_BUGS)) or not isinstance(error, Exception) or _is_refused(error):
        return False
    if _is_redirect(error):
        return False
    return not (isinstance(error, OSError) and error.errno in _FINAL_NUMBERS)


def as_os_error(error: Exception, url: str) -> Exception:
    """Return the error to raise for one of a file system: the same, or an `OSError` that names URL and remedy."""
    error, url = _root(error), shown_url(url)
    is_shown = str(error) == shown_text(str(error))
    if isinstance(error, FileNotFoundError) or _status(error) == 404:
        if is_shown and "://" in str(getattr(error, "filename", None)):
            return error
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url)
    if _is_refused(error):
        scheme = url.partition("://")[0]
        remedy = _CREDENTIALS.get(_ALIASES.get(scheme, scheme), "pass the credentials in storage_options")
        remedy += ". Options of a source that is not opened yet are source_options={'storage_options': ...}"
        return PermissionError(
            errno.EACCES, f"access refused ({_message(error)}). If credentials are missing or expired, {remedy}", url
        )
    if isinstance(error, (ImportError, DataFormatsError, MemoryError)) or (
        isinstance(error, OSError) and is_shown and url in str(error)
    ):
        return error
    if _is_redirect(error):
        to = f"the server redirects to {shown_url(error)!r}"
        return OSError(f"{url!r}: {to}, which is not followed: expected a URL of http:// or https://")
    if isinstance(error, OSError) and error.errno is not None and not _status(error):
        text = shown_text(str(error.strerror))
        return OSError(error.errno, text, url)  # Python chooses the subclass for this number
    return OSError(f"{url!r}: {_message(error)}")


@contextmanager
def raise_as_os_error(name: str) -> Iterator[None]:
    """Raise the errors of a file system as `as_os_error`: HTTP clients and archives have error types of their own."""
    try:
        yield
    except Exception as error:
        better = as_os_error(error, name)
        if better is error:
            raise
        try:
            raise better
        finally:
            chain(better, error)


def chain(error: Exception, cause: BaseException) -> None:
    """Set the cause of an error, unless an error in its chain has a secret of a URL in its text, or a whole answer."""
    at: BaseException | None = cause
    while at is not None and len(str(at)) < _MAX_TEXT and str(at) == shown_text(str(at)):
        at = at.__cause__ or at.__context__
    error.__cause__ = error.__context__ = cause if at is None else None


def _root(error: Any) -> Any:
    """Return the cause of a `FileNotFoundError`, which fsspec raises for any error of HTTP, or the error itself."""
    cause = error.__cause__
    if isinstance(error, FileNotFoundError) and isinstance(cause, Exception) and _status(cause) not in (404, 410):
        is_http = _status(cause) or type(cause).__module__.startswith("aiohttp")
        if is_http or isinstance(cause, (ConnectionError, TimeoutError)):
            return cause
    return error


def _status(error: BaseException) -> int:
    """Return the HTTP status of an error, 0 if it has none."""
    for name in ("status", "code", "status_code"):
        status = getattr(error, name, None)
        if isinstance(status, (int, str)) and str(status).isdecimal():
            return int(status)
    return 0


def _is_refused(error: BaseException) -> bool:
    name = type(error).__name__
    return isinstance(error, PermissionError) or _status(error) in (401, 403) or "Credential" in name or "Auth" in name


def _is_redirect(error: BaseException) -> bool:
    """Return True if a server redirects to another scheme than HTTP, or to an invalid URL."""
    return type(error).__name__.endswith("RedirectClientError")


def _message(error: BaseException) -> str:
    return f"{type(error).__name__}: {shown_text(str(error))}"
