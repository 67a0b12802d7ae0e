"""A user's source or writer works everywhere that this package's own do."""

from __future__ import annotations

import functools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import ChecksumError, SpecError, UnknownNameError
from dataformats.inspecting.diff_report import diff
from dataformats.interfaces.declared_spec import is_single
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN

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


def test_a_source_implements_four_members() -> None:
    assert dataformats.RecordSource.__abstractmethods__ == {"read", "__len__", "spec", "fingerprint"}
    src = Own()
    assert (src.format, src.payload, src.paths, src.nbytes, src.record_bytes()) == ("Own", None, (), 0, 0.0)


def test_sources_have_few_public_members() -> None:
    members = [name for name in vars(dataformats.RecordSource) if not name.startswith("_")]
    assert len(members) <= 31, members


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
    assert src.present_fields(2) == {"n": True, "text": True, "row": True}
    assert repr(src).splitlines()[0] == "Own: Own, 40 records"
    with src, pytest.raises(SpecError, match="have no stored bytes"):
        src.read_bytes([0])


def test_concat_and_mix() -> None:
    both = dataformats.concat([Own(), Own()[:5]])
    assert [record["n"] for record in both] == [*range(N), *range(5)]
    mixture = dataformats.mix({"one": Own(), "two": Own()[:0:-1]}, until="all")
    seen = {n for batch in dataformats.Loader(mixture, batch_size=8) for n in batch["n"].tolist()}
    assert seen == {*range(N)}


@loop_over("format", ["tfrecord", "ffrecord", "ofrecord", "granular"])
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


class Few(dataformats.RecordSource):
    """Three records, whose spec subclasses declare."""

    fingerprint = "few"  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]  # of a property
    single_values = False

    def __len__(self) -> int:
        return 3

    def read(self, indices: Any, fields: Any = None, on_corrupt: Any = "raise") -> dataformats.RecordBatch:
        numbers = np.asarray(indices, np.int64)
        return dataformats.RecordBatch(dict.fromkeys(self.mask(fields), numbers), numbers, {}, self.single_values)


class ByClass(Few):
    spec = {"n": "int64"}  # type: ignore[assignment]  # noqa: RUF012  # pyright: ignore


class ByProperty(Few):
    @property
    def spec(self) -> Any:
        return {"n": int}


class ByCachedProperty(Few):
    @functools.cached_property  # noqa: TID251  # as users have it
    def spec(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return {"n": "int64"}


class ByInstance(Few):
    spec: Any = {"other": "int64"}  # noqa: RUF012

    def __init__(self) -> None:
        self.spec = {"n": "int64"}


class FieldCalledValue(Few):
    spec = {"value": "int64"}  # type: ignore[assignment]  # noqa: RUF012  # pyright: ignore


class SingleValues(FieldCalledValue):
    single_values = True


FEW = [ByClass, ByProperty, ByCachedProperty, ByInstance, FieldCalledValue, SingleValues]


@pytest.fixture(params=FEW, ids=lambda cls: cls.__name__)
def few(request: pytest.FixtureRequest) -> Few:
    source: Few = request.param()
    return source


def rows(few: Few, *numbers: int) -> list[Any]:
    return list(numbers) if few.single_values else [{name: n} for name in few.spec for n in numbers]


def test_a_plain_spec_becomes_a_spec(few: Few) -> None:
    for _ in range(2):
        assert isinstance(few.spec, dataformats.Spec)
    (name,) = few.spec
    assert few.spec[name].dtype == np.dtype("<i8")
    assert pickle.loads(pickle.dumps(few)).spec == few.spec
    assert is_single(few) == few.single_values
    assert "n  int64" in repr(few).replace("value", "n")


def test_a_wrong_spec_is_refused_when_the_class_is_defined() -> None:
    with pytest.raises(SpecError, match="'no type!' is not a type"):
        type("Wrong", (Few,), {"spec": {"n": "no type!"}})


def test_views_of_plain_specs(few: Few) -> None:
    (name,) = few.spec
    assert [few[1], few.select(name)[1], few[1:][0], few.where(lambda record: True)[1]] == rows(few, 1, 1, 1, 1)
    assert list(few) == list(few.map(lambda record: record)) == rows(few, 0, 1, 2)
    assert dataformats.concat([few, few[1:]])[4] == rows(few, 2)[0]


def test_statistics_of_plain_specs(few: Few) -> None:
    (name,) = few.spec
    stats = few.stats()
    assert few.stats(name).mean == 1.0
    assert isinstance(stats, dict) != few.single_values


def test_arrow_of_plain_specs(few: Few) -> None:
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    (name,) = few.spec
    assert few[1:].to_arrow().to_pydict() == {name: [1, 2]}


def test_loader_of_plain_specs(few: Few) -> None:
    (name,) = few.spec
    assert next(iter(dataformats.Loader(few, 3, shuffle=False)))[name].tolist() == [0, 1, 2]
    mixture = dataformats.mix({"one": few}, until="all")
    assert sorted(next(iter(dataformats.Loader(mixture, 3)))[name].tolist()) == [0, 1, 2]


@loop_over("format", ["tfrecord", "ffrecord", "ofrecord", "granular", "syrah"])
def test_conversion_of_plain_specs(few: Few, format: str, tmp_path: Path) -> None:
    path = tmp_path / ("copy.bag" if few.single_values and format == "granular" else "copy")
    if few.single_values and format == "syrah":
        dataformats.convert(few, path, format)
        assert list(dataformats.open(path)) == [{"value": value} for value in rows(few, 0, 1, 2)]
        return
    assert dataformats.convert(few, path, format).records == 3
    assert list(dataformats.open(path)) == rows(few, 0, 1, 2)
    assert dataformats.verify(path, against=few).ok
    assert dataformats.verify(few, against=path).ok


def test_inspection_of_plain_specs(few: Few) -> None:
    assert dataformats.info(few).spec == few.spec
    assert dataformats.verify(few).records == 3
    assert diff(few, few).equal
    assert not diff(few, few[1:]).equal


def test_single_values_are_no_records_of_one_field() -> None:
    with pytest.raises(SpecError, match="cannot combine single values"):
        dataformats.concat([FieldCalledValue(), SingleValues()])


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


def test_progress_counts_omitted_records() -> None:
    done: list[tuple[int, int]] = []
    damaged = GOLDEN / "tfrecord" / "corrupt" / "data_bit.tfrecord"
    report = dataformats.convert(damaged, Collector(), on_corrupt="omit", progress=lambda *n: done.append(n))
    assert report.omitted == 1
    assert done[-1] == (report.records + 1, report.records + 1)


@loop_over(
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
