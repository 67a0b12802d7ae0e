"""Names behind file systems: HTTP names are quoted, and may have a query."""

from __future__ import annotations

from pathlib import Path

import fsspec

from dataformats.storage.remote.files import FsspecFile
from dataformats.storage.remote.names import entry_name, parent_of, path_beside, shown_text, shown_url
from dataformats.testing.loop_over import loop_over

DIGEST = shown_url("http://h/a?sig=s3cret").partition("***")[2]
MEMORY = fsspec.filesystem("memory")
INFO = {"size": 1, "type": "file"}


@loop_over(
    "path, basename, parent, other",
    [
        ("/a/b c?d#e", "b c?d#e", "/a", "/a/n #1"),
        ("http://h/a/b%20c", "b c", "http://h/a", "http://h/a/n%20%231"),
        ("https://h/a/b.rec?download=1", "b.rec", "https://h/a", "https://h/a/n%20%231?download=1"),
        ("https://h/a/b.rec?sig=x/y%2F#z", "b.rec", "https://h/a", "https://h/a/n%20%231?sig=x/y%2F"),
    ],
)
def test_names_beside_a_file(path: str, basename: str, parent: str, other: str) -> None:
    file = FsspecFile(MEMORY, path, INFO)
    file.name = path  # the name of a file behind HTTP is its path, here with its query
    assert (file.basename, parent_of(MEMORY, path), path_beside(MEMORY, path, "n #1")) == (basename, parent, other)


@loop_over(
    "folder, path, name",
    [
        ("bucket/a", "bucket/a/b c", "b c"),
        ("bucket/a", "bucket/a/sub/", "sub"),
        ("bucket/a", "bucket/a/", ""),  # the object that stands for an empty folder
        ("", "x", "x"),
        ("http://h/a%20b", "http://h/a%20b/c%20%23", "c #"),
        ("http://h/a%20b", "http://h/a%20b/?C=N;O=D", ""),  # a link that sorts the page
    ],
)
def test_names_in_a_listing(folder: str, path: str, name: str) -> None:
    assert entry_name(folder, path) == name


@loop_over(
    "url, shown",
    [
        ("https://me:s3cret@h/a b.ffr", "https://***@h/a b.ffr"),
        ("https://s3cret@h:8/a", "https://***@h:8/a"),
        ("https://me:s3@cret@h/a?x=s3cret y", "https://***@h/a?***"),
        ("http://h/a?sig=s3cret", f"http://h/a?***{DIGEST}"),
        (f"http://h/a?***{DIGEST}", f"http://h/a?***{DIGEST}"),
        (
            "zip://a::simplecache::https://me:s3cret@h/a?sig=s3cret",
            f"zip://a::simplecache::https://***@h/a?***{DIGEST}",
        ),
        ("sftp://me:s3cret@h/a", "sftp://***@h/a"),
        ("abfs://container@account.net/a", "abfs://container@account.net/a"),
        ("github://owner:repository@main/a", "github://owner:repository@main/a"),
        ("s3://http-b/a-?.ffr", "s3://http-b/a-?.ffr"),
        ("http://h/a?***s3cret", "http://h/a?***"),
        ("/a/b@c?d", "/a/b@c?d"),
    ],
)
def test_urls_are_shown_without_secrets(url: str, shown: str) -> None:
    found = shown_url(url)
    assert found.startswith(shown)
    assert "s3cret" not in found
    assert found == shown_url(found)


def test_paths_are_shown_as_text() -> None:
    assert shown_url(Path("a") / "b") == str(Path("a", "b"))


def test_urls_with_different_queries_have_different_names() -> None:
    assert shown_url("http://h/get?id=1") != shown_url("http://h/get?id=2")


def test_messages_show_urls_without_secrets() -> None:
    text = "404, message='', url=URL('http://me:s3cret@h/a?sig=s3cret'), for sftp://me:s3cret@h, http://h/b?s3cret"
    found = shown_text(text)
    assert "s3cret" not in found
    assert found.startswith(f"404, message='', url=URL('http://***@h/a?***{DIGEST}'), for sftp://***@h, http://h/b?***")
    assert shown_text("no URL? none") == "no URL? none"
