"""S3 through obstore: the same files, descriptions and errors as through s3fs, which does all that obstore cannot."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.storage.paths import resolve
from dataformats.storage.remote.checked_requests import RangeRequest
from dataformats.storage.remote.files import FsspecFile
from dataformats.storage.remote.range_requests import get_ranges
from dataformats.storage.remote.s3_reader import S3Reader, reader_of
from dataformats.storage.remote.versions import identity_of
from tests.deep.remote import s3_server
from tests.deep.remote.servers import S3_CLIENTS, RangeServer
from tests.storage.test_fork_hooks import exit_code_of_child

pytest.importorskip("obstore", reason="the extra s3 is not installed")
s3fs = pytest.importorskip("s3fs", reason="the extra s3 is not installed")
needs_moto = pytest.mark.skipif(s3_server.why_not() is not None, reason=str(s3_server.why_not()))

KEYS = ["plain.tfrecord", "sp ace", "a%20b", "hash#x", "star*", "bra{ce}", "ti~lde", "ü.x", "back\\slash", "a[1]"]
KEYS += ["a=1/b+c", "amp&<>\"'", "at@:,;!$()|^`", "sub/x", "sub/y/z", "folder/", "empty"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3_server.S3Server]:
    with s3_server.moto_server(tmp_path_factory.mktemp("moto") / "log") as moto:
        moto.reset({f"d/{key}": b"" if key in ("folder/", "empty") else f"content of {key}".encode() for key in KEYS})
        yield moto


def options_of(port: int) -> dict[str, Any]:
    return {"endpoint_url": f"http://127.0.0.1:{port}", "key": "x", "secret": "y"}


def reader_at(port: int) -> S3Reader:
    found = reader_of("s3://bucket/d", options_of(port))
    assert found is not None
    return found[0]


@needs_moto
def test_descriptions_equal_s3fs(server: s3_server.S3Server) -> None:
    ours, theirs = reader_at(server.port), s3fs.S3FileSystem(**options_of(server.port), use_listings_cache=False)

    def described(entries: Any) -> dict[str, Any]:
        return {entry["name"]: (entry["type"], identity_of(entry)) for entry in entries if entry["name"] != "bucket/d/"}

    for folder in ("bucket/d", "bucket", "bucket/d/sub", "bucket/d/a=1"):
        assert described(ours.ls(folder)) == described(theirs.ls(folder, detail=True))
    for key in KEYS:
        path = f"bucket/d/{key.rstrip('/')}"
        assert described([ours.info(path)]) == described([theirs.info(path)])
        assert ours.unstrip_protocol(path) == theirs.unstrip_protocol(path)
        assert ours._parent(path) == theirs._parent(path)
        if key not in ("folder/", "empty"):
            (file,) = resolve(f"s3://{path}", options_of(server.port))
            assert isinstance(file, FsspecFile)
            assert file.pread(3, 5) == theirs.cat_file(path, start=3, end=8)
            assert file.read_all(1000) == theirs.cat_file(path)
    for pattern in (
        "bucket/d/*",
        "bucket/d/s*",
        "bucket/d/*.tf??cord",
        "bucket/d/**",
        "bucket/*/plain*",
        "bucket/d/[ab]*",
    ):
        assert described(ours.glob(pattern).values()) == described(theirs.glob(pattern, detail=True).values())
    for missing in ("bucket/none", "none/a"):
        assert not ours.exists(missing)
        with pytest.raises(FileNotFoundError):
            ours.info(missing)
    assert ours.has_obstore


@needs_moto
def test_s3fs_reads_unknown_keys(server: s3_server.S3Server) -> None:
    theirs = s3fs.S3FileSystem(**options_of(server.port))
    theirs.call_s3("put_object", Bucket="bucket", Key="odd//double", Body=b"abcdef")
    ours = reader_at(server.port)
    assert ours.info("bucket/d/empty")["size"] == 0
    assert ours.info("bucket/odd//double")["size"] == 6
    request = RangeRequest("bucket/odd//double", "s3://bucket/odd//double", 2, 3, 6)
    assert get_ranges(ours, [request, request]) == [b"cde"] * 2
    assert ours.has_obstore  # for the other keys


@needs_moto
def test_many_requests(server: s3_server.S3Server) -> None:
    ours, path = reader_at(server.port), "bucket/d/at@:,;!$()|^`"
    content = b"content of " + KEYS[-5].encode()
    requests = [RangeRequest(path, f"s3://{path}", at % 18, 1 + at % 7, len(content)) for at in range(1000)]
    found = get_ranges(ours, requests)
    assert [bytes(one) for one in found] == [content[at % 18 : at % 18 + 1 + at % 7] for at in range(1000)]  # type: ignore[arg-type]


def test_one_reader_for_the_same_options() -> None:
    first, second = reader_at(1), reader_at(2)
    assert reader_at(1) is first
    assert second is not first
    assert pickle.loads(pickle.dumps([first, first])) == [first, first]
    assert reader_of("s3://bucket/d", {**options_of(1), **S3_CLIENTS["s3fs"]}) is None


@pytest.fixture
def faulty() -> Iterator[RangeServer]:
    with RangeServer(bytes(range(256)) * 1000).running() as server:
        yield server


@pytest.mark.parametrize("status", ["301", "400", "403", "reset"])
def test_a_refused_first_request_is_made_by_s3fs(status: str, faulty: RangeServer) -> None:
    """Perhaps it knows more, such as the region of the bucket."""
    reader = reader_at(int(faulty.endpoint.rpartition(":")[2]))
    faulty.fault = lambda number, _: status if number == 0 else None
    request = RangeRequest("bucket/x.tfrecord", "s3://bucket/x.tfrecord", 1, 3, len(faulty.data), faulty.tag)
    assert get_ranges(reader, [request]) == [b"\1\2\3"]
    assert not reader.has_obstore
    assert len(faulty.ranges) == 2


def test_a_later_refusal_is_an_error(faulty: RangeServer) -> None:
    reader = reader_at(int(faulty.endpoint.rpartition(":")[2]))
    assert reader.info("bucket/x.tfrecord")["size"] == len(faulty.data)
    request = RangeRequest("bucket/x.tfrecord", "s3://bucket/x.tfrecord", 1, 3, len(faulty.data), faulty.tag)
    for status, kind in (("403", PermissionError), ("400", OSError), ("404", FileNotFoundError)):
        faulty.fault = lambda number, _, status=status: status  # type: ignore[misc]
        faulty.ranges.clear()
        (found,) = get_ranges(reader, [request])
        assert type(found) is kind
        assert len(faulty.ranges) == 1
    assert reader.has_obstore


def test_a_busy_server_keeps_the_reader(faulty: RangeServer) -> None:
    reader = reader_at(int(faulty.endpoint.rpartition(":")[2]))
    faulty.fault = lambda number, _: "503" if number == 0 else None
    request = RangeRequest("bucket/x.tfrecord", "s3://bucket/x.tfrecord", 1, 3, len(faulty.data), faulty.tag)
    assert get_ranges(reader, [request]) == [b"\1\2\3"]
    assert reader.has_obstore


def test_a_wrong_endpoint_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataformats.storage.remote.range_requests._WAITS_S", (0.01,) * 4)
    with pytest.raises(OSError, match="s3://bucket/x"):
        dataformats.open("s3://bucket/x.tfrecord", storage_options=options_of(9))


def _read(source: Any, queue: Any) -> None:
    queue.put(list(source.read([3, 1])))


@needs_moto
@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_worker_processes(start_method: str, server: s3_server.S3Server) -> None:
    options = options_of(server.port)
    with dataformats.create("s3://bucket/w.tfrecord", storage_options=options, overwrite=True) as writer:
        writer.extend(b"%d" % i for i in range(1000))
    source = dataformats.open("s3://bucket/w.tfrecord", storage_options=options)
    assert source[7] == b"7"  # its threads have begun
    named: dict[str, Any] = {"worker_type": "process", "workers": 2, "start_method": start_method}
    with dataformats.Loader(source, 10, **named) as loader:
        assert sorted(int(value) for batch in loader for value in batch["value"]) == list(range(1000))
    context: Any = multiprocessing.get_context(start_method)
    queue = context.Queue()
    child = context.Process(target=_read, args=(source, queue))
    child.start()
    try:
        assert queue.get(timeout=240) == [b"3", b"1"]
    finally:
        child.kill()
        child.join()
    assert source[8] == b"8"


@needs_moto
def test_a_forked_child_opens_by_s3fs(server: s3_server.S3Server, tmp_path: Path) -> None:
    assert reader_at(server.port).exists("bucket/d")

    def child() -> int:
        (file,) = resolve("s3://bucket/d/plain.tfrecord", options_of(server.port))
        assert isinstance(file, FsspecFile)
        return int(file.read_all(1000) != b"content of plain.tfrecord" or isinstance(file.fs, S3Reader))

    assert exit_code_of_child(child) == 0


@needs_moto
def test_credentials_of_the_environment(server: s3_server.S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    (file,) = resolve("s3://bucket/d/plain.tfrecord")
    assert isinstance(file, FsspecFile)
    assert isinstance(file.fs, S3Reader)
    assert file.read_all(100) == b"content of plain.tfrecord"


@needs_moto
@pytest.mark.parametrize("ending", ["", "/"])
def test_spellings_of_the_endpoint(ending: str, server: s3_server.S3Server) -> None:
    options = options_of(server.port)
    (file,) = resolve("s3a://bucket/d/plain.tfrecord", options | {"endpoint_url": options["endpoint_url"] + ending})
    assert isinstance(file, FsspecFile)
    assert (file.name, file.read_all(100)) == ("s3://bucket/d/plain.tfrecord", b"content of plain.tfrecord")
    assert file.fs.has_obstore


@needs_moto
def test_an_empty_object_keeps_the_reader(server: s3_server.S3Server) -> None:
    (file,) = resolve("s3://bucket/d/plain.tfrecord", options_of(server.port))
    assert isinstance(file, FsspecFile)
    assert file.bytes_beside("empty", 10) == ("s3://bucket/d/empty", b"")
    assert file.fs.has_obstore


def test_an_invalid_endpoint() -> None:
    with pytest.raises((OSError, ValueError), match="nonsense"):
        dataformats.open("s3://bucket/x.tfrecord", storage_options={**options_of(9), "endpoint_url": "nonsense"})
