"""The same calls on the drop-in `granular` and granular 0.24, and on the drop-in `bags` and bags 0.5, agree."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats_compat.bags
import dataformats_compat.granular
from dataformats.errors import WorkerError

original = pytest.importorskip("granular")
original_bags = pytest.importorskip("bags")
ours = dataformats_compat.granular
our_bags = dataformats_compat.bags

SPEC = {"n": "int", "text": "utf8", "doc": "msgpack", "raw": "bytes", "array": "array", "tree": "tree", "i": "i64"}
RNG = np.random.default_rng(5)
POINTS = [
    {
        "n": n,
        "text": "é" * n,
        "doc": {"a": [n, None]},
        "raw": bytes(n % 3),
        "array": RNG.integers(0, 9, (n % 4, 2)).astype("<f4"),
        "tree": [{"x": np.arange(n, dtype=np.int16)}, "y"],
        "i": -n,
    }
    for n in range(60)
]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def write(module: Any, folder: Path, points: list[dict[str, Any]], **options: Any) -> dict[str, bytes]:
    with module.ShardedDatasetWriter(folder, SPEC, module.encoders, **options) as writer:
        for number, point in enumerate(points):
            writer.append(point, flush=number % 7 == 0)
    return files(folder)


@pytest.mark.parametrize("options", [{}, {"shardlen": 25}, {"shardlen": 7, "shardstart": 0, "shardstep": 1}])
def test_files_are_equal_also_if_the_other_continues_them(tmp_path: Path, options: dict[str, int]) -> None:
    expected = write(original, tmp_path / "theirs", POINTS, **options)
    assert write(ours, tmp_path / "ours", POINTS, **options) == expected
    for first, second, name in ((original, ours, "a"), (ours, original, "b")):
        write(first, tmp_path / name, POINTS[:5], shardlen=100)
        assert write(second, tmp_path / name, POINTS[5:], shardlen=100) == write(
            original, tmp_path / f"{name}2", POINTS, shardlen=100
        )


def same(call: Callable[[Any], Any], readers: tuple[Any, Any]) -> None:
    theirs, mine = (call(reader) for reader in readers)
    np.testing.assert_equal(mine, theirs)
    assert type(mine) is type(theirs)


@pytest.mark.parametrize("cached", [{}, {"cache_index": False}, {"cache_keys": ("n", "array"), "parallel": True}])
def test_reads_are_equal(tmp_path: Path, cached: dict[str, Any]) -> None:
    write(original, tmp_path / "set", POINTS, shardlen=25)
    readers = tuple(
        module.ShardedDatasetReader(tmp_path / "set", _picklable(module), **cached) for module in (original, ours)
    )
    copied: tuple[Any, Any] = (readers[0].copy(), readers[1].copy())
    calls: list[Callable[[Any], Any]] = [
        lambda reader: [reader[n] for n in range(60)],
        lambda reader: [reader[n : n + 9] for n in range(51)],
        lambda reader: reader[range(3, 58), ("n", "tree")],
        lambda reader: reader[31, ()],
        lambda reader: (len(reader), reader.size, reader.shards, reader.spec, reader.starts, reader.stops),
    ]
    for pair in (readers, copied):
        for call in calls:
            same(call, pair)
    for reader in (*copied, *readers):
        reader.close()


def _picklable(module: Any) -> dict[str, Any]:
    """The original's lambdas do not pickle."""
    return {**module.decoders, "utf8": bytes.decode, "bytes": bytes}


@pytest.mark.parametrize("kind", list(ours.encoders))
def test_blobs_are_equal(kind: str) -> None:
    rng = np.random.default_rng(1)
    picture = rng.integers(0, 256, (16, 24, 3), np.uint8)
    values: dict[str, list[Any]] = {
        "bytes": [b"", b"x"],
        "utf8": ["", "añ"],
        "msgpack": [{"a": (1, 2.5)}, None],
        "int": [n for bits in range(70) for n in (2**bits - 1, 2**bits + 5)],
        "i64": [-(2**63), 5],
        "u64": [2**64 - 1],
        "array": [np.zeros((0, 3)), np.arange(4) > 1, np.array(["a", "bc"]), np.array(1 + 2j)],
        "tree": [POINTS[9]["tree"], ("_", 1), [["_", "<i4", [2], b"12345678"]]],
        "jpg": [picture, picture[..., 0]],
        "png": [picture, picture[..., 0], np.dstack([picture, picture[..., :1]]), picture[..., 0] > 9],
    }
    for value in values.get(kind, []):
        try:
            blob = original.encoders[kind](value)
        except (OverflowError, TypeError):  # integers whose top bit is set, or of more than 63 bits
            blob = ours.encoders[kind](value)
            assert ours.decoders[kind](blob) == original.decoders[kind](blob) == value
            continue
        assert ours.encoders[kind](value) == blob
        np.testing.assert_equal(ours.decoders[kind](blob), original.decoders[kind](blob))


