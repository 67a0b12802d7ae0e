"""The codec `tensor` against messages that TensorFlow 2.21 wrote (`tf.make_tensor_proto`), and notes of `info`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from dataformats.codecs.tensors import TENSOR
from dataformats.testing.loop_over import loop_over

WRITTEN: list[tuple[str, Any]] = [
    ("080312003a0105", np.array(5, "i4")),
    ("080112041202080222080000c03f00002040", np.array([1.5, 2.5], "f4")),
    ("080a120812020801120208025a020100", np.array([[True, False]])),
    ("080512041202080422080700070007000700", np.array([7, 7, 7, 7], "i2")),
    ("08131204120208022204003c0040", np.array([1, 2], "f2")),
    ("08121204120208016210000000000000f03f0000000000000040", np.array([1 + 2j])),
    ("08171204120208018a010a80808080808080808001", np.array([2**63], "u8")),
    ("0809120412020804520afdffffffffffffffff01", np.full(4, -3)),  # one value stands for all
    ("0803120412020804", np.zeros(4, "i4")),
    ("080712004201" + "78", b"x"),
]


@loop_over("written, value", WRITTEN)
def test_messages_of_tensorflow(written: str, value: Any) -> None:
    found = TENSOR.decode(bytes.fromhex(written))
    assert type(found) is type(value)
    if isinstance(value, np.ndarray):
        assert (found.dtype, found.shape, found.tobytes()) == (value.dtype, value.shape, value.tobytes())
    else:
        assert found == value


def test_tensors_are_noted(tmp_path: Path) -> None:
    values = [np.arange(6, dtype="f4").reshape(2, 3) + row for row in range(3)]
    with dataformats.create(tmp_path / "x.tfrecord", spec={"mel": "bytes"}) as writer:
        writer.extend({"mel": TENSOR.encode(value)} for value in values)
    (tmp_path / "x.tfrecord.dataformats.json").unlink()
    (note,) = dataformats.info(tmp_path / "x.tfrecord").notes
    assert note == "field 'mel' holds values that 'tensor' decodes: pass spec={'mel': 'tensor'}"
    source = dataformats.open(tmp_path / "x.tfrecord", spec={"mel": "tensor"})
    assert np.array_equal([record["mel"] for record in source], values)
