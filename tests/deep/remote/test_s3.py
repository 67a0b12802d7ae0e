"""Reading and writing S3, as moto implements it: requests are counted in its log."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.loaders import read_ahead
from dataformats.storage.remote.checked_requests import RangeRequest
from dataformats.storage.remote.versions import Versions
from tests.deep.remote import s3_server
from tests.waiting import LIMIT_S, in_fork, wait_until

s3fs = pytest.importorskip("s3fs", reason="the extra s3 is not installed")
pytestmark = pytest.mark.skipif(s3_server.why_not() is not None, reason=str(s3_server.why_not()))

N, SPEC = 20_000, {"data": "bytes", "number": "int64"}
DECLARED: dict[str, Any] = {"format": "ofrecord", "payload": "ofrecord", "spec": SPEC}


class Server:
    """A moto server, its log, and the `storage_options` for it."""

    def __init__(self, port: int, log: Path) -> None:
        self.options = {"endpoint_url": f"http://127.0.0.1:{port}", "key": "x", "secret": "y"}
        self._log = log
        self._read = 0

    def requests(self) -> list[str]:
        """Return the method and the path of each request since the last call: the server logs it before it answers."""
        wait_until(lambda: "dataformats-ahead" not in [thread.name for thread in threading.enumerate()])
        text = self._log.read_text()
        lines, self._read = text[self._read :], len(text)
        return re.findall(r'"(?:\x1b\[\d+m)*([A-Z]+ \S+) HTTP', lines)

    def system(self) -> Any:
        return s3fs.S3FileSystem(**self.options, skip_instance_cache=True, use_listings_cache=False)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("moto") / "log"
    with s3_server.moto_server(log) as moto:
        yield Server(moto.port, log)


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no file be compared with its server again after a second, and no batch request records of a late window."""
    monkeypatch.setattr(Versions, "is_due", False)
    monkeypatch.setattr(read_ahead, "_PATIENCE_S", LIMIT_S)


@pytest.fixture(scope="module")
def url(server: Server) -> str:
    """20,000 records of 1 KB in one file, without a sidecar."""
    blob = np.random.default_rng(1).bytes(N + 1000)
    with dataformats.create("s3://bucket/read/x.ofrecord", spec=SPEC, storage_options=server.options) as writer:
        writer.extend({"data": blob[i : i + 1000], "number": i} for i in range(N))
    server.system().rm_file("bucket/read/x.ofrecord.dataformats.json")
    return "s3://bucket/read/x.ofrecord"


def test_opening(server: Server, url: str) -> None:
    dataformats.open(url, storage_options=server.options, **DECLARED)
    server.requests()
    dataformats.open(url, storage_options=server.options, **DECLARED)
    assert len(server.requests()) <= 3
    dataformats.open(url, storage_options=server.options)
    assert len(server.requests()) <= 8


def test_epochs(server: Server, url: str) -> None:
    source = dataformats.open(url, storage_options=server.options, **DECLARED)
    assert len(source) == N
    orders: list[tuple[Any, int]] = [(False, 40), ("window", 120)]
    for shuffle, most in orders:
        server.requests()
        with dataformats.Loader(source, 64, shuffle=shuffle) as loader:
            assert sum(len(batch["number"]) for batch in loader) == N
        found = [request for request in server.requests() if request.startswith("GET")]
        assert len(found) <= most
    assert source.read(np.arange(64) * 300)["number"].tolist() == list(range(0, 64 * 300, 300))
    assert len(server.requests()) <= 65


@pytest.mark.parametrize("generation", [2, 3])
def test_opening_granular(generation: int, server: Server) -> None:
    url = f"s3://bucket/opened/{generation}"
    with dataformats.create(url, "granular", spec=SPEC, generation=generation, storage_options=server.options) as out:
        out.extend({"data": b"x", "number": i} for i in range(20))
    server.requests()
    source = dataformats.open(url, format="granular", spec=SPEC, storage_options=server.options)
    assert len(server.requests()) <= 3
    assert source[19]["number"] == 19


@pytest.mark.parametrize(("format", "shards"), [("granular", None), ("granular", 7), ("tfrecord", 7), ("syrah", None)])
def test_writing(format: str, shards: int | None, server: Server) -> None:
    url = f"s3://bucket/{format}-{shards}"
    for first in (0, 100):
        server.requests()
        options: dict[str, Any] = {"overwrite": first > 0, "shard_records": shards, "storage_options": server.options}
        with dataformats.create(url, format, spec=SPEC, **options) as writer:
            writer.extend({"data": b"x" * i, "number": first + i} for i in range(1, 21))
        sent = [request for request in server.requests() if request.startswith("PUT")]
        assert sent[0].endswith(".dataformats.json") or ".partial" in sent[0]
        source = dataformats.open(url, storage_options=server.options)
        assert [record["number"] for record in source] == list(range(first + 1, first + 21))
    names = server.system().find(f"bucket/{format}-{shards}")
    assert not [name for name in names if ".partial" in name]


