"""Objects of a store: nothing that was refused counts as done."""

from __future__ import annotations

from typing import Any

import fsspec
import pytest

from dataformats.errors import FormatError
from dataformats.staging.objects import Objects


def test_refused_requests_leave_no_object_undeleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may refuse to tell if an object is there, and delete it."""
    memory: Any = fsspec.filesystem("memory")
    names = ["/objects/a", "/objects/b"]
    for name in names:
        memory.pipe_file(name, b"x")

    def info(path: str, **options: Any) -> Any:
        raise PermissionError(path)

    with monkeypatch.context() as refused:
        refused.setattr(memory, "info", info)
        Objects(memory).delete([*names, "/objects/c"])
    assert memory.find("/objects") == []


def test_a_long_object_is_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    memory: Any = fsspec.filesystem("memory")
    monkeypatch.setattr("dataformats.staging.objects._MAX_BYTES", 3)
    for content in (b"", b"abc"):
        memory.pipe_file("/log", content)
        assert Objects(memory).read("/log") == content
    memory.pipe_file("/log", b"abcd")
    with pytest.raises(FormatError, match=r"'memory:///log': .*at most 3 bytes"):
        Objects(memory).read("/log")
