"""`dataformats bench`."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataformats.loaders import benchmark as module
from dataformats.loaders.benchmark import Rate, benchmark
from dataformats.testing.loop_over import loop_over
from tests.cli.conftest import Run

GOLDEN = Path(__file__).parents[1] / "golden"
DIGITS = GOLDEN / "real" / "digits-*.tfrecord"
SHORT = ("--seconds", 0.01)


def test_each_rate_has_a_line(run: Run) -> None:
    found = run("bench", DIGITS, *SHORT)
    assert found.code == 0
    assert found.facts["records"] == "1,797, 203061 bytes"
    for name in ("files from storage", "in order", "random, 256 at once", "random, one by one", "Loader, workers=4"):
        assert found.facts[name].endswith(" MB/s")
    assert found.facts["limit"]
    assert found.facts["faster"]


def test_json_has_the_same(run: Run) -> None:
    found = run("bench", DIGITS, *SHORT, "--json").json
    assert (found["records"], found["nbytes"]) == (1797, 203061)
    assert [rate["work"] for rate in found["rates"][-4:]] == [f"Loader, workers={n}" for n in (0, 1, 2, 4)]
    assert all(rate["records_per_s"] > 0 for rate in found["rates"][2:])
    assert sum(found["shares"].values()) == pytest.approx(1)


@loop_over("path", ["tfrecord/examples.tfrecord.gz", "ffrecord/one.ffr", "real/photos.tfrecord", "syrah/base.syr"])
def test_any_format(path: str) -> None:
    spec = {"image": "jpg"} if "photos" in path else None  # pictures of many sizes do not stack
    found = benchmark(GOLDEN / path, seconds=0.01, options={"spec": spec})
    assert min(rate.bytes_per_s for rate in found.rates) > 0


def test_damaged_and_empty_data_are_errors(run: Run) -> None:
    assert "checksum" in run("bench", GOLDEN / "tfrecord" / "corrupt" / "data_bit.tfrecord", *SHORT).err
    found = run("bench", GOLDEN / "tfrecord" / "empty.tfrecord", *SHORT)
    assert (found.code, "no speed" in found.err) == (1, True)


def test_the_largest_share_or_the_storage_is_the_limit() -> None:
    shares = {"read": 0.2, "decode": 0.7, "batch": 0.1}
    loader, disk = Rate("Loader", 10.0, 50.0), Rate("files", None, 100.0)
    assert module._limit(loader, disk, shares, is_remote=False) == "decoding"
    near = Rate("Loader", 10.0, 90.0)
    assert module._limit(near, disk, shares, is_remote=False) == "the disk"
    assert module._limit(near, disk, shares, is_remote=True) == "the network"
