"""Reads S3 through obstore, with a third of the processor time of s3fs, which does all that obstore cannot."""

from __future__ import annotations

import functools
import os
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from dataformats.errors import FormatError
from dataformats.fork_hooks import cached_property
from dataformats.storage.remote.checked_requests import RangeRequest, changed_error, no_ranges_error, request_all
from dataformats.storage.remote.errors import is_transient
from dataformats.storage.remote.s3_settings import fits_obstore, settings_of
from dataformats.storage.remote.systems import CurrentSystem, file_system
from dataformats.storage.threads import ThreadPool

Method = TypeVar("Method", bound=Callable[..., Any])

_REQUESTS = ThreadPool(64, "dataformats-s3")
_STATUS = re.compile(r"status code: (\d{3})")
_RANGES = re.compile(r"Requested \d+\.\.\d+, got (\d+)\.\.(\d+)")
_READERS: weakref.WeakValueDictionary[str, S3Reader] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


class _Process:
    """This process.

    Attributes:
        lacks_threads: True if it was forked from one that had imported obstore, so that a call would wait forever.
    """

    lacks_threads = False


def _note_fork() -> None:
    _Process.lacks_threads |= "obstore" in sys.modules


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


class _PathError(Exception):
    """obstore knows no such path: one with an empty part, or `.`."""


class _S3Error(OSError):
    """An error of the server or the network.

    Attributes:
        status: The HTTP status, 0 without one.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        found = _STATUS.search(message)
        self.status = int(found[1]) if found else 0


def reader_of(url: str, options: Mapping[str, Any]) -> tuple[S3Reader, str] | None:
    """Return the file system that reads a URL of S3, and the path in it; `None` if fsspec must read it."""
    if _Process.lacks_threads or not fits_obstore(url, options):
        return None
    try:
        import obstore  # noqa: F401  # its threads start with the first request
    except ImportError:
        return None
    environment = sorted(pair for pair in os.environ.items() if pair[0].startswith("AWS_"))
    name = repr((sorted(options.items()), environment))
    with _LOCK:
        reader = _READERS.get(name)
        if reader is None:
            settings = settings_of(options)
            if settings is None:
                return None
            reader = _READERS[name] = S3Reader(dict(options), settings)
    return reader, url.partition("://")[2].rstrip("/")


def _unpickled(options: dict[str, Any]) -> Any:
    found = reader_of("s3://any/", options)
    return found[0] if found else file_system("s3://any/", options)[0]


def _or_s3fs(method: Method) -> Method:
    """Return a method that asks s3fs if obstore knows no such path, or has never answered.

    So settings that obstore understands in another way, such as the region of a bucket, come to the same as without it.
    """

    @functools.wraps(method)
    def ask(self: S3Reader, *arguments: Any, **named: Any) -> Any:
        if self.has_obstore:
            try:
                answer = method(self, *arguments, **named)
            except _PathError:
                pass
            except OSError as error:
                if self.has_answered or not _decides(error):
                    raise
                self.is_refused = True
            else:
                self.has_answered = True
                return answer
        return getattr(self.s3fs, method.__name__)(*arguments, **named)

    return ask  # type: ignore[return-value]  # the same arguments and result


class S3Reader:
    """The part of an fsspec file system that reading takes. Paths are `bucket/key`, and what it returns is of s3fs.

    Args:
        options: The `storage_options`.
        settings: The arguments for obstore.

    Attributes:
        has_answered: True once obstore has had an answer.
        is_refused: True if its first answer was an error; s3fs then makes all requests.
    """

    protocol: tuple[str, ...] = ("s3", "s3a")

    def __init__(self, options: dict[str, Any], settings: dict[str, Any]) -> None:
        import obstore

        self._obstore = obstore
        self._options = options
        self._settings = settings
        self._stores: dict[str, Any] = {}
        self.has_answered: bool = False
        self.is_refused: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._options,)

    @property
    def has_obstore(self) -> bool:
        """False if s3fs makes the requests: a forked child lacks the threads of obstore."""
        return not (self.is_refused or _Process.lacks_threads)

    @property
    def s3fs(self) -> Any:
        """The file system of fsspec for the same options."""
        return self._system.current

    @cached_property
    def _system(self) -> CurrentSystem:
        return CurrentSystem(file_system("s3://any/", self._options)[0])

    def _split(self, path: str) -> tuple[Any, str]:
        """Return the store of the bucket, and the key."""
        bucket, _, key = path.partition("/")
        if bucket not in self._stores:
            from obstore.store import S3Store

            self._stores[bucket] = S3Store(bucket, **self._settings)
        return self._stores[bucket], key

    def unstrip_protocol(self, path: str) -> str:
        return path if path.startswith("s3://") else f"s3://{path}"

    def _parent(self, path: str) -> str:
        return path.rstrip("/").rpartition("/")[0]

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forget listings, which s3fs keeps."""
        if not self.has_obstore:
            self.s3fs.invalidate_cache(path)

    def get_mapper(self, path: str) -> Any:
        return self.s3fs.get_mapper(path)

    @_or_s3fs
    def ls(self, path: str, detail: bool = True) -> list[dict[str, Any]]:
        with _as_os_errors():
            store, key = self._split(path)
            found = self._obstore.list_with_delimiter(store, key or None)
        bucket = path.partition("/")[0]
        folders = [_described(f"{bucket}/{name}", None) for name in found["common_prefixes"]]
        entries = folders + [_described(f"{bucket}/{one['path']}", one) for one in found["objects"]]
        if not entries:
            raise FileNotFoundError(path)
        return entries

    @_or_s3fs
    def info(self, path: str) -> dict[str, Any]:
        with suppress(FileNotFoundError), _as_os_errors():
            store, key = self._split(path)
            if key:
                return _described(path, self._obstore.head(store, key))
        self.ls(path)
        return _described(path, None)

    def exists(self, path: str) -> bool:
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    @_or_s3fs
    def glob(self, pattern: str, detail: bool = True) -> dict[str, dict[str, Any]]:
        """Return path to `info` of the files and folders that match a pattern."""
        folder, _, name = pattern.rpartition("/")
        if "[" in pattern or "**" in pattern or "*" in folder or "?" in folder:
            return dict(self.s3fs.glob(pattern, detail=True))
        try:
            entries = self.ls(folder)
        except FileNotFoundError:
            return {}
        return {one["name"]: one for one in entries if fnmatchcase(one["name"].rpartition("/")[2], name)}

    def request_all(self, requests: Sequence[RangeRequest]) -> list[Any]:
        """Return the bytes of each range, or its exception."""
        if self.has_obstore:
            if len(requests) == 1:
                answers = [self._request(requests[0])]
            else:
                answers = list(_REQUESTS.executor().map(self._request, requests))
            self.has_answered |= not all(isinstance(one, Exception) for one in answers)
            is_refused = not self.has_answered and any(map(_decides, answers))
            if not is_refused and not any(isinstance(one, _PathError) for one in answers):
                return answers
            self.is_refused |= is_refused
        return request_all(self.s3fs, requests)

    def _request(self, request: RangeRequest) -> Any:
        from obstore.exceptions import PreconditionError

        asked: Any = {"range": (request.offset, request.offset + request.length)}
        if request.condition is not None:
            asked["if_match"] = request.condition
        try:
            with _as_os_errors():
                store, key = self._split(request.path)
                answer = self._obstore.get(store, key, options=asked)
                first, end = answer.range
                about = answer.meta
                found = {"Content-Range": f"bytes {first}-{end - 1}/{about['size']}", "ETag": about["e_tag"]}
                request.check(found)
                # One piece, or more bytes than requested: no more is read of a body that does not end.
                return memoryview(next(iter(answer.stream(request.length + 1)), b""))
        except PreconditionError:
            return changed_error(request.url, f"ETag {request.tag}", "Precondition Failed")
        except _S3Error as error:
            return _of_another_range(request, str(error)) or error
        except Exception as error:
            return error


