"""The answers of the viewer: its page, facts, records, pictures, statistics, filters, sorts and downloads."""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route

from dataformats.display.cells import DETAIL, TABLE, as_download
from dataformats.display.media import thumbnail
from dataformats.inspecting.comparison import LISTED
from dataformats.viewer.comparison import ViewedComparison
from dataformats.viewer.dataset import ViewedDataset, in_words
from dataformats.viewer.downloads import Download
from dataformats.viewer.field_scan import FieldScan
from dataformats.viewer.filters import Filter
from dataformats.viewer.guard import Guard
from dataformats.viewer.recent import Recent
from dataformats.viewer.run import ViewedRun
from dataformats.viewer.snippets import Snippets
from dataformats.viewer.sorts import Sort

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_PAGE = {path.name: path for path in (Path(__file__).parent / "static").iterdir() if path.suffix in _TYPES}
_MAX_ROWS, _MAX_FIELDS, _MAX_CONDITION = 500, 200, 10_000
_MAX_SIDE = 1024  # the largest side of a thumbnail
_DOWNLOADS = 2  # at once
_DECODERS = 2  # threads that make thumbnails, each in up to 128 MiB
_WAIT = 0.3  # seconds for an index that is there already
_SANDBOX = "default-src 'none'; sandbox"
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


def viewer_app(dataset: ViewedDataset, token: str, run: ViewedRun | None = None) -> Guard:
    """Return the ASGI application that shows a dataset, and the steps of a run, to requests with this token."""
    return Guard(Starlette(routes=_routes(dataset, run)), token)


def comparison_app(first: ViewedDataset, second: ViewedDataset, token: str) -> Guard:
    """Return the ASGI application that shows where two datasets differ, and each of them."""
    comparison = ViewedComparison(first, second)

    def answer(query: _RequestParameters) -> Any:
        return comparison.snapshot(max(0, query.number("first")), max(0, min(query.number("count"), LISTED)))

    routes = [
        Route("/", functools.partial(_file, name="compare.html")),
        Route("/static/{name}", _file),
        Route("/api/comparison", _json(answer)),
        Mount("/first", routes=_routes(first, None)),
        Mount("/second", routes=_routes(second, None)),
    ]
    return Guard(Starlette(routes=routes), token)


