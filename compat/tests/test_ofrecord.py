"""The drop-in `ofrecord`: OneFlow's message classes, which read its files frame by frame, and write the same bytes."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

import dataformats
from dataformats_compat import ofrecord

VALUES = {
    "image": ofrecord.Feature(bytes_list=ofrecord.BytesList(value=[b"\x00\xff", b""])),
    "floats": ofrecord.Feature(float_list=ofrecord.FloatList(value=[0.5, -2.0])),
    "doubles": ofrecord.Feature(double_list=ofrecord.DoubleList(value=[0.1])),
    "label": ofrecord.Feature(int32_list=ofrecord.Int32List(value=[-7])),
    "big": ofrecord.Feature(int64_list=ofrecord.Int64List(value=[2**62, -(2**63)])),
}


def test_files_written_by_hand_are_read_by_the_package(tmp_path: Path) -> None:
    record = ofrecord.OFRecord(feature=VALUES)
    path = tmp_path / "part-0"
    path.write_bytes(2 * (struct.pack("q", record.ByteSize()) + record.SerializeToString()))
    first, second = dataformats.open(path, format="ofrecord")
    assert first["image"] == [b"\x00\xff", b""]
    assert [second["doubles"], second["label"]] == [0.1, -7]
    assert second["floats"].dtype == np.float32
    assert second["big"].tolist() == [2**62, -(2**63)]


def test_files_of_the_package_are_read_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "part-0"
    with dataformats.create(path, "ofrecord", spec={"class/label": "int32", "encoded": "bytes"}) as writer:
        writer.append({"class/label": 3, "encoded": b"jpeg"})
    with path.open("rb") as file:
        (length,) = struct.unpack("q", file.read(8))
        record = ofrecord.OFRecord()
        record.ParseFromString(file.read(length))
        assert file.read() == b""
    assert record.feature["class/label"].int32_list.value == [3]
    assert record.feature["encoded"].bytes_list.value[0] == b"jpeg"
    assert record.feature["encoded"].WhichOneof("kind") == "bytes_list"


def test_messages_check_types_and_are_pickled() -> None:
    with pytest.raises(TypeError):
        ofrecord.Int32List(value=[0.5])
    with pytest.raises(ValueError, match="range"):
        ofrecord.Int32List(value=[2**31])
    record = ofrecord.OFRecord(feature=VALUES)
    assert pickle.loads(pickle.dumps(record)) == record
    assert ofrecord.DESCRIPTOR.package == "oneflow"
