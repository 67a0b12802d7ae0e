"""How many requests a loader makes of a remote file, and for how many bytes."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

import dataformats
from dataformats import Loader
from dataformats.loaders import read_ahead, record_read
from dataformats.loaders.record_read import _log_windows
from dataformats.reading.blob_reader import BlobReader
from dataformats.storage.remote.block_cache import BlockCache
from dataformats.testing.loop_over import loop_over
from tests.waiting import LIMIT_S

N, SPEC = 4_000, {"data": "bytes", "number": "int64"}
URL = "memory://requests/x.ofrecord"


class Requests(list[tuple[int, int]]):
    """The ranges that were requested, as (call, bytes)."""

    n_calls = 0

    @property
    def n_bytes(self) -> int:
        return sum(n_bytes for _, n_bytes in self)


@pytest.fixture(scope="module")
def data() -> Iterator[Any]:
    """4,000 records of about 200 bytes."""
    memory = fsspec.filesystem("memory")
    with dataformats.create(URL, spec=SPEC, overwrite=True) as writer:
        blob = np.random.default_rng(1).bytes(N + 160)
        writer.extend({"data": blob[i : i + 160], "number": i} for i in range(N))
    memory.rm_file("/requests/x.ofrecord.dataformats.json")
    yield memory
    memory.rm("/requests", recursive=True)


@pytest.fixture
def requests(data: Any, monkeypatch: pytest.MonkeyPatch) -> Requests:
    found, real = Requests(), type(data).cat_ranges

    def cat_ranges(memory: Any, paths: Any, starts: Any, ends: Any, **options: Any) -> Any:
        ranges = zip(paths, starts, ends, strict=True)  # a sidecar is requested whole
        found.extend((found.n_calls, end - start) for path, start, end in ranges if path.endswith(".ofrecord"))
        found.n_calls += 1
        return real(memory, paths, starts, ends, **options)

    monkeypatch.setattr(type(data), "cat_ranges", cat_ranges)
    monkeypatch.setattr(read_ahead, "_PATIENCE_S", LIMIT_S)  # else a batch requests its records itself
    return found


@pytest.fixture
def source(requests: Requests) -> Any:
    source = dataformats.open(URL, format="ofrecord", payload="ofrecord", spec=SPEC)
    len(source)
    _ = source.spec  # samples records: they may have more fields
    requests.clear()
    return source


@pytest.mark.parametrize("declared", [False, True])
def test_opening(declared: bool, requests: Requests) -> None:
    options: dict[str, Any] = {"format": "ofrecord", "payload": "ofrecord", "spec": SPEC} if declared else {}
    dataformats.open(URL, **options)
    assert len(requests) <= (0 if declared else 3)
    assert requests.n_bytes <= 300_000


def test_random_records_are_requested_at_once(source: Any, requests: Requests) -> None:
    chosen = np.arange(64) * 60
    assert source.read(chosen)["number"].tolist() == chosen.tolist()
    assert len(requests) == 64
    assert len({call for call, _ in requests}) == 1


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(("shuffle", "most"), [("window", 240), (False, 40)])
def test_an_epoch(shuffle: Any, most: int, workers: int, source: Any, requests: Requests) -> None:
    with dataformats.Loader(source, 64, shuffle=shuffle, workers=workers, window_blocks=4) as loader:
        numbers = np.concatenate([batch["number"] for batch in loader])
    assert np.sort(numbers).tolist() == list(range(N))
    assert len(requests) <= most
    assert requests.n_bytes <= 1.3 * source.nbytes


def test_few_cached_windows_cause_few_requests(source: Any, requests: Requests) -> None:
    """The cache keeps two of twenty windows."""
    with dataformats.Loader(source, 20, shuffle="window", workers=0, block_records=100, window_blocks=2) as loader:
        assert cache_of(loader).limit_bytes < source.nbytes / 5
        assert sum(len(batch["number"]) for batch in loader) == N
    assert requests.n_bytes <= 1.4 * source.nbytes  # with the first window of the next epoch
    assert len(requests) < N / 8


def test_one_rank_keeps_the_windows_of_all_streams(source: Any, requests: Requests) -> None:
    """Their next windows begin at once, and do not push out blocks that are used."""
    order: dict[str, Any] = {"shuffle": "window", "block_records": 100, "window_blocks": 2, "groups": 4}
    with dataformats.Loader(source, 20, workers=0, **order) as loader:
        assert sum(len(batch["number"]) for batch in loader) == N
    assert requests.n_bytes <= 1.4 * source.nbytes


@pytest.mark.parametrize("shuffle", [False, "window"])
def test_scattered_records_are_requested_alone(shuffle: Any, source: Any, requests: Requests) -> None:
    """A view in random order has no neighbors: blocks for them are read until the cache was filled once."""
    view = source.take(np.random.default_rng(2).permutation(N)[:1600])
    with dataformats.Loader(view, 16, shuffle=shuffle, workers=0, block_records=10, window_blocks=2) as loader:
        cache = cache_of(loader)
        cache.limit_bytes = 2**17
        assert sum(len(batch["number"]) for batch in loader) == 1600
        assert not cache.saves or shuffle == "window"
    used, requested = cache._counts
    assert requested <= cache.limit_bytes + 2 * used + 16 * cache.block_bytes


def cache_of(loader: dataformats.Loader) -> BlockCache:
    ahead = loader._builder.ahead
    assert ahead is not None
    assert ahead.cache is not None
    return ahead.cache


@pytest.mark.parametrize("is_small", [True, False])
def test_windows_larger_than_the_data_have_a_cache(
    is_small: bool, source: Any, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the data are more than a cache may have."""
    if not is_small:
        monkeypatch.setattr(record_read, "_MAX_BYTES", 1000)
    with dataformats.Loader(source, 64, shuffle="window", workers=0, window_blocks=10**6) as loader:
        next(iter(loader))
        # Two processes that begin at once may request all blocks twice, before they use any.
        assert not is_small or cache_of(loader).limit_bytes >= 2 * source.nbytes
    assert len(requests) < 4 if is_small else len(requests) > 30
    assert is_small or requests.n_bytes < 64 * 1000