def _routes(dataset: ViewedDataset, run: ViewedRun | None) -> list[Route]:
    answers = _Answers(dataset, run)
    return [
        Route("/", _file),
        Route("/static/{name}", _file),
        Route("/api/dataset", _json(answers.dataset)),
        Route("/api/records", _json(answers.records)),
        Route("/api/statistics", _json(answers.statistics)),
        Route("/api/statistics", _json(answers.control_statistics), methods=["POST"]),
        Route("/api/filter", _json(answers.matches)),
        Route("/api/filter", _json(answers.filter), methods=["POST"]),
        Route("/api/filter", _json(answers.cancel_filter), methods=["DELETE"]),
        Route("/api/sort", _json(answers.sorted)),
        Route("/api/sort", _json(answers.sort), methods=["POST"]),
        Route("/api/sort", _json(answers.cancel_sort), methods=["DELETE"]),
        Route("/api/snippets", _json(answers.snippets)),
        Route("/api/download", _json(answers.downloaded)),
        Route("/api/download", _json(answers.start_download), methods=["POST"]),
        Route("/api/step", _json(answers.step)),
        Route("/api/open", _json(answers.open_again), methods=["POST"]),
        Route("/thumbnail/{record}/{field}", _bytes(answers.thumbnail)),
        Route("/value/{record}/{field}", _bytes(answers.value)),
        Route("/download/{number}", _bytes(answers.download)),
    ]


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
        self._filters: Recent[Filter] = Recent("filter")
        self._sorts: Recent[Sort] = Recent("sort")
        self._downloads: Recent[Download] = Recent("download")

    def open_again(self, query: _RequestParameters) -> Any:
        opened = self._dataset.opened_again()
        for tasks in (self._scan, self._filters, self._sorts, self._downloads):
            tasks.stop()
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
        return {"filter": self._filters.add(Filter(self._dataset, self._condition(query)))}

    def _condition(self, query: _RequestParameters) -> str:
        condition = query.text("condition")
        if len(condition) > _MAX_CONDITION:
            raise ValueError(f"expected a condition of at most {_MAX_CONDITION} characters, found {len(condition)}")
        return condition

    def cancel_filter(self, query: _RequestParameters) -> Any:
        self._filters.cancel(query.number("filter"))
        return {}

    def matches(self, query: _RequestParameters) -> Any:
        return self._filters[query.number("filter")].matches(*_part(query))

    def sort(self, query: _RequestParameters) -> Any:
        found = self._filters[query.number("filter")] if query.text("filter") else None
        return {"sort": self._sorts.add(Sort(self._dataset, query.number("field"), found))}

    def cancel_sort(self, query: _RequestParameters) -> Any:
        self._sorts.cancel(query.number("sort"))
        return {}

    def sorted(self, query: _RequestParameters) -> Any:
        return self._sorts[query.number("sort")].matches(*_part(query), descending=bool(query.text("descending")))

    def snippets(self, query: _RequestParameters) -> Any:
        numbers = query.all_numbers("numbers", _MAX_ROWS)
        fields = [self._dataset.fields[field] for field in self._fields(query)]
        if not fields:
            raise ValueError("no field is shown: choose some")
        sort = self._dataset.fields[query.number("sort")] if query.text("sort") else None
        chosen = Snippets(self._dataset, fields, self._condition(query), numbers, sort, bool(query.text("descending")))
        return {name: _text_or_error(getattr(chosen, name)) for name in ("python", "sql", "command", "conversion")}

    def start_download(self, query: _RequestParameters) -> Any:
        if [one.state for one in self._downloads.all()].count("running") >= _DOWNLOADS:
            raise ValueError(f"{_DOWNLOADS} downloads run: cancel one of them, or wait for its end")
        made = Download(self._dataset, query.text("kind"), self._fields(query), self._records(query))
        return {"download": self._downloads.add(made)}

    def _records(self, query: _RequestParameters) -> NDArray[np.integer[Any]] | None:
        """Return the records of a list, a sort or a filter; `None` is all."""
        if query.text("numbers"):
            return np.array(query.all_numbers("numbers", _MAX_ROWS), np.int64)
        if query.text("sort"):
            return self._sorts[query.number("sort")].order(bool(query.text("descending")))
        if not query.text("filter"):
            return None
        found = self._filters[query.number("filter")].all_matches(0)
        if found is None:
            raise ValueError("the filter still runs: wait for its end")
        return found

    def downloaded(self, query: _RequestParameters) -> Any:
        return self._downloads[query.number("download")].snapshot()

    def download(self, query: _RequestParameters, number: int) -> Response:
        made = self._downloads[number]
        headers = {
            "content-disposition": f'attachment; filename="records.{made.kind}"',
            "content-security-policy": _SANDBOX,
        }
        return _File(made.chunks(), headers)

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

    def all_numbers(self, name: str, limit: int) -> list[int]:
        """Return numbers that are of no use in part."""
        numbers = self.numbers(name, limit + 1)
        if len(numbers) > limit:
            raise ValueError(f"expected at most {limit} records of a list, found more: use a filter")
        return numbers

    @property
    def item(self) -> int | None:
        return self.number("item") if self.text("item") else None


_Endpoint = Callable[[Request], Awaitable[Response]]


async def _file(request: Request, name: str = "index.html") -> Response:
    path = _PAGE.get(request.path_params.get("name", name))
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


def _bytes(answer: Callable[..., Response]) -> _Endpoint:
    """Return the endpoint of a value of a record, or of a file; the numbers in its path are arguments."""

    async def endpoint(request: Request) -> Response:
        place = request.path_params.values()
        return await run_in_threadpool(functools.partial(_or_text, answer, _RequestParameters(request), *place))

    return endpoint


class _File(StreamingResponse):
    """A file that is made while the browser takes it. It ends early after an error, which the download reports."""

    def __init__(self, chunks: Generator[bytes], headers: dict[str, str]) -> None:
        super().__init__(chunks, headers=headers, media_type="application/octet-stream")
        self._chunks = chunks

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        with suppress(Exception), closing(self._chunks):  # also if the browser goes away
            await super().__call__(scope, receive, send)


def _part(query: _RequestParameters) -> tuple[int, int]:
    """Return the first one and the number of the records that a page shows."""
    return max(0, query.number("first")), max(0, min(query.number("count"), _MAX_ROWS))


def _text_or_error(text: Callable[[], str]) -> Any:
    try:
        return {"text": text()}
    except ValueError as error:
        return {"error": str(error)}


def _or_text(answer: Callable[..., Response], query: _RequestParameters, *place: str) -> Response:
    try:
        return answer(query, *map(int, place))
    except Exception as error:  # the record or the picture cannot be shown
        return Response(in_words(error)["text"], 422, media_type="text/plain")
