"""Secrets of URLs stand in no output, and headers with secrets go to no other host."""

from __future__ import annotations

import json
import logging
import pickle
import threading
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.cli import main
from dataformats.display.json_values import as_json
from dataformats.storage.remote.versions import Versions
from dataformats.viewer.card import export_card
from dataformats.viewer.dataset import ViewedDataset
from dataformats.viewer.snippets import Snippets
from tests.deep.remote.servers import counting_server

pytest.importorskip("aiohttp", reason="aiohttp is not installed")

SECRETS = ("hunter2", "S3CRET", "SIGNED", "%2BPLUS")
QUERY = "?token=S3CRET/x&X-Amz-Signature=SIGNED%2BPLUS"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("a", "b", "damaged"):
        with dataformats.create(folder / f"{name}.tfrecord", spec={"label": "int64", "text": "utf8"}) as writer:
            writer.extend({"label": i, "text": f"record {i}"} for i in range(40))
    (folder / "other.jsonl").write_text('{"label": 1}\n')
    data = bytearray((folder / "damaged.tfrecord").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "damaged.tfrecord").write_bytes(data)
    return folder


@pytest.fixture
def url(folder: Path) -> Iterator[Callable[[str], str]]:
    """A function that returns the URL of a file, with secrets."""
    with counting_server(folder) as (server, _):
        yield lambda name: f"{server.replace('://', '://user:hunter2@')}/{name}{QUERY}"


def check(text: str) -> None:
    found = [secret for secret in SECRETS if secret in text]
    assert not found, text


def check_error(error: BaseException) -> None:
    """Check the error, its attributes, notes, pickle and all errors in its chain."""
    check("".join(traceback.format_exception(error)))
    at: BaseException | None = error
    while at is not None:
        check(f"{at} {at!r} {at.args} {vars(at)} {getattr(at, 'filename', '')}")
        at = at.__cause__ or at.__context__
    check(repr(pickle.dumps(error)))


def calls_of(url: Callable[[str], str], out: Path) -> dict[str, Callable[[], Any]]:
    """Return calls of public functions."""
    sound, damaged, missing = url("a.tfrecord"), url("damaged.tfrecord"), url("missing.tfrecord")
    return {
        "read": lambda: [(src := dataformats.open(sound)), src.paths, src.facts, src.origins([3]), src[3]],
        "html": lambda: dataformats.open(damaged).view(9)._repr_html_(),
        "list": lambda: dataformats.open([sound, url("b.tfrecord")]).paths,
        "fingerprint": lambda: dataformats.open(sound).fingerprint,
        "info": lambda: dataformats.info(damaged).to_json(),
        "verify": lambda: dataformats.verify(damaged).to_json(),
        "verify each": lambda: dataformats.verify([damaged, url("other.jsonl")]).to_json(),
        "doctor": lambda: dataformats.doctor(damaged).to_json(),
        "diff": lambda: dataformats.diff(sound, damaged).to_json(),
        "stats": lambda: dataformats.open(sound).stats(),
        "convert": lambda: dataformats.convert(sound, out / "new.jsonl"),
        "merge": lambda: dataformats.merge([sound, sound], out / "merged.tfrecord"),
        "convert damaged": lambda: dataformats.convert(damaged, out / "bad.jsonl"),
        "omit": lambda: dataformats.convert(damaged, out / "omitted.jsonl", on_corrupt="omit"),
        "repair": lambda: dataformats.repair(damaged, out / "repaired.tfrecord"),
        "join": lambda: dataformats.zip([dataformats.open(sound), dataformats.open(url("b.tfrecord"))]),
        "read damaged": lambda: list(dataformats.open(damaged)),
        "missing": lambda: dataformats.open(missing),
        "missing in a list": lambda: dataformats.open([sound, missing]),
        "no match": lambda: dataformats.open(url("x-*.tfrecord")),
        "no folder": lambda: dataformats.open(url("nothing/")),
        "refused": lambda: dataformats.open(sound.replace("127.0.0.1", "127.0.0.2")),
        "no such host": lambda: dataformats.open(sound.replace("127.0.0.1", "no.such.invalid")),
        "no scheme": lambda: dataformats.open(sound.replace("http", "htpp")),
        "chained": lambda: dataformats.open(f"zip://x.tfrecord::{missing}"),
        "copied": lambda: dataformats.open(f"simplecache::{missing}"),
        "other format": lambda: dataformats.open(sound, format="ffrecord")[0],
        "write": lambda: dataformats.create(sound, "tfrecord").append(b""),
        "overwrite": lambda: dataformats.convert(out / "a.jsonl", sound, overwrite=True),
        "viewer": lambda: _viewed(sound),
        "card": lambda: _card(damaged, out / "card"),
    }