def test_the_default_order_of_remote_files_is_windows(
    source: Any, requests: Requests, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _log_windows.cache_clear()
    local = tmp_path / "x.ofrecord"
    local.write_bytes(fsspec.filesystem("memory").cat("/requests/x.ofrecord"))
    copy = dataformats.open(local, format="ofrecord", payload="ofrecord", spec=SPEC)
    requests.clear()
    with caplog.at_level(logging.INFO, "dataformats"), Loader(source, 64) as loader:
        assert sum(len(batch["number"]) for batch in loader) == N
        assert len(requests) < N / 20
        Loader(source[::2], 64)
    assert [record.message.partition(" ")[0] for record in caplog.records] == [*source.paths]
    windows, everything = ["window", 1024, 256, 1], "global"
    for data, order in (
        (source.select("number"), windows),
        (dataformats.concat([copy, source]), windows),
        (dataformats.mix({"near": copy, "far": source}), windows),
        (copy, everything),
        (list(range(9)), everything),
    ):
        assert Loader(data, 64).state_dict()["shuffle"] == order


def test_unpickling_requests_no_records_of_the_same_version(source: Any, requests: Requests) -> None:
    pickled = pickle.dumps(source)
    requests.clear()
    copy = pickle.loads(pickled)
    assert copy.fingerprint == source.fingerprint
    assert requests == []
    memory = fsspec.filesystem("memory")
    content = memory.cat("/requests/x.ofrecord")
    try:
        memory.pipe("/requests/x.ofrecord", content)
        assert pickle.loads(pickled).fingerprint == source.fingerprint
        assert len(requests) >= 64
        memory.pipe("/requests/x.ofrecord", content[:200] * 100)
        with pytest.raises((dataformats.StateMismatchError, dataformats.FormatError)):
            pickle.loads(pickled)
    finally:
        memory.pipe("/requests/x.ofrecord", content)


def test_a_run_keeps_its_order_on_a_local_copy(source: Any, tmp_path: Path) -> None:
    local = tmp_path / "x.ofrecord"
    local.write_bytes(fsspec.filesystem("memory").cat("/requests/x.ofrecord"))
    copy = dataformats.open(local, format="ofrecord", payload="ofrecord", spec=SPEC)
    for here, there in ((source, copy), (copy, source)):
        loader = Loader(here, 64, seed=3)
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        resumed = Loader(there, 64, seed=3)
        resumed.load_state_dict(state)
        for batch, expected in zip(resumed, batches, strict=True):
            assert batch["number"].tolist() == expected["number"].tolist()
        assert resumed.state_dict() == loader.state_dict()
    with pytest.raises(dataformats.StateMismatchError, match="shuffle differs"):
        Loader(copy, 64, seed=3, shuffle="window").load_state_dict(Loader(copy, 64, seed=3).state_dict())


@loop_over("format", ["tfrecord", "ffrecord", "ofrecord", "webdataset", "syrah", "granular"])
def test_kernels_read_cached_blocks(format: str, data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are those of local files, and none takes the reference path."""
    local, url = tmp_path / "x", f"memory://requests/{format}"
    for path in (local, url):
        with dataformats.create(path, format, spec={"data": "bytes", "more": "bytes"}) as writer:
            writer.extend({"data": bytes([i % 256]) * (i % 7 * 900), "more": b"x" * (i % 3)} for i in range(400))
    monkeypatch.setattr(BlobReader, "read_by_reference", None)
    order: dict[str, Any] = {"shuffle": "window", "block_records": 20, "window_blocks": 4}
    with Loader(dataformats.open(url), 16, **order) as loader, Loader(dataformats.open(local), 16, **order) as expected:
        for batch, same in zip(loader, expected, strict=True):
            for name in ("data", "more"):
                assert list(batch[name]) == list(same[name])