def _described(path: str, about: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the description of an object, or of a folder, as of s3fs."""
    if about is None:
        return {"name": path, "size": 0, "type": "directory"}
    found = {"name": path, "size": about["size"], "type": "file", "LastModified": about["last_modified"]}
    return found | ({"ETag": about["e_tag"]} if about["e_tag"] else {})


def _decides(error: Any) -> bool:
    """Return True for an error that tells that obstore, with these settings, has no access; not for a busy server."""
    if not isinstance(error, OSError) or isinstance(error, FileNotFoundError):
        return False
    status = getattr(error, "status", 0)
    return status != 416 and not (status and is_transient(error))  # 416: an empty object has no range


def _of_another_range(request: RangeRequest, message: str) -> Any:
    """Return the answer, or the error, for an error of obstore that compares the ranges; `None` for another one."""
    if "non-partial response" in message:
        return no_ranges_error(request, "the whole object")
    found = _RANGES.search(message)
    if found is None:
        return None
    try:
        request.check({"Content-Range": f"bytes {found[1]}-{int(found[2]) - 1}/*"})
    except FormatError as error:
        return error
    return b""  # a shorter range, which may be requested again


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Raise errors of Python for the errors of obstore, as other file systems do."""
    from obstore import exceptions

    try:
        yield
    except exceptions.PreconditionError:
        raise
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
        raise PermissionError(_text(error)) from error
    except exceptions.InvalidPathError as error:
        raise _PathError(_text(error)) from error
    except exceptions.BaseError as error:
        if "<Code>ExpiredToken" in str(error):
            raise PermissionError(_text(error)) from error
        found = _S3Error(_text(error))
        raise (FileNotFoundError(str(found)) if found.status == 404 else found) from error  # a listing of no bucket
    except ValueError as error:
        if "parse path" not in str(error):
            raise
        raise _PathError(_text(error)) from error


def _text(error: Exception) -> str:
    return str(error).partition("\n\nDebug source")[0]
