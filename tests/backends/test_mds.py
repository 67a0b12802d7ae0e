"""MDS and litdata, compared with the values that the original programs wrote."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
from collections import Counter
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

import dataformats
from dataformats import FormatError, SpecError
from dataformats.backends.mds import index_file
from dataformats.backends.mds import reader as reader_module
from dataformats.indexing.memory_budget import MemoryBudget
from dataformats.storage.native import fast_read
from dataformats.testing.loop_over import loop_over
from tests.campaign import SEED, share

GOLDEN = Path(__file__).parents[1] / "golden"
MDS, LITDATA = GOLDEN / "mds", GOLDEN / "litdata"
N = 12


def pixels(index: int) -> np.ndarray:
    return (np.arange((3 + index) * 4 * 3) * 5 + index).astype(np.uint8).reshape(3 + index, 4, 3)


def small(index: int) -> dict[str, Any]:
    """The columns of the datasets besides `types`."""
    return {
        "bytes": bytes([index]) * (index % 5),
        "fixed": np.full((2, 3), index / 3, np.float32),
        "int": index * -(10**12),
        "str": "añ€😀"[: index % 5] * index,
    }


def check_small(record: Any, index: int) -> None:
    expected = small(index)
    assert {name: record[name] for name in ("bytes", "int", "str")} == {
        name: expected[name] for name in ("bytes", "int", "str")
    }
    np.testing.assert_array_equal(record["fixed"], expected["fixed"])


def test_sizes_in_samples_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read, calls = fast_read.read, list[int]()

    def counting(files: Any, located: Any, max_bytes: int) -> Any:
        calls.append(len(located[""].extents))
        return read(files, located, max_bytes)

    monkeypatch.setattr(reader_module, "read", counting)
    src = dataformats.open(MDS / "types")
    for indices in ([3, 0, 3], [0, 3, 5], range(N), range(N)):
        batch = src.read(indices)
        for row, index in enumerate(indices):
            check_small(batch[row], index)
    assert calls == [3, 1, N - 3]
    monkeypatch.setattr(reader_module, "INDEX_MEMORY", MemoryBudget(0))
    src = dataformats.open(MDS / "types")
    for _ in range(2):
        check_small(src.read([4])[0], 4)
    assert calls[3:] == [1, 1]  # no memory is left to keep them


def test_mds_values_of_every_encoding() -> None:
    src = dataformats.open(MDS / "types")
    batch = src.read(range(N))
    for index in range(N):
        record = src[index]
        check_small(record, index)
        for name in ("uint8", "uint64", "int16", "float16", "float32", "float64"):
            assert record[name] == batch[name][index] == index * 7 % 100
        assert (record["str_int"], record["str_float"]) == (10**30 + index, index / 7)
        assert record["str_decimal"] == Decimal(index) / Decimal(8)
        assert record["json"] == {"i": index, "list": [index, None, "é"]}
        np.testing.assert_array_equal(record["png"], pixels(index))
        np.testing.assert_array_equal(record["list_png"][1], pixels(index + 1))
        np.testing.assert_array_equal(record["list_pil"][1], pixels(index))
        assert np.abs(record["jpeg"].astype(int) - pixels(index)).mean() < 64
        assert len(record["list_jpeg"]) == index % 3
        np.testing.assert_array_equal(record["jpegarray"][0], record["jpeg"])
        assert record["any_array"].shape == (1, index + 1)
        np.testing.assert_array_equal(record["array"], np.arange((index % 4 + 1) * 2, dtype=np.int32).reshape(-1, 2))
        np.testing.assert_array_equal(batch["array"][index], record["array"])


def test_declared_numbers_make_a_ragged_column() -> None:
    src = dataformats.open(MDS / "types", spec=dict(dataformats.open(MDS / "types").spec) | {"array": "int32[][2]"})
    assert src.read(range(N))["array"].lengths.tolist() == [index % 4 + 1 for index in range(N)]


@loop_over("name", ["plain", "zstd", "gz", "merged"])
def test_mds_folders_read_the_same(name: str, tmp_path: Path) -> None:
    src = dataformats.open(MDS / name)
    assert (src.format, len(src)) == ("mds", N)
    order = [11, 0, 5, 5, 7]
    batch = src.read(order)
    for row, index in enumerate(order):
        check_small({field: batch[field][row] for field in batch.columns}, index)
    assert dataformats.verify(MDS / name).ok
    again = pickle.loads(pickle.dumps(src))
    check_small(again[3], 3)
    assert again.fingerprint == src.fingerprint


def test_one_shard_opens_by_the_index_beside_it() -> None:
    src = dataformats.open(MDS / "plain" / "shard.00001.mds")
    assert 0 < len(src) < N
    check_small(src[0], N - len(src))


@loop_over("name", ["plain", "zstd", "merged"])
def test_mds_behind_urls(name: str) -> None:
    files = fsspec.filesystem("memory")
    for path in (MDS / name).rglob("*"):
        if path.is_file():
            files.pipe(f"/mds-{name}/{path.relative_to(MDS / name)}", path.read_bytes())
    src = dataformats.open(f"memory://mds-{name}")
    assert len(src) == N
    check_small(src[7], 7)
    assert src.fingerprint == dataformats.open(MDS / name).fingerprint


def test_compressions_without_decoder_are_refused() -> None:
    with pytest.raises(FormatError, match="expected zstd or gz, found br"):
        dataformats.open(MDS / "br")


def test_pickles_of_a_file_are_bytes() -> None:
    src = dataformats.open(MDS / "pickle")
    assert [*src.spec_facts.opaque_fields] == ["int"]
    assert pickle.loads(src[3]["int"]) == -3 * 10**12
    assert dataformats.open(MDS / "pickle", spec={"int": "pickle"})[3]["int"] == -3 * 10**12


@loop_over("name, failed", [("offset", [0, 1]), ("head", [0]), ("shard_cut", [11])])
def test_damage_is_an_error_of_its_sample(name: str, failed: list[int]) -> None:
    src = dataformats.open(MDS / "corrupt" / name)
    batch = src.read(range(N), on_corrupt="omit")
    assert sorted(batch.failed) == failed
    for row, index in enumerate(index for index in range(N) if index not in failed):
        check_small({field: batch[field][row] for field in batch.columns}, index)
    with pytest.raises(FormatError, match=r"shard\.0000"):
        src[failed[0]]


def test_shard_with_another_count_is_an_error_of_all_its_samples() -> None:
    src = dataformats.open(MDS / "corrupt" / "samples")
    failed = src.read(range(N), on_corrupt="omit").failed
    assert 0 < len(failed) < N
    assert "as many samples as the index" in str(next(iter(failed.values())))
    assert not dataformats.verify(MDS / "corrupt" / "samples").ok


@pytest.mark.parametrize("name", ["index_cut", "path"])
def test_damaged_index_is_refused(name: str) -> None:
    with pytest.raises(FormatError, match=r"index\.json"):
        dataformats.open(MDS / "corrupt" / name)


def test_missing_shard_is_named(tmp_path: Path) -> None:
    shutil.copytree(MDS / "plain", tmp_path / "x")
    (tmp_path / "x" / "shard.00000.mds").unlink()
    with pytest.raises(FormatError, match=r"missing.*shard\.00000\.mds"):
        dataformats.open(tmp_path / "x")


def test_written_shards_have_the_bytes_of_the_original(tmp_path: Path) -> None:
    spec = {"str": "utf8", "int32": "int32"}
    with dataformats.create(tmp_path / "x", "mds", spec=spec) as writer:
        writer.extend({"str": small(index)["str"], "int32": index * 7 % 100} for index in range(N))
    original = MDS / "one_variable"
    assert (tmp_path / "x" / "shard.00000.mds").read_bytes() == (original / "shard.00000.mds").read_bytes()
    found, expected = (json.loads((folder / "index.json").read_text()) for folder in (tmp_path / "x", original))
    assert found == expected


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_every_type_comes_back(tmp_path: Path, compression: str | None) -> None:
    spec = {
        "a": "int32[]",
        "b": "bool",
        "c": "bool[]",
        "d": "msgpack",
        "e": "float32[2]",
        "f": "webp",
        "g": "uint16[][2]",
    }
    picture = np.full((4, 4, 3), 9, np.uint8)
    records = [
        {"a": np.arange(n % 3, dtype="i4"), "b": n % 2 == 0, "c": np.ones(n % 4, bool), "d": {"n": n}}
        | {"e": np.full(2, n, "f4"), "f": picture, "g": np.ones((n % 2, 2), "u2")}
        for n in range(40)
    ]
    with dataformats.create(tmp_path / "x", "mds", spec=spec, compression=compression, size_limit=2000) as writer:
        writer.extend(records)
    src = dataformats.open(tmp_path / "x")
    assert dict(src.spec) == dict(dataformats.Spec(spec))
    assert len(list((tmp_path / "x").glob("shard.*"))) > 2
    batch = src.read(range(40))
    for n, record in enumerate(records):
        for name in "acdeg":
            np.testing.assert_equal(src[n][name], record[name])
            np.testing.assert_equal(batch[name][n], record[name])
        assert src[n]["b"] == record["b"]


@loop_over("n", [255, 256, 65535, 65536])
def test_arrays_as_long_as_a_width_of_shapes_holds(n: int, tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x", "mds", spec={"a": "mds(ndarray)"}) as writer:
        writer.append({"a": np.arange(n, dtype=np.uint32)})
    np.testing.assert_array_equal(dataformats.open(tmp_path / "x")[0]["a"], np.arange(n))


def test_types_outside_mds_are_refused(tmp_path: Path) -> None:
    for kind in ("int64?", "utf8[]", "float128", "pickle", "int64[][]", "int64[0]"):
        with pytest.raises(SpecError):
            dataformats.create(tmp_path / "x", "mds", spec={"x": kind})
    with pytest.raises(ValueError, match="size_limit"):
        dataformats.create(tmp_path / "x", "mds", spec={"x": "bytes"}, size_limit=2**32)


def test_shards_of_an_interrupted_writer_are_the_same(tmp_path: Path) -> None:
    def records(first: int, stop: int) -> list[dict[str, Any]]:
        return [{"n": n, "text": "x" * (n % 50)} for n in range(first, stop)]

    spec = {"n": "int64", "text": "utf8"}
    with dataformats.create(tmp_path / "whole", "mds", spec=spec, size_limit=1500) as writer:
        writer.extend(records(0, 200))
    with suppress(KeyboardInterrupt), dataformats.create(tmp_path / "x", "mds", spec=spec, size_limit=1500) as writer:
        writer.extend(records(0, 77))
        raise KeyboardInterrupt
    with dataformats.create(tmp_path / "x", "mds", spec=spec, size_limit=1500, resume=True) as writer:
        writer.extend(records(len(writer), 200))
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (tmp_path / "x" / path.name).read_bytes()


@pytest.mark.parametrize(
    ("folder", "first"), [(MDS / "plain", "shard.00000.mds"), (LITDATA / "types", "chunk-0-0.bin")]
)
def test_mutants_raise_only_errors_of_the_package(folder: Path, first: str, tmp_path: Path) -> None:
    noise, n_refused = random.Random(SEED), 0
    for number in range(share(400)):
        path = tmp_path / str(number)
        shutil.copytree(folder, path)
        target = path / ("index.json" if number % 2 else first)
        data = bytearray(target.read_bytes())
        for _ in range(noise.randrange(1, 4)):
            data[noise.randrange(len(data) if number % 2 else 80)] = noise.randrange(256)
        target.write_bytes(data[: noise.randrange(len(data)) if number % 7 == 0 else None])
        try:
            src = dataformats.open(path, max_record_bytes=2**20)
            n_refused += bool(src.read(range(min(len(src), 50)), on_corrupt="omit").failed)
        except dataformats.DataFormatsError:
            n_refused += 1
        shutil.rmtree(path)
    assert n_refused > share(400) // 4


@loop_over("path", ["", "index.json", "*.mds"])
def test_index_of_many_shards_is_read_once(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with dataformats.create(tmp_path / "x", "mds", spec={"n": "int64"}, size_limit=400) as writer:
        writer.extend({"n": n} for n in range(200))
    read, listed = index_file._shards_of, os.scandir
    calls = Counter[str]()
    monkeypatch.setattr(index_file, "_shards_of", lambda file: (calls.update(["read"]), read(file))[1])
    monkeypatch.setattr(os, "scandir", lambda folder: (calls.update(["list"]), listed(folder))[1])
    source = dataformats.open(tmp_path / "x" / path)
    assert len(source.paths) > 9
    assert [record["n"] for record in source] == [*range(200)]
    assert calls["read"] <= 2
    assert calls["list"] <= 4


def test_dataset_without_shards(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text('{"shards": [], "version": 2}')
    source = dataformats.open(tmp_path)
    assert (len(source), dict(source.spec), dict(source.read([]).columns)) == (0, {}, {})


# ---- litdata


def item(index: int) -> dict[str, Any]:
    return {
        "i": index,
        "f": index / 3,
        "s": "añ" * (index % 4),
        "b": bytes([index]) * (index % 3),
        "flag": index % 2 == 0,
    }


@pytest.mark.parametrize("name", ["types", "zstd"])
def test_litdata_values(name: str) -> None:
    src = dataformats.open(LITDATA / name)
    assert (src.format, len(src)) == ("litdata", N)
    batch = src.read(range(N))
    for index in range(N):
        record = src[index]
        assert {field: record[field] for field in item(0)} == item(index)
        np.testing.assert_array_equal(record["t"], np.arange(index + 1, dtype="f4").reshape(1, -1))
        np.testing.assert_array_equal(batch["n"][index], np.arange((index + 1) * 2, dtype="i2").reshape(2, -1))
        np.testing.assert_array_equal(batch["n1"][index], np.arange(index % 5))
        np.testing.assert_array_equal(record["t1"], np.arange(index % 5 + 1))
        np.testing.assert_array_equal(record["p"], np.full((3, 4, 3), index, np.uint8))
    assert dataformats.verify(LITDATA / name).ok
    assert pickle.loads(pickle.dumps(src))[4]["s"] == ""


@pytest.mark.parametrize(("number", "value"), [(13, [False] * 4), (11, bytes(4))])
def test_litdata_arrays_of_rare_dtypes(number: int, value: Any, tmp_path: Path) -> None:
    shutil.copytree(LITDATA / "types", tmp_path / "x")
    index = tmp_path / "x" / "index.json"
    index.write_text(index.read_text().replace("no_header_numpy:2", f"no_header_numpy:{number}"))
    found = dataformats.open(tmp_path / "x")[1]["n1"]
    assert (found if number == 11 else found.tolist()) == value


def test_decompressed_litdata_chunks(tmp_path: Path) -> None:
    shutil.copytree(LITDATA / "zstd", tmp_path / "x")
    (tmp_path / "x" / "chunk-0-0.zstd.bin").unlink()
    shutil.copy(LITDATA / "types" / "chunk-0-0.bin", tmp_path / "x")
    assert [record["s"] for record in dataformats.open(tmp_path / "x")] == [item(index)["s"] for index in range(N)]


def test_litdata_trees_and_tokens() -> None:
    assert [record["value"] for record in dataformats.open(LITDATA / "single")] == [f"text{i}" for i in range(7)]
    assert dataformats.open(LITDATA / "tuple")[3] == {"0": 3, "1": "xxx"}
    tokens = dataformats.open(LITDATA / "tokens").read(range(7))["value"]
    for index in range(7):
        np.testing.assert_array_equal(tokens[index], np.arange(index * 10, index * 10 + 10 + index))


def test_litdata_of_2024(tmp_path: Path) -> None:
    """The index had no loader, which `dim` tells; the numbers before tensors were little-endian."""
    shutil.copytree(LITDATA / "tokens", tmp_path / "x")
    index = tmp_path / "x" / "index.json"
    index.write_text(index.read_text().replace('"item_loader": "TokensLoader", ', ""))
    assert dataformats.open(tmp_path / "x")[1]["value"].tolist() == [*range(10, 21)]
    index.write_text(index.read_text().replace('"no_header_tensor:16"', '"tensor"'))
    words = [2, 16, 40, 48, 15, 2, 1, 2, 7, 8, 0, 0]  # a table of offsets, and an int32[1,2]
    (tmp_path / "x" / "chunk-0-0.bin").write_bytes(np.array(words, "<u4").tobytes())
    assert dataformats.open(tmp_path / "x")[0]["value"].tolist() == [[7, 8]]


def test_litdata_rows_of_arrow(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    src = dataformats.open(LITDATA / "arrow")
    assert (src.format, len(src), str(src.spec["tags"])) == ("litdata", 300, "utf8[]")
    for index in (0, 255, 256, 289, 290, 299):  # the first and last ones of record batches and chunks
        rest = {} if index % 5 == 0 else {"more": index}
        tags = [str(number) for number in range(index % 3)]
        assert src[index] == {"text": "añ" * (index % 4), "n": index, "score": index / 3, "tags": tags} | rest
    assert dataformats.verify(LITDATA / "arrow").ok
    shutil.copytree(LITDATA / "arrow", tmp_path / "x")
    chunk, index_file = tmp_path / "x" / "chunk-0-1.bin", tmp_path / "x" / "index.json"
    content = chunk.read_bytes()
    for damaged in (content[:-1], content[-12:], content[:-12] + b"\xff" * 4 + content[-8:], content[:8]):
        chunk.write_bytes(damaged)
        with pytest.raises(FormatError, match=r"chunk-0-1\.bin'.*Arrow rows of the chunk are damaged"):
            dataformats.open(tmp_path / "x")
    chunk.write_bytes(content)
    index_file.write_text(index_file.read_text().replace('"chunk_size": 10', '"chunk_size": 11'))
    with pytest.raises(FormatError, match="as many rows as the index says: expected 11, found 10"):
        dataformats.open(tmp_path / "x")


def test_unread_litdata_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="compression_level"):
        dataformats.open(LITDATA / "framed")
    with pytest.raises(SpecError, match="read, not written"):
        dataformats.create(tmp_path / "x", "litdata", spec={"x": "int64"})
    shutil.copytree(LITDATA / "single", tmp_path / "x")
    (tmp_path / "x" / "chunk-0-1.bin").unlink()
    with pytest.raises(FormatError, match="missing"):
        dataformats.open(tmp_path / "x")


def test_litdata_converts_to_mds(tmp_path: Path) -> None:
    dataformats.convert(LITDATA / "types", tmp_path / "x", "mds")
    assert dataformats.open(tmp_path / "x")[5]["s"] == "añ"


@loop_over("content, said", [(None, "is missing beside it"), (b"", "is empty"), (b"{}", "is not of the format")])
def test_index_is_not_there(content: bytes | None, said: str, tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x", "mds", spec={"n": "int64"}) as writer:
        writer.append({"n": 1})
    (tmp_path / "x.dataformats.json").unlink(missing_ok=True)
    (tmp_path / "x" / "index.json").unlink()
    if content is not None:
        (tmp_path / "x" / "index.json").write_bytes(content)
    for path in (tmp_path / "x", tmp_path / "x" / "shard.00000.mds"):
        with pytest.raises(FormatError, match=f"index.json {said}.*Restore index.json"):
            dataformats.open(path)
    with pytest.raises(FormatError, match=f"index.json {said}"):
        dataformats.open(tmp_path / "x", format="mds")
