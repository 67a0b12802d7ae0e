"""Requests of ranges: made again after errors that pass; errors name the URL and a remedy."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import pytest

from dataformats.errors import FormatError, TruncatedError
from dataformats.storage.remote import range_requests
from dataformats.storage.remote.checked_requests import RangeRequest
from dataformats.storage.remote.errors import is_transient, raise_as_os_error
from dataformats.storage.remote.range_requests import get_ranges
from dataformats.testing.loop_over import loop_over
from tests.storage.remote.counting_store import CountingStore

DATA = bytes(range(200))


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingStore]:
    monkeypatch.setattr(range_requests, "_WAITS_S", (0.0, 0.0, 0.0))
    store = CountingStore()
    store.file("a", DATA)
    yield store
    store.fs.rm(store.folder, recursive=True)


class StatusError(Exception):
    """An error with a status, like the errors of HTTP clients."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class NoCredentialsError(Exception):
    pass


def get(store: CountingStore, *offsets: int) -> list[Any]:
    return get_ranges(store, [RangeRequest(f"{store.folder}/a", "s3://b/a", at, 10) for at in offsets])


def not_found_because(cause: Exception) -> FileNotFoundError:
    """Return the error that fsspec raises for any error of HTTP."""
    error = FileNotFoundError("a")
    error.__cause__ = cause
    return error


REFUSED = NoCredentialsError("none")
PASSING = [StatusError(503), StatusError(429), ConnectionResetError(104, "reset"), TimeoutError(), OSError(16, "busy")]
PASSING += [not_found_because(cause) for cause in (StatusError(503), TimeoutError(), BrokenPipeError(32, "pipe"))]
LASTING = [FileNotFoundError("a"), PermissionError("403"), StatusError(404), StatusError(416), REFUSED]
LASTING += [not_found_because(StatusError(404))]


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_transient_errors_repeat_only_their_ranges(error: Exception, store: CountingStore) -> None:
    """Only the ranges that failed are requested again."""
    assert is_transient(error)
    store.answering = lambda _, start, answer: error if start == 20 and len(store.calls) < 3 else answer
    assert get(store, 0, 20, 40) == [DATA[:10], DATA[20:30], DATA[40:50]]
    assert [len(call) for call in store.calls] == [3, 1, 1]
    store.answering = lambda _, start, answer: error
    (found,) = get(store, 0)
    assert isinstance(found, OSError)
    assert "s3://b/a" in str(found)
    assert len(store.calls) == 7


@pytest.mark.parametrize("error", LASTING, ids=repr)
def test_permanent_errors_are_not_repeated(error: Exception, store: CountingStore) -> None:
    store.answering = lambda _, start, answer: error if start == 20 else answer
    found = get(store, 0, 20)
    assert (found[0], len(store.calls)) == (DATA[:10], 1)
    assert isinstance(found[1], OSError)
    assert "s3://b/a" in str(found[1])


def test_bodies_of_another_length(store: CountingStore) -> None:
    store.answering = lambda _, start, answer: answer[:-1] if len(store.calls) == 1 else answer
    assert get(store, 0) == [DATA[:10]]
    store.answering = lambda _, start, answer: answer[:-1]
    (found,) = get(store, 0)
    assert isinstance(found, TruncatedError)
    assert len(store.calls) == 6
    store.answering = lambda _, start, answer: DATA
    (found,) = get(store, 0)
    assert isinstance(found, FormatError)
    assert "does not support range requests" in str(found)
    assert "simplecache::" in str(found)
    assert len(store.calls) == 7


def test_a_missing_object_is_named_by_its_url() -> None:
    for error in (FileNotFoundError("b/a"), FileNotFoundError(2, "No such file or blob", "b/a"), StatusError(404)):
        with pytest.raises(FileNotFoundError, match="No such file") as caught, raise_as_os_error("az://b/a"):
            raise error
        assert caught.value.filename == "az://b/a"


@loop_over(
    "url, remedy",
    [
        ("s3://b/a", "AWS_ACCESS_KEY_ID"),
        ("gs://b/a", "gcloud auth"),
        ("az://b/a", "account_name"),
        ("hf://datasets/a", "HF_TOKEN"),
        ("http://b/a", "headers"),
        ("dropbox://b/a", "storage_options"),
    ],
)
def test_refused_access_states_the_remedy(url: str, remedy: str) -> None:
    for error in (NoCredentialsError("none"), PermissionError("Forbidden"), StatusError(403)):
        with pytest.raises(PermissionError, match=remedy) as caught, raise_as_os_error(url):
            raise error
        assert (caught.value.errno, caught.value.filename) == (errno.EACCES, url)


def test_requests_wait_longer_and_longer(store: CountingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wait is half to one and a half times as long, so that many processes do not ask again at once."""
    waits: list[float] = []
    monkeypatch.setattr(range_requests, "_WAITS_S", (1.0, 4.0, 16.0))
    monkeypatch.setattr("time.sleep", waits.append)
    store.answering = lambda _, start, answer: ConnectionResetError(104, "reset")
    get(store, 0)

    def refuse() -> None:
        raise ConnectionResetError(104, "reset")

    with pytest.raises(ConnectionResetError):
        range_requests.retry_transient(refuse)
    ratios = [wait / middle for wait, middle in zip(waits, [1.0, 4.0, 16.0] * 2, strict=True)]
    assert 0.5 <= min(ratios) < max(ratios) <= 1.5
