"""HTTP servers on loopback: with ranges and faults, without ranges, and as S3 answers reads."""

from __future__ import annotations

import multiprocessing
import os
import socket
import struct
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

S3_CLIENTS: dict[str, dict[str, Any]] = {"obstore": {}, "s3fs": {"default_cache_type": "none"}}
"""Options that choose what reads S3: obstore knows none of the second one."""

Fault = Callable[[int, str], str | None]


class _Server(ThreadingHTTPServer):
    request_queue_size = 256  # the default of 5 lets the clients of one batch wait seconds for a connection
    daemon_threads = True


class RangeServer:
    """Serves one file with ranges, and counts requests.

    Attributes:
        url: URL of the file.
        options: Options of `open` for it.
        data: Its bytes; may be replaced.
        ranges: The `Range` header of each GET of the file, without `bytes=`.
        head_status: The status of each HEAD.
        fault: Called with the number of a GET and its range; returns `None`, a status such as `"503"`, `"reset"`,
            `"cut"` for half of the body, `"short"` for half of the range, as its header says, `"shift"` for a range
            that begins 8 bytes earlier, `"endless"` for a body of 256 MiB after the headers of the range, or
            `"continue"` for nothing but the status 100.
        n_sent: The bytes of endless bodies that were sent.
        compares: False: `If-Match` is ignored.
    """

    compares = True

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.version = 1
        self.n_sent = 0
        self.head_status = 200
        self.ranges: list[str] = []
        self.fault: Fault = lambda number, asked: None
        handler = type("Handler", (_Handler,), {"store": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self.url = f"{self.endpoint}/x.tfrecord"
        self.options: dict[str, Any] = {}

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
        if fault == "continue":
            with suppress(OSError):
                while True:
                    self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
            return
        if self.store.compares and self.headers.get("If-Match", self.store.tag) != self.store.tag:
            self._start(412, 0)
            return
        first, _, last = asked.partition("-")
        back = min(8, int(first or 0)) if fault == "shift" else 0
        begin = int(first or 0) - back
        body = self.store.data[begin : int(last or len(self.store.data)) + 1 - back]
        body = body[: len(body) // 2] if fault == "short" else body
        if fault == "endless":
            self._send_endless(f"bytes {begin}-{begin + len(body) - 1}/{len(self.store.data)}")
            return
        self._start(206 if asked else 200, len(body), f"bytes {begin}-{begin + len(body) - 1}/{len(self.store.data)}")
        self.wfile.write(body[: len(body) // 2] if fault == "cut" else body)
        self.close_connection |= fault == "cut"

    def _send_endless(self, content_range: str) -> None:
        self.close_connection = True
        self._start(206, 2**28, content_range)
        with suppress(OSError):
            while self.store.n_sent < 2**28:
                self.store.n_sent += self.wfile.write(bytes(2**16))

    def _is_there(self) -> bool:
        return self.path.endswith("/x.tfrecord")  # of a bucket, too

    def _start(self, status: int, length: int, content_range: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", self.store.tag)
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")  # S3 has both
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


class S3Folder:
    """Serves the folders of a folder as buckets, from a process of its own: all that programs read of S3.

    GET with a range and `If-Match`, HEAD, and ListObjectsV2 on one page; signatures are not checked.

    Attributes:
        url: The endpoint.
    """

    def __init__(self, folder: Path) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._figures = spawn.Array("d", 4)
        ours, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve_s3, args=(folder, self._figures, theirs), daemon=True)
        self._process.start()
        self.url: str = ours.recv()

    def begin(self, latency_s: float = 0, bytes_per_s: float = 0) -> None:
        """Wait this long before each answer, send at most these bytes a second in all (0: any), and count anew."""
        self._figures[:] = [latency_s, bytes_per_s, 0, 0]

    @property
    def counts(self) -> tuple[int, int]:
        """Requests and bytes of objects since `begin`."""
        return int(self._figures[2]), int(self._figures[3])

    def close(self) -> None:
        self._process.kill()
        self._process.join()


def _serve_s3(folder: Path, figures: Any, connection: Any) -> None:
    handler = type("Handler", (_S3,), {"folder": folder, "figures": figures})
    with _Server(("127.0.0.1", 0), handler) as server:
        connection.send(f"http://127.0.0.1:{server.server_port}")
        server.serve_forever()


class _S3(_Quiet):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the body follows the headers in another packet
    folder: Path
    figures: Any  # latency, bandwidth, requests, bytes
    lock = threading.Lock()
    free_at = 0.0  # when the network has sent all that was given to it
    piece_bytes = 2**16

    def handle(self) -> None:
        with suppress(ConnectionError):  # of a client that ended
            super().handle()

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        latency_s = self.figures[0]
        self._count(2, 1)
        time.sleep(latency_s)
        url = urllib.parse.urlsplit(self.path)
        key = urllib.parse.unquote(url.path).strip("/")
        path = self.folder / key
        if "list-type=2" in url.query:
            self._send_text(200, _listing(path, dict(urllib.parse.parse_qsl(url.query))))
        elif path.is_file():
            self._send_object(path)
        elif path.is_dir() and "/" not in key:
            self._send_text(200, "")
        else:
            self._send_text(404, f"<Error><Code>NoSuchKey</Code><Key>{escape(key)}</Key></Error>")

    def _send_object(self, path: Path) -> None:
        status = path.stat()
        if self.headers.get("If-Match", _tag(status)) not in (_tag(status), "*"):
            self._send_text(412, "<Error><Code>PreconditionFailed</Code></Error>")
            return
        asked = self.headers.get("Range", "").removeprefix("bytes=")
        first, _, last = asked.partition("-")
        begin = int(first) if first else max(0, status.st_size - int(last)) if asked else 0
        end = min(int(last) + 1 if first and last else status.st_size, status.st_size)
        if begin >= end and asked:
            self._send_text(416, "<Error><Code>InvalidRange</Code></Error>")
            return
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{status.st_size}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", _tag(status))
        self.send_header("Last-Modified", self.date_time_string(int(status.st_mtime)))
        self.send_header("Content-Length", str(end - begin))
        self.end_headers()
        if self.command == "GET":
            with path.open("rb") as file:
                self._send_bytes(file.fileno(), begin, end)

    def _send_bytes(self, file: int, begin: int, end: int) -> None:
        while begin < end:
            bytes_per_s = self.figures[1]
            n_bytes = min(end - begin, self.piece_bytes) if bytes_per_s else end - begin
            if bytes_per_s:
                with self.lock:
                    now = time.monotonic()
                    _S3.free_at = max(_S3.free_at, now) + n_bytes / bytes_per_s
                    wait_s = _S3.free_at - now
                time.sleep(wait_s)
            sent = os.sendfile(self.connection.fileno(), file, begin, n_bytes)
            self._count(3, sent)
            begin += sent

    def _send_text(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def _count(self, figure: int, n: int) -> None:
        with self.figures.get_lock():
            self.figures[figure] += n


def _tag(status: os.stat_result) -> str:
    return f'"{status.st_mtime_ns:016x}{status.st_size:016x}"'


def _listing(bucket: Path, query: dict[str, str]) -> str:
    """Return the objects of a bucket whose key begins with the prefix; with a delimiter, folders as prefixes."""
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    objects, folders = [], set()
    for path in sorted(path for path in bucket.rglob("*") if path.is_file()):
        key = path.relative_to(bucket).as_posix()
        if not key.startswith(prefix):
            continue
        head, cut, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
        if cut:
            folders.add(f"<CommonPrefixes><Prefix>{escape(prefix + head + cut)}</Prefix></CommonPrefixes>")
            continue
        status = path.stat()
        modified = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(status.st_mtime))
        objects.append(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{modified}</LastModified>"
            f"<ETag>{escape(_tag(status))}</ETag><Size>{status.st_size}</Size></Contents>"
        )
    return (
        f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>{bucket.name}</Name>'
        f"<IsTruncated>false</IsTruncated>{''.join(objects)}{''.join(sorted(folders))}</ListBucketResult>"
    )
