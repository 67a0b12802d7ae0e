"""HTTP servers on loopback: with ranges and faults, and without ranges."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["RangeServer", "counting_server", "plain_server"]

Fault = Callable[[int, str], str | None]


class _Server(ThreadingHTTPServer):
    request_queue_size = 256  # the default of 5 lets the clients of one batch wait seconds for a connection
    daemon_threads = True


class RangeServer:
    """Serves one file with ranges, and counts requests.

    Attributes:
        url: URL of the file.
        data: Its bytes; may be replaced.
        ranges: The `Range` header of each GET of the file, without `bytes=`.
        head_status: The status of each HEAD.
        fault: Called with the number of a GET and its range; returns `None`, a status such as `"503"`, `"reset"`,
            `"cut"` for half of the body, or `"shift"` for a range that begins 8 bytes earlier, as its header says.
        compares: False: `If-Match` is ignored.
    """

    compares = True

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.version = 1
        self.head_status = 200
        self.ranges: list[str] = []
        self.fault: Fault = lambda number, asked: None
        handler = type("Handler", (_Handler,), {"store": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/x.tfrecord"

    @property
    def tag(self) -> str:
        """The ETag of the file."""
        return f'"{self.version}"'

    @contextmanager
    def running(self) -> Iterator[RangeServer]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: RangeServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        status = self.store.head_status if self._is_there() else 404
        self._start(status, len(self.store.data) if status == 200 else 0)

    def do_GET(self) -> None:
        if not self._is_there():
            self._start(404, 0)
            return
        asked = self.headers.get("Range", "").removeprefix("bytes=")
        self.store.ranges.append(asked)
        fault = self.store.fault(len(self.store.ranges) - 1, asked)
        if fault == "reset":
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True
            self.connection.close()
            return
        if fault is not None and fault.isdecimal():
            self._start(int(fault), 0)
            return
        if self.store.compares and self.headers.get("If-Match", self.store.tag) != self.store.tag:
            self._start(412, 0)
            return
        first, _, last = asked.partition("-")
        back = min(8, int(first or 0)) if fault == "shift" else 0
        begin = int(first or 0) - back
        body = self.store.data[begin : int(last or len(self.store.data)) + 1 - back]
        self._start(206 if asked else 200, len(body), f"bytes {begin}-{begin + len(body) - 1}/{len(self.store.data)}")
        self.wfile.write(body[: len(body) // 2] if fault == "cut" else body)
        self.close_connection |= fault == "cut"

    def _is_there(self) -> bool:
        return self.path == "/x.tfrecord"

    def _start(self, status: int, length: int, content_range: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", self.store.tag)
        if status == 206:
            self.send_header("Content-Range", content_range)
        self.end_headers()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Counting(_Quiet):
    """Serves the files of a folder with ranges."""

    protocol_version = "HTTP/1.1"
    log: list[tuple[str, int]]
    latency_s: float

    def do_HEAD(self) -> None:
        self.log.append((f"HEAD {self.path}", 0))
        super().do_HEAD()

    def do_GET(self) -> None:
        time.sleep(self.latency_s)
        path, asked = Path(self.translate_path(self.path)), self.headers.get("Range", "").removeprefix("bytes=")
        if not (path.is_file() and asked):
            self.log.append((f"GET {self.path}", 0))
            super().do_GET()
            return
        first, last = map(int, asked.split("-"))
        with path.open("rb") as file:
            file.seek(first)
            body = file.read(last + 1 - first)
        self.log.append((f"GET {self.path}", len(body)))
        self.send_response(206)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def counting_server(folder: Path, latency_s: float = 0) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """Serve a folder with ranges; yield its URL and the list of requests, each with the bytes of its answer."""
    log: list[tuple[str, int]] = []
    handler = type("Handler", (_Counting,), {"log": log, "latency_s": latency_s})
    with _serving(partial(handler, directory=str(folder))) as url:
        yield url, log


@contextmanager
def plain_server(folder: Path) -> Iterator[str]:
    """Serve a folder by Python's own server, which knows no ranges; yield its URL."""
    with _serving(partial(_Quiet, directory=str(folder))) as url:
        yield url


@contextmanager
def _serving(handler: Any) -> Iterator[str]:
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
