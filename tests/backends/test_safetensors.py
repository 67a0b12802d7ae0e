"""Safetensors: rows of tensors, damaged headers, and tensors that are no records."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import dataformats
from dataformats.errors import FormatError, SpecError, TruncatedError
from dataformats.inspecting.verification import verify
from dataformats.reading.stats import scan_stats
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
    rows = dataformats.open(GOLDEN / "rows.safetensors")
    both = dataformats.open([GOLDEN / "small.safetensors", GOLDEN / "rows.safetensors"])
    assert both.spec == {name: f"{kind}?" for name, kind in {**source.spec, **rows.spec}.items()}
    assert both[5].keys() == source.spec.keys()
    np.testing.assert_array_equal(both[7]["images"], rows[1]["images"])


def test_bfloat16() -> None:
    """Values are exact as floats of NumPy and as tensors, and their bits are integers, but no float16."""
    values = np.arange(12, dtype="f4").reshape(4, 3)
    source = dataformats.open(GOLDEN / "bfloat16.safetensors")
    assert source.spec == {"embedding": "bfloat16[3]", "id": "int64"}
    assert source[2]["embedding"].dtype.name == "bfloat16"
    np.testing.assert_array_equal(source.read([3, 0])["embedding"].astype("f4"), values[[3, 0]])
    tensors = source.read(range(4)).to_torch()["embedding"]
    assert tensors.dtype == torch.bfloat16
    np.testing.assert_array_equal(tensors.float().numpy(), values)
    for kind, expected in (("float64[3]", values), ("uint16[3]", values.view("u4") >> 16)):
        np.testing.assert_array_equal(source.with_spec({"embedding": kind}).read(range(4))["embedding"], expected)
    np.testing.assert_array_equal(source.to_arrow()["embedding"].to_pylist(), values)
    *_, running = scan_stats(source)
    assert running.snapshot()["embedding"].maximum == 11
    with pytest.raises(SpecError, match="expected bfloat16 with any dims, or bytes, found float16"):
        source.with_spec({"embedding": "float16[3]"})[0]


def test_short_floats_are_written_as_float32(tmp_path: Path) -> None:
    source = dataformats.open(GOLDEN / "bfloat16.safetensors")
    for format in ("ffrecord", "parquet", "jsonl", "granular"):
        dataformats.convert(source, tmp_path / format, format)
        np.testing.assert_array_equal(dataformats.open(tmp_path / format)[2]["embedding"], [6, 7, 8])
    with pytest.raises(SpecError, match=r"float8_e5m2 are read, not written. Pass spec=\{'x': 'float32\[2\]'\}"):
        dataformats.create(tmp_path / "x", "ffrecord", spec={"x": "float8_e5m2[2]"})


def test_short_floats_without_ml_dtypes(tmp_path: Path) -> None:
    """The other fields, the type and the bits need no package; the values do."""
    code = """
import sys
sys.modules["ml_dtypes"] = None
import dataformats
source = dataformats.open(sys.argv[1])
print(source.spec, source.with_spec({"half": "uint16"})[1]["half"], source.select("x")[3]["x"])
try:
    source[1]
except dataformats.MissingExtraError as error:
    print(error)
"""
    path = tmp_path / "a.safetensors"
    write(path, {"x": ("F32", [4], np.arange(4, dtype="f4").tobytes()), "half": ("BF16", [4], bytes(range(8)))})
    shown = subprocess.run([sys.executable, "-c", code, path], check=True, capture_output=True, text=True).stdout
    assert shown.splitlines() == [
        "Spec({'x': 'float32', 'half': 'bfloat16'}) 770 3.0",
        "the type bfloat16 needs a package. Run pip install ml_dtypes",
    ]


def write(path: Path, tensors: dict[str, tuple[str, list[int], bytes]]) -> None:
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_new_dtypes_are_opaque(tmp_path: Path) -> None:
    tensors = {
        "x": ("F32", [4, 2], np.arange(8, dtype="f4").tobytes()),
        "half": ("F8_E8M0", [4, 2], bytes(range(8))),
        "four": ("F4", [4, 6], bytes(range(12))),
        "new": ("F9_X", [4], bytes(range(20))),
    }
    write(tmp_path / "a.safetensors", tensors)
    source = dataformats.open(tmp_path / "a.safetensors")
    assert {name: str(kind) for name, kind in source.spec_facts.opaque_fields.items()} == {
        "half": "F8_E8M0",
        "four": "F4",
        "new": "F9_X",
    }
    assert source[1, ["half", "four", "new"]] == {
        "half": bytes([2, 3]),
        "four": bytes([3, 4, 5]),
        "new": bytes(range(5, 10)),
    }
    assert source[3]["x"].tolist() == [6, 7]
    assert source.with_spec({"half": "uint16"})[0]["half"] == 256
    with pytest.raises(SpecError, match="found float16"):
        source.with_spec({"half": "float16"})[0]
    write(tmp_path / "b.safetensors", tensors | {"split": ("F6_E2M3", [4, 1], bytes(3))})
    with pytest.warns(UserWarning, match="the field 'split' is left out: rows of F6_E2M3 are no whole bytes"):
        assert dataformats.open(tmp_path / "b.safetensors").spec == source.spec
    write(tmp_path / "c.safetensors", {"split": ("F6_E2M3", [4, 1], bytes(3))})
    with pytest.raises(FormatError, match="no whole bytes"):
        dataformats.open(tmp_path / "c.safetensors")


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
