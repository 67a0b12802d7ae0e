"""The index cache: loads the saved columns, or recognizes that a file is damaged."""

from __future__ import annotations

import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataformats.indexing.block_file import (
    ROWS,
    BlockLayout,
    BlockRows,
    BrokenBlockError,
    digest,
    layout_of,
    pack,
    unpack,
)
from dataformats.indexing.index_cache import Index, IndexCache
from dataformats.storage.files import LocalFile
from dataformats.testing.loop_over import loop_over
from tests.campaign import share

COLUMNS = {"length": np.arange(40, dtype="<i8") ** 3, "crc": np.arange(40, dtype="<u4"), "same": np.full(40, 7)}
METADATA = {"rest": None, "n": 3}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalFile:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "data"
    path.write_bytes(b"data")
    os.utime(path, ns=(10**18, 10**18))
    return LocalFile(path)


def same(rows: BlockRows, columns: dict[str, Any], first: int, stop: int) -> bool:
    before = int(next(iter(columns.values()))[:first].sum()) if first < stop else 0
    return rows.before == before and all(
        np.array_equal(rows.columns[name], array[first:stop]) for name, array in columns.items()
    )


def is_whole(index: Index | None) -> bool:
    return index is not None and index.metadata == METADATA and same(index.rows(0, len(index)), COLUMNS, 0, 40)


def raw(path: object) -> Path:
    assert path is not None
    return Path(str(path))


# ---- rows


@settings(max_examples=share(60), deadline=None)
@given(
    st.integers(0, 3 * ROWS + 1),
    st.sampled_from([0, 1, 2**8 - 1, 2**8, 2**16, 2**32, 2**40]),
    st.booleans(),
    st.data(),
)
def test_any_part_of_any_columns(n: int, most: int, constant: bool, data: st.DataObject) -> None:
    rng = np.random.default_rng(n)
    columns = {"x": np.full(n, most) if constant else rng.integers(0, most + 1, n), "y": rng.integers(0, 3, n)}
    layout = layout_of(columns)
    kept = b"".join(pack(layout, columns, 5))
    assert len(kept) == layout.n_bytes
    first = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(first, n))
    found = unpack(layout, lambda offset, length: kept[offset : offset + length], 5, first, stop)
    assert same(found, columns, first, stop)


def test_columns_are_as_narrow_as_their_numbers() -> None:
    def width(*numbers: int) -> int:
        return layout_of({"x": np.array(numbers, np.int64)}).width

    assert [width(0, 2**bits - 1) for bits in (8, 16, 32, 33)] == [1, 2, 4, 8]
    assert [width(), width(2**40), width(2**40, 2**40)] == [0, 0, 0]
    for wrong in (-1, 2**63):
        with pytest.raises(ValueError, match="outside"):
            layout_of({"x": np.array([wrong], np.uint64 if wrong > 0 else np.int64)})


def test_another_seal_or_a_wrong_sum_is_seen() -> None:
    columns = {"x": np.arange(2 * ROWS)}
    layout = layout_of(columns)
    kept = b"".join(pack(layout, columns, 5))
    swapped = kept[layout.place(1) :] + kept[: layout.place(1)]  # each block is sound
    for data, seal in ((kept, 6), (swapped, 5), (kept[:-1], 5)):
        with pytest.raises(BrokenBlockError):
            unpack(layout, lambda offset, length, data=data: data[offset : offset + length], seal, 0, 2 * ROWS)  # type: ignore[misc]


def test_the_digest_is_of_numbers_not_of_how_they_are_kept() -> None:
    numbers = np.arange(200)
    prints = {digest({"x": numbers.astype(dtype)}) for dtype in ("<u1", ">u4", "<i8")}
    assert len(prints) == 1
    others = [{"y": numbers}, {"x": numbers[::-1]}, {"x": numbers[:-1]}, {"x": numbers, "y": numbers}]
    assert len({*prints, *map(digest, others)}) == 5


# ---- files


@loop_over("where", ["cache", "beside", "folder"])
def test_indexes_come_back(file: LocalFile, where: str, tmp_path: Path) -> None:
    shelf = IndexCache(str(tmp_path / "folder") if where == "folder" else where)
    assert shelf.load(file, "kind") is None
    saved = shelf.save(file, "kind", COLUMNS, METADATA)
    assert is_whole(saved)
    found = shelf.load(file, "kind")
    assert is_whole(found)
    assert found is not None
    assert found.exact
    assert (found.digest, found.total, len(found)) == (saved.digest, saved.total, 40)
    assert shelf.load(file, "other kind") is None


