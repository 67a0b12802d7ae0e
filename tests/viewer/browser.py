"""Requests to the viewer without a browser."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dataformats.viewer.app import comparison_app, viewer_app
from dataformats.viewer.dataset import ViewedDataset
from dataformats.viewer.run import ViewedRun
from tests.waiting import LIMIT_S

GOLDEN = Path(__file__).parents[1] / "golden"
PHOTOS = GOLDEN / "real" / "photos.tfrecord"
DAMAGED = GOLDEN / "tfrecord" / "corrupt" / "data_bit.tfrecord"
TOKEN = "secret"


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes, complete: bool) -> None:
        self.status, self.headers, self.body, self.complete = status, headers, body, complete

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Browser:
    """Sends requests to the application, as a server would."""

    def __init__(
        self,
        path: Path,
        ready: bool = True,
        run: ViewedRun | None = None,
        against: Path | None = None,
        **options: Any,
    ) -> None:
        self.dataset = ViewedDataset(str(path), **options)
        assert not ready or self.dataset.wait(LIMIT_S)
        if against is None:
            self._app = viewer_app(self.dataset, TOKEN, run)
        else:
            self._app = comparison_app(self.dataset, ViewedDataset(str(against)), TOKEN)

    def __call__(
        self,
        path: str,
        method: str = "GET",
        host: str | list[str] = "127.0.0.1:8080",
        taken: int | None = None,
        **headers: str,
    ) -> Answer:
        """Return the answer; the browser goes away after it has taken this many parts of the body."""
        sent: list[Any] = []
        requests = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Any:
            if requests:
                return requests.pop()
            while taken is None or len(sent) <= taken:  # the first one has the headers
                await asyncio.sleep(0.001)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)
            if taken is not None and len(sent) > taken:
                await asyncio.sleep(LIMIT_S)  # as a browser that takes no more

        address, _, query = path.partition("?")
        hosts = [host] if isinstance(host, str) else host
        given = [(b"host", one.encode()) for one in hosts]
        given += [(name.encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": method, "path": address, "query_string": query.encode(), "headers": given}
        asyncio.run(self._app({**scope, "raw_path": address.encode(), "root_path": ""}, receive, send))
        start, *parts = sent
        named = {name.decode(): value.decode() for name, value in start["headers"]}
        complete = bool(parts) and not parts[-1].get("more_body", False)
        return Answer(start["status"], named, b"".join(part.get("body", b"") for part in parts), complete)


def finished(ask: Callable[[], Any], is_done: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + LIMIT_S
    while not is_done(answer := ask()):
        assert time.monotonic() < deadline, answer
        time.sleep(0.01)
    return answer
