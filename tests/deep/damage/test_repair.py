"""Random damage: every record that was not hit is kept, nothing else is, and the report covers every other byte."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

import dataformats
from dataformats.errors import FormatError
from tests.campaign import chosen
from tests.cases import frames

N_FILES = 60


class Damaged:
    """Bytes, each with the number of its record; -1 for bytes outside of records."""

    def __init__(self, data: bytes, sizes: list[int], rng: random.Random) -> None:
        self.data = bytearray(data)
        self.owner = [-1] * (len(data) - sum(sizes))
        for number, size in enumerate(sizes):
            self.owner += [number] * size
        self.hit: set[int] = set()
        self.is_shorter = False
        self.rng = rng

    def place(self) -> int:
        return self.rng.randrange(len(self.data))

    def flip(self) -> None:
        at = self.place()
        self.data[at] ^= 1 << self.rng.randrange(8)
        self.hit.add(self.owner[at])

    def zero(self) -> None:
        at = self.place()
        for place in range(at, min(at + self.rng.randint(1, 50), len(self.data))):
            if self.data[place]:
                self.data[place] = 0
                self.hit.add(self.owner[place])

    def insert(self) -> None:
        at, n = self.place(), self.rng.randint(1, 40)
        if at and self.owner[at - 1] == self.owner[at]:
            self.hit.add(self.owner[at])
        self.data[at:at] = self.rng.randbytes(n)
        self.owner[at:at] = [-1] * n

    def remove(self) -> None:
        at, n = self.place(), self.rng.randint(1, 40)
        self.hit |= {*self.owner[at : at + n]}
        self.is_shorter = True
        del self.data[at : at + n], self.owner[at : at + n]

    def cut(self) -> None:
        at = max(self.place(), len(self.data) - 60)
        self.hit |= {*self.owner[at:]}
        del self.data[at:], self.owner[at:]

    def append(self) -> None:
        garbage = self.rng.randbytes(self.rng.randint(1, 60))
        self.data += garbage
        self.owner += [-1] * len(garbage)


ANY = (Damaged.flip, Damaged.zero, Damaged.insert, Damaged.remove, Damaged.cut, Damaged.append)


def damage(data: bytes, sizes: list[int], kinds: tuple[Callable[[Damaged], None], ...], rng: random.Random) -> Damaged:
    damaged = Damaged(data, sizes, rng)
    for kind in rng.choices(kinds, k=rng.randint(1, 4)):
        if damaged.data:
            kind(damaged)
    return damaged


def numbers_of(kept: list[bytes], records: list[bytes]) -> list[int]:
    """The number of each kept record, which increase; fails for a record that there was not."""
    numbers = [-1]
    for record in kept:
        numbers.append(records.index(record, numbers[-1] + 1))
    return numbers[1:]


@pytest.mark.parametrize("seed", chosen(range(N_FILES)))
def test_tfrecords(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    records = [bytes([number]) + rng.randbytes(rng.choice((0, 5, 30, 200))) for number in range(rng.randint(1, 30))]
    damaged = damage(frames(*records), [16 + len(record) for record in records], ANY, rng)
    (tmp_path / "x.tfrecord").write_bytes(damaged.data)
    report = dataformats.repair(tmp_path / "x.tfrecord", tmp_path / "y.tfrecord")
    kept = list(dataformats.open(tmp_path / "y.tfrecord", payload="bytes"))
    assert numbers_of(kept, records) == [n for n in range(len(records)) if n not in damaged.hit]
    lost = [(loss.start or 0, loss.stop or 0) for loss in report.losses]
    assert sum(stop - start for start, stop in lost) + sum(16 + len(one) for one in kept) == len(damaged.data)
    assert all(one[1] <= other[0] for one, other in pairwise(lost))
    if damaged.is_shorter:
        return  # a removed end of a record leaves one record less to count
    known = [loss for loss in report.losses if loss.index is not None and loss.records]
    assert {n for loss in known for n in range(loss.index or 0, (loss.index or 0) + (loss.records or 0))} <= damaged.hit


@pytest.mark.parametrize("seed", chosen(range(N_FILES)))
def test_ofrecords(seed: int, tmp_path: Path) -> None:
    """Changed bytes inside a record cannot be noticed, so a kept record may be one that was hit."""
    rng = random.Random(seed)
    with dataformats.create(tmp_path / "whole.ofrecord", spec={"i": "int64", "d": "bytes"}) as writer:
        writer.extend({"i": n, "d": rng.randbytes(rng.choice((1, 5, 30, 200)))} for n in range(rng.randint(1, 30)))
    source = dataformats.open(tmp_path / "whole.ofrecord")
    records = source.read_bytes(range(len(source)))
    whole = (tmp_path / "whole.ofrecord").read_bytes()
    damaged = damage(whole, [8 + len(record) for record in records], ANY, rng)
    (tmp_path / "x.ofrecord").write_bytes(damaged.data)
    dataformats.repair(tmp_path / "x.ofrecord", tmp_path / "y.ofrecord")
    kept = dataformats.open(tmp_path / "y.ofrecord").read_bytes(range(len(dataformats.open(tmp_path / "y.ofrecord"))))
    missing = [n for n in range(len(records)) if n not in damaged.hit and records[n] not in kept]
    assert len(missing) <= 4 * damaged.is_shorter  # the header of the next record may be taken for the removed bytes
    assert len([record for record in kept if record not in records]) <= len(damaged.hit)


@pytest.mark.parametrize("seed", chosen(range(N_FILES)))
def test_ffrecords(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    records = [bytes([number]) + rng.randbytes(rng.choice((0, 5, 30, 200))) for number in range(rng.randint(1, 30))]
    with dataformats.create(tmp_path / "whole.ffr") as writer:
        writer.extend(records)
    kinds = (Damaged.flip, Damaged.zero, Damaged.cut)
    damaged = damage((tmp_path / "whole.ffr").read_bytes(), [len(record) for record in records], kinds, rng)
    (tmp_path / "x.ffr").write_bytes(damaged.data)
    try:
        report = dataformats.repair(tmp_path / "x.ffr", tmp_path / "y.ffr")
    except FormatError:
        assert -1 in damaged.hit  # the header
        return
    kept = numbers_of(list(dataformats.open(tmp_path / "y.ffr")), records)
    assert not damaged.hit & {*kept}
    if -1 not in damaged.hit:
        assert kept == [n for n in range(len(records)) if n not in damaged.hit]
    assert report.kept + report.lost == len(records)


def test_every_bit_of_a_tfrecord(tmp_path: Path) -> None:
    records = [b"one", b"", b"three", b"x"]
    whole = frames(*records)
    ends = [*accumulate(16 + len(record) for record in records)]
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / "x.tfrecord").write_bytes(damaged)
        hit = sum(end <= bit // 8 for end in ends)
        report = dataformats.repair(tmp_path / "x.tfrecord", tmp_path / "y.tfrecord", dry_run=True)
        (loss,) = report.losses
        assert (report.kept, loss.index, loss.records, loss.stop) == (3, hit, 1, ends[hit]), bit