def test_orders_are_equal() -> None:
    def sources(module: Any) -> list[Callable[[int], Any]]:
        m, n = module.sources, range(37)
        epochs = m.Epochs(n, seed=3)
        return [
            epochs,
            m.Epochs(n, 5, shuffle=False),
            m.Sample(n, seed=4),
            m.Sample(range(2**33)),
            m.Truncate(n, 10),
            m.Interleave([m.Epochs(n, 4), epochs]),
            m.Mix([epochs, m.Sample(n), m.Truncate(n, 3)], [0.1, 0.2, 5], seed=9),
            m.Mix([lambda step: 0, lambda step: 1, lambda step: 2], [0, 1 / 3, 1 / 3]),
            m.Transform(epochs, lambda x, seed: (x, int(np.random.default_rng(seed).integers(2**60))), seed=2),
        ]

    for theirs, mine in zip(sources(original), sources(ours), strict=True):
        assert [mine(step) for step in range(400)] == [theirs(step) for step in range(400)]


@pytest.mark.parametrize("pair", [(original_bags, our_bags), (our_bags, original_bags)], ids=["theirs", "ours"])
def test_bags_are_equal(tmp_path: Path, pair: tuple[Any, Any]) -> None:
    spec = {"n": "int", "size": "int(4)", "words": "utf8[]", "image": "png", "array": "array(float32,2)"}
    pixels = np.zeros((4, 5, 3), np.uint8)
    points = [
        {"n": n, "size": n, "words": ["w"] * n, "image": pixels + n, "array": np.full(2, n, np.float32)}
        for n in range(9)
    ]
    found = []
    for name, module in zip("ab", pair, strict=True):
        with module.ShardedDatasetWriter(tmp_path / name, spec, module.encoders, shard_length=4) as writer:
            for point in points:
                writer.append(point)
            found.append((writer.size, writer.shards, len(writer)))
    assert found[0] == found[1]
    assert files(tmp_path / "a") == files(tmp_path / "b")
    with pair[1].ShardedDatasetReader(tmp_path / "a", pair[1].decoders) as reader:
        np.testing.assert_equal([reader[n] for n in range(9)], points)
        assert reader.size == found[0][0]


# ---- the loader's processes


def batches(module: Any, n: int, **options: Any) -> tuple[list[Any], dict[str, int]]:
    source = module.sources.Epochs([{"n": n, "x": np.full(2, n, np.float32)} for n in range(10)])
    loader = module.Loader(source, 4, **options)
    iterator = iter(loader)
    assert iterator is loader
    found = [next(iterator) for _ in range(n)]
    state = loader.save()
    loader.load({"step": 36})
    found.append(next(iterator))
    loader.close()
    return found, state


def test_batches_are_equal() -> None:
    theirs, mine = (batches(module, 6, workers=1, shard_id=1, num_shards=3, prefetch=1) for module in (original, ours))
    np.testing.assert_equal(mine, theirs)
    assert [array.dtype for array in mine[0][0].values()] == [array.dtype for array in theirs[0][0].values()]


def _fail(point: Any, seed: list[int]) -> Any:
    if seed[1] == 5:
        raise KeyError("mine")
    if seed[1] == 9:
        sys.exit(3)
    return point


def test_failing_source_raises_in_the_loader() -> None:
    source = ours.sources.Transform([{"n": n} for n in range(20)], _fail)
    loader = iter(ours.Loader(source, 4, workers=1, prefetch=1))
    assert next(loader)["n"].tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match=r"'mine'(.|\n)*Traceback(.|\n)*_fail"):
        next(loader)
    loader = ours.Loader(source, 4, workers=1)
    loader.load({"step": 8})
    with pytest.raises(WorkerError):
        next(iter(loader))
    with pytest.raises(AssertionError, match="closed"):
        next(loader)


def test_nothing_of_it_is_left_behind(tmp_path: Path) -> None:
    write(ours, tmp_path / "set", POINTS)
    program = tmp_path / "program.py"
    program.write_text(
        "import logging, sys\nimport dataformats_compat.granular as granular\n"
        "logging.disable()\n"  # on a busy machine, of a worker that starts slowly
        "if __name__ == '__main__':\n"
        "    reader = granular.ShardedDatasetReader(sys.argv[1], granular.decoders, cache_keys=['n'])\n"
        "    source = granular.sources.Truncate(reader, 1)\n"
        "    batch = next(iter(granular.Loader(source, 2, workers=1)))\n"
        "    print(batch['i'].tolist(), reader.readers[0].readers['n']._bag.name)\n"
    )
    done = subprocess.run([sys.executable, program, tmp_path / "set"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    values, _, name = done.stdout.strip().rpartition(" ")
    assert values == "[0, 0]"
    assert not Path("/dev/shm", name.strip("/")).exists()


def test_pickles_of_readers_hold_no_data(tmp_path: Path) -> None:
    write(ours, tmp_path / "set", POINTS)
    with ours.ShardedDatasetReader(tmp_path / "set", ours.decoders, cache_keys=tuple(SPEC)) as reader:
        assert len(pickle.dumps(reader)) < 5000
