"""merge, split, repair and index on every format: they do it, or refuse it in the same words."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import dataformats
from dataformats.reading.copied_records import copying_formats
from dataformats.registry import backends
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN
from tests.cli.conftest import Run

READ_ONLY = {
    "hdf5": "hdf5/rows.h5",
    "json": "json/indent.json",
    "lance": "lance/types.lance",
    "litdata": "litdata/types",
    "lmdb": "lmdb/single.lmdb",
    "npy": "npy/images.npy",
    "recordio": "recordio/images.rec",
    "safetensors": "safetensors/small.safetensors",
    "tokens": "tokens/fineweb_train_000000.bin",
    "zarr": "zarr/v3.zarr",
}
LIBRARIES = {"arrow": "pyarrow", "csv": "pyarrow", "parquet": "pyarrow", "hdf5": "h5py"}
SPECS = {
    "audio": {"audio": "bytes"},
    "images": {"image": "png", "label": "int64"},
    "megatron": {"tokens": "int32[]"},
    "videos": {"video": "bytes"},
}
RECORDS = {
    "audio": {"audio": b"RIFF\0\0\0\0WAVE" + bytes(99)},
    "images": {"image": np.zeros((2, 2, 3), np.uint8), "label": 0},
    "megatron": {"tokens": [1, 2]},
    "videos": {"video": b"\0\0\0\x14ftypisom" + bytes(99)},
}

OTHERWISE_REFUSED = {
    ("audio", "merge"): "two files of one name",
    ("audio", "split"): "no shards",
    ("images", "merge"): "two images of one name",
    ("images", "split"): "no shards",
    ("megatron", "split"): "no shards",
    ("videos", "merge"): "two files of one name",
    ("videos", "split"): "no shards",
}


def dataset(format: str, folder: Path) -> Path:
    """Return a small dataset of a format."""
    library = LIBRARIES.get(format, format)
    if library in ("array_record", "h5py", "lance", "lmdb", "pyarrow", "zarr"):
        pytest.importorskip(library, reason=f"{library} is not installed")
    if format in READ_ONLY:
        return GOLDEN / READ_ONLY[format]
    backend = backends.get(format)
    path = folder / ("data" if backend.in_folders else f"data{backend.suffixes[0]}")
    if format == "csv":
        path.write_text("a,b\n1,2\n3,4\n")
    elif format == "text":
        path.write_text('"a"\n"b"\n')
    else:
        with dataformats.create(path, format, spec=SPECS.get(format, {"a": "int64"})) as writer:
            writer.extend([RECORDS.get(format, {"a": 1})] * 3)
    return path


@pytest.mark.parametrize("format", list(backends))
def test_commands_copy_records_or_name_convert(format: str, run: Run, tmp_path: Path) -> None:
    source = dataset(format, tmp_path)
    new = tmp_path / source.with_stem("new").name
    window = ("--from-option", "window=8") if format == "tokens" else ()
    commands = {
        "merge": (("merge", source, source, new, *window), "convert, which takes several sources"),
        "split": (
            ("split", source, tmp_path / "parts", "--shard-records", 2, *window),
            "convert: .*--shard-records.*--where",
        ),
        "repair": (("repair", source, tmp_path / "repaired" / new.name), "convert and --on-corrupt omit"),
    }
    (tmp_path / "repaired").mkdir()
    for name, (arguments, remedy) in commands.items():
        result = run(*arguments)
        assert "bug" not in result.err, (name, result.err)
        if format in copying_formats():
            assert result.code == 0 or (format, name) in OTHERWISE_REFUSED, result.err
            continue
        said = f"records of {format} cannot be copied as they are stored, only records of array_record, .*{remedy}"
        assert result.code == 2, name
        assert re.search(said, result.err), result.err
    result = run("index", source, "--full", *(("--option", "window=8") if window else ()))
    assert (result.code, result.facts["format"]) == (0, format), result.err


@loop_over("format", [name for name in backends if backends.shipped(name)])
def test_written_formats_copy_records_unless_they_are_tables(format: str) -> None:
    assert (format in copying_formats()) == backends.get(format).copies_records
    assert backends.get(format).copies_records == (hasattr(backends.get(format), "create") and format not in LIBRARIES)