def test_folder_marker_objects_are_ignored(server: Server) -> None:
    """The consoles of object stores create such objects: they are not data, and do not disturb writers."""
    url = "s3://bucket/made-by-hand"
    for first in (0, 100):
        for name in ("", "sub/", "000000/"):
            server.system().call_s3("put_object", Bucket="bucket", Key=f"made-by-hand/{name}", Body=b"")
        with dataformats.create(
            url, "tfrecord", spec=SPEC, shard_records=7, overwrite=True, storage_options=server.options
        ) as writer:
            writer.extend({"data": b"x", "number": first + i} for i in range(20))
        assert dataformats.open(url, storage_options=server.options)[19]["number"] == first + 19


def test_converting_from_and_to(server: Server, tmp_path: Path) -> None:
    """A folder of images and one of tables, behind a URL, become shards behind a URL."""
    image_module = pytest.importorskip("PIL.Image")
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra arrow is not installed")
    for number in range(20):
        path = tmp_path / "photos" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image_module.new("RGB", (30, 30), (number, 0, 0)).save(path)
    photos = tmp_path / "photos.ffr"
    dataformats.convert(tmp_path / "photos", photos)
    written = {one["path"]: (tmp_path / "photos" / one["path"]).read_bytes() for one in dataformats.open(photos)}
    (tmp_path / "tables").mkdir()
    parquet.write_table(dataformats.open(photos).to_arrow(), tmp_path / "tables" / "0.parquet")
    for name in ("photos", "tables"):
        server.system().put(f"{tmp_path}/{name}", "bucket/import/", recursive=True)
        server.requests()
        report = dataformats.convert(
            f"s3://bucket/import/{name}",
            f"s3://bucket/imported-{name}",
            "tfrecord",
            shard_records=10,
            source_options={"storage_options": server.options},
            storage_options=server.options,
        )
        requests = server.requests()
        assert (report.records, report.files) == (20, 2)
        assert sum(request.startswith("GET /bucket/import/") for request in requests) <= 60  # fingerprint, try, copy
        found = dataformats.open(f"s3://bucket/imported-{name}", storage_options=server.options)
        files = found.with_spec({**found.spec, "image": "bytes"})
        assert {record["path"]: record["image"] for record in files} == written


def test_errors(server: Server, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in ("s3://bucket/none.tfrecord", "s3://no-bucket/x.tfrecord"):
        with pytest.raises(FileNotFoundError, match=missing):
            dataformats.open(missing, storage_options=server.options)
    with pytest.raises(FileNotFoundError, match="no-bucket"):
        dataformats.create("s3://no-bucket/x.tfrecord", storage_options=server.options).close()
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/none")
    for use in (dataformats.open, dataformats.create):
        with pytest.raises(PermissionError, match="AWS_ACCESS_KEY_ID"):
            use(url, storage_options={"endpoint_url": server.options["endpoint_url"]})


@pytest.mark.parametrize("condition", [True, False])
def test_an_object_replaced_within_a_second(condition: bool, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store compares the ETag with `If-Match`; of one that does not, the answer is compared."""
    if not condition:
        monkeypatch.setattr(RangeRequest, "condition", None)
    url = f"s3://bucket/replaced-{condition}.syr"
    blob = np.random.default_rng(1).bytes(9_000)

    def write(first: int) -> None:
        with dataformats.create(url, spec=SPEC, overwrite=True, storage_options=server.options) as writer:
            writer.extend({"data": blob * 8, "number": first + i} for i in range(20))

    write(0)
    source = dataformats.open(url, storage_options=server.options)
    assert source[3]["number"] == 3
    write(1_000)
    expected = 'ETag "[0-9a-f]+"'
    found = "Precondition Failed" if condition else expected
    with pytest.raises(
        dataformats.FormatError, match=f"replaced or changed.*expected {expected}, found {found}"
    ) as caught:
        source.read([15, 17])
    assert caught.value.path == url


def test_a_forked_child_reads(server: Server, url: str) -> None:
    source = dataformats.open(url, storage_options=server.options, **DECLARED)
    assert source.read([3, 1])["number"].tolist() == [3, 1]
    assert in_fork(lambda: source.read([3, 1])["number"].tolist()) == [3, 1]
