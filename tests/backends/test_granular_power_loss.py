"""Granular after a loss of power: files lack their last bytes, or have zeros for them; synced rows are kept."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.backends.granular import BACKEND, intact_records
from dataformats.errors import FormatError, SpecError
from dataformats.storage import atomic
from dataformats.testing.loop_over import loop_over

SPEC = {"id": "int64", "text": "utf8", "x": "float32[]"}
N = 12  # finished rows, or rows of partial data
MARKER = "spec.json.journal"


def row(i: int) -> dict[str, Any]:
    return {"id": i, "text": "é" * (i % 3), "x": np.full(i % 4, i, np.float32)}


def rows(start: int, stop: int) -> list[dict[str, Any]]:
    return [row(i) for i in range(start, stop)]


@pytest.fixture(autouse=True, params=[3, 2**14], ids=["small blocks", "large blocks"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intact_records, "_BLOCK_ENTRIES", request.param)


@pytest.fixture
def growing(tmp_path: Path) -> Path:
    """A dataset of N finished rows; a killed writer has added four."""
    with dataformats.create(tmp_path / "d", "granular", spec=SPEC) as writer:
        writer.extend(rows(0, N))
    writer = dataformats.create(tmp_path / "d", "granular", spec=SPEC, append=True)
    for one in rows(N, N + 4):
        writer.append(one)
        writer.flush()
    writer.abort()
    return tmp_path / "d"


@pytest.fixture
def partial(tmp_path: Path) -> Path:
    """Partial data of N rows."""
    writer = dataformats.create(tmp_path / "d", "granular", spec=SPEC, resume=True)
    for one in rows(0, N):
        writer.append(one)
        writer.flush()
    writer.abort()
    return tmp_path / "d.partial"


def zero(idx: Path, first: int) -> None:
    """Put zeros in the place of all ends from number `first` on."""
    data = idx.read_bytes()
    idx.write_bytes(data[: 8 * first] + bytes(len(data) - 8 * first))


def cut_bag(folder: Path, name: str, n: int) -> None:
    """Keep the bytes of the first `n` records of a bag, and half of the next one."""
    ends = np.fromfile(folder / f"{name}.idx", "<u8")
    os.truncate(folder / f"{name}.bag", int(ends[n - 1] + ends[n]) // 2)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def resumed(path: Path, spec: Any = SPEC, record: Any = row, **options: Any) -> int:
    """Resume, complete and check a dataset of 20 rows; return how many were found."""
    with dataformats.create(path, "granular", spec=spec, resume=True, **options) as writer:
        found = len(writer)
        writer.extend([record(i) for i in range(found, 20)])
    source = dataformats.open(path)
    assert len(source) == 20
    for i in range(20):
        expected = record(i)
        assert {name: np.array_equal(source[i][name], expected[name]) for name in expected} == dict.fromkeys(spec, True)
    assert not (path / MARKER).exists()
    assert dataformats.verify(path).ok
    return found


@pytest.mark.parametrize("names", [["x"], ["id"], ["text"], ["x", "id"], ["id", "text", "x"]])
@pytest.mark.parametrize("is_marked", [True, False], ids=["by us", "by another program"])
def test_zeros_behind_finished_rows_are_dropped(growing: Path, names: list[str], is_marked: bool) -> None:
    for name in names:
        zero(growing / f"{name}.idx", N)
    if not is_marked:
        (growing / MARKER).unlink()
    assert resumed(growing, append=True) == N


@pytest.mark.parametrize("name", SPEC)
@pytest.mark.parametrize("n", [N + 1, N])
def test_bag_without_its_last_bytes_loses_no_finished_row(growing: Path, name: str, n: int) -> None:
    cut_bag(growing, name, n)
    assert n <= resumed(growing, append=True) <= n + 1


@pytest.mark.parametrize("damage", ["bag cut", "ends zeroed", "index cut", "ends fall"])
def test_resume_is_refused_before_it_costs_a_finished_row(growing: Path, damage: str) -> None:
    idx = growing / "x.idx"
    if damage == "bag cut":
        cut_bag(growing, "x", N - 1)
    elif damage == "ends zeroed":
        zero(idx, N - 1)
    elif damage == "index cut":
        os.truncate(idx, 8 * (N - 1))
    else:
        ends = np.fromfile(idx, "<u8")
        ends[N - 2] = ends[N - 1] + 1
        idx.write_bytes(ends.tobytes())
    before = contents(growing)
    with pytest.raises(FormatError, match="shorter than its index" if damage == "bag cut" else "finished records"):
        dataformats.create(growing, "granular", spec=SPEC, append=True, resume=True)
    assert contents(growing) == before


def test_half_a_sidecar_of_finished_rows_does_not_stay(growing: Path) -> None:
    (growing / MARKER).unlink()
    (growing / f"{MARKER}.partial").write_bytes(b"{")
    with dataformats.create(growing, "granular", spec=SPEC, append=True) as writer:
        assert len(writer) == N + 4
    assert sorted(contents(growing)) == sorted(
        ["spec.json", *(f"{name}{end}" for name in SPEC for end in (".bag", ".idx"))]
    )


@pytest.mark.parametrize("kept", [8 * N, 8 * N + 3, 8 * N + 16])
def test_killed_between_the_ends_of_two_fields(kept: int, growing: Path) -> None:
    for name in ("text", "x"):
        os.truncate(growing / f"{name}.idx", kept)
    source = dataformats.open(growing)
    assert [one["id"] for one in source] == list(range(kept // 8))
    assert dataformats.verify(growing).ok
    assert resumed(growing, append=True) == kept // 8


@pytest.mark.parametrize("damage", ["finished row", "no writer"])
def test_missing_ends_of_finished_rows_are_damage(damage: str, growing: Path) -> None:
    os.truncate(growing / "x.idx", 8 * (N - 1 if damage == "finished row" else N))
    if damage == "no writer":
        (growing / MARKER).unlink()
    with pytest.raises(FormatError, match="fields are shorter than others"):
        list(dataformats.open(growing))


def test_growing_dataset_can_be_replaced(growing: Path) -> None:
    assert (growing / MARKER).exists()
    with dataformats.create(growing, "granular", spec=SPEC, overwrite=True) as writer:
        writer.extend(rows(0, 2))
    assert len(dataformats.open(growing)) == 2


# ---- partial data


@pytest.mark.parametrize("n", [0, 1, 5, N - 1])
@pytest.mark.parametrize("name", SPEC)
def test_zeros_in_partial_data_are_dropped(partial: Path, name: str, n: int) -> None:
    zero(partial / f"{name}.idx", n)
    # The end of the first text is 0, too: it is empty.
    assert resumed(partial.with_suffix("")) == (1 if (name, n) == ("text", 0) else n)


@pytest.mark.parametrize("name", SPEC)
def test_partial_bag_without_its_last_bytes_is_resumed(partial: Path, name: str) -> None:
    cut_bag(partial, name, 5)
    assert 5 <= resumed(partial.with_suffix("")) <= 6


def test_fields_of_partial_data_may_differ_by_any_number_of_rows(tmp_path: Path) -> None:
    writer = dataformats.create(tmp_path / "d", "granular", spec={"a": "int64", "b": "int64"}, resume=True)
    writer.extend({"a": i, "b": i} for i in range(9000))
    writer.abort()
    (tmp_path / "d.partial.journal").unlink()  # so the ends alone tell
    zero(tmp_path / "d.partial" / "a.idx", 7)
    assert resumed(tmp_path / "d", {"a": "int64", "b": "int64"}, lambda i: {"a": i, "b": i}) == 7


@loop_over("generation", [2, 3])
@loop_over("name", ["d", "x.bag"])
def test_spec_and_names_are_on_the_disk_before_the_first_row(
    name: str, generation: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: Any = {"spec": {"id": "int64"}} if name == "d" else {"payload": "bytes"}
    writer = dataformats.create(tmp_path / name, "granular", generation=generation, **options)
    steps, original = list[str](), atomic.write_parts

    def write_parts(*args: Any) -> int:
        steps.append("rows")
        return original(*args)

    monkeypatch.setattr(atomic, "sync", lambda path: steps.append(path.name))
    monkeypatch.setattr(atomic, "write_parts", write_parts)
    writer.append({"id": 1} if name == "d" else b"x")
    writer.flush()
    before = {"spec.json", "d.partial", tmp_path.name} if name == "d" else {tmp_path.name}
    assert {*steps[: steps.index("rows")]} == before
    writer.abort()


# ---- empty records


def texts(path: Path, *parts: list[str], **options: Any) -> None:
    """Write texts, each part at once, and die."""
    writer = dataformats.create(path, "granular", resume=True, **options)
    for part in parts:
        writer.extend([{"text": text, "n": i} for i, text in enumerate(part)] if "spec" in options else part)
        writer.flush()
    writer.abort()


TEXTS: dict[str, Any] = {"spec": {"text": "utf8", "n": "int64"}}


@loop_over("options", [TEXTS, {"payload": "utf8"}])
def test_empty_records_are_resumed(options: dict[str, Any], tmp_path: Path) -> None:
    name = "d" if options is TEXTS else "d.bag"
    texts(tmp_path / name, [""] * 3, [""] * 4, **options)
    with dataformats.create(tmp_path / name, "granular", resume=True, **options) as writer:
        assert len(writer) == 7


@loop_over("lost", ["ends", "bytes of ends"])
def test_empty_records_are_kept_if_the_first_bytes_lose_their_end(lost: str, tmp_path: Path) -> None:
    texts(tmp_path / "d", [""] * 3, ["", "a", "b"], **TEXTS)
    idx = tmp_path / "d.partial" / "text.idx"
    os.truncate(idx, 8 * 3)
    if lost == "bytes of ends":
        os.truncate(idx, 8 * 6)
    with dataformats.create(tmp_path / "d", "granular", resume=True, **TEXTS) as writer:
        assert len(writer) == 3
    assert len(dataformats.open(tmp_path / "d")) == 3
    assert sorted(contents(tmp_path / "d")) == ["n.bag", "n.idx", "spec.json", "text.bag", "text.idx"]


# ---- generation 2


SEQUENCES = {"id": "int64", "words": "utf8[]"}


def sequence(i: int) -> dict[str, Any]:
    return {"id": i, "words": [f"word {j}" for j in range(i % 3)]}


@loop_over("damage", ["zeros", "cut"])
@loop_over("name", ["refs", "id", "words"])
def test_generation_2_is_resumed(name: str, damage: str, tmp_path: Path) -> None:
    writer = dataformats.create(tmp_path / "d", "granular", spec=SEQUENCES, resume=True)
    for i in range(N):
        writer.append(sequence(i))
        writer.flush()
    writer.abort()
    if damage == "zeros":
        zero(tmp_path / "d.partial" / f"{name}.idx", 5)
    else:
        cut_bag(tmp_path / "d.partial", name, 5)
    assert resumed(tmp_path / "d", SEQUENCES, sequence) == 5


def test_sealed_generation_2_gets_its_indexes_back(tmp_path: Path) -> None:
    stored = BACKEND.stored_spec(dataformats.Spec(SEQUENCES))
    with dataformats.create(tmp_path / "whole", "granular", spec=SEQUENCES) as writer:
        writer.extend([sequence(i) for i in range(20)])
    shutil.copytree(tmp_path / "whole", tmp_path / "d.partial")
    again = BACKEND.create(tmp_path / "d.partial", stored=stored, resume=True)
    assert again.n_records == 20
    again.close()
    assert contents(tmp_path / "d.partial") == contents(tmp_path / "whole")
    bag = tmp_path / "d.partial" / "id.bag"
    table = bag.read_bytes()
    bag.write_bytes(table[:-16] + table[-24:-16] + table[-8:])  # two equal ends
    with pytest.raises(FormatError, match="table of limits"):
        BACKEND.create(tmp_path / "d.partial", stored=stored, resume=True)


def test_rows_without_spec_are_refused(partial: Path) -> None:
    (partial / "spec.json").unlink()
    with pytest.raises(SpecError, match="there are rows"):
        dataformats.create(partial.with_suffix(""), "granular", spec=SPEC, resume=True)
