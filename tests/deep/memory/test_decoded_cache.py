"""Ten components that are decoded in blocks: what the cache keeps, what the process needs, what reads return."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.testing.loop_over import loop_over
from tests.deep.memory.test_peaks import peak_mb

N, WIDTH, ROWS = 4000, 960, 32  # ten components of 15 to 30 MB, in blocks of some 256 KB
LIMIT = 48 * 2**20
SPEC = {"n": "int64", "x": f"int64[{WIDTH}]"}
KINDS: list[tuple[str, str | None, dict[str, Any]]] = [
    ("0.jsonl.gz", None, {}),
    ("1.tfrecord.gz", None, {"compression": "gzip"}),
    ("2.jsonl.zst", "backports.zstd", {}),
    ("3.jsonl.zst", "backports.zstd", {}),
    ("4", "backports.zstd", {"format": "mds", "compression": "zstd", "size_limit": 2**18}),
    ("5", "backports.zstd", {"format": "mds", "compression": "zstd", "size_limit": 2**18}),
    ("6.parquet", "pyarrow", {"row_group_records": ROWS}),
    ("7.arrow", "pyarrow", {"batch_records": ROWS}),
]

SETUP = """
import gc, os, random
from concurrent.futures import ThreadPoolExecutor
from dataformats.storage.decoded_cache import DECODED_CACHE

most, decoded = 0, []
evict, decode = DECODED_CACHE._evict, DECODED_CACHE._decode

def watched_evict():
    global most
    evict()
    most = max(most, DECODED_CACHE._n_bytes)

def watched_decode(keys, function):
    decoded.extend(keys)
    decode(keys, function)

DECODED_CACHE._evict, DECODED_CACHE._decode = watched_evict, watched_decode

def check(batch):
    assert (batch["x"] == batch["n"][:, None] + np.arange(960)).all()

sources = [dataformats.open(one) for one in sorted(Path(path).iterdir()) if one.suffix != ".json"]
assert [len(source) for source in sources] == [4000] * 10
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten datasets of eight kinds; files of gzip stand in for those whose library is not installed."""
    folder = tmp_path_factory.mktemp("mixture") / "components"
    folder.mkdir()
    columns = {"n": np.arange(N), "x": np.arange(N)[:, None] + np.arange(WIDTH)}
    kinds = [one for one in KINDS if one[1] is None or _is_installed(one[1])]
    if _is_installed("h5py"):
        import h5py

        with h5py.File(folder / "8.h5", "w") as file:
            for name, values in columns.items():
                file.create_dataset(name, data=values, chunks=(ROWS, *values.shape[1:]), compression="gzip")
    if _is_installed("zarr"):
        import zarr

        group = zarr.open_group(folder / "9.zarr", mode="w", zarr_format=3)
        for name, values in columns.items():
            group.create_array(name, data=values, chunks=(ROWS, *values.shape[1:]))
    n_missing = 10 - len(kinds) - sum(1 for _ in folder.iterdir())
    for name, _, options in [*kinds, *[(f"more{number}.jsonl.gz", None, {}) for number in range(n_missing)]]:
        with dataformats.create(folder / name, spec=SPEC, **options) as writer:
            writer.extend({"n": n, "x": x} for n, x in zip(columns["n"], columns["x"], strict=True))
    return folder


def _is_installed(library: str) -> bool:
    return importlib.util.find_spec(library.partition(".")[0]) is not None


EPOCH = """
mixture = dataformats.mix(dict(zip("abcdefghij", sources)))
with dataformats.Loader(mixture, 200, workers=4, block_records=ROWS, window_blocks=4) as loader:
    for batch, _ in zip(loader, range(200)):
        check(batch)
assert most <= DECODED_CACHE.limit_bytes
assert len(decoded) < 1.6 * len({*decoded}), (len(decoded), len({*decoded}))
"""


def test_epoch_of_a_mixture(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two windows of each component fit, so that blocks are decoded about once; all blocks have 249 MB."""
    monkeypatch.setenv("DATAFORMATS_DECODED_CACHE_BYTES", str(LIMIT))
    # Measured: 265 MB, with the libraries; 438 MB if all blocks are kept.
    assert peak_mb(SETUP + EPOCH.replace("ROWS", str(ROWS)), folder) < 350


READS = """
def read(seed):
    rng = np.random.default_rng(seed)
    for _ in range(15):
        source = sources[rng.integers(10)]
        if rng.integers(20) == 0:
            source.close()
        check(source.read(rng.integers(4000, size=rng.integers(1, 20))))

def kept():
    gc.collect()
    DECODED_CACHE.get([])  # drops the values of what the collector found in another thread
    return DECODED_CACHE._n_bytes

with ThreadPoolExecutor(8) as pool:
    list(pool.map(read, range(8)))
    assert 0 < most <= max(DECODED_CACHE.limit_bytes, 2**21)  # the last block is kept in any case
    child = os.fork()
    if child == 0:
        assert kept() == 0
        read(99)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    list(pool.map(read, range(8, 16)))

for source in sources:
    source.close()
assert kept() == 0
read(100)
assert kept() > 0
del source
sources.clear()
assert kept() == 0

first, second = (dataformats.open(Path(path, "0.jsonl.gz")) for _ in range(2))
first.fetch(np.arange(4000))
second.fetch(np.arange(10))
check(first.read([5, 3999])), check(second.read([5, 3999]))
first.close()
assert kept() > 0
check(first.read([5, 3999])), check(second.read([5, 3999]))
del first, second
assert kept() == 0
"""


@loop_over("limit_bytes", [0, 2**20, 640 * 2**20])
def test_threads_forks_and_closed_sources(limit_bytes: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATAFORMATS_DECODED_CACHE_BYTES", str(limit_bytes))
    peak_mb(SETUP + READS, folder)
