"""Buckets that are missing or refuse writes: `create` raises, and no built data are lost."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.storage.remote import range_requests
from tests.deep.remote import s3_server
from tests.deep.remote.kills.faults import UNTIL_LIFTED, Action, Fault
from tests.deep.remote.kills.proxy_client import ProxyClient
from tests.deep.remote.s3_server import S3Server, moto_server

pytest.importorskip("s3fs", reason="the extra s3 is not installed")
pytestmark = pytest.mark.skipif(s3_server.why_not() is not None, reason=str(s3_server.why_not()))

SPEC = {"n": "int64"}
RECORDS = [{"n": n} for n in range(10)]
DENY = Fault(1, Action.DENY, UNTIL_LIFTED)
WRITERS: dict[str, dict[str, Any]] = {
    "file": {"format": "tfrecord"},
    "bag": {"format": "granular"},
    "shards": {"format": "tfrecord", "shard_records": 4},
    "append": {"format": "tfrecord", "shard_records": 4, "append": True},
    "resume": {"format": "tfrecord", "shard_records": 4, "resume": True},
    "overwrite": {"format": "tfrecord", "shard_records": 4, "overwrite": True},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with moto_server(tmp_path_factory.mktemp("moto") / "log") as server:
        yield server


@pytest.fixture
def proxy(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProxyClient]:
    monkeypatch.setattr(range_requests, "_WAITS_S", (0.01, 0.01, 0.02, 0.02))
    server.reset()
    with ProxyClient(server.port) as proxy:
        proxy.start("healthy", 0)
        proxy.start("denied", 0, DENY)
        yield proxy


def options(proxy: ProxyClient, name: str) -> dict[str, Any]:
    return {"endpoint_url": proxy.url, "key": name, "secret": "y", "skip_instance_cache": True}


@pytest.mark.parametrize("case", WRITERS)
def test_missing_bucket_is_an_error_before_the_first_record(case: str, proxy: ProxyClient) -> None:
    chosen = options(proxy, "healthy")
    with pytest.raises(FileNotFoundError, match="no-bucket"):
        dataformats.create("s3://no-bucket/data", spec=SPEC, storage_options=chosen, **WRITERS[case]).abort()


@pytest.mark.parametrize("case", WRITERS)
def test_refused_bucket_is_an_error_before_the_first_record(case: str, proxy: ProxyClient, server: S3Server) -> None:
    chosen = options(proxy, "denied")
    with pytest.raises(PermissionError, match="s3://bucket/data"):
        dataformats.create("s3://bucket/data", spec=SPEC, storage_options=chosen, **WRITERS[case]).abort()
    assert server.etags() == {}


@pytest.mark.parametrize("case", ["file", "bag", "shards"])
def test_failed_upload_keeps_the_data_and_close_sends_them_again(
    case: str, proxy: ProxyClient, server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    chosen = options(proxy, "healthy")
    writer = dataformats.create("s3://bucket/data", spec=SPEC, storage_options=chosen, **WRITERS[case])
    writer.extend(RECORDS)
    proxy.start("healthy", 0, DENY)
    with pytest.raises(PermissionError) as caught:
        writer.close()
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    named = [path for path in re.findall(rf"{re.escape(str(tmp_path))}[^\s'\",;:]*", text) if os.path.exists(path)]
    assert named, text
    proxy.start("healthy", 0)
    writer.close()
    source = dataformats.open("s3://bucket/data", storage_options=chosen)
    assert list(source) == RECORDS
    assert not [name for name in os.listdir(tmp_path) if name.startswith("dataformats")]
    assert not [name for name in server.etags() if ".partial" in name]


@pytest.mark.parametrize("case", ["file", "bag", "shards"])
def test_aborted_writer_leaves_nothing(case: str, proxy: ProxyClient, server: S3Server) -> None:
    writer = dataformats.create(
        "s3://bucket/data", spec=SPEC, storage_options=options(proxy, "healthy"), **WRITERS[case]
    )
    writer.extend(RECORDS)
    writer.abort()
    assert server.etags() == {}
