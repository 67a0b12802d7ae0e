"""`dataformats_compat.bags`: generation 1, types with arguments, and sequences."""

from __future__ import annotations

import io
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import FormatError
from dataformats_compat import bags, granular
from dataformats_compat.bags.bags import parse_spec

SPEC = {"words": "utf8[]", "n": "int(4)"}


def point(n: int) -> dict[str, Any]:
    return {"n": n, "words": ["w"] * n}


def test_files(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "set"
    with bags.DatasetWriter(folder, SPEC, bags.encoders) as writer:
        assert [writer.append(point(n)) for n in range(3)] == [0, 1, 2]
        assert writer.spec == {"n": (False, "int", ("4",)), "words": (True, "utf8", ())}
    assert (folder / "n.bag").read_bytes() == struct.pack("<3I4Q", 0, 1, 2, 0, 4, 8, 12)
    assert writer.size == sum(path.stat().st_size for path in folder.glob("*.bag"))
    assert list(dataformats.open(folder)) == [point(n) for n in range(3)]
    with pytest.raises(AssertionError, match="written once"):
        bags.DatasetWriter(folder, SPEC, bags.encoders)


def test_reading(tmp_path: Path) -> None:
    with bags.DatasetWriter(tmp_path / "set", SPEC, bags.encoders) as writer:
        for n in range(4):
            writer.append(point(n))
    reader = bags.DatasetReader(tmp_path / "set", bags.decoders)
    for copied in (reader, pickle.loads(pickle.dumps(reader))):
        assert (len(copied), copied.spec) == (4, writer.spec)
        assert copied[2] == point(2)
        assert copied[3, {"words": slice(1, 9, 1)}] == {"words": ["w", "w"]}
        for mask in ({"n": 12}, {"n": range(1)}):
            with pytest.raises(TypeError, match="expected True"):
                copied[3, mask]
        with pytest.raises(IndexError):
            copied[4]
    reader.close()


@pytest.mark.parametrize(("options", "shards"), [({"shard_size": 1}, 3), ({"shard_length": 2}, 2), ({}, 1)])
def test_shards(tmp_path: Path, options: dict[str, int], shards: int) -> None:
    folder = tmp_path / "a" / "set"
    for start in range(2):
        with bags.ShardedDatasetWriter(
            folder, SPEC, bags.encoders, shard_start=start, shard_step=2, **options
        ) as writer:
            for n in range(3):
                writer.append(point(n))
            writer.flush()
            assert writer.shards == shards
    with bags.ShardedDatasetReader(folder, bags.decoders, shard_start=1, shard_step=2) as reader:
        assert (reader.shards, reader.spec) == (shards, parse_spec(SPEC))
        assert [reader[n] for n in range(3)] == [point(n) for n in range(3)]
    with pytest.raises(AssertionError, match="shard_step >= 1"):
        bags.ShardedDatasetWriter(folder, SPEC, bags.encoders, shard_step=0)


def test_bags_in_open_files() -> None:
    class Kept(io.BytesIO):
        def close(self) -> None:
            """Stay readable."""

    file = Kept()
    with bags.BagWriter(file) as writer:
        assert [writer.append(record) for record in (b"", b"ab", b"c")] == [0, 1, 2]
    assert file.getvalue() == b"abc" + struct.pack("<4Q", 0, 0, 2, 3)
    for cached in (True, False):
        with bags.BagReader(file, cached) as reader:
            assert (reader[1], reader[0:9], reader.size) == (b"ab", [b"", b"ab", b"c"], 35)


def test_both_modules_read_their_bags(tmp_path: Path) -> None:
    with bags.BagWriter(tmp_path / "1.bag") as first, granular.BagWriter(tmp_path / "2.bag", version=2) as second:
        for record in (b"ab", b"c"):
            first.append(record)
            second.append(record)
    for path in sorted(tmp_path.iterdir()):
        for module in (bags, granular):
            with module.BagReader(path) as reader:
                assert reader[0:2] == [b"ab", b"c"]
    (tmp_path / "1.bag").write_bytes(b"no table")
    with pytest.raises(FormatError, match="no table of limits"):
        bags.BagReader(tmp_path / "1.bag")


def test_values() -> None:
    for number, blob in ((0, b""), (200, b"\xc8"), (256, b"\0\1")):
        assert bags.encoders["int"](number) == blob
        assert bags.decoders["int"](blob) == number
    array = np.arange(6, dtype="float32").reshape(2, 3)
    blob = bags.encoders["array"](array, "float32", "2", "3")
    assert blob == array.tobytes()
    assert (bags.decoders["array"](blob, "float32", "2", "3") == array).all()
    with pytest.raises(AssertionError, match=r"expected float32 \(3\), found float32 \(2, 3\)"):
        bags.encoders["array"](array, "float32", "3")
    pixels = np.zeros((4, 4, 3), np.uint8)
    assert (bags.decoders["jpeg"](bags.encoders["jpeg"](pixels, "80"), "80") == pixels).all()


@pytest.mark.parametrize("spec", [{"refs": "int"}, {"a": "int["}, {"a": "Int"}])
def test_wrong_types(spec: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match=r"refs|expected a type"):
        parse_spec(spec)
