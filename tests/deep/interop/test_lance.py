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


def test_a_spawned_process_reads(path: Path) -> None:
    source = dataformats.open(path)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(text_of, source).result(60) == text_of(source)


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
    assert "Lance cannot be used after a fork" in queue.get(timeout=60)
    process.join()


def test_damaged_data() -> None:
    source = dataformats.open(GOLDEN / "lance" / "corrupt" / "data.lance")
    with pytest.raises(FormatError, match=r"record 3 of .*Lance cannot read it"):
        source[3]
    assert not dataformats.verify(GOLDEN / "lance" / "corrupt" / "data.lance").ok
