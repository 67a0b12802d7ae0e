"""`storage_options=` belong to the path that a call writes or opens; `source_options=` have the source's."""

from __future__ import annotations

from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import dataformats
from dataformats.storage.remote.systems import file_system


class _Keyed(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Objects in memory behind a URL that needs a key."""

    store: ClassVar[dict[str, Any]] = {}  # pyright: ignore[reportIncompatibleVariableOverride]
    pseudo_dirs: ClassVar[list[str]] = [""]

    def __init__(self, *, key: str | None = None, **more: Any) -> None:
        if key != self.protocol:
            raise PermissionError(f"expected the key {self.protocol!r}, found {key!r}")
        super().__init__(**more)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(str(path).replace(f"{cls.protocol}://", "memory://"))


class From(_Keyed):
    protocol = "keyed-from"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]


class To(_Keyed):
    protocol = "keyed-to"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]


SOURCE, NEW, REST = "keyed-from://a.tfrecord", "keyed-to://b.tfrecord", "keyed-to://c.tfrecord"
FROM, TO = {"key": "keyed-from"}, {"key": "keyed-to"}
BOTH: dict[str, Any] = {"source_options": {"storage_options": FROM}, "storage_options": TO}


@pytest.fixture(autouse=True)
def _file_systems() -> None:
    for system in (From, To):
        fsspec.register_implementation(system.protocol, system, clobber=True)
        system.store.clear()
    with dataformats.create(SOURCE, storage_options=FROM) as writer:
        writer.extend([b"one", b"two"])


def test_convert_merge_and_repair_take_options_of_both_sides() -> None:
    dataformats.convert(SOURCE, NEW, **BOTH)
    assert dataformats.verify(NEW, against=SOURCE, **BOTH).ok
    assert dataformats.diff(SOURCE, SOURCE, source_options={"storage_options": FROM}).equal
    dataformats.repair(SOURCE, NEW, overwrite=True, **BOTH)
    dataformats.merge([SOURCE, SOURCE], NEW, overwrite=True, **BOTH)
    assert len(dataformats.open(NEW, storage_options=TO)) == 4


def test_split_takes_options_of_both_sides() -> None:
    dataformats.split(SOURCE, NEW, where=[False, True], rest_path=REST, **BOTH)
    assert [list(dataformats.open(path, storage_options=TO)) for path in (NEW, REST)] == [[b"two"], [b"one"]]


def test_repair_refuses_other_source_options() -> None:
    with pytest.raises(TypeError, match="expected format, payload, storage_options, follow_links, found spec"):
        dataformats.repair(SOURCE, NEW, source_options={"spec": {}})


def test_refused_access_names_the_options_of_both_sides() -> None:
    with pytest.raises(PermissionError, match=r"storage_options.*source_options=\{'storage_options'"):
        dataformats.convert(SOURCE, NEW, "tfrecord", storage_options=TO)


def test_s3_gives_up_soon_unless_options_say_otherwise() -> None:
    pytest.importorskip("s3fs")
    config = file_system("s3://bucket/x", {"anon": True})[0].config_kwargs
    assert (config["max_pool_connections"], config["connect_timeout"]) == (64, 5)
    given = {"connect_timeout": 60}
    assert file_system("s3://bucket/x", {"anon": True, "config_kwargs": given})[0].config_kwargs == given
