"""Types that a call declares over those of a sidecar."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import dataformats
from dataformats import SpecError, verify
from dataformats.testing.loop_over import loop_over


@loop_over("name", ["x.tfrecord", "x.ofrecord", "x.ffr", "x.jsonl"])
def test_numbers_are_read_as_written_and_cast(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with dataformats.create(path, spec={"a": "int32[2]", "b": "float32?", "c": "int32[]"}) as writer:
        writer.append({"a": np.array([1, -2], np.int32), "b": np.float32(0.5), "c": np.arange(3, dtype=np.int32)})
        writer.append({"a": np.array([3, 300], np.int32), "c": np.arange(0, dtype=np.int32)})
    wanted = {"a": "int64[]", "b": "float64?", "c": "float64[]"}
    for source in (dataformats.open(path, spec=wanted), dataformats.open(path).with_spec(wanted)):
        for same in (source, pickle.loads(pickle.dumps(source))):
            assert {key: str(kind) for key, kind in same.spec.items()} == wanted
            first, second = same
            assert [first[key].tolist() for key in "ac"] == [[1, -2], [0.0, 1.0, 2.0]]
            assert (first["a"].dtype, first["b"], same.read([0, 1])["c"].values.dtype) == (np.int64, 0.5, np.float64)
            assert (second["a"].tolist(), second.get("b"), len(second["c"])) == ([3, 300], None, 0)
    narrow = dataformats.open(path, spec={"a": "uint8[2]"})
    with pytest.raises(SpecError, match=r"record 0.*'a'"):
        narrow[0]
    assert verify(narrow).findings[0].index == 0
    with pytest.raises(SpecError, match=r"stored as float32.*, which cannot be read as int32"):
        dataformats.open(path, spec={"b": "int32?"})[0]