def _viewed(url: str) -> list[Any]:
    dataset = ViewedDataset(url)
    assert dataset.wait(60)
    copied = Snippets(dataset, dataset.fields[:1], "label > 3")
    return [dataset.facts(), copied.python(), copied.sql(), copied.command(), copied.conversion()]


def _card(url: str, folder: Path) -> str:
    export_card(ViewedDataset(url), folder, 9)
    return (folder / "index.html").read_text()


def test_secrets_of_urls_stand_in_no_output(
    url: Callable[[str], str], tmp_path: Path, caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG, "dataformats")
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))
    out = tmp_path / "out"
    out.mkdir()
    raised = set()
    for name, call in calls_of(url, out).items():
        try:
            answer = call()
        except Exception as error:
            raised.add(name)
            check_error(error)
        else:
            check(f"{name}: {answer!r} {answer} {json.dumps(as_json(answer) if isinstance(answer, dict) else '')}")
    assert {"missing", "read damaged", "no match", "refused", "chained", "convert damaged"} <= raised
    assert not raised & {"read", "list", "info", "verify", "verify each", "doctor", "convert", "viewer", "card"}
    for path in (path for folder in (out, tmp_path / "cache") for path in folder.rglob("*") if path.is_file()):
        check(f"{path} {path.read_bytes()!r}")
    for command in ("info", "verify", "doctor"):
        for name in ("damaged.tfrecord", "missing.tfrecord"):
            with pytest.raises(SystemExit):
                main([command, url(name)])
    printed = capsys.readouterr()
    check(printed.out + printed.err)
    check(caplog.text)


def test_state_and_changed_file_have_no_secret(
    url: Callable[[str], str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = dataformats.open(url("a.tfrecord"))
    with dataformats.Loader(source, 4, shuffle="window") as loader:
        next(iter(loader))
        check(json.dumps(loader.state_dict()) + repr(loader))
    assert list(pickle.loads(pickle.dumps(source))) == list(source)  # a worker process opens the URL
    monkeypatch.setattr(Versions, "is_due", True)
    (folder / "a.tfrecord").write_bytes((folder / "b.tfrecord").read_bytes() * 2)
    with pytest.raises(dataformats.FormatError, match="replaced or changed") as caught:
        source.read([20])
    check_error(caught.value)


class _Redirecting(BaseHTTPRequestHandler):
    """Redirects all requests to `target`, or answers 404; keeps their headers."""

    target = ""
    headers_seen: list[dict[str, str]]

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.headers_seen.append({name.lower(): value for name, value in self.headers.items()})
        self.send_response(302 if self.target else 404)
        self.send_header("Location", self.target)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_HEAD(self) -> None:
        self.do_GET()


def _server(target: str) -> tuple[Any, str]:
    kind = type("Handler", (_Redirecting,), {"target": target, "headers_seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}/x.tfrecord"


def test_headers_do_not_follow_a_redirect_to_another_host() -> None:
    other, to = _server("")
    first, url = _server(to)
    options = {"headers": {"Authorization": "Bearer S3CRET", "X-Api-Key": "S3CRET", "Cookie": "id=S3CRET"}}
    with other, first, pytest.raises(FileNotFoundError):
        dataformats.open(url, storage_options=options)
    seen = other.RequestHandlerClass.headers_seen
    assert all(one["x-api-key"] == "S3CRET" for one in first.RequestHandlerClass.headers_seen)
    assert seen
    check(repr(seen))
    for server in (other, first):
        server.shutdown()


def test_a_redirect_to_a_local_file_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "x.tfrecord").write_bytes(b"")
    server, url = _server(f"file://{tmp_path}/x.tfrecord")
    with server, pytest.raises(OSError, match=r"the server redirects to 'file://.*expected a URL of http"):
        dataformats.open(url, format="tfrecord")
    assert len(server.RequestHandlerClass.headers_seen) <= 4
    server.shutdown()
