"""A source or writer that a user implements works wherever those of this package do."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import ChecksumError, SpecError, UnknownNameError

N = 40


class Own(dataformats.RecordSource):
    """The least that a third party implements: records are computed, record 7 is damaged if asked for."""

    fingerprint = "own-1"  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]  # of a property

    def __init__(self, damaged: bool = False) -> None:
        self.damaged = damaged

    @property
    def spec(self) -> dataformats.Spec:
        return dataformats.Spec({"n": "int64", "text": "utf8", "row": "float32[3]"})

    def __len__(self) -> int:
        return N

    def read(self, indices: Any, fields: Any = None, on_corrupt: Any = "raise") -> dataformats.RecordBatch:
        numbers = np.asarray(indices, np.int64)
        failed: dict[int, Exception] = {}
        if self.damaged and 7 in numbers:
            failed[7] = ChecksumError(path="memory", index=7, offset_bytes=0, stored=1, computed=2)
            if on_corrupt == "raise":
                raise failed[7]
            numbers = numbers[numbers != 7]
        columns: dict[str, Any] = {
            "n": numbers,
            "text": [f"text {n}" for n in numbers.tolist()],
            "row": np.repeat(numbers[:, None], 3, axis=1).astype(np.float32),
        }
        return dataformats.RecordBatch({name: columns[name] for name in self.mask(fields)}, numbers, failed)


def plain(record: dict[str, Any]) -> tuple[int, str, list[float]]:
    return record["n"], record["text"], np.asarray(record["row"]).tolist()


EXPECTED = [(n, f"text {n}", [float(n)] * 3) for n in range(N)]


def test_mixed_in_methods() -> None:
    src = Own()
    assert [plain(record) for record in src] == EXPECTED
    assert plain(src[-1]) == EXPECTED[-1]
    assert src[3, ["n"]] == {"n": 3}
    assert [record["n"] for record in src[4:8]] == [4, 5, 6, 7]
    assert [record["n"] for record in src.where(lambda record: record["n"] % 10 == 0)] == [0, 10, 20, 30]
    assert tuple(src.select("text").spec) == ("text",)
    assert src.map(lambda record: record["n"] * 2)[5] == 10
    assert sum(map(len, src.split(0.5, 0.25))) == N
    assert len(src.shard(1, 3)) == 13
    assert (src.stats("n").maximum, src.stats("text").minimum) == (39.0, 6.0)
    assert src.available(2) == {"n": True, "text": True, "row": True}
    assert "Own, 40 records" in repr(src)
    with src, pytest.raises(SpecError, match="have no stored bytes"):
        src.read_bytes([0])


def test_concat_and_mix() -> None:
    both = dataformats.concat([Own(), Own()[:5]])
    assert [record["n"] for record in both] == [*range(N), *range(5)]
    mixture = dataformats.mix({"one": Own(), "two": Own()[:0:-1]}, until="all")
    seen = {n for batch in dataformats.Loader(mixture, batch_size=8) for n in batch["n"].tolist()}
    assert seen == {*range(N)}


@pytest.mark.parametrize("format", ["tfrecord", "ffrecord", "ofrecord", "granular"])
def test_convert_from_it(format: str, tmp_path: Path) -> None:
    report = dataformats.convert(Own(), tmp_path / "copy", format)
    assert (report.records, report.copied) == (N, False)
    assert [plain(record) for record in dataformats.open(tmp_path / "copy")] == EXPECTED


def test_info_and_verify() -> None:
    about = dataformats.info(Own())
    assert (about.records, about.spec["text"], about.files, about.fingerprint) == (N, "utf8", (), "own-1")
    assert dataformats.verify(Own()).ok
    report = dataformats.verify(Own(damaged=True))
    assert [(finding.index, finding.kind) for finding in report.findings] == [(7, "ChecksumError")]


def test_a_view_is_described_and_verified() -> None:
    view = dataformats.open("tests/golden/real/digits-*.tfrecord")[10:20]
    assert dataformats.info(view).records == 10
    assert dataformats.verify(view).records == 10


@pytest.mark.parametrize("workers", [0, 2])
def test_loader(workers: int) -> None:
    loader = dataformats.Loader(
        Own(damaged=True), batch_size=8, shuffle=True, seed=3, on_corrupt="omit", workers=workers
    )
    seen = [n for batch in loader for n in batch["n"].tolist()]
    assert sorted(seen) == [n for n in range(N) if n != 7]
    state = loader.state_dict()
    again = dataformats.Loader(Own(), batch_size=8, shuffle=True, seed=3)
    again.load_state_dict(state)
    assert again.position == loader.position
    assert len(next(iter(again))["n"]) == 8


class Collector(dataformats.RecordWriter):
    """The least that a third party implements."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.ended = ""

    def append(self, record: Any) -> None:
        self.records.append(record)

    def __len__(self) -> int:
        return len(self.records)

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"


def test_convert_to_a_writer() -> None:
    done: list[tuple[int, int]] = []
    with Collector() as writer:
        report = dataformats.convert(
            Own(), writer, fields=["n", "text"], rename={"text": "words"}, progress=lambda *n: done.append(n)
        )
        assert writer.ended == ""
    assert (report.records, report.format, report.left_out) == (N, "Collector", ("row",))
    assert writer.records[5] == {"n": 5, "words": "text 5"}
    assert (writer.ended, done[-1]) == ("closed", (N, N))


@pytest.mark.parametrize(
    "options",
    [
        {"format": "tfrecord"},
        {"spec": {"n": "int64"}},
        {"generation": 3},
        {"shard_records": 5},
        {"shard_bytes": 5},
        {"overwrite": True},
    ],
)
def test_options_are_refused_with_a_writer(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="to a writer takes no format="):
        dataformats.convert(Own(), Collector(), **options)


def test_a_path_needs_a_format(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown format for the name 'copy' .*\. Pass format=\."):
        dataformats.convert(Own(), tmp_path / "copy")


def test_a_writer_closes_or_aborts() -> None:
    writer = Collector()
    with writer:
        writer.extend([1, 2])
        writer.flush(sync=True)
    assert (len(writer), writer.ended) == (2, "closed")
    with pytest.raises(ZeroDivisionError), writer:
        functools.reduce(lambda a, b: a // b, [1, 0])
    assert writer.ended == "aborted"
