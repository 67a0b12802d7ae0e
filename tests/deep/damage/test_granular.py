"""Damaged datasets of generation 1, single bags and unfinished datasets; the conformance suite damages all others."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

import dataformats
from dataformats.backends.granular import BACKEND
from dataformats.errors import DataFormatsError, FormatError
from dataformats.storage.files import LocalFile
from tests.backends.test_granular import (
    GOOD,
    bag_of,
    blobs,
    copied,
    files_in,
    joined,
    open_raw,
    path_of,
    read_each,
    small_set,
)
from tests.campaign import chosen

RECORDS = [b"first", b"second record", b"3", b"the fourth"]


def reads(folder: Path) -> Iterator[tuple[int, Any]]:
    """Every row that can be read; only our own errors may come out."""
    try:
        source: Any = dataformats.open(folder, format="granular")
        n = len(source)
    except DataFormatsError:
        return
    assert n <= 40
    for index in range(n):
        try:
            source.present_fields(index)
            yield index, source[index]
        except DataFormatsError:
            continue
    assert source.fingerprint


def test_cut_at_every_byte(tmp_path: Path) -> None:
    folder = small_set(tmp_path / "data", 1)
    assert len(dict(reads(folder))) == 4
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for stop in chosen(range(len(whole))):
            path.write_bytes(whole[:stop])
            for _ in reads(folder):
                pass  # any 8 last bytes may lead to a table inside the bag, and there is no checksum
        path.write_bytes(whole)


def test_every_bit_flipped(tmp_path: Path) -> None:
    folder = small_set(tmp_path / "data", 1)
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for bit in chosen(range(8 * len(whole))):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            for _ in reads(folder):
                pass
        path.write_bytes(whole)


@pytest.mark.parametrize("generation", [1, 2])
def test_a_bag_cut_or_flipped(generation: int, tmp_path: Path) -> None:
    path = tmp_path / "x.bag"
    whole = bag_of(RECORDS, generation)
    for stop in chosen(range(len(whole))):
        path.write_bytes(whole[:stop])
        assert all(len(blob) <= len(whole) for blob in bag_reads(path))
    for bit in chosen(range(8 * len(whole))):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        assert all(len(blob) <= len(whole) for blob in bag_reads(path))
        BACKEND.sniff(LocalFile(path))


def bag_reads(path: Path) -> list[bytes]:
    try:
        found = read_each(dataformats.open(path, format="granular"))
    except FormatError:
        return []
    return [blob for blob in found if isinstance(blob, bytes)]


@pytest.mark.parametrize("generation", [2, 3])
def test_resume_after_a_cut_at_any_byte(generation: int, tmp_path: Path) -> None:
    spec = {"a": "utf8", "n": "int"} | ({"s": "utf8[]"} if generation == 2 else {})
    rows = [{"a": f"row {i}", "n": i, "s": ["x"] * i} for i in range(5)]
    rows = [{name: row[name] for name in spec} for row in rows]
    with dataformats.create(tmp_path / "whole", "granular", spec=spec) as writer:
        writer.extend(rows)
    partial = tmp_path / "d.partial"
    file: Any = BACKEND.create(partial, stored=dataformats.Spec(spec), generation=generation)
    encoded = [{name: list(map(bytes, blobs(value))) for name, value in row.items()} for row in raw_rows(tmp_path)]
    for row in encoded:
        file.append(row)
    file.flush()
    file.suspend()
    whole = files_in(partial)
    for name, data in whole.items():
        if not name.endswith(".idx"):
            continue
        for stop in chosen(range(len(data))):
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            for other, content in whole.items():
                (partial / other).write_bytes(content[:stop] if other == name else content)
            with dataformats.create(tmp_path / "d", "granular", spec=spec, resume=True) as writer:
                assert generation == 2 or len(writer) == stop // 8
                writer.extend(rows[len(writer) :])
            assert files_in(tmp_path / "d") == files_in(tmp_path / "whole")
            shutil.rmtree(tmp_path / "d")


CUT = [entry for entry in GOOD if entry["n"] and entry["kind"] != "sharded"]
"""Without shards: behind a damaged one, the others' rows have other numbers."""

AMBIGUOUS = {"v2/bag_zero_like"}
"""Made of records that look like ends: cut, it is a whole bag of other records."""


