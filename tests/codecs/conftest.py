"""Golden TFRecord and Granular files, split into records by minimal readers, and the expected values."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from itertools import pairwise
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
    """Return True if a value matches a feature of expected.json."""
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


def _bag(path: Path) -> list[bytes]:
    """Return the records of a bag of any generation."""
    data, ends = path.read_bytes(), b""
    if path.with_suffix(".idx").exists():
        ends = path.with_suffix(".idx").read_bytes()
    elif data:
        (start,) = struct.unpack("<Q", data[-8:])
        data, ends = data[:start], data[start:]
    limits = [limit for (limit,) in struct.iter_unpack("<Q", ends)]
    starts = limits if limits[:1] == [0] and not path.with_suffix(".idx").exists() else [0, *limits]
    return [data[first:last] for first, last in pairwise(starts)]


def _value(node: dict[str, Any], stored: Any) -> Any:
    """Return the value that a node of expected.json describes; bytes only if they are short."""
    kind = node["t"]
    if kind == "array":
        if "npz" in node:
            return stored[node["npz"]]
        return np.array(node["values"], node["dtype"]).reshape(node["shape"])
    if kind == "map":
        return {_value(key, stored): _value(value, stored) for key, value in node["v"]}
    if kind == "list":
        return [_value(item, stored) for item in node["v"]]
    return bytes.fromhex(node["hex"]) if kind == "bytes" else node.get("v")


@pytest.fixture(scope="session")
def granular_values() -> Callable[[str, str], list[tuple[bytes, Any]]]:
    """Return blob and value of every element of a field of a golden Granular dataset, in order."""
    folder = GOLDEN / "granular"
    expected = json.loads((folder / "expected.json").read_text())
    entries = {entry["id"]: entry for entry in expected["entries"]}
    stored = np.load(folder / "expected.npz", allow_pickle=False)

    def values(name: str, field: str) -> list[tuple[bytes, Any]]:
        entry = entries[name]
        blobs = _bag(folder / entry["path"] / f"{field}.bag")
        decoded = [_value(row[field], stored) for row in entry["rows"]]
        if entry["spec"][field].endswith("[]"):
            decoded = [element for row in decoded for element in row]
        return list(zip(blobs, decoded, strict=True))

    return values
