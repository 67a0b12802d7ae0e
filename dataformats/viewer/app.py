"""The answers of the viewer: its page, facts, records, pictures, statistics and filters."""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dataformats.display.cells import DETAIL, TABLE, as_download
from dataformats.display.media import thumbnail
from dataformats.viewer.dataset import ViewedDataset, in_words
from dataformats.viewer.field_scan import FieldScan
from dataformats.viewer.filters import Filters
from dataformats.viewer.guard import Guard
from dataformats.viewer.run import ViewedRun

__all__ = ["viewer_app"]

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_PAGE = {path.name: path for path in (Path(__file__).parent / "static").iterdir() if path.suffix in _TYPES}
_MAX_ROWS, _MAX_FIELDS, _MAX_CONDITION = 500, 200, 10_000
_MAX_SIDE = 1024  # the largest side of a thumbnail
_DECODERS = 2  # threads that make thumbnails, each in up to 128 MiB
_WAIT = 0.3  # seconds for an index that is there already
_SANDBOX = "default-src 'none'; sandbox"
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


def viewer_app(dataset: ViewedDataset, token: str, run: ViewedRun | None = None) -> Guard:
    """Return the ASGI application that shows a dataset, and the steps of a run, to requests with this token."""
    answers = _Answers(dataset, run)
    routes = [
        Route("/", _file),
        Route("/static/{name}", _file),
        Route("/api/dataset", _json(answers.dataset)),
        Route("/api/records", _json(answers.records)),
        Route("/api/statistics", _json(answers.statistics)),
        Route("/api/statistics", _json(answers.control_statistics), methods=["POST"]),
        Route("/api/filter", _json(answers.matches)),
        Route("/api/filter", _json(answers.filter), methods=["POST"]),
        Route("/api/filter", _json(answers.cancel_filter), methods=["DELETE"]),
        Route("/api/step", _json(answers.step)),
        Route("/api/open", _json(answers.open_again), methods=["POST"]),
        Route("/thumbnail/{record}/{field}", _bytes(answers.thumbnail)),
        Route("/value/{record}/{field}", _bytes(answers.value)),
    ]
    return Guard(Starlette(routes=routes), token)


