"""Sources of bytes, of open files, and of the file and path objects of fsspec."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import pickle
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import fsspec
import pytest

import dataformats
from dataformats.testing.loop_over import loop_over

PHOTOS = Path("tests/golden/real/photos.tfrecord")
DATA = PHOTOS.read_bytes()


def unnamed() -> BinaryIO:
    file = tempfile.TemporaryFile()  # noqa: SIM115  # the test closes it
    file.write(DATA)
    return file


def zipped() -> Any:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("photos.tfrecord", DATA)
    return zipfile.ZipFile(packed).open("photos.tfrecord")


def stored() -> str:
    fsspec.filesystem("memory").pipe("/given/photos.tfrecord", DATA)
    return "memory://given/photos.tfrecord"


def path_of_fsspec() -> Any:
    """An object like a UPath of universal_pathlib."""
    return SimpleNamespace(fs=fsspec.filesystem("memory"), path=stored().removeprefix("memory:/"))


def pipe() -> BinaryIO:
    reading, writing = os.pipe()
    os.close(writing)
    return os.fdopen(reading, "rb")


WAYS: dict[str, tuple[Callable[[], Any], str]] = {
    "bytes": (lambda: DATA, "<bytes>"),
    "bytearray": (lambda: bytearray(DATA), "<bytes>"),
    "memoryview": (lambda: memoryview(DATA), "<bytes>"),
    "BytesIO": (lambda: io.BytesIO(DATA), "<bytes>"),
    "open": (lambda: PHOTOS.open("rb"), str(PHOTOS)),
    "FileIO": (lambda: PHOTOS.open("rb", buffering=0), str(PHOTOS)),
    "OpenFile": (lambda: fsspec.open(str(PHOTOS)), str(PHOTOS.absolute())),
    "remote OpenFile": (lambda: fsspec.open(stored()), "memory:///given/photos.tfrecord"),
    "UPath": (path_of_fsspec, "memory:///given/photos.tfrecord"),
    "unnamed": (unnamed, "<BufferedRandom>"),
    "zip": (zipped, "photos.tfrecord"),
    "gzip": (lambda: gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(DATA))), "<GzipFile>"),
}
OF_THEIR_PROCESS = {"unnamed", "zip", "gzip"}


@contextlib.contextmanager
def made(make: Callable[[], Any]) -> Iterator[Any]:
    given = make()
    try:
        yield given
    finally:
        if hasattr(given, "close"):
            given.close()


@loop_over("way", WAYS)
def test_given_files_read_like_their_path(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path))
    expected = dataformats.open(PHOTOS)
    make, name = WAYS[way]
    with made(make) as given:
        compare(dataformats.open(given), expected, name, sent=way not in OF_THEIR_PROCESS)


def compare(source: Any, expected: Any, name: str, *, sent: bool) -> None:
    assert source.paths == (name,)
    assert (len(source), source.fingerprint, source.spec) == (len(expected), expected.fingerprint, expected.spec)
    assert [*source] == [*expected] == [source[i] for i in range(len(source))]
    assert source.read([7, 0])["image"][1] == expected[0]["image"]
    if not sent:
        with pytest.raises(TypeError, match=r"belongs to the process that opened it: .* open its path, or its bytes"):
            pickle.dumps(source)
    else:
        assert pickle.loads(pickle.dumps(source))[3] == expected[3]


def test_unnamed_data_store_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path))
    for make in (lambda: DATA, lambda: gzip.compress(DATA), unnamed):
        with made(make) as data:
            assert len(dataformats.open(data)) == 12
    assert not list(tmp_path.rglob("*.*"))


def test_errors_name_the_bytes() -> None:
    damaged = bytearray(DATA)
    damaged[2000] ^= 1
    with pytest.raises(dataformats.ChecksumError, match="record 0 of '<bytes>' at byte 0"):
        dataformats.open(damaged)[0]
    with pytest.raises(dataformats.TruncatedError, match="record 11 of '<bytes>'"):
        dataformats.open(DATA[:-5])[11]
    with pytest.raises(dataformats.FormatError, match="'<bytes>': the file is empty"):
        dataformats.open(b"")
    with pytest.raises(dataformats.FormatError, match="record 1 of '<bytes>'"):
        list(dataformats.open([frame := DATA[:28744], frame[:-1]]))
    report = dataformats.verify(damaged)
    assert report.path == "<bytes>"
    assert not report.ok


@loop_over(
    "make, error, words",
    [
        (lambda: PHOTOS.open(encoding="latin1"), TypeError, "photos.tfrecord' is opened as text: .*'rb'"),
        (pipe, ValueError, "pass its bytes"),
        (lambda: fsspec.open(str(PHOTOS), compression="gzip"), ValueError, "compression='gzip': open it without"),
        (lambda: 3, TypeError, "expected a path, .* found int"),
    ],
)
def test_unreadable_objects_raise(make: Callable[[], Any], error: type[Exception], words: str) -> None:
    with made(make) as given, pytest.raises(error, match=words):
        dataformats.open(given)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_does_not_read_a_file_object() -> None:
    file = unnamed()
    source = dataformats.open(file)
    expected = source[0]
    child = os.fork()
    if not child:
        try:
            source[0]
        except ValueError as error:
            os._exit(7 if "belongs to the process" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert source[0] == expected
    file.close()


def test_given_files_can_be_converted(tmp_path: Path) -> None:
    report = dataformats.convert(io.BytesIO(DATA), tmp_path / "x.ffr", "ffrecord")
    assert (report.records, dataformats.open(tmp_path / "x.ffr")[5]["name"]) == (12, dataformats.open(DATA)[5]["name"])
