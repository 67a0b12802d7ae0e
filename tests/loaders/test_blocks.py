"""Window orders of sources that are decoded in blocks, such as Parquet."""

from __future__ import annotations

import gzip
import pickle
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataformats
from dataformats import Loader
from dataformats.backends.tables.parquet import ParquetTable
from dataformats.errors import StateMismatchError
from dataformats.loaders.blocks import Blocks
from dataformats.loaders.plan import Plan
from dataformats.loaders.record_read import shuffle_for
from dataformats.loaders.shuffle import Shuffle
from dataformats.reading.derived_source import fetch
from dataformats.reading.table_source import TableSource
from dataformats.storage.compressed.chunked_file import ChunkedFile
from dataformats.storage.compressed.seekable_gzip import DecompressedFile
from dataformats.storage.decoded_cache import DECODED_CACHE
from dataformats.testing.loop_over import loop_over

N, ROWS = 1000, 37


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=30),
    st.integers(1, 5),
    st.integers(1, 20),
    st.integers(1, 6),
    st.integers(0, 2),
)
def test_each_record_once_and_each_block_in_one_window(
    sizes: list[int], block_records: int, window_blocks: int, groups: int, epoch: int
) -> None:
    """A block is in two windows only if two streams share it."""
    starts, n = np.cumsum(sizes) - sizes, sum(sizes)
    shuffle = Shuffle.of("window", block_records, window_blocks, groups)
    plan = Plan.of_one(n, shuffle, 5, blocks=Blocks(np.asarray(starts, np.int64), n))
    records = plan.locate(range(epoch * n, (epoch + 1) * n)).record
    assert np.sort(records).tolist() == list(range(n))
    assert plan.locate([epoch * n + n - 1]).record[0] == records[-1]
    windows = plan.epoch(0, epoch).windows(np.arange(n), shuffle)
    assert sorted(place for window in windows for place in window) == list(range(n))
    uses = Counter(
        block for window in windows for block in {*(np.searchsorted(starts, records[[*window]], "right") - 1).tolist()}
    )
    assert sum(uses.values()) <= len(sizes) + min(groups, n) - 1


