"""Arrays whose shapes are in other fields of their records, such as `uint8[height,width,3]`, in every format."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats import CodecError, SpecError, Type
from dataformats.testing.loop_over import loop_over

SIZES = [(4, 6), (5, 3), (2, 2), (2, 2)]
FORMATS = ["tfrecord", "ffrecord", "ofrecord", "array_record", "syrah", "granular", "mds", "webdataset"]
TABLES = ["parquet", "arrow"]
STORED = {"image": "bytes", "height": "int64", "width": "int64"}
SHAPED = {"image": "uint8[height,width,3]"}


def images() -> list[np.ndarray[Any, Any]]:
    return [np.arange(h * w * 3, dtype=np.uint8).reshape(h, w, 3) + row for row, (h, w) in enumerate(SIZES)]


def write(path: Path, format: str | None = None, **changes: Any) -> Path:
    """Write pixels with their sizes; `changes` are other values of record 1."""
    if format in TABLES:
        pytest.importorskip("pyarrow")
    rows = [{"image": image.tobytes(), "height": len(image), "width": len(image[0])} for image in images()]
    rows[1] |= changes
    lacks = any(value is None for value in changes.values())
    spec = {name: f"{kind}{'?' * (lacks and name in changes)}" for name, kind in STORED.items()}
    with dataformats.create(path, format, spec=spec) as writer:
        writer.extend({name: value for name, value in row.items() if value is not None} for row in rows)
    return path


@loop_over("format", FORMATS + TABLES)
def test_formats_give_arrays_of_their_own_shape(format: str, tmp_path: Path) -> None:
    path = write(tmp_path / "x", format)
    source = dataformats.open(path, spec=SHAPED)
    for same in (source, dataformats.open(path).with_spec(SHAPED), pickle.loads(pickle.dumps(source))):
        assert str(same.spec["image"]) == SHAPED["image"]
        for found in (list(same), [same[index] for index in range(4)], list(same.read(range(4)))):
            assert all(np.array_equal(one["image"], image) for one, image in zip(found, images(), strict=True))
    only = source.select("image")
    assert only[1].keys() == only.read([1]).columns.keys() == source.read([1], ["image"]).columns.keys() == {"image"}
    assert np.array_equal(only[1]["image"], images()[1])
    assert source.read([2, 3])["image"].stacked.shape == (2, 2, 2, 3)
    source[0]["image"][0, 0] = 9  # writable


@loop_over(
    "changes, problem",
    [
        ({"height": 6}, r"expected 54 bytes, found 45 bytes and height=6, width=3"),
        ({"height": -5, "width": -3}, r"expected sizes from 0 on, found 45 bytes and height=-5, width=-3"),
        ({"height": None}, r"expected sizes from 0 on, found 45 bytes and height=None"),
        ({"image": b""}, r"expected 45 bytes, found 0 bytes"),
        ({"image": b"", "height": 2**62, "width": 0}, r"found 0 bytes and height=4611686018427387904, width=0"),
    ],
)
def test_wrong_sizes_are_errors_of_their_record(changes: dict[str, Any], problem: str, tmp_path: Path) -> None:
    for name in ("x.tfrecord", "x.parquet"):
        path = write(tmp_path / name, name.partition(".")[2], **changes)
        source = dataformats.open(path, spec=SHAPED)
        with pytest.raises(CodecError, match=rf"record 1 of '.*{name}', field 'image'.*{problem}"):
            source[1]
        batch = source.read(range(4), ["image"], on_corrupt="omit")
        assert [*batch.failed] == [1]
        assert [image.shape for image in batch["image"]] == [(4, 6, 3), (2, 2, 3), (2, 2, 3)]


def test_records_may_lack_shaped_fields(tmp_path: Path) -> None:
    source = dataformats.open(write(tmp_path / "x.tfrecord", image=None), spec={"image": SHAPED["image"] + "?"})
    assert [None if one is None else one.shape for one in source.read([0, 1])["image"]] == [(4, 6, 3), None]
    assert "image" not in source[1]


def test_shapes_name_other_fields(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tfrecord")
    for wrong in ("uint8[rows,width,3]", "uint8[image,3]", "array(uint8,height)[]"):
        with pytest.raises(SpecError, match=r"'image': expected an array whose shape names other fields \(height, wid"):
            dataformats.open(path, spec={"image": wrong})[0]
    with pytest.raises(SpecError, match=r"are read, not written. Pass spec=\{'image': 'array'\}"):
        dataformats.create(tmp_path / "y.ffr", spec={**STORED, **SHAPED})


@loop_over("name, copied", [("y.tfrecord", True), ("y.parquet", False), ("y.mds", False), ("y.tar", False)])
def test_conversions_keep_shapes(name: str, copied: bool, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path, of_source = write(tmp_path / "x.tfrecord"), {"spec": SHAPED}
    report = dataformats.convert(path, tmp_path / name, source_options=of_source, workers=0)
    found = dataformats.open(tmp_path / name)
    assert (report.copied, str(found.spec["image"])) == (copied, SHAPED["image"] if copied else "array")
    assert all(np.array_equal(one["image"], image) for one, image in zip(found, images(), strict=True))
    dataformats.convert(path, tmp_path / f"raw-{name}", spec=SHAPED, workers=0)  # raw bytes; the sidecar has the type
    found = dataformats.open(tmp_path / f"raw-{name}")
    assert found.spec["image"] == Type.parse(SHAPED["image"])
    assert all(np.array_equal(one["image"], image) for one, image in zip(found, images(), strict=True))
    with pytest.raises(SpecError, match="expected an array whose shape names other fields"):
        dataformats.convert(path, tmp_path / "z.parquet", spec=SHAPED, fields=["image"], workers=0)
    dataformats.convert(path, tmp_path / f"one-{name}", source_options=of_source, fields=["image"], workers=0)
    assert dataformats.open(tmp_path / f"one-{name}")[1]["image"].shape == (5, 3, 3)


def test_other_programs_read_raw_bytes(tmp_path: Path) -> None:
    dataformats.convert(write(tmp_path / "x.tfrecord"), tmp_path / "g", "granular", spec=SHAPED, workers=0)
    assert json.loads((tmp_path / "g" / "spec.json").read_text("utf-8"))["image"] == "bytes"
    assert np.array_equal(dataformats.open(tmp_path / "g")[1]["image"], images()[1])


def test_raw_pixels_are_noted(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tfrecord")
    (tmp_path / "x.tfrecord.dataformats.json").unlink()
    what = "field 'image' has the bytes of pixels in 'height' rows and 'width' columns: "
    assert dataformats.info(path).notes == (what + "pass spec={'image': 'uint8[height,width,3]'}",)
    other = write(tmp_path / "y.tfrecord", height=4)
    (tmp_path / "y.tfrecord.dataformats.json").unlink()
    assert dataformats.info(other).notes == ()
