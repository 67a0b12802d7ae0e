"""The fsspec file system of a URL, also in a forked child."""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches
from typing import Any

from dataformats.errors import MissingExtraError, UnknownNameError
from dataformats.storage.remote.errors import raise_as_os_error
from dataformats.storage.remote.names import shown_url

_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "hdfs": "arrow"}  # scheme to the extra that serves it
_PACKAGES = {
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "hf": "huggingface_hub",
    "http": "aiohttp",
    "https": "aiohttp",
    "sftp": "paramiko",
    "ssh": "paramiko",
}
_CONNECTIONS = 64
_CONNECT_S = 5


_LOOPS: list[Any] = []
"""Event loops of this process and its parents, kept with all that waits in them: what is collected is closed."""


def _note_loop() -> None:
    """Before a fork, note the event loop of fsspec, which forgets it in the child."""
    asyn = sys.modules.get("fsspec.asyn")
    if asyn is not None and isinstance(asyn.loop[0], asyn.asyncio.BaseEventLoop) and asyn.loop[0] not in _LOOPS:
        _LOOPS.append(asyn.loop[0])


def _forget_loop() -> None:
    """In a forked child, let fsspec start a thread; some releases wait for one that only the parent has.

    The child shares the epoll instance of the parent's loop. A file system that ends in the child would remove its
    connections there, and the parent would not learn of answers. A closed loop removes nothing.
    """
    for loop in _LOOPS:
        loop._thread_id, loop._closed = None, True  # `close` refuses a loop that runs
        loop.set_exception_handler(lambda loop, context: None)  # else aiohttp logs each session as not closed
    asyn = sys.modules.get("fsspec.asyn")
    if asyn is not None:
        asyn.reset_lock()
        asyn.loop[0] = asyn.iothread[0] = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_note_loop, after_in_child=_forget_loop)


def is_url(text: str) -> bool:
    """Return True for `scheme://...`."""
    return "://" in text


def file_system(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and the path in it.

    Args:
        url: One URL, or several chained with `::`.
        options: Its `storage_options`.

    Raises:
        UnknownNameError: No file system has the scheme.
        MissingExtraError: The package for the scheme is not installed.
        OSError: The file system refuses the URL, or cannot be reached.
    """
    from fsspec.core import url_to_fs
    from fsspec.registry import known_implementations, registry

    schemes = [part.partition("://")[0] for part in url.split("::") if is_url(part)]
    known = {*registry, *known_implementations}
    for scheme in schemes:
        if scheme not in known:
            shown = get_close_matches(scheme, known) or {"file", *_EXTRAS, *_PACKAGES}  # there are some 70
            remedy = "Pass a path, or a URL with a scheme that fsspec knows"
            raise UnknownNameError("URL scheme", name=scheme, known=shown, remedy=remedy)
    if {*schemes} & {"s3", "s3a"} and "config_kwargs" not in options:
        # Else ten requests at a time, and a wrong endpoint is silent for 40 s: s3fs and this package repeat requests.
        config = {"max_pool_connections": _CONNECTIONS, "connect_timeout": _CONNECT_S, "retries": {"max_attempts": 0}}
        options = {**options, "config_kwargs": config}
    try:
        for scheme in {*schemes} & {"http", "https"}:
            from dataformats.storage.remote.http_client import http_client

            options = {**options, scheme: {"get_client": http_client, **(options.get(scheme) or {})}}
        with raise_as_os_error(url):
            fs, path = url_to_fs(url, **options)
    except ImportError as error:
        extra = next((_EXTRAS[scheme] for scheme in schemes if scheme in _EXTRAS), "")
        package = next((_PACKAGES[scheme] for scheme in schemes if scheme in _PACKAGES), "")
        raise MissingExtraError(f"{shown_url(url)!r} ({error})", extra=extra, package=package) from error
    return fs, path


def is_local_system(fs: Any) -> bool:
    """Return True for the fsspec file system of `file://`."""
    return "file" in (fs.protocol if isinstance(fs.protocol, tuple) else (fs.protocol,))


def is_copy(fs: Any) -> bool:
    """Return True for a file system that keeps local copies of another one, as `simplecache::` does."""
    cached = sys.modules.get("fsspec.implementations.cached")
    return cached is not None and isinstance(fs, cached.CachingFileSystem)


class CurrentSystem:
    """A file system, made anew in a forked child if it has threads or connections, which a child does not have."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs
        self._process = os.getpid()

    @property
    def current(self) -> Any:
        if self._process != os.getpid():
            if getattr(self._fs, "async_impl", False):
                self._fs = type(self._fs)(*self._fs.storage_args, **self._fs.storage_options)
            self._process = os.getpid()
        return self._fs
