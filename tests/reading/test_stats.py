"""Statistics of fields."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import dataformats
from dataformats.batch import Nullable, RecordBatch
from dataformats.reading.running_statistics import MAX_DISTINCT
from dataformats.reading.stats import FieldStats, RunningStats, scan_stats
from dataformats.testing.loop_over import loop_over
from tests.campaign import share

GOLDEN = Path(__file__).parents[1] / "golden"

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
COLUMNS = st.one_of(
    arrays.arrays(np.float64, st.integers(1, 40), elements=FLOATS | st.floats(-1, 1)),
    arrays.arrays(np.float32, st.integers(1, 40)),
    *(
        arrays.arrays(kind, st.integers(1, 40), elements=arrays.from_dtype(np.dtype(kind)) | st.integers(0, 9))
        for kind in (np.int8, np.int64, np.uint64)
    ),
)


def stats_of(*columns: Any) -> FieldStats:
    running, first = RunningStats(["x"]), 0
    for column in columns:
        running.add(RecordBatch({"x": column}, np.arange(first, first + len(column))))
        running.snapshot()  # or the columns would be measured together
        first += len(column)
    return running.snapshot()["x"]


@settings(max_examples=share(80), deadline=None)
@given(COLUMNS, st.integers(0, 40))
@example(np.array([-1e300, -5e-324, 1e300]), 0)  # a negative number that is zero if it is scaled
def test_histogram_is_numpys(column: np.ndarray[Any, Any], cut: int) -> None:
    stats = stats_of(*[part for part in (column[:cut], column[cut:]) if len(part)])
    finite = column[np.isfinite(column)]
    assert stats.nans + stats.infinite + len(finite) == len(column)
    if not len(finite):
        assert (stats.histogram, stats.minimum) == (None, None)
        return
    assert stats.histogram is not None
    edges, counts = stats.histogram.edges, stats.histogram.counts
    assert len(counts) <= 128
    assert min(counts[0], counts[-1]) > 0
    assert sum(counts) == len(finite)
    finite = finite if column.dtype.kind != "f" else finite.astype(np.float64)
    if column.dtype.kind == "f" or np.abs(finite.astype(np.float64)).max() < 2**53:
        expected = [((left <= finite) & (finite < right)).sum() for left, right in itertools.pairwise(edges)]
        assert np.array_equal(counts, expected) or edges[-1] == np.finfo(np.float64).max
    assert (stats.minimum, stats.maximum) == (float(finite.min()), float(finite.max()))


@settings(max_examples=share(80), deadline=None)
@given(COLUMNS, st.integers(0, 40))
@example(np.arange(2**62, 2**62 + 9), 4)  # an integer more or less is lost in a float64
@example(np.array([-(2**63), 2**63 - 1]), 1)
@example(np.array([2**64 - 1, 2**64 - 3], np.uint64), 1)
@example(np.array([1, 2, 3], ">i4"), 1)
@example(np.array([1e308, 1.1e308, 1.7e308]), 1)  # their sum and squares are larger than a float64
@example(np.array([-1.7e308, 0, 1.7e308]), 2)
@example(np.array([1e-200, 3e-200, 4e-200]), 1)  # their squares are zero
@example(np.array([1e-200, 0.0]), 1)  # zeros alone need no other scale
@example(np.array([1e-200, 1e-300, 1, 1e300]), 2)
def test_mean_and_deviation_match_fractions(column: np.ndarray[Any, Any], cut: int) -> None:
    stats = stats_of(*[part for part in (column[:cut], column[cut:]) if len(part)])
    numbers: list[Any] = [Fraction(number) for number in column[np.isfinite(column)].tolist()]
    if not numbers:
        assert (stats.mean, stats.std) == (None, None)
        return
    mean: Any = sum(numbers) / len(numbers)
    assert stats.mean is not None
    assert abs(Fraction(stats.mean) - mean) <= max(map(abs, numbers)) / 10**14
    variance: Any = sum((number - mean) ** 2 for number in numbers) / len(numbers)
    assert stats.std is not None
    assert abs(Fraction(stats.std) ** 2 - variance) <= variance / 10**11 + Fraction(5e-324) ** 2


def test_histogram_of_numbers_in_a_range() -> None:
    rng = np.random.default_rng(3)
    parts = [rng.normal(size=5000), rng.normal(1000, 1, 10), np.array([-1e9, 0.0]), rng.normal(size=40_000)]
    stats, numbers = stats_of(*parts), np.concatenate(parts)
    assert stats.histogram is not None
    assert np.array_equal(stats.histogram.counts, np.histogram(numbers, stats.histogram.edges)[0])
    assert np.allclose([stats.mean, stats.std], [numbers.mean(), numbers.std()])  # type: ignore[arg-type]
    widths = np.diff(stats.histogram.edges)
    assert (widths == widths[0]).all()
    assert np.frexp(widths[0])[0] == 0.5


def test_bins_of_integers() -> None:
    stats = stats_of(np.array([3, 5, 3]), np.array([300]))
    assert stats.histogram is not None
    assert set(np.diff(stats.histogram.edges)) == {4.0}
    few = stats_of(np.array([3, 5, 3])).histogram
    assert few is not None
    assert (few.edges, few.counts) == ((3.0, 4.0, 5.0, 6.0), (2, 0, 1))


def test_parts_of_several_dtypes() -> None:
    narrow = stats_of(np.array([3, 3], np.int8), np.array([3, 70_000]))
    assert narrow.most_common == ((3, 3), (70_000, 1))
    for parts in ((np.array([0.25, 9.0]), np.array([1, 3])), (np.array([1, 3]), np.array([0.25, 9.0]))):
        histogram = stats_of(*parts).histogram
        assert histogram is not None
        assert np.array_equal(histogram.counts, np.histogram(np.concatenate(parts), histogram.edges)[0])


def test_stats_count_nonfinite_values_separately() -> None:
    stats = stats_of(np.array([np.nan, 1.0, np.inf]), np.array([np.nan, -np.inf]), np.array([3.0]))
    assert (stats.count, stats.nans, stats.infinite) == (6, 2, 2)
    assert (stats.minimum, stats.maximum, stats.mean, stats.std) == (1.0, 3.0, 2.0, 1.0)
    assert [one.size for one in stats.largest] == [np.inf, 3.0, 1.0]


@loop_over("kind", [np.int64, np.uint64, np.int8, np.uint8])
def test_most_common_integers(kind: type) -> None:
    rng = np.random.default_rng(4)
    parts: list[Any] = [rng.integers(*limits, 900).astype(kind) for limits in ((0, 9), (0, 127), (90, 99), (0, 127))]
    counter = Counter(np.concatenate(parts).tolist())
    stats = stats_of(*parts)
    assert stats.most_common is not None
    assert (stats.distinct, len(stats.most_common)) == (len(counter), 100)
    assert stats.most_common == tuple(sorted(counter.items(), key=lambda pair: (-pair[1], pair[0]))[:100])


def test_most_common_of_scattered_integers() -> None:
    far = np.array([2**63 - 1, -(2**63), 0, 0])
    assert stats_of(far, far[:1]).most_common == ((0, 2), (2**63 - 1, 2), (-(2**63), 1))
    assert stats_of(np.array([2**64 - 1, 2**64 - 1, 1], np.uint64)).most_common == ((2**64 - 1, 2), (1, 1))


def test_most_common_of_booleans() -> None:
    stats = stats_of(np.array([True, False, True]))
    assert str(stats.most_common) == "((True, 2), (False, 1))"


def test_too_many_distinct_values() -> None:
    assert stats_of(np.arange(MAX_DISTINCT)).distinct == MAX_DISTINCT
    stats = stats_of(np.arange(MAX_DISTINCT), np.array([0, -1]), np.zeros(9, np.int64))
    assert (stats.distinct, stats.most_common) == (None, None)
    assert stats.histogram is not None
    assert sum(stats.histogram.counts) == MAX_DISTINCT + 11


def test_largest_of_equal_values_is_the_first() -> None:
    stats = stats_of(np.arange(100) % 20, np.array([18, 50]))
    assert [(one.index, one.size) for one in stats.largest[:3]] == [(101, 50), (19, 19), (39, 19)]
    assert len(stats.largest) == 10


def test_missing_values() -> None:
    column = Nullable(np.array([9, 0, 5]), np.array([True, False, True]))
    stats = stats_of(column)
    assert (stats.count, stats.missing, stats.most_common) == (2, 1, ((5, 1), (9, 1)))
    assert [one.index for one in stats.largest] == [0, 2]


PEOPLE = {"name": "utf8?", "blob": "bytes", "n": "int64"}


@pytest.fixture
def people(tmp_path: Path) -> Path:
    with dataformats.create(tmp_path / "people.tfrecord", spec=PEOPLE) as writer:
        for i in range(30):
            record = {"name": f"name {i % 3}", "blob": bytes(i * 10), "n": i}
            writer.append(record if i % 5 else {"blob": b"", "n": i})
    return tmp_path / "people.tfrecord"


def test_all_fields_in_one_scan(people: Path) -> None:
    src = dataformats.open(people)
    found = src.stats()
    assert isinstance(found, dict)
    assert list(found) == list(src.spec)
    assert found == {name: src.stats(name) for name in src.spec}
    assert (found["name"].distinct, found["name"].missing) == (3, 6)
    assert (found["blob"].distinct, found["blob"].largest[0].size) == (None, 290)  # one is too long for a name


def test_damaged_records_are_left_out(people: Path) -> None:
    blob = bytearray(people.read_bytes())
    blob[len(blob) // 2] ^= 1
    people.write_bytes(blob)
    src = dataformats.open(people, payload="example", spec=PEOPLE)
    *_, running = scan_stats(src)
    [(number, error)] = running.failures.items()
    assert isinstance(error, dataformats.FormatError)
    assert (running.records, running.n_failed) == (30, 1)
    stats = src.stats("n")
    assert (stats.count, stats.failed, stats.histogram and stats.histogram.counts[number]) == (29, 1, 0)


def test_images_are_measured_as_stored() -> None:
    src = dataformats.open(GOLDEN / "real" / "photos.tfrecord", spec={"image": "jpg"})
    image = src.stats("image")
    sizes = [len(record["image"]) for record in src.with_spec({"image": "bytes"})]
    assert (image.of_lengths, image.maximum) == (True, max(sizes))
    assert image.largest[0].text == "JPEG image, 320 x 320, RGB"


def test_single_values(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x.tfrecord", payload="utf8") as writer:
        writer.extend(["a", "b", "a"])
    stats = dataformats.open(tmp_path / "x.tfrecord").stats()
    assert isinstance(stats, FieldStats)
    assert stats.most_common == (("a", 2), ("b", 1))


def test_no_records(people: Path) -> None:
    for stats in dataformats.open(people)[:0].stats().values():
        assert (stats.count, stats.histogram, stats.distinct, stats.largest) == (0, None, None, ())
