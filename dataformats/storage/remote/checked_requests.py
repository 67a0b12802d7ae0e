"""Range requests of HTTP and S3, whose answers tell which bytes of which version of a file they have."""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from dataformats.errors import FormatError

_ANSWER_S, _SLOWEST_BYTES_PER_S = 60.0, 2**13  # 64 requests at once share a slow link
_CONNECT_S = 30.0  # the default of aiohttp
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


@dataclass(frozen=True, slots=True)
class RangeRequest:
    """A range of a file behind a file system.

    Attributes:
        path: The file, as the file system names it.
        url: The file, for messages.
        offset: The first byte.
        length: The number of bytes, at least 1; all of them lie within the file.
        size: The size of the file when it was opened; `None` if it is unknown.
        tag: The ETag that it had then, with its quotes; `None` without one.
        modified: The `Last-Modified` that it had then, if it has no ETag.
    """

    path: str
    url: str
    offset: int
    length: int
    size: int | None = None
    tag: str | None = None
    modified: str | None = None

    @property
    def header(self) -> str:
        """The value of `Range`."""
        return f"bytes={self.offset}-{self.offset + self.length - 1}"

    @property
    def condition(self) -> str | None:
        """The value of `If-Match`; `None` without a strong ETag, as no other one ever matches."""
        return self.tag if self.tag is not None and self.tag.startswith('"') else None

    def check(self, headers: Mapping[str, Any]) -> None:
        """Compare the headers of an answer with the request.

        Raises:
            FormatError: The answer has another range, or is from another version of the file.
        """
        found = _CONTENT_RANGE.fullmatch(headers.get("Content-Range") or "")
        size = found[3] if found is not None and found[3] != "*" else None
        if size is not None and self.size is not None and int(size) != self.size:
            raise changed_error(self.url, f"{self.size} bytes", f"{size} bytes")
        for name, expected in (("ETag", self.tag), ("Last-Modified", self.modified)):
            value = headers.get(name)
            if value and expected and _opaque(value) != _opaque(expected):
                raise changed_error(self.url, f"{name} {expected}", f"{name} {value}")
        # A shorter range is a short answer, which may be requested again.
        if found is not None and (int(found[1]) != self.offset or int(found[2]) >= self.offset + self.length):
            raise FormatError(
                "the server sent another range than requested",
                path=self.url,
                offset_bytes=self.offset,
                expected=f"Content-Range {self.header.replace('=', ' ')}",
                found=f"Content-Range {found[0]}",
                remedy="The server, or a proxy before it, is at fault. Download the file, or put `simplecache::` "
                "before the URL, which downloads it once.",
            )


def changed_error(url: str, expected: object, found: object) -> FormatError:
    """Return the error for a file that is not the one that was opened."""
    what = "the file was replaced or changed while it was open"
    return FormatError(what, path=url, expected=expected, found=found, remedy="Open the dataset again.")


def no_ranges_error(request: RangeRequest, found: str) -> FormatError:
    """Return the error for a server that sends more than the range."""
    return FormatError(
        "the server sent more bytes than requested: it does not support range requests",
        path=request.url,
        offset_bytes=request.offset,
        expected=f"{request.length} bytes",
        found=found,
        remedy="Download the file, or put `simplecache::` before the URL, which downloads it once.",
    )


def _opaque(tag: str) -> str:
    return tag.removeprefix("W/").strip('"')


def request_all(fs: Any, requests: Sequence[RangeRequest]) -> list[Any]:
    """Return the bytes of each range, or its exception; all are requested concurrently if the file system can.

    The answers of HTTP and S3 are compared with the requests. Other file systems of fsspec hide the headers.
    """
    if hasattr(fs, "request_all"):  # `S3Reader`
        return list(fs.request_all(requests))
    request = _request_of(fs)
    if request is None:
        paths, starts = [one.path for one in requests], [one.offset for one in requests]
        ends = [one.offset + one.length for one in requests]
        return list(fs.cat_ranges(paths, starts, ends, on_error="return"))
    from fsspec.asyn import _run_coros_in_chunks, sync

    async def answers() -> list[Any]:
        running = [request(fs, one) for one in requests]  # as many at once as `cat_ranges` runs
        found = await _run_coros_in_chunks(running, batch_size=fs.batch_size, nofiles=True, return_exceptions=True)
        return list(found)

    return list(cast(Any, sync(fs.loop, answers)))  # its annotation says that it returns nothing


async def read_at_most(read: Callable[[int], Awaitable[bytes]], limit: int) -> bytes:
    """Return a body, or one byte more than `limit` if it is longer.

    Args:
        read: Returns up to so many bytes, none at the end.
        limit: The most bytes that it should have.
    """
    parts, left = [], limit + 1
    while left > 0 and (part := await read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _request_of(fs: Any) -> Callable[[Any, RangeRequest], Awaitable[bytes]] | None:
    """Return the function that sends a request of this file system; `None` for those that fsspec sends itself."""
    for module, name, request in (
        ("fsspec.implementations.http", "HTTPFileSystem", _request_http),
        ("s3fs.core", "S3FileSystem", _request_s3),
    ):
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and getattr(type(fs), "_cat_file", None) is kind._cat_file:
            return request
    return None


async def _request_http(fs: Any, request: RangeRequest) -> bytes:
    headers = {"Accept-Encoding": "identity", **fs.kwargs.get("headers", {}), "Range": request.header}
    if request.condition is not None:
        headers["If-Match"] = request.condition
    given = {**fs.kwargs, "headers": headers}
    if "timeout" not in fs.client_kwargs:
        total_s = _ANSWER_S + request.length / _SLOWEST_BYTES_PER_S
        given = {"timeout": sys.modules["aiohttp"].ClientTimeout(total=total_s, sock_connect=_CONNECT_S), **given}
    session = await fs.set_session()
    try:
        async with session.get(fs.encode_url(request.path), **given) as response:
            if response.status == 404:
                raise FileNotFoundError(request.path)
            if response.status == 412:
                raise changed_error(request.url, f"ETag {request.tag}", "status 412, Precondition Failed")
            response.raise_for_status()
            request.check(response.headers)
            return await read_at_most(response.content.read, request.length)
    except TimeoutError as error:
        what = f"the server did not send {request.length} bytes in time: pass a longer 'timeout' in client_kwargs"
        raise TimeoutError(errno.ETIMEDOUT, what, request.url) from error


async def _request_s3(fs: Any, request: RangeRequest) -> bytes:
    bucket, key, version = fs.split_path(request.path)
    named = {"VersionId": version, "IfMatch": request.condition}
    given = {name: value for name, value in named.items() if value is not None}
    try:
        answer = await fs._call_s3("get_object", Bucket=bucket, Key=key, Range=request.header, **given)
    except OSError as error:
        response = getattr(error.__cause__, "response", None) or {}
        if response.get("Error", {}).get("Code") in ("PreconditionFailed", "412"):
            raise changed_error(request.url, f"ETag {request.tag}", "Precondition Failed") from error
        raise
    try:
        request.check({"Content-Range": answer.get("ContentRange"), "ETag": answer.get("ETag")})
        return await read_at_most(answer["Body"].read, request.length)
    finally:
        answer["Body"].close()
