"""Random damage to formats whose records are found by headers or tables: the records that it does not touch are saved.

Records that it touches may be lost or, without checksums, changed. Nothing else is saved, and the order is kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.backends.array_record.riegeli import Chunk, ChunkScanner
from dataformats.errors import FormatError
from dataformats.storage.files import LocalFile
from dataformats.testing.loop_over import loop_over
from tests.campaign import chosen
from tests.cases import GOLDEN

N_FILES = 300
N = 40
Owners = dict[int, set[int]]  # byte to the records that damage to it may cost; other bytes cost none


def damaged(whole: bytes, rng: random.Random, n_damages: int) -> tuple[bytes, list[int]]:
    """Return damaged bytes, and the places that differ."""
    data = bytearray(whole)
    for _ in range(n_damages):
        at, n = rng.randrange(len(data)), rng.choice((20, 200, 1024))
        if rng.random() < 0.5:
            data[at] ^= 1 << rng.randrange(8)
        else:
            data[at : at + n] = bytes(len(data[at : at + n]))
    return bytes(data), [at for at in range(len(data)) if data[at] != whole[at]]


def owned(ranges: Sequence[range]) -> Owners:
    """Return the owners of bytes of records that lie in these ranges."""
    return {at: {number} for number, where in enumerate(ranges) for at in where}


def check(found: Sequence[Any], originals: Sequence[Any], may_be_lost: set[int], n_changed: int) -> None:
    """Fail for a lost record, for records out of order, and for more unknown ones than the damage can change."""
    at, unknown, kept = 0, 0, set()
    for one in found:
        place = next((number for number in range(at, len(originals)) if originals[number] == one), None)
        if place is None:
            unknown += 1
        else:
            at = place + 1
            kept.add(place)
    assert unknown <= n_changed, f"{unknown} records are none of the original ones"
    lost = {*range(len(originals))} - kept
    assert lost <= may_be_lost, f"lost without damage: {sorted(lost - may_be_lost)}"


def as_bytes(one: Any) -> Any:
    return (
        {name: as_bytes(value) for name, value in one.items()} if isinstance(one, dict) else np.asarray(one).tobytes()
    )


def written(path: Path, spec: dict[str, str], value: Callable[[int], dict[str, Any]], **options: Any) -> list[Any]:
    """Write 40 records without a sidecar, and return them as they are read."""
    with dataformats.create(path, spec=spec, **options) as writer:
        writer.extend(map(value, range(N)))
    Path(f"{path}.dataformats.json").unlink(missing_ok=True)
    return [as_bytes(one) for one in dataformats.open(path)]


def repaired(path: Path, format: str, **options: Any) -> list[Any] | None:
    """Return the saved records that can be decoded; `None` if nothing could be saved."""
    new = path.with_name(f"new{path.suffix}")
    try:
        report = dataformats.repair(path, new, source_options={"format": format}, overwrite=True)
    except FormatError:
        return None
    source = dataformats.open(new, format=format, **options)
    assert len(source) == report.kept
    return [as_bytes(one) for one in source.read(range(len(source)), on_corrupt="omit")]


@loop_over("seed", chosen(range(N_FILES)))
def test_webdataset(seed: int, tmp_path: Path) -> None:
    rng, path = random.Random(seed), tmp_path / "x.tar"
    records = written(path, {"n": "int64", "d": "bytes"}, lambda n: {"n": n, "d": rng.randbytes(rng.choice((5, 900)))})
    whole = path.read_bytes()
    headers = [at for at in range(0, len(whole), 512) if whole[at + 257 : at + 262] == b"ustar"]
    starts = [*headers[1::2], len(whole.rstrip(b"\0"))]  # the spec is the first member
    data, places = damaged(whole, rng, rng.randint(1, 2))
    path.write_bytes(data)
    owners = owned([*map(range, starts, starts[1:])])
    hit = set().union(*(owners.get(at, set()) for at in places))
    found = repaired(path, "webdataset")
    if found is None:
        assert any(at < starts[0] for at in places)  # the spec
        return
    if any(at < starts[0] for at in places):
        return  # without the spec, the fields have other names
    between = {*range(min(hit, default=0), max(hit, default=0))}  # two of zeros may enclose what looks like an archive
    check(found, records, hit | between, len(hit))


@loop_over("seed", chosen(range(N_FILES)))
def test_recordio(seed: int, tmp_path: Path) -> None:
    """A record in front of damage may be lost, too: the damaged header does not show where it ends."""
    rng, path = random.Random(seed), tmp_path / "x.rec"
    whole = (GOLDEN / "recordio" / "images.rec").read_bytes()
    starts = [int(line.split()[1]) for line in (GOLDEN / "recordio" / "images.idx").read_text().splitlines()]
    records = [as_bytes(one) for one in dataformats.open(GOLDEN / "recordio" / "images.rec", headers=False)]
    data, places = damaged(whole, rng, 1)
    path.write_bytes(data)
    owners = owned([*map(range, starts, [*starts[1:], len(whole)])])
    hit = set().union(*(owners[at] for at in places))
    source = dataformats.open(path, format="recordio", headers=False)
    found = [as_bytes(one) for one in source.read(range(len(source)), on_corrupt="omit")]
    check(found, records, hit | {number - 1 for number in hit}, len(hit))


@loop_over("seed", chosen(range(N_FILES)))
def test_megatron(seed: int, tmp_path: Path) -> None:
    rng, path = random.Random(seed), tmp_path / "x.bin"
    records = written(
        path,
        {"tokens": "int32[]"},
        lambda n: {"tokens": np.arange(n, n + rng.randint(1, 9), dtype="i4")},
        format="megatron",
    )
    idx = path.with_suffix(".idx")
    whole = idx.read_bytes()
    data, places = damaged(whole, rng, rng.randint(1, 2))
    idx.write_bytes(data)
    found = repaired(path, "megatron")
    if any(at < 34 for at in places):
        return  # the header
    entries = [(at - 34 - 12 * N) // 8 for at in places if at >= 34 + 12 * N]
    sizes = [(at - 34) // 4 for at in places if at < 34 + 4 * N]
    pointers = [(at - 34 - 4 * N) // 8 for at in places if 34 + 4 * N <= at < 34 + 12 * N]
    hit = {*sizes, *pointers, *entries}
    hit |= {number - 1 for number in hit}  # the next one proves where a sequence ends
    if len({*sizes, *pointers}) < N // 3 and len({*entries}) < N // 3:  # else another program may have written gaps
        assert found is not None
        check(found, records, hit, 0)


@loop_over("seed", chosen(range(N_FILES)))
def test_mds(seed: int, tmp_path: Path) -> None:
    rng, path = random.Random(seed), tmp_path / "x"
    spec = {"d": "bytes", "n": "int64", "t": "utf8"}
    text = lambda n: {"d": rng.randbytes(rng.choice((5, 300))), "n": n, "t": "x" * (n % 5)}  # noqa: E731
    records = written(path, spec, text, format="mds")
    shard = path / "shard.00000.mds"
    whole = shard.read_bytes()
    table = np.frombuffer(whole, "<u4", N + 2)[1:].tolist()
    owners = owned([*map(range, table, table[1:])])
    for entry in range(N + 1):
        owners |= {at: {entry - 1, entry} for at in range(4 + 4 * entry, 8 + 4 * entry)}
    data, places = damaged(whole, rng, rng.randint(1, 2))
    shard.write_bytes(data)
    hit = set().union(*(owners.get(at, set()) for at in places))
    found = repaired(path, "mds")
    assert found is not None
    if all(at >= 8 for at in places) or hit == {-1, 0}:
        check(found, records, hit, len(hit))


@loop_over("seed", chosen(range(N_FILES)))
def test_array_records(seed: int, tmp_path: Path) -> None:
    pytest.importorskip("array_record", reason="array_record has no wheel here")
    rng, path = random.Random(seed), tmp_path / "x.array_record"
    group = rng.choice((1, 3))
    with dataformats.create(path, payload="bytes", group_size=group, compression="none") as writer:
        writer.extend(bytes([n]) + rng.randbytes(rng.choice((0, 4000))) for n in range(N))
    Path(f"{path}.dataformats.json").unlink(missing_ok=True)
    records = [as_bytes(one) for one in dataformats.open(path, payload="bytes")]
    chunks: list[Chunk] = [one for one in ChunkScanner(LocalFile(str(path))).chunks(0) if one.has_records]
    of_data = chunks[: -(-N // group)]
    end = of_data[-1].stop
    whole = path.read_bytes()
    data, places = damaged(whole, rng, rng.randint(1, 3))
    if rng.random() < 0.3:
        data, places = data[:-100], [*places, len(whole) - 1]
    path.write_bytes(data)
    hit = {number for number, chunk in enumerate(of_data) for at in places if chunk.begin <= at < chunk.stop}
    lost = {number * group + n for number in hit for n in range(group)}
    found = repaired(path, "array_record", payload="bytes")
    assert found is not None
    if any(at >= end for at in places) and hit:  # a damaged header costs the chunks up to the next block
        lost |= {*range(min(lost), N)}
    check(found, records, lost, 0)


@loop_over("seed", chosen(range(N_FILES)))
def test_jsonl(seed: int, tmp_path: Path) -> None:
    """Damage to the end of a line costs the next line, too."""
    rng, path = random.Random(seed), tmp_path / "x.jsonl"
    records = written(
        path, {"n": "int64", "t": "utf8"}, lambda n: {"n": n, "t": rng.randbytes(rng.choice((5, 90))).hex()}
    )
    whole = path.read_bytes()
    data, places = damaged(whole, rng, rng.randint(1, 2))
    path.write_bytes(data)
    ends = [0, *(at + 1 for at, byte in enumerate(whole) if byte == 10)]
    owners = owned([*map(range, ends, ends[1:])])
    hit = set().union(*(owners[at] for at in places))
    found = repaired(path, "jsonl", spec={"n": "int64?", "t": "utf8?"})
    assert found is not None
    check(found, records, hit | {number + 1 for number in hit}, 2 * len(hit))