def test_links_lead_to_the_same_index(file: LocalFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = IndexCache("cache").path(file)
    (tmp_path / "link").symlink_to(file.name)
    (tmp_path / "folder").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in (tmp_path / "link", tmp_path / "folder" / "data", Path("data"), Path("folder/data")):
        assert IndexCache("cache").path(LocalFile(name)) == saved


def test_replaced_or_deleted_index_raises_broken_block(file: LocalFile) -> None:
    shelf = IndexCache("cache")
    first = shelf.save(file, "kind", COLUMNS, METADATA)
    second = shelf.save(file, "kind", COLUMNS | {"crc": COLUMNS["crc"][::-1]}, METADATA)
    with pytest.raises(BrokenBlockError):
        first.rows(0, 3)
    assert same(second.rows(0, 3), COLUMNS | {"crc": COLUMNS["crc"][::-1]}, 0, 3)
    raw(shelf.path(file)).unlink()
    with pytest.raises(BrokenBlockError):
        second.rows(0, 3)


def test_a_loaded_index_survives_a_rebuild(file: LocalFile) -> None:
    first = IndexCache("cache").save(file, "kind", COLUMNS, METADATA)
    loaded = IndexCache("cache").load(file, "kind")
    IndexCache("cache").save(file, "kind", COLUMNS, METADATA)  # its header has another time
    assert is_whole(first)
    assert is_whole(loaded)


def columns_of(*columns: Any) -> dict[str, Any]:
    header = {"kind": "kind", "identity": ["4"], "facts": {}, "made_ns": 0, "n": 1, "total": 0, "digest": ""}
    return header | {"columns": list(columns)}


@loop_over(
    "header",
    [
        [],
        3,
        {},
        columns_of(),
        columns_of(["x", "O", None]),
        columns_of(["x", "V0", 0]),
        columns_of(["x", "|u1", 256]),
        columns_of(["x", "|u1", -1]),
        columns_of(["x", "|u1", 1]),
        columns_of(["x", "|u1", "1"]),
        columns_of(["x", "<i8", None]),
        columns_of(["x"]),
        columns_of([["x"], "|u1", 0]),
        columns_of(3),
        columns_of([["x"], "<i8", 0, 0]),
        columns_of(["x", "|u1", 0]) | {"identity": 4},
        columns_of(["x", "|u1", 0]) | {"identity": []},
        columns_of(["x", "|u1", 0]) | {"facts": 1},
        columns_of(["x", "|u1", 0]) | {"n": -1},
        columns_of(["x", "|u1", 0]) | {"n": 1e400},
        columns_of(["x", "|u1", 0]) | {"total": None},
        columns_of(["x", "|u1", None]) | {"n": 2**70},
    ],
)
def test_crafted_indexes_are_ignored(file: LocalFile, header: Any) -> None:
    write_index(file, json.dumps(header).encode())
    assert IndexCache("beside").load(file, "kind") is None


def test_well_formed_index_is_accepted(file: LocalFile) -> None:
    write_index(file, json.dumps(columns_of(["x", "|u1", 0])).encode())
    assert IndexCache("beside").load(file, "kind") is not None


@pytest.mark.parametrize("text", [b"[" * 200_000, b" " * 2**21])
def test_deep_and_long_headers_are_ignored(file: LocalFile, text: bytes) -> None:
    write_index(file, text)
    assert IndexCache("beside").load(file, "kind") is None


def write_index(file: LocalFile, text: bytes) -> None:
    path = raw(IndexCache("beside").path(file))
    path.write_bytes(struct.pack("<8sII", b"DFINDEX3", len(text), zlib.crc32(text)) + text)


def test_headers_of_any_length(file: LocalFile) -> None:
    metadata = {"what": "x" * 10_000}
    IndexCache("cache").save(file, "kind", COLUMNS, metadata)
    found = IndexCache("cache").load(file, "kind")
    assert found is not None
    assert found.metadata == metadata
    assert same(found.rows(3, 9), COLUMNS, 3, 9)


def test_indexes_of_changed_files_are_hints(file: LocalFile, tmp_path: Path) -> None:
    IndexCache("beside").save(file, "kind", COLUMNS, METADATA)
    os.utime(tmp_path / "data", ns=(5, 5))
    found = IndexCache("beside").load(LocalFile(tmp_path / "data"), "kind")
    assert found is not None
    assert not found.exact
    (tmp_path / "data").write_bytes(b"more data")
    assert IndexCache("beside").load(LocalFile(tmp_path / "data"), "kind") is None


@pytest.mark.parametrize("where", ["cache", "folder"])
def test_unwritable_cache_warns_once(
    file: LocalFile, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setenv("DATAFORMATS_CACHE", f"{file.name}/x")
    shelf = IndexCache("cache" if where == "cache" else f"{file.name}/x")
    assert is_whole(shelf.save(file, "kind", COLUMNS, METADATA))
    assert "in memory" in caplog.text
    assert ("DATAFORMATS_CACHE" in caplog.text) == (where == "cache")
    shelf.save(file, "kind", COLUMNS, METADATA)
    assert len(caplog.records) == 1
    assert shelf.load(file, "kind") is None


def test_a_layout_needs_columns() -> None:
    for n, columns in ((-1, COLUMNS), (3, {})):
        with pytest.raises(ValueError, match="rows >= 0 and columns >= 1"):
            BlockLayout(n, layout_of(COLUMNS).columns if columns else ())
