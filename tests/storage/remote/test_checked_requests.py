"""Answers of HTTP and S3 are of the range that was requested, and of the version that was opened."""

from __future__ import annotations

import pytest

from dataformats.errors import FormatError
from dataformats.storage.remote.checked_requests import RangeRequest
from dataformats.testing.loop_over import loop_over

REQUEST = RangeRequest("b/a", "s3://b/a", 100, 50, size=1000, tag='"x"')


@loop_over(
    "headers",
    [
        {"Content-Range": "bytes 100-149/1000", "ETag": '"x"'},
        {"Content-Range": "bytes 100-149/*"},
        {"Content-Range": "bytes 100-120/1000"},  # a short answer: the length of its body says so
        {"Content-Range": None, "ETag": 'W/"x"', "Last-Modified": "other"},
        {},
    ],
)
def test_fitting_answers(headers: dict[str, str]) -> None:
    REQUEST.check(headers)


@loop_over(
    "headers, expected, found",
    [
        ({"Content-Range": "bytes 92-141/1000"}, "Content-Range bytes 100-149", "Content-Range bytes 92-141/1000"),
        ({"Content-Range": "bytes 100-150/1000"}, "Content-Range bytes 100-149", "Content-Range bytes 100-150/1000"),
        ({"Content-Range": "bytes 100-149/1001"}, "1000 bytes", "1001 bytes"),
        ({"ETag": '"y"'}, 'ETag "x"', 'ETag "y"'),
    ],
)
def test_answers_of_other_bytes(headers: dict[str, str], expected: str, found: str) -> None:
    with pytest.raises(FormatError) as caught:
        REQUEST.check(headers)
    assert (caught.value.path, caught.value.expected, caught.value.found) == ("s3://b/a", expected, found)


def test_the_time_counts_without_a_tag() -> None:
    request = RangeRequest("http://h/a", "http://h/a", 0, 1, modified="Mon, 01 Jan 2024 00:00:00 GMT")
    request.check({"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT", "ETag": '"new"'})
    with pytest.raises(FormatError, match="replaced or changed while it was open"):
        request.check({"Last-Modified": "Mon, 01 Jan 2024 00:00:01 GMT"})


def test_a_weak_tag_is_no_condition() -> None:
    assert REQUEST.condition == '"x"'
    assert RangeRequest("a", "a", 0, 1, tag='W/"x"').condition is None
    assert RangeRequest("a", "a", 0, 1).condition is None