@pytest.mark.parametrize(
    "entry", [entry for entry in CUT if entry["id"] not in AMBIGUOUS], ids=lambda entry: entry["id"]
)
def test_cuts_of_the_originals_give_no_other_rows(entry: dict[str, Any], tmp_path: Path) -> None:
    path = path_of(entry)
    if path.is_dir():
        check_cuts(copied(path, tmp_path / "data"), tmp_path / "data")
        return
    for file in path.parent.glob(f"{path.stem}.*"):
        shutil.copyfile(file, tmp_path / file.name)
    check_cuts(tmp_path / path.name, tmp_path)


@pytest.mark.parametrize("generation", [1, 2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_cuts_of_other_datasets_give_no_other_rows(generation: int, seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"{generation} {seed}")
    rows = rng.randint(1, 40)
    short = rng.choice(["utf8", "msgpack", "array", "i64", "u64", "int"])
    types = {"a": short, "b": "i64", "c": "utf8"} | ({"s": "i64[]", "t": "utf8[]"} if generation < 3 else {})
    columns: dict[str, list[bytes]] = {name: [] for name in types}
    refs = []
    for row in range(rows):
        counts = {name: rng.randint(0, 3) if kind.endswith("[]") else 1 for name, kind in types.items()}
        firsts = {name: len(columns[name]) for name in types}
        plain = {name: [firsts[name], counts[name]] if counts[name] else [] for name in types}
        refs.append([plain[name] if types[name].endswith("[]") else row for name in sorted(types)])
        for name, kind in types.items():
            columns[name] += [stored(kind.removesuffix("[]"), rng) for _ in range(counts[name])]
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "spec.json").write_text(json.dumps(types))
    for name, records in columns.items():
        ends = np.cumsum([len(record) for record in records]).astype("<u8").tobytes()
        (folder / f"{name}.bag").write_bytes(b"".join(records) if generation == 3 else bag_of(records, generation))
        if generation == 3:
            (folder / f"{name}.idx").write_bytes(ends)
    if generation < 3:
        (folder / "refs.bag").write_bytes(bag_of([msgpack.packb(row) or b"" for row in refs], generation))
    check_cuts(folder, folder)


def stored(kind: str, rng: random.Random) -> bytes:
    """Return the bytes of a value; small integers of 8 bytes look like ends of records."""
    number = rng.choice([0, 1, 2, 3, 8, 9, 16, rng.randint(0, 300)])
    if kind in ("i64", "u64"):
        return number.to_bytes(8, "little")
    if kind == "int":
        return number.to_bytes(2, "little")
    if kind == "utf8":
        return "".join(rng.choices("abcdefgh", k=rng.choice([1, 7, 8, 16, rng.randint(1, 30)]))).encode()
    value = np.zeros(rng.choice([1, 2, 8]), rng.choice(["<f4", "<i8"]))
    parts = [value.dtype.str, list(value.shape), value.tobytes()]
    return msgpack.packb(parts if kind == "array" else {"n": number}) or b""


def check_cuts(path: Path, folder: Path) -> None:
    """Cut each bag and index at every byte (of large ones, at 40 and at the last 40): no other value comes out."""
    whole_set = open_raw(path)
    spec = None if whole_set.payload else whole_set.spec
    right = by_record(whole_set)
    assert len(right) == len(whole_set)
    for file in sorted(folder.rglob("*.bag")) + sorted(folder.rglob("*.idx")):
        whole = file.read_bytes()
        spread, last = range(0, len(whole), len(whole) // 40 + 1), range(max(0, len(whole) - 40), len(whole))
        for stop in chosen(sorted({*spread, *last})):
            file.write_bytes(whole[:stop])
            try:
                source = dataformats.open(path, format="granular", spec=spec)
                n, found = len(source), by_record(source)
            except DataFormatsError:
                continue
            at = f"{file.name} cut at byte {stop} of {len(whole)}"
            assert {record: value for record, value in found.items() if right.get(record) != value} == {}, at
            # A bag alone may be a sound one of fewer records, and a field of empty sequences needs no bag.
            assert path.is_file() or len(found) < n or found == right, f"{at}: not noticed"
        file.write_bytes(whole)


def by_record(source: Any) -> dict[int, Any]:
    """Return the stored bytes of every record that can be read."""
    batch = source.read(range(len(source)), on_corrupt="omit")
    return {i: joined(record) for i, record in zip(batch.indices.tolist(), batch, strict=True)}


def raw_rows(folder: Path) -> list[Any]:
    return list(open_raw(folder / "whole"))
