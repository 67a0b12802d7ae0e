"""Reading behind HTTP, and S3 by each client: faults are survived or named, a fork works, so does no range."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

import dataformats
from dataformats.loaders import read_ahead
from dataformats.storage.remote import checked_requests, http_client, range_requests
from dataformats.storage.remote.versions import Versions
from tests.deep.remote.servers import S3_CLIENTS, RangeServer, counting_server, plain_server
from tests.waiting import LIMIT_S, in_fork

pytest.importorskip("aiohttp", reason="aiohttp is not installed")

N = 2000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("http") / "x.tfrecord"
    blob = np.random.default_rng(2).bytes(N + 1000)
    with dataformats.create(path) as writer:
        writer.extend(blob[i : i + 1000] for i in range(N))
    return path


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no file be compared with its server again after a second, and no batch request records of a late window."""
    monkeypatch.setattr(Versions, "is_due", False)
    monkeypatch.setattr(read_ahead, "_PATIENCE_S", LIMIT_S)


@pytest.fixture(params=["http", *S3_CLIENTS])
def server(request: pytest.FixtureRequest, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RangeServer]:
    monkeypatch.setattr(range_requests, "_WAITS_S", (0.01, 0.02, 0.05, 0.1))
    with RangeServer(path.read_bytes()).running() as server:
        if request.param != "http":
            pytest.importorskip(request.param, reason="the extra s3 is not installed")
            server.url = "s3://bucket/x.tfrecord"
            keys = {"endpoint_url": server.endpoint, "key": "x", "secret": "y"}
            server.options = {"storage_options": keys | S3_CLIENTS[request.param]}
        yield server


def opened(server: RangeServer, **options: Any) -> Any:
    return dataformats.open(server.url, format="tfrecord", payload="bytes", **server.options, **options)


@pytest.mark.parametrize("fault", ["503", "reset", "cut", "short"])
def test_transient_faults_lose_no_records(fault: str, server: RangeServer, path: Path) -> None:
    """Every fourth request fails, each range once; every record is read, by a loader, by iteration and alone."""
    expected = list(dataformats.open(path))
    failed: set[str] = set()

    def fails(number: int, asked: str) -> str | None:
        if number % 4 != 1 or asked in failed:
            return None
        failed.add(asked)
        return fault

    server.fault = fails
    source = opened(server)
    assert list(source) == expected
    assert list(source.read(range(0, N, 100))) == expected[::100]
    with dataformats.Loader(source, 100, shuffle="window", block_records=500, window_blocks=2) as loader:
        assert sorted(value for batch in loader for value in batch["value"]) == sorted(expected)
    assert failed


@pytest.mark.parametrize("fault", ["500", "503", "reset", "cut", "short"])
def test_permanent_faults_raise_the_url(fault: str, server: RangeServer) -> None:
    source = opened(server)
    len(source)
    server.ranges.clear()
    server.fault = lambda number, _: fault
    with pytest.raises((OSError, dataformats.FormatError), match=server.url):
        source.read([5])
    assert len(server.ranges) >= 4
    server.fault = lambda number, _: None
    assert len(source.read([5])) == 1


def test_a_body_without_end_is_read_up_to_the_range(server: RangeServer) -> None:
    source = opened(server)
    len(source)
    server.fault = lambda number, _: "endless"
    with pytest.raises(dataformats.FormatError, match=r"sent more bytes than requested: .*expected 1016 bytes, found"):
        source.read([5])
    assert server.n_sent < 2**26  # what buffers of the kernel and the clients take


@pytest.mark.parametrize("server", ["http"], indirect=True)
def test_an_answer_of_headers_without_end_is_given_up(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_requests, "_ANSWER_S", 0.2)
    source = opened(server)
    len(source)
    server.fault = lambda number, _: "continue"
    with pytest.raises(TimeoutError, match=server.url):
        source.read([5])


def test_a_long_page_is_no_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "_MAX_BYTES", 100)
    with plain_server(tmp_path) as url, pytest.raises(dataformats.FormatError, match="too long: expected at most 100"):
        dataformats.open(f"{url}/", format="tfrecord")


