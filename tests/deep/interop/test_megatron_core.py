"""Megatron's pairs, both ways: what megatron-core writes we read, and what we write megatron-core reads."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats

INDEXED: Any = pytest.importorskip("megatron.core.datasets.indexed_dataset", reason="megatron-core is not installed")
N = 3000


def documents(dtype: str) -> list[Any]:
    generator = np.random.default_rng(0)
    most = np.iinfo(dtype).max
    return [generator.integers(0, most, size).astype(dtype) for size in generator.integers(0, 90, N)]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "uint16"])
def test_both_ways(tmp_path: Path, dtype: str) -> None:
    expected = documents(dtype)
    builder = INDEXED.IndexedDatasetBuilder(str(tmp_path / "theirs.bin"), dtype=getattr(np, dtype))
    for tokens in expected:
        third = len(tokens) // 3
        builder.add_document(tokens, [third, len(tokens) - third])
    builder.finalize(str(tmp_path / "theirs.idx"))
    theirs, ours = INDEXED.IndexedDataset(str(tmp_path / "theirs")), dataformats.open(tmp_path / "theirs")
    sequences = dataformats.open(tmp_path / "theirs", sequences=True)
    assert (len(ours), len(sequences)) == (N, len(theirs))
    assert all(np.array_equal(found["tokens"], tokens) for found, tokens in zip(ours, expected, strict=True))
    assert all(np.array_equal(sequences[index]["tokens"], theirs[index]) for index in range(len(theirs)))
    dataformats.convert(ours, tmp_path / "ours.bin", "megatron")
    back = INDEXED.IndexedDataset(str(tmp_path / "ours"))
    assert all(np.array_equal(back[index], expected[index]) and back[index].dtype == dtype for index in range(N))


@pytest.mark.parametrize("length", [7, 64, 1000])
def test_windows_are_samples_of_pretraining(tmp_path: Path, length: int) -> None:
    """The samples of one epoch, by the original's own index, without its shuffle."""
    helpers: Any = importlib.import_module("megatron.core.datasets.helpers_cpp")

    with dataformats.create(tmp_path / "x.bin", spec={"tokens": "uint16[]"}) as writer:
        writer.extend({"tokens": tokens} for tokens in documents("uint16"))
    dataset = INDEXED.IndexedDataset(str(tmp_path / "x"))
    sizes, order = dataset.sequence_lengths, np.arange(N, dtype=np.int32)
    samples = helpers.build_sample_idx_int32(sizes, order, length, 1, int(sizes.sum()), True, 1)
    windows = dataformats.open(tmp_path / "x", window=length + 1, stride=length)
    assert len(windows) == len(samples) - 1
    for index, ((first, begin), (last, end)) in enumerate(itertools.pairwise(samples)):
        parts = [dataset.get(number) for number in range(first, last + 1)]
        parts[-1] = parts[-1][: end + 1]
        expected = np.concatenate([parts[0][begin:], *parts[1:]])
        np.testing.assert_array_equal(windows[index]["tokens"], expected)