def test_windows_have_as_many_records_as_asked() -> None:
    blocks = Blocks(np.arange(0, 10_000, 10), 10_000)
    shuffle = Shuffle.of("window", 20, 5)
    windows = Plan.of_one(10_000, shuffle, 0, blocks=blocks).epoch(0, 0).windows(np.arange(10_000), shuffle)
    assert [len(window) for window in windows] == [100] * 100


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    folder = tmp_path_factory.mktemp("rows")
    for number in range(2):
        with dataformats.create(folder / f"{number}.parquet", spec={"n": "int64"}, row_group_records=ROWS) as writer:
            writer.extend({"n": number * N // 2 + i} for i in range(N // 2))
    return folder


def numbers(loader: Any) -> list[int]:
    return [number for batch in loader for number in batch["n"].tolist()]


def test_each_block_is_decoded_once_an_epoch(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    real = ParquetTable.read_block

    def read_block(table: ParquetTable, block: int, fields: Any) -> Any:
        decoded.append(block)
        return real(table, block, fields)

    monkeypatch.setattr(ParquetTable, "read_block", read_block)
    monkeypatch.setattr(DECODED_CACHE, "limit_bytes", 8 * (8 * ROWS + 512))
    source = dataformats.open(path)
    with Loader(source, 10, block_records=ROWS, window_blocks=2) as loader:
        assert "shuffle window" in repr(loader)
        found = numbers(loader)
    assert sorted(found) == list(range(N))
    assert len(decoded) <= 1.2 * 28  # row groups; a block that is used for long may be decoded again
    assert isinstance(source, TableSource)


@pytest.mark.parametrize("workers", [0, 2])
def test_each_compressed_shard_is_decoded_once_an_epoch(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("backports.zstd")
    spec = {"n": "int64"}
    with dataformats.create(tmp_path / "x", "mds", spec=spec, compression="zstd", size_limit=600) as writer:
        writer.extend({"n": number} for number in range(N))
    decoded: list[str] = []
    real = ChunkedFile._decoded

    def decode(file: ChunkedFile, number: int) -> Any:
        decoded.append(file.name)
        return real(file, number)

    monkeypatch.setattr(ChunkedFile, "_decoded", decode)
    # Three windows: with workers, one batch may be in a window, while the batch after it begins the next but one.
    monkeypatch.setattr(DECODED_CACHE, "limit_bytes", 12 * (600 + 512))
    source = dataformats.open(tmp_path / "x")
    n_shards = len(source.paths)
    assert n_shards > 20
    with Loader(source, 10, block_records=ROWS, window_blocks=2, workers=workers) as loader:
        assert "shuffle window" in repr(loader)
        found = numbers(loader)
    assert sorted(found) == list(range(N))
    assert len(decoded) <= 1.3 * n_shards


@loop_over("seed", range(20))
def test_blocks_of_zstd_frames(seed: int, tmp_path: Path) -> None:
    """A block begins with the first line that begins in a frame, also if frames end inside of lines."""
    zstd = pytest.importorskip("backports.zstd")
    random = np.random.default_rng(seed)
    expected, n = {0}, 0
    for number in range(random.integers(1, 4)):
        sizes = random.integers(1, random.choice([5, 300]), size=random.integers(1, 20))
        text = b"".join(b"a" * size + b"\n" for size in sizes)
        begins = np.cumsum(sizes + 1) - sizes - 1
        cuts = random.integers(0, len(text), size=random.integers(0, 9))
        places = [*np.unique([0, *cuts]).tolist(), len(text)]
        frames = b"".join(zstd.compress(text[begin:end]) for begin, end in pairwise(places))
        (tmp_path / f"{number}.txt.zst").write_bytes(frames)
        expected |= {n + int(np.searchsorted(begins, place)) for place in places}
        n += len(sizes)
    starts = dataformats.open(tmp_path / "*.zst").block_starts
    assert starts is not None
    assert starts.tolist() == sorted(expected - {n})


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.tfrecord.gz"])
def test_compressed_files_are_shuffled_in_windows(name: str, tmp_path: Path) -> None:
    with dataformats.create(tmp_path / name, spec={"n": "int64"}) as writer:
        writer.extend({"n": number} for number in range(N))
    source = dataformats.open(tmp_path / name)
    views = [source, source.take(np.arange(9)), source.select("n"), dataformats.concat([source, source])]
    assert [repr(Loader(view, 3)).count("shuffle window") for view in views] == [1] * len(views)


@loop_over("name", ["x.jsonl.gz", "x.jsonl.zst", "x"])
def test_order_does_not_depend_on_the_cache(name: str, tmp_path: Path) -> None:
    """A state does not know `cache=`: another order would repeat some records, and lose others."""
    zstd = pytest.importorskip("backports.zstd")
    lines = [b'{"n": %d}\n' % number for number in range(N)]
    if name == "x":
        with dataformats.create(tmp_path / name, "mds", spec={"n": "int64"}, compression="zstd", size_limit=600) as out:
            out.extend({"n": number} for number in range(N))
    else:
        compress = gzip.compress if name.endswith(".gz") else zstd.compress
        parts = [b"".join(lines[first : first + ROWS]) for first in range(0, N, ROWS)]
        (tmp_path / name).write_bytes(b"".join(map(compress, parts)))
    orders = []
    for cache in (None, "memory"):
        source = dataformats.open(tmp_path / name, cache=cache)
        with Loader(source, 10, block_records=50, window_blocks=2) as loader:
            orders.append(numbers(loader))
    assert orders[0] == orders[1] != sorted(orders[0])


@loop_over("more", ["gz", "plain", "zst"])
def test_data_with_other_blocks_have_not_grown(more: str, tmp_path: Path) -> None:
    """Without the blocks of the first files, their records would come in another order."""
    zstd = pytest.importorskip("backports.zstd")
    lines = [b'{"n": %d}\n' % number for number in range(90)]
    (tmp_path / "a.jsonl.zst").write_bytes(b"".join(zstd.compress(b"".join(lines[at : at + 20])) for at in (0, 20, 40)))
    state = Loader(dataformats.open(tmp_path), 5, block_records=10, window_blocks=2).state_dict()
    rest = b"".join(lines[60:])
    suffix, data = {
        "gz": (".gz", gzip.compress(rest)),
        "plain": ("", rest),
        "zst": (".zst", zstd.compress(rest)),
    }[more]
    (tmp_path / f"b.jsonl{suffix}").write_bytes(data)
    loader = Loader(dataformats.open(tmp_path), 5, block_records=10, window_blocks=2)
    if more == "zst":
        loader.load_state_dict(state, grown="now")
        assert sorted(numbers(loader)) == list(range(90))
    else:
        with pytest.raises(StateMismatchError, match="fingerprint of the first 60 records"):
            loader.load_state_dict(state, grown="now")


@loop_over("n_gzip, n_parquet", [(1, 0), (3, 0), (0, 1), (0, 3), (2, 3), (9, 9)])
def test_decoded_components_share_a_window(n_gzip: int, n_parquet: int, path: Path, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(b'{"n": 1}\n' * N))
    with dataformats.create(tmp_path / "x.tfrecord", spec={"n": "int64"}) as writer:
        writer.append({"n": 1})
    paths = [tmp_path / "x.tfrecord", *[tmp_path / "x.jsonl.gz"] * n_gzip, *[path] * n_parquet]
    order = shuffle_for("auto", [dataformats.open(one) for one in paths], None, None, None)
    assert (order.kind, order.window_blocks) == ("window", max(16, 256 // (n_gzip + n_parquet)))


def test_read_ahead_leaves_out_refused_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a small file could take all memory."""
    fetched = list[tuple[int, int]]()
    monkeypatch.setattr(DecompressedFile, "decompress", lambda file, first, end: fetched.append((first, end)))
    text = b'{"n": "%s"}\n'
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(text % b"a" + text % bytes(10**6).replace(b"\0", b"b")))
    source = dataformats.open(tmp_path / "x.jsonl.gz", spec={"n": "utf8"}, max_record_bytes=1000)
    fetch(source, [0, 1])
    assert fetched == [(0, 11)]


def test_resume_on_other_ranks_is_exact(path: Path) -> None:
    """Also with the plan of processes, whose groups are those of the first run."""
    source = dataformats.open(path)
    options: dict[str, Any] = {"seed": 3, "block_records": 50, "window_blocks": 2, "groups": 2}
    with Loader(source, 24, **options) as loader:
        expected = numbers(loader)
    ranks = [Loader(source, 12, rank=rank, world_size=2, **options) for rank in range(2)]
    batches = [iter(loader) for loader in ranks]
    found = []
    for _ in range(10):
        found += [number for rank in batches for number in next(rank)["n"].tolist()]
    state = ranks[0].state_dict()
    for loader in ranks:
        loader.close()
    resumed = [Loader(pickle.loads(pickle.dumps(source)), 8, rank=rank, world_size=3, **options) for rank in range(3)]
    for loader in resumed:
        loader.load_state_dict(state)
    rest = [[batch["n"].tolist() for batch in loader] for loader in resumed]
    found += [number for step in zip(*rest, strict=True) for batch in step for number in batch]
    for loader in resumed:
        loader.close()
    assert sorted(found) == sorted(expected) == list(range(N))
    assert {*found[:240]} == {*expected[:240]}


def test_blocks_of_views(path: Path) -> None:
    source = dataformats.open(path)
    starts = source.block_starts
    assert starts is not None
    assert starts.tolist() == [*range(0, 500, ROWS), *range(500, 1000, ROWS)]
    part = source[30:100].block_starts
    assert part is not None
    assert part.tolist() == [0, 7, 44]
    both = dataformats.concat([source, source.select("n")]).block_starts
    assert both is not None
    assert both.tolist() == [*starts, *(starts + N)]
    assert source.take([3, 1]).block_starts is None
