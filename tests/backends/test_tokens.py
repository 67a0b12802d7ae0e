"""Flat token files: those of llm.c and nanoGPT, damaged headers, and the options of `open`."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import FormatError, SpecError, TruncatedError
from dataformats.inspecting.verification import verify
from dataformats.testing.loop_over import loop_over
from tests.golden.tokens.make import stream

GOLDEN = Path(__file__).parents[1] / "golden" / "tokens"


def read_all(source: Any) -> Any:
    return source.read(range(len(source)))["tokens"]


@loop_over(
    "name, dtype, options",
    [
        ("fineweb_train_000000.bin", "uint16", {}),
        ("fineweb_train_000000.bin", "uint16", {"dtype": np.uint16}),
        ("llama.bin", "uint32", {}),
        ("train.bin", "uint16", {"dtype": "uint16"}),
    ],
)
def test_original_files(name: str, dtype: str, options: dict[str, Any]) -> None:
    for window, stride in ((10, None), (11, 10), (1000, None), (1001, None), (3, 400)):
        source = dataformats.open(GOLDEN / name, window=window, stride=stride, **options)
        starts = np.arange(0, 1000 - window + 1, stride or window)
        assert (source.format, len(source)) == ("tokens", len(starts))
        assert str(source.spec["tokens"]) == f"{dtype}[{window}]"
        found = read_all(source)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, stream(dtype)[starts[:, None] + np.arange(window)])
    assert verify(GOLDEN / name, window=7, **options).ok


def test_folder_of_shards(tmp_path: Path) -> None:
    """No window reaches from one shard into the next."""
    for number in range(2):
        shutil.copy(GOLDEN / f"fineweb_train_{number:06d}.bin", tmp_path)
    (tmp_path / "meta.pkl").write_bytes(b"other files are left out")
    expected = [
        stream("uint16", 1000 * number)[start : start + 30] for number in range(2) for start in range(0, 971, 30)
    ]
    for path in (tmp_path, GOLDEN / "fineweb_train_*.bin"):
        np.testing.assert_array_equal(read_all(dataformats.open(path, window=30)), np.stack(expected))
    mixed = dataformats.open([GOLDEN / "fineweb_train_000000.bin", GOLDEN / "llama.bin"], window=30)
    assert mixed.spec == {"tokens": "uint32[30]"}
    np.testing.assert_array_equal(mixed[0]["tokens"], expected[0])


def test_no_tokens() -> None:
    assert len(dataformats.open(GOLDEN / "empty.bin", window=1)) == 0


@loop_over(
    "name, options, message",
    [
        ("llama.bin", {}, r"no documents\. Pass window="),
        ("llama.bin", {"stride": 2}, r"a stride needs a window\. Pass window="),
        ("llama.bin", {"window": 2, "dtype": "uint16"}, r"says uint32, found dtype='uint16'\. Leave out dtype="),
        ("llama.bin", {"window": 2, "dtype": "float32"}, "expected a little-endian integer dtype"),
        ("llama.bin", {"window": 2, "dtype": ">u2"}, "expected a little-endian integer dtype"),
        ("llama.bin", {"window": 2, "dtype": "words"}, "expected an integer dtype, found 'words'"),
        ("train.bin", {"window": 2}, r"no header with the dtype.*Pass dtype='uint16'"),
        ("train.bin", {}, r"no header with the dtype.*Pass dtype='uint16'"),
    ],
)
def test_wrong_options(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        dataformats.open(GOLDEN / name, **options)


@loop_over("magic, kind", [(20240522, "examples of an evaluation"), (20240326, "weights of a model")])
def test_other_files_of_llm_c(magic: int, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "hellaswag_val.bin"
    path.write_bytes(struct.pack("<3i", magic, 1, 2).ljust(1024, b"\0") + bytes(64))
    given: list[dict[str, Any]] = [{}, {"dtype": "uint16", "window": 4}]
    for options in given:
        with pytest.raises(FormatError, match=f"{kind} of llm.c, not tokens"):
            dataformats.open(path, format="tokens" if options else None, **options)


def test_folder_of_other_names(tmp_path: Path) -> None:
    for name in "ab":
        shutil.copy(GOLDEN / "train.bin", tmp_path / f"{name}.npy")
    options: dict[str, Any] = {"format": "tokens", "dtype": "uint16", "window": 10}
    with pytest.raises(FormatError, match="holds no tokens files") as caught:
        dataformats.open(tmp_path, **options)
    assert len(dataformats.open(str(caught.value.remedy).split("'")[1], **options)) == 200


def test_file_without_a_header(tmp_path: Path) -> None:
    """Only nanoGPT's own names tell the format of such a file; the error about others names the options."""
    path = tmp_path / "tokens.bin"
    shutil.copy(GOLDEN / "train.bin", path)
    with pytest.raises(FormatError, match="pass format='tokens', dtype='uint16' and window="):
        dataformats.open(path, window=10)
    assert len(dataformats.open(path, format="tokens", dtype="uint16", window=10)) == 100
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(TruncatedError, match="not have a whole number of uint16 tokens"):
        dataformats.open(path, format="tokens", dtype="uint16", window=10)


@loop_over(
    "name, message",
    [
        ("version_2", "unknown version of the header: found 2"),
        ("longer", "not as long as its header says: expected 5024 bytes"),
        ("negative_count", "not as long as its header says"),
    ],
)
def test_damaged_header(name: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        dataformats.open(GOLDEN / "corrupt" / f"{name}.bin", window=10)
    assert not verify(GOLDEN / "corrupt" / f"{name}.bin", window=10).ok


@pytest.mark.parametrize(("name", "whole"), [("cut", 99), ("huge_count", 100)])
def test_short_file(name: str, whole: int) -> None:
    """The whole windows are readable, and one more record stands for the rest."""
    source = dataformats.open(GOLDEN / "corrupt" / f"{name}.bin", window=10)
    assert len(source) == whole + 1
    np.testing.assert_array_equal(source[whole - 1]["tokens"], stream("uint32")[:1000].reshape(100, 10)[whole - 1])
    with pytest.raises(TruncatedError, match="reaches outside the file"):
        source[whole]
    assert verify(GOLDEN / "corrupt" / f"{name}.bin", window=10).n_findings == 1
