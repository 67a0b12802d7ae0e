"""Records of the golden TFRecord files, split by the shortest reader there is, and what they must say."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

GOLDEN = Path(__file__).parents[1] / "golden"


def _split(path: str) -> list[bytes]:
    data = (GOLDEN / path).read_bytes()
    records, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        records.append(data[at + 12 : at + 12 + length])
        at += length + 16
    return records


@pytest.fixture(scope="session")
def golden_records() -> Callable[[str], list[bytes]]:
    return _split


@pytest.fixture(scope="session")
def golden_entry() -> Callable[[str], dict[str, Any]]:
    expected = json.loads((GOLDEN / "tfrecord" / "expected.json").read_text())
    entries = {entry["id"]: entry for entry in expected["entries"]}
    return entries.__getitem__


@pytest.fixture(scope="session")
def same_feature() -> Callable[[dict[str, Any], Any], bool]:
    """Say whether a value is what expected.json says of a feature."""
    import hashlib

    def digest(data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()

    def same(expected: dict[str, Any], value: Any) -> bool:
        if expected["kind"] is None:
            return value is None
        if expected["kind"] == "bytes_list":
            return [digest(item) for item in value] == [str(item["sha256"]) for item in expected["bytes"]]
        array = np.asarray(value)
        right_type = array.dtype == np.dtype(expected["dtype"]) and list(array.shape) == expected["shape"]
        return bool(right_type) and digest(array.tobytes()) == str(expected["sha256_le"])

    return same
