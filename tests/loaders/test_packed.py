"""Rows of documents placed before a run: each token once an epoch, from any format, resumed anywhere."""

from __future__ import annotations

import json
import logging
import os
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataformats
from dataformats.indexing import array_file
from dataformats.indexing.index_cache import cache_folder
from dataformats.loaders.packed_source import PackedSource
from dataformats.testing.loop_over import loop_over
from tests.deep.processes.packed_trials import trial

SPEC = {"tokens": "int32[]"}
N = 700
LENGTHS = np.random.default_rng(0).integers(0, 40, N)
LENGTHS[[5, 6, 7]] = 600, 128, 0
NAMES = {"tfrecord": "a.tfrecord", "megatron": "a.bin", "syrah": "a.syr", "granular": "a", "parquet": "a.parquet"}


def document(index: int) -> np.ndarray:
    return np.arange(LENGTHS[index], dtype=np.int32) + 1000 * index


@pytest.fixture(scope="module", params=list(NAMES))
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The documents in a format."""
    if request.param == "parquet":
        pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    path = tmp_path_factory.mktemp("documents") / NAMES[request.param]
    with dataformats.create(path, request.param, spec=SPEC) as writer:
        writer.extend({"tokens": document(index)} for index in range(N))
    return dataformats.open(path, spec=SPEC)


class Documents(dataformats.RecordSource):
    """Documents in memory, of given lengths; `fields` of them, and `reads` counts the records that were read."""

    def __init__(self, lengths: Any, spec: Any = SPEC) -> None:
        self.lengths = [int(length) for length in lengths]
        self.types = dataformats.Spec(spec)
        self.n_read = 0

    @property
    def spec(self) -> dataformats.Spec:
        return self.types

    @property
    def fingerprint(self) -> str:
        return f"{self.lengths} {dict(self.types)}"

    def __len__(self) -> int:
        return len(self.lengths)

    def read(self, indices: Any, fields: Any = None, on_corrupt: Any = "raise") -> dataformats.RecordBatch:
        numbers, mask = np.asarray(indices, np.int64), self.mask(fields)
        self.n_read += len(numbers)
        documents = [np.arange(self.lengths[index]) + 1000 * index for index in numbers.tolist()]
        columns = {}
        for name, part in mask.items():
            cut = [one[part.start : part.stop] if isinstance(part, range) else one for one in documents]
            values = np.concatenate([np.zeros(0, np.int64), *cut]).astype(self.types[name].dtype)
            columns[name] = dataformats.Ragged(values, np.cumsum([0, *map(len, cut)]))
        return dataformats.RecordBatch(columns, numbers)


def check_rows(rows: PackedSource, lengths: Any, tokens: Any) -> None:
    """Check that the rows hold each token of each document once, and everything else of them."""
    batch = rows.read(range(len(rows)))
    found = np.zeros(int(sum(lengths)), np.int64)
    starts = np.cumsum([0, *lengths])
    for row in range(len(rows)):
        at = 0
        for number, (index, part) in enumerate(rows.documents(row), start=1):
            here = slice(at, at + len(part))
            assert len(part)
            assert batch["tokens"][row, here].tolist() == tokens(index)[part.start : part.stop].tolist()
            assert set(batch["segment_ids"][row, here].tolist()) == {number}
            assert batch["positions"][row, here].tolist() == list(range(len(part)))
            assert set(batch["document"][row, here].tolist()) == {index}
            found[starts[index] + np.array(part)] += 1
            at += len(part)
        assert set(batch["tokens"][row, at:].tolist()) <= {-7}
        assert not batch["segment_ids"][row, at:].any()
        assert set(batch["document"][row, at:].tolist()) <= {-1}
    assert (found == 1).all()
    assert rows.n_tokens == len(found)
    assert rows.n_empty == list(lengths).count(0)


@pytest.mark.parametrize("seed", [None, 3])
def test_each_token_lies_in_one_row(source: Any, seed: int | None) -> None:
    assert source.field_lengths(range(N), "tokens").tolist() == LENGTHS.tolist()
    rows = dataformats.packed(source, "tokens", length=64, window=150, seed=seed, value=-7, document_column="document")
    check_rows(rows, LENGTHS, document)
    assert rows.efficiency > 0.98
    assert {name: str(kind) for name, kind in rows.spec.items()} == {
        "tokens": "int32[64]",
        "segment_ids": "int32[64]",
        "positions": "int32[64]",
        "document": "int64[64]",
    }
    whole = rows.read(range(20))
    part = rows.read([3, 3, 0], {"positions": True, "tokens": range(5, 9)})
    assert list(part.columns) == ["positions", "tokens"]
    assert part["tokens"].tolist() == whole["tokens"][[3, 3, 0], 5:9].tolist()
    assert rows[0]["tokens"].tolist() == whole["tokens"][0].tolist()
    again = pickle.loads(pickle.dumps(rows))
    assert again.fingerprint == rows.fingerprint
    assert again.read([7])["tokens"].tolist() == rows.read([7])["tokens"].tolist()
    first = [rows.documents(row)[0][0] for row in range(5)]
    for offsets in (False, True):
        assert rows.origins(range(5), offsets=offsets) == source.origins(first, offsets=offsets)
    assert len(rows.read([])["tokens"]) == 0


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=40),
    st.integers(1, 9),
    st.sampled_from([1, 4, 100]),
    st.sampled_from([None, 0, 5]),
)
def test_rows_of_any_documents(lengths: list[int], length: int, window: int, seed: int | None) -> None:
    documents = Documents(lengths)
    arguments: Any = {"length": length, "window": window, "seed": seed, "value": -7, "document_column": "document"}
    if not sum(lengths):
        with pytest.raises(dataformats.SpecError, match=f"none of {len(lengths)} documents has a token to pack"):
            dataformats.packed(documents, "tokens", **arguments)
        return
    rows = dataformats.packed(documents, "tokens", **arguments)
    check_rows(rows, lengths, lambda index: np.arange(lengths[index]) + 1000 * index)
    cut = dataformats.packed(documents, "tokens", truncate=True, **arguments)
    assert cut.n_tokens == sum(min(one, length) for one in lengths)
    assert cut.fingerprint != rows.fingerprint


def test_rows_follow_the_order_of_documents() -> None:
    rows = dataformats.packed(Documents(LENGTHS), "tokens", length=64, window=50)
    firsts = [min(index for index, _ in rows.documents(row)) for row in range(len(rows))]
    windows = [index // 50 for index in firsts]
    assert windows == sorted(windows)
    for window in range(14):
        inside = [index for index in firsts if index // 50 == window]
        assert inside == sorted(inside)


def test_views_know_lengths(source: Any) -> None:
    chosen = np.array([9, 3, 5, 600])
    views = [
        (source.take(chosen), LENGTHS[chosen]),
        (source[10:20].select("tokens"), LENGTHS[10:20]),
        (dataformats.concat([source[:30], source[300:]]), [*LENGTHS[:30], *LENGTHS[300:]]),
        (dataformats.zip({"a": source, "b": source}, rename={"a.tokens": "x"}).select("tokens"), LENGTHS),
    ]
    for view, lengths in views:
        assert view.field_lengths(range(len(view)), "tokens").tolist() == list(lengths)


def test_several_fields_stay_side_by_side() -> None:
    documents = Documents([3, 2, 4], {"tokens": "uint16[]", "mask": "float32[]", "other": "int64[]"})
    rows = dataformats.packed(documents, "tokens", "mask", length=5)
    batch = rows.read([0, 1])
    assert [batch["tokens"].dtype, batch["mask"].dtype] == [np.uint16, np.float32]
    assert batch["mask"].astype(np.uint16).tolist() == batch["tokens"].tolist()
    assert "other" not in rows.spec


def test_every_batch_has_as_many_rows(source: Any) -> None:
    rows = dataformats.packed(source, "tokens", length=64)
    loader = dataformats.Loader(rows, 16, seed=1, workers=0)
    batches = [batch["tokens"] for batch in loader]
    assert [len(batch) for batch in batches] == [16] * (len(rows) // 16) + [len(rows) % 16]
    assert sorted(np.concatenate(batches).tolist()) == sorted(rows.read(range(len(rows)))["tokens"].tolist())
    assert [batch["tokens"].tolist() for batch in loader] != [batch.tolist() for batch in batches]
    assert len(json.dumps(loader.state_dict())) < 1024
    loader = dataformats.Loader(rows, 16, seed=1, workers=0)
    next(iter(loader))
    assert [record.index for record in loader.trace(0)] == loader.locate(range(16)).record.tolist()


def test_rows_of_blocks_are_loaded_in_windows(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    with dataformats.create(tmp_path / "a.parquet", "parquet", spec=SPEC, row_group_records=100) as writer:
        writer.extend({"tokens": document(index)} for index in range(N))
    source = dataformats.open(tmp_path / "a.parquet")
    rows = dataformats.packed(source, "tokens", length=64, window=50)
    starts = rows.block_starts
    assert starts is not None
    assert len(starts) == 7
    firsts = [{index // 100 for index, _ in rows.documents(int(row))} for row in starts]
    assert firsts == [{block} for block in range(7)]
    assert rows.facts.decodes_blocks
    assert dataformats.Loader(rows, 4).state_dict()["shuffle"][0] == "window"
    assert dataformats.packed(source, "tokens", length=64, seed=1).block_starts is None


def test_damaged_documents_damage_their_rows(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "a.tfrecord", "tfrecord", spec=SPEC) as writer:
        writer.extend({"tokens": document(index)} for index in range(50))
    source = dataformats.open(tmp_path / "a.tfrecord", spec=SPEC)
    rows = dataformats.packed(source, "tokens", length=64)
    [(_, _, place)] = source.origins([20], offsets=True)
    data = bytearray((tmp_path / "a.tfrecord").read_bytes())
    data[place + 2] ^= 255
    info = (tmp_path / "a.tfrecord").stat()
    (tmp_path / "a.tfrecord").write_bytes(data)
    os.utime(tmp_path / "a.tfrecord", ns=(info.st_atime_ns, info.st_mtime_ns))
    with pytest.raises(dataformats.FormatError, match="record 20"):
        rows.read(range(len(rows)))
    batch = rows.read(range(len(rows)), on_corrupt="omit")
    (failed,) = batch.failed
    assert 20 in dict(rows.documents(failed))
    assert batch.indices.tolist() == [row for row in range(len(rows)) if row != failed]
    with dataformats.Loader(rows, 4, on_corrupt="quarantine", workers=0) as loader:
        assert sum(len(batch.positions) for batch in loader) == len(rows) - 1


def test_changed_lengths_raise() -> None:
    documents = Documents([5, 6, 7])
    rows = dataformats.packed(documents, "tokens", length=8)
    documents.lengths[1] = 4
    with pytest.raises(dataformats.SpecError, match="record 1 has 4 values, but 6 when its row was planned"):
        rows.read([0, 1, 2])


def test_plans_are_kept_and_checked(monkeypatch: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path))
    monkeypatch.setattr(array_file, "_PIECE", 256)
    first = dataformats.packed(Documents(LENGTHS), "tokens", length=64)
    expected = [first.documents(row) for row in range(len(first))]
    documents = Documents(LENGTHS)
    dataformats.packed(documents, "tokens", length=64)
    dataformats.packed(documents, "tokens", length=32)
    assert documents.n_read == 0
    kept = sorted((cache_folder() / "packed").iterdir())
    assert len(kept) == 3
    rng = random.Random(0)
    with caplog.at_level(logging.WARNING):
        for _ in range(60):
            path = rng.choice(kept)
            data = bytearray(path.read_bytes())
            at = rng.randrange(len(data))
            data[at] ^= 1 << rng.randrange(8)
            path.unlink()
            path.write_bytes(data if rng.random() < 0.7 else data[:at])
            again = dataformats.packed(Documents(LENGTHS), "tokens", length=64)
            assert [again.documents(row) for row in range(len(again))] == expected
    assert "is damaged" in caplog.text
    assert "computing the damaged" in caplog.text


def test_another_seed_is_another_plan(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path))
    plans = [dataformats.packed(Documents(LENGTHS), "tokens", length=64, seed=seed) for seed in (None, 1, 2)]
    found = [[rows.documents(row) for row in range(len(rows))] for rows in plans]
    assert found[0] != found[1] != found[2] != found[0]


def test_rows_without_a_cache_folder(monkeypatch: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "file"))
    rows = dataformats.packed(Documents(LENGTHS), "tokens", length=64, value=-7, document_column="document")
    check_rows(rows, LENGTHS, lambda index: np.arange(int(LENGTHS[index])) + 1000 * index)
    assert "each process computes it" in caplog.text


@loop_over(
    "arguments, message",
    [
        ({"length": 0}, "length: expected a whole number .* found 0"),
        ({"length": 2**31}, r"length: expected a whole number in \[1, 2\*\*31\)"),
        ({"length": 4, "window": 0}, "window: expected a whole number .* found 0"),
        ({"length": 4, "seed": -1}, "seed: expected a whole number .* found -1"),
        ({"length": 4, "document_column": "positions"}, "document_column: expected the name of a column"),
        ({"length": 4, "document_column": "tokens"}, "field 'tokens': packed gives a column the name of this field"),
        ({"length": 4, "value": 2**40}, "does not fit int32"),
    ],
)
def test_packed_refuses_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataformats.packed(Documents([3]), "tokens", **arguments).read([0])


def test_packed_refuses_wrong_sources() -> None:
    documents = Documents([3, 4], {"tokens": "int32[]", "label": "int64", "text": "utf8"})
    for field, found in (("label", "int64"), ("text", "utf8")):
        with pytest.raises(dataformats.SpecError, match=f"expected sequences of numbers to pack, found {found}"):
            dataformats.packed(documents, field, length=4)
    with pytest.raises(dataformats.UnknownNameError, match="unknown field 'token'"):
        dataformats.packed(documents, "token", length=4)
    with pytest.raises(ValueError, match=r"expected the names of the fields to pack, found \(\)"):
        dataformats.packed(documents, length=4)
    with pytest.raises(dataformats.SpecError, match=r"which map\(\) computes"):
        dataformats.packed(documents.map(dict), "tokens", length=4)
    with pytest.raises(dataformats.SpecError, match="none of 0 documents has a token"):
        dataformats.packed(documents.take([]), "tokens", length=4)
    with pytest.raises(TypeError, match=r"expected a source, found a list: open\(\) the documents"):
        dataformats.packed([[1, 2]], "tokens", length=4)  # type: ignore[arg-type]


@loop_over("seed", range(12))
def test_runs_resume_exactly(seed: int, tmp_path: Path) -> None:
    counts = trial(seed, tmp_path)
    assert counts.attempts >= 2  # it was ended once at least
    assert (counts.missing, counts.repeated, counts.displaced, counts.wrong) == (0, 0, 0, 0)
