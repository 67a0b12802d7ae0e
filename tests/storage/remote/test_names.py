"""Names behind file systems: HTTP names are quoted, and may have a query."""

from __future__ import annotations

import fsspec

from dataformats.storage.remote.files import FsspecFile
from dataformats.storage.remote.names import entry_name, parent_of, path_beside
from dataformats.testing.loop_over import loop_over

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
    file.name = path  # the name of a file behind HTTP is its path
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
