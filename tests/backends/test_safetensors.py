"""Safetensors: rows of tensors, damaged headers, and tensors that are no records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dataformats
from dataformats.errors import FormatError, TruncatedError
from dataformats.inspecting.verification import verify
from dataformats.testing.loop_over import loop_over
from tests.golden.safetensors.make import TENSORS

GOLDEN = Path(__file__).parents[1] / "golden" / "safetensors"


def test_rows() -> None:
    source = dataformats.open(GOLDEN / "rows.safetensors")
    assert (source.format, len(source), set(source.spec)) == ("safetensors", 20, set(TENSORS))
    batch = source.read([19, 0, 7])
    for name, tensor in TENSORS.items():
        assert batch[name].dtype == tensor.dtype
        np.testing.assert_array_equal(batch[name], tensor[[19, 0, 7]])
        np.testing.assert_array_equal(source[7][name], tensor[7])
    assert verify(GOLDEN / "rows.safetensors").ok
    with pytest.raises(FormatError, match="has no tensors"):
        dataformats.open(GOLDEN / "empty.safetensors")


def test_several_files() -> None:
    source = dataformats.open([GOLDEN / "small.safetensors"] * 2)
    np.testing.assert_array_equal(source.read(range(12))["ids"], np.tile(np.arange(6), 2))
    with pytest.raises(FormatError, match="the fields differ from"):
        dataformats.open([GOLDEN / "small.safetensors", GOLDEN / "rows.safetensors"])


def test_dtype_unknown_to_numpy() -> None:
    """Rows of bfloat16 are bytes, and numbers of as many bytes if the call says so."""
    stored = np.arange(12, dtype="f4").reshape(4, 3).view("u4") >> 16
    assert dataformats.open(GOLDEN / "bfloat16.safetensors")[2]["embedding"] == stored[2].astype("u2").tobytes()
    source = dataformats.open(GOLDEN / "bfloat16.safetensors", spec={"embedding": "uint16[3]"})
    np.testing.assert_array_equal(source.read(range(4))["embedding"], stored)


@pytest.mark.parametrize("name", ["weights", "single"])
def test_tensors_without_rows(name: str) -> None:
    with pytest.raises(FormatError, match=r"first dimensions differ: expected one first dimension.*found \w+\["):
        dataformats.open(GOLDEN / f"{name}.safetensors")


@loop_over(
    "name, message",
    [
        ("cut_header", "the header is longer than the file"),
        ("huge_header", "the header is longer than the file"),
        ("longer", "the file goes on behind the tensors: expected 280 bytes, found 281 bytes"),
        ("no_json", "the header is damaged"),
        ("nested", "the header is damaged"),
        ("dtype", "the header is damaged: found unknown dtype 'F128'"),
        ("shape", "the header is damaged: found offsets that do not fit the shape"),
        ("negative", "no sizes and offsets"),
        ("huge_offsets", "no sizes and offsets"),
        ("text_shape", "no sizes and offsets"),
    ],
)
def test_damaged_file(name: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        dataformats.open(GOLDEN / "corrupt" / f"{name}.safetensors", format="safetensors")
    assert not verify(GOLDEN / "corrupt" / f"{name}.safetensors").ok


def test_short_file() -> None:
    """The records that are whole in all tensors are readable, and one more stands for the rest."""
    for name, whole in (("cut_tensors", 4), ("outside", 0)):
        source = dataformats.open(GOLDEN / "corrupt" / f"{name}.safetensors")
        assert len(source) == whole + 1
        np.testing.assert_array_equal(source.read(range(whole))["ids"], np.arange(whole))
        with pytest.raises(TruncatedError, match=f"record {whole} of .*reaches outside the file"):
            source[whole]
        assert verify(GOLDEN / "corrupt" / f"{name}.safetensors").n_findings == 1