class _Answers:
    """The answer of each address; the functions run in threads.

    Requests name records by index and fields by position: no text of a request is a path.
    """

    def __init__(self, dataset: ViewedDataset, run: ViewedRun | None) -> None:
        self._run = run
        self._decoding = threading.Semaphore(_DECODERS)
        self._show(dataset)

    def _show(self, dataset: ViewedDataset) -> None:
        self._dataset = dataset
        self._scan = FieldScan(dataset)
        self._filters = Filters(dataset)

    def open_again(self, query: _RequestParameters) -> Any:
        opened = self._dataset.opened_again()
        self._scan.stop()
        self._filters.stop()
        self._dataset.source.close()
        self._show(opened)
        return {}

    def dataset(self, query: _RequestParameters) -> Any:
        self._dataset.wait(_WAIT)
        if query.text("facts"):
            return self._dataset.facts() | {"has_run": self._run is not None}
        return self._dataset.state

    def step(self, query: _RequestParameters) -> Any:
        if self._run is None:
            raise LookupError("no run is shown: pass --state")
        return self._run.step(self._dataset.source, query.number("step") if query.text("step") else None)

    def records(self, query: _RequestParameters) -> Any:
        self._dataset.wait(_WAIT)
        limits = DETAIL if query.text("detail") else TABLE
        return {"rows": self._dataset.rows(query.numbers("numbers", _MAX_ROWS), self._fields(query), limits)}

    def _fields(self, query: _RequestParameters) -> list[int]:
        return [field for field in query.numbers("fields", _MAX_FIELDS) if field < len(self._dataset.fields)]

    def statistics(self, query: _RequestParameters) -> Any:
        return self._scan.snapshot(self._fields(query))

    def control_statistics(self, query: _RequestParameters) -> Any:
        self._scan.start(self._fields(query)) if query.text("run") else self._scan.stop()
        return {}

    def filter(self, query: _RequestParameters) -> Any:
        condition = query.text("condition")
        if len(condition) > _MAX_CONDITION:
            raise ValueError(f"expected a condition of at most {_MAX_CONDITION} characters, found {len(condition)}")
        return {"filter": self._filters.start(condition)}

    def cancel_filter(self, query: _RequestParameters) -> Any:
        self._filters.cancel(query.number("filter"))
        return {}

    def matches(self, query: _RequestParameters) -> Any:
        first, count = max(0, query.number("first")), max(0, min(query.number("count"), _MAX_ROWS))
        return self._filters.matches(query.number("filter"), first, count)

    def thumbnail(self, query: _RequestParameters, record: int, field: int) -> Response:
        value = self._dataset.value(record, field, query.item)
        size = max(16, min(query.number("size"), _MAX_SIDE))
        try:
            with self._decoding:
                picture = thumbnail(value, size)
            kind = "image/png" if picture.startswith(b"\x89PNG") else "image/jpeg"
        except ValueError:
            picture, kind = _PAGE["broken.svg"].read_bytes(), "image/svg+xml"
        return Response(picture, media_type=kind)

    def value(self, query: _RequestParameters, record: int, field: int) -> Response:
        blob, kind, suffix = as_download(self._dataset.value(record, field, query.item))
        name = f"record-{record}-field-{field}.{suffix}"
        headers = {
            "content-disposition": f'attachment; filename="{name}"',
            "content-security-policy": _SANDBOX,
            "accept-ranges": "bytes",
        }
        asked = _RANGE.fullmatch(query.range)
        first, last = (int(asked[1]), min(int(asked[2] or len(blob)), len(blob) - 1)) if asked else (0, -1)
        if first > last:
            return Response(blob, media_type=kind, headers=headers)
        headers["content-range"] = f"bytes {first}-{last}/{len(blob)}"
        return Response(blob[first : last + 1], 206, media_type=kind, headers=headers)


class _RequestParameters:
    """The parameters of a request."""

    def __init__(self, request: Request) -> None:
        self._values = dict(request.query_params)
        self.range: str = request.headers.get("range", "")

    def text(self, name: str) -> str:
        return str(self._values.get(name) or "")

    def number(self, name: str) -> int:
        return int(self.text(name) or 0)

    def numbers(self, name: str, limit: int) -> list[int]:
        return [int(part) for part in self.text(name).split(",")[:limit] if part.isdecimal()]

    @property
    def item(self) -> int | None:
        return self.number("item") if self.text("item") else None


_Endpoint = Callable[[Request], Awaitable[Response]]


async def _file(request: Request) -> Response:
    path = _PAGE.get(request.path_params.get("name", "index.html"))
    if path is None:
        return Response("There is no such page.\n", 404)
    return Response(path.read_bytes(), media_type=_TYPES[path.suffix])


def _json(answer: Callable[[_RequestParameters], Any]) -> _Endpoint:
    """Return the endpoint that sends the result of a function, or its error, as JSON."""

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(_as_json, answer, _RequestParameters(request))

    return endpoint


def _as_json(answer: Callable[[_RequestParameters], Any], query: _RequestParameters) -> Response:
    try:
        found, status = answer(query), 200
    except Exception as error:  # the page shows it
        found, status = {"error": in_words(error)}, 422
    return Response(json.dumps(found, allow_nan=False), status, media_type="application/json")


def _bytes(answer: Callable[[_RequestParameters, int, int], Response]) -> _Endpoint:
    """Return the endpoint of a value of a record."""

    async def endpoint(request: Request) -> Response:
        place = request.path_params["record"], request.path_params["field"]
        return await run_in_threadpool(functools.partial(_or_text, answer, _RequestParameters(request), *place))

    return endpoint


def _or_text(
    answer: Callable[[_RequestParameters, int, int], Response], query: _RequestParameters, record: str, field: str
) -> Response:
    try:
        return answer(query, int(record), int(field))
    except Exception as error:  # the record or the picture cannot be shown
        return Response(in_words(error)["text"], 422, media_type="text/plain")
