"""Lance datasets. pylance has 85 MB: so its tests stand here, and take those that all such formats pass."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import FormatError
from tests.backends.test_arrays import (  # noqa: F401
    GOLDEN,
    plain,
    test_batches_views_and_pickles,
    test_conversions,
    test_loaders_resume_on_other_ranks,
    text_of,
)

lance = pytest.importorskip("lance", reason="pylance is not installed")
pyarrow = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings(  # it warns of forks before each
    "ignore:lance is not fork-safe", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
def path() -> Path:
    return GOLDEN / "lance" / "types.lance"


def test_types(path: Path) -> None:
    source = dataformats.open(path)
    assert (source.format, len(source)) == ("lance", 40)
    expected = lance.dataset(str(path)).to_table().to_pylist()
    order = np.random.default_rng(0).permutation(40)
    for row, i in zip(source.read(order), order.tolist(), strict=True):
        present = {name: value for name, value in expected[i].items() if value is not None}
        assert {name: plain(value) for name, value in row.items()} == present
    assert (str(source.spec["n"]), str(source.spec["vector"]), str(source.spec["maybe"])) == (
        "int64",
        "float32[3]",
        "int16?",
    )


def test_reads_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that continue the last ones are taken together with the next ones: the same values, in fewer calls."""
    for name, first, n in (("a", 0, 700), ("b", 700, 301)):
        rows = {"n": np.arange(first, first + n), "text": [f"row {i}" for i in range(first, first + n)]}
        lance.write_dataset(pyarrow.table(rows), tmp_path / f"{name}.lance", max_rows_per_file=256)
    source = dataformats.open([tmp_path / "a.lance", tmp_path / "b.lance"])
    takes: list[int] = []
    take = lance.LanceDataset.take

    def counted(dataset: Any, rows: list[int], **options: Any) -> Any:
        takes.append(len(rows))
        return take(dataset, rows, **options)

    monkeypatch.setattr(lance.LanceDataset, "take", counted)
    for i in range(len(source)):
        assert source[i] == {"n": i, "text": f"row {i}"}
    assert len(takes) < 20
    random, end = np.random.default_rng(0), 0
    for _ in range(300):
        begin = int(random.integers(0, 1001)) if random.random() < 0.3 else end % 1001
        end = min(begin + int(random.integers(0, 90)), 1001)
        fields = ["n"] if random.random() < 0.1 else ["n", "text"]
        batch = source.select(*fields).read(range(begin, end))
        expected = ({"n": i, "text": f"row {i}"} for i in range(begin, end))
        assert list(batch) == [{name: row[name] for name in fields} for row in expected]


def test_damage_behind_the_rows_of_a_read(tmp_path: Path) -> None:
    lance.write_dataset(pyarrow.table({"n": np.arange(200)}), tmp_path / "a.lance", max_rows_per_file=100)
    source = dataformats.open(tmp_path / "a.lance")
    (damaged,) = (
        tmp_path / "a.lance" / "data" / file.path
        for fragment in lance.dataset(str(tmp_path / "a.lance")).get_fragments()[1:]
        for file in fragment.data_files()
    )
    damaged.write_bytes(b"\xff" * damaged.stat().st_size)
    assert [source[i]["n"] for i in range(100)] == list(range(100))
    with pytest.raises(FormatError, match=r"a\.lance"):
        source[100]


def test_union_of_datasets(tmp_path: Path) -> None:
    first = pyarrow.table({"n": pyarrow.array([1, 2, 3], "int32"), "x": [[1.5], [2.5, None], []]})
    lance.write_dataset(first, tmp_path / "a.lance")
    lance.write_dataset(pyarrow.table({"n": [2**40, None], "caption": ["a", "b"]}), tmp_path / "b.lance")
    source = dataformats.open([tmp_path / "a.lance", tmp_path / "b.lance"])
    expected = [{"n": 1, "x": [1.5]}, {"n": 3, "x": []}, {"n": 2**40, "caption": "a"}, {"caption": "b"}]
    order = [4, 0, 3, 1, 2, 0]
    batch = source.read(order, on_corrupt="omit")
    assert text_of(batch) == text_of(expected[n] for n in (3, 0, 2, 1, 0))
    assert text_of(source[i] for i in (0, 2, 3, 4)) == text_of(expected)
    assert "field 'x': expected float64 in a list, found null" in str(batch.failed[1])
    assert list(source.select("caption").read([0, 4])) == [{}, {"caption": "b"}]
    assert str(source.with_spec({"n": "float64?"})[0]["n"]) == "1.0"


def test_a_spawned_process_reads(path: Path) -> None:
    source = dataformats.open(path)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(text_of, source).result(240) == text_of(source)


def read_in_child(source: Any, queue: Any) -> None:
    try:
        queue.put(text_of(source))
    except RuntimeError as error:
        queue.put(str(error))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_gets_an_error(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=read_in_child, args=(dataformats.open(path), queue))
    process.start()
    assert "Lance cannot be used after a fork" in queue.get(timeout=240)
    process.join()


def test_damaged_data() -> None:
    source = dataformats.open(GOLDEN / "lance" / "corrupt" / "data.lance")
    with pytest.raises(FormatError, match=r"record 3 of .*Lance cannot read it"):
        source[3]
    assert not dataformats.verify(GOLDEN / "lance" / "corrupt" / "data.lance").ok
