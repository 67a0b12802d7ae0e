"""An S3 server (moto) in its own process on loopback, and a client that shares no code with s3fs."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from tests.waiting import wait_until

MOTO = Path(os.environ.get("DATAFORMATS_MOTO", Path(__file__).parents[3] / ".venv-moto/bin/moto_server"))
BUCKET = "bucket"
_SIGNATURE = "AWS4-HMAC-SHA256 Credential=tests/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"


def why_not() -> str | None:
    """Return why no server can be started here; `None` if it can."""
    return None if MOTO.exists() else "make .venv-moto/stamp installs the server"


class S3Server:
    """A running server with one bucket.

    Attributes:
        port: Its port on 127.0.0.1.
        pid: Its process.
    """

    def __init__(self, port: int, pid: int) -> None:
        self.port = port
        self.pid = pid

    def reset(self, objects: Mapping[str, bytes] | None = None) -> None:
        """Delete everything, and make the bucket anew with these objects."""
        self._request("POST", "/moto-api/reset")
        self._request("PUT", f"/{BUCKET}")
        for key, body in (objects or {}).items():
            self._request("PUT", f"/{BUCKET}/{urllib.parse.quote(key)}", body)

    def etags(self) -> dict[str, str]:
        """Return key to ETag of all objects: the MD5 of an object that was sent in one request."""
        tree = ElementTree.fromstring(self._request("GET", f"/{BUCKET}?list-type=2&max-keys=1000"))
        space = tree.tag.partition("}")[0] + "}"
        return {
            str(entry.findtext(f"{space}Key")): str(entry.findtext(f"{space}ETag")).strip('"')
            for entry in tree.iter(f"{space}Contents")
        }

    def read(self, key: str) -> bytes:
        return self._request("GET", f"/{BUCKET}/{urllib.parse.quote(key)}")

    def objects(self) -> dict[str, bytes]:
        return {key: self.read(key) for key in self.etags()}

    def _request(self, method: str, target: str, body: bytes = b"") -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=240)
        try:
            connection.request(method, target, body, {"Authorization": _SIGNATURE})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise OSError(f"{method} {target}: status {answer.status}: {content[:200]!r}")
        return content


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def moto_server(log: Path) -> Iterator[S3Server]:
    """Start a server that writes its log to a file, and makes the bucket."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with log.open("wb") as file:
        process = subprocess.Popen([MOTO, "-H", "127.0.0.1", "-p", str(port)], stdout=file, stderr=file)
    try:
        wait_until(lambda: _listens(port) or process.poll() is not None)
        server = S3Server(port, process.pid)
        server.reset()
        yield server
    finally:
        process.kill()
        process.wait()