def test_a_refused_connection_is_no_missing_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is a broken one. The query of a URL is no glob."""
    monkeypatch.setattr(range_requests, "_WAITS_S", ())
    with RangeServer(b"").running() as server:
        server.head_status, server.fault = 500, lambda number, _: "reset"
        with pytest.raises(OSError, match=r"ClientOSError|Disconnected|reset"):
            dataformats.open(server.url)
    with pytest.raises(ConnectionRefusedError):
        dataformats.open(f"{server.url}?a=1")


def test_an_epoch_in_few_requests(server: RangeServer) -> None:
    source = opened(server)
    len(source)
    orders: list[tuple[Any, int]] = [(False, 6), ("window", 48)]
    for shuffle, most in orders:
        server.ranges.clear()
        with dataformats.Loader(source, 64, shuffle=shuffle) as loader:
            assert sum(len(batch["value"]) for batch in loader) == N
        assert len(server.ranges) <= most
        asked = [tuple(map(int, one.split("-"))) for one in server.ranges]
        assert sum(last - first + 1 for first, last in asked) <= 1.3 * len(server.data)


def test_a_changed_file(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    source = opened(server)
    len(source)
    monkeypatch.setattr(Versions, "is_due", True)
    server.version = 2
    with pytest.raises(dataformats.FormatError, match="replaced or changed"):
        source.read([5])


@pytest.mark.parametrize("compares", [True, False])
def test_an_answer_of_another_version(compares: bool, server: RangeServer) -> None:
    """No request tells it in time: the server is asked for the version once a second."""
    source = opened(server)
    expected = list(source.read([5, 3]))
    server.version, server.compares = 2, compares
    server.data = server.data[::-1]
    found = "Precondition Failed" if compares else 'ETag "2"'
    with pytest.raises(
        dataformats.FormatError, match=f'replaced or changed.*expected ETag "1", found.*{found}'
    ) as caught:
        source.read([7])
    assert caught.value.path == server.url
    server.version, server.data = 1, server.data[::-1]
    assert list(source.read([5, 3])) == expected


def test_an_answer_of_another_range(server: RangeServer) -> None:
    source = opened(server)
    len(source)
    server.fault = lambda number, _: "shift"
    with pytest.raises(
        dataformats.FormatError, match=r"expected Content-Range bytes \d+-.*found Content-Range"
    ) as caught:
        source.read([7])
    assert caught.value.path == server.url
    assert f"bytes {caught.value.offset_bytes}-" in str(caught.value.expected)
    assert "simplecache::" in str(caught.value)


def test_an_answer_of_the_whole_file(server: RangeServer) -> None:
    source = opened(server)
    len(source)
    server.fault = lambda number, _: "200"
    with pytest.raises(dataformats.FormatError, match=r"does not support range requests|ends early"):
        source.read([7])


def test_missing_and_refused(server: RangeServer) -> None:
    with pytest.raises(FileNotFoundError, match=r"y\.tfrecord"):
        dataformats.open(server.url.replace("/x.", "/y."), **server.options)
    source = opened(server)
    len(source)
    server.fault = lambda number, _: "403"
    with pytest.raises(PermissionError, match=r"Authorization|AWS_ACCESS_KEY_ID") as caught:
        source.read([7])
    assert caught.value.filename == server.url


def test_errors_of_the_first_request(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that fails is no missing file: fsspec says so."""
    for status, error in (("404", FileNotFoundError), ("403", PermissionError), ("503", OSError)):
        monkeypatch.setattr(server, "fault", lambda number, _, status=status: status)
        server.head_status = int(status)
        with pytest.raises(OSError, match=server.url) as caught:
            opened(server)
        assert type(caught.value) is error
    with pytest.raises(OSError, match=r"127\.0\.0\.1:9/x") as caught:
        dataformats.open("http://127.0.0.1:9/x")
    assert not isinstance(caught.value, FileNotFoundError)


def test_a_forked_child_reads(server: RangeServer) -> None:
    """A child opens its own file system: the parent's has a thread that the child lacks."""
    source = opened(server)
    expected = list(source.read([3, 1]))
    assert in_fork(lambda: list(source.read([3, 1]))) == expected
    assert list(source.read([3, 1])) == expected


def test_a_disk_cache_serves_the_second_epoch(server: RangeServer, tmp_path: Path) -> None:
    for requests in (True, False):
        server.ranges.clear()
        source = opened(server, cache=f"disk:{tmp_path}")
        with dataformats.Loader(source, 64) as loader:
            assert sum(len(batch["value"]) for batch in loader) == N
        assert any(server.ranges) == requests


SUFFIXES = {"tfrecord": ".tfrecord", "ofrecord": ".ofrecord", "ffrecord": ".ffr", "syrah": ".syr"}


@pytest.mark.parametrize("format", SUFFIXES)
def test_opening_in_few_requests(format: str, tmp_path: Path) -> None:
    name = f"x{SUFFIXES[format]}"
    with dataformats.create(tmp_path / name, format, spec={"n": "int64"}) as writer:
        writer.extend({"n": i} for i in range(N))
    Path(f"{tmp_path / name}.dataformats.json").unlink(missing_ok=True)
    with counting_server(tmp_path) as (url, log):
        source = dataformats.open(f"{url}/{name}")
        assert len(log) <= 8
        log.clear()
        dataformats.open(f"{url}/{name}", format=format, payload=source.payload, spec=source.spec)
        assert len(log) <= 3
        assert len(dataformats.open(f"{url}/*{SUFFIXES[format]}")) == N


def test_quoted_names_in_urls_are_found(tmp_path: Path) -> None:
    """The sidecar lists them unquoted; a query belongs to no name, and goes to the sidecar, too."""
    name = "a b#c%20d?é"
    for format, shards in (("tfrecord", 50), ("granular", None)):
        with dataformats.create(
            tmp_path / f"{name}-{format}", format, spec={"n": "int64"}, shard_records=shards
        ) as writer:
            writer.extend({"n": i} for i in range(100))
    with dataformats.create(tmp_path / "x.tfrecord", spec={"n": "int64"}) as writer:
        writer.extend({"n": i} for i in range(100))
    with counting_server(tmp_path) as (url, log):
        for path in (
            f"{quote(name)}-tfrecord/",
            f"{quote(name)}-granular/",
            "x.tfrecord?download=1",
            "x.tfrecord#here",
        ):
            assert dataformats.open(f"{url}/{path}").read([7, 99])["n"].tolist() == [7, 99]
        assert ("GET /x.tfrecord.dataformats.json?download=1", 0) in [(asked, 0) for asked, _ in log]


def test_a_folder_is_a_page_of_links(path: Path) -> None:
    with plain_server(path.parent) as url, pytest.raises(dataformats.FormatError, match="range requests"):
        dataformats.open(f"{url}/")  # it finds the file


def test_a_server_without_ranges(path: Path) -> None:
    with plain_server(path.parent) as url:
        with pytest.raises(dataformats.FormatError, match="does not support range requests") as caught:
            dataformats.open(f"{url}/x.tfrecord")
        assert caught.value.path == f"{url}/x.tfrecord"
        assert "simplecache::" in str(caught.value)
        assert len(dataformats.open(f"simplecache::{url}/x.tfrecord")) == N
