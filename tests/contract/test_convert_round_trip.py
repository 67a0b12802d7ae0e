"""Random specs and records through every format: equal to the bit, or refused before anything is written.

The expectations repeat the table of types in the documents; no code under test decides which types a format takes.
"""

from __future__ import annotations

import re
import struct
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dataformats
from dataformats.errors import SpecError
from tests.campaign import share

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
NUMBERS = ("bool", *SIGNED, *UNSIGNED, *FLOATS)
CODECS = ("utf8", "bytes", "json", "msgpack", "array")
DIMS = ("", "", "[]", "[3]", "[1]", "[0]", "[2,2]", "[][2]", "[][2,1]")
NAMES = (
    "a",
    "b",
    "Z",
    "_",
    "a.bag",
    "a.idx",
    "spec",
    "x-1",
    "value",
    "refs",
    "a b",
    "é",
    "1",
    "a/b",
    "dataformats.json",
    "n" * 251,
    "n" * 252,
)
GRANULAR_NAME = re.compile(r"[A-Za-z_][\w.-]*")
Record = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """One way of writing a dataset, and the types that it is documented to refuse."""

    format: str
    options: Mapping[str, Any] = field(default_factory=dict)
    optional: bool = True
    sequences: bool = True
    any_name: bool = True
    empty_values: bool = True
    empty_beside_sequences: bool = True
    empty_records: bool = True
    large_integers: bool = True  # uint64 from 2^63 on, but in fixed shapes, which are bytes

    def refused_fields(self, spec: Mapping[str, str]) -> set[str]:
        return {name for name, kind in spec.items() if not self._takes(name, kind)}

    def _takes(self, name: str, kind: str) -> bool:
        fits = GRANULAR_NAME.fullmatch(name) is not None and name != "refs" and len(name) + len(".bag") <= 255
        named = self.any_name or fits
        return named and (self.optional or not kind.endswith("?")) and (self.sequences or not is_sequence(kind))

    def refuses(self, spec: Mapping[str, str], record: Record) -> bool:
        """Return True if the format takes the spec but cannot store this record."""
        lists = [name for name in record if spec[name].rstrip("?") in ("uint64", "uint64[]")]
        large = any(np.any(np.asarray(record[name]) >= 2**63) for name in lists)
        empty = any(spec[name].startswith(("utf8", "bytes")) and has_empty(record[name]) for name in record)
        return (
            (large and not self.large_integers)
            or (empty and not self.empty_values)
            or (empty and not self.empty_beside_sequences and any(map(is_sequence, spec.values())))
            or (not record and not self.empty_records)
        )


WAYS = {
    "tfrecord": Way("tfrecord", large_integers=False),
    "syrah": Way("syrah", optional=False, sequences=False),
    "tfrecord-gzip": Way("tfrecord", {"compression": "gzip"}, large_integers=False),
    "granular-2": Way("granular", {"generation": 2}, optional=False, any_name=False, empty_values=False),
    "ofrecord": Way("ofrecord", large_integers=False, empty_records=False),
    "granular-3": Way("granular", {"generation": 3}, optional=False, sequences=False, any_name=False),
    "ffrecord": Way("ffrecord", large_integers=False),
    "granular": Way("granular", optional=False, any_name=False, empty_beside_sequences=False),
}


def is_sequence(kind: str) -> bool:
    codec, bracket, _ = kind.partition("[")
    return bool(bracket) and codec not in NUMBERS


# ---- strategies


def numbers(dtype: str, shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    """Arrays of any bits: all NaNs, both zeros, denormals.

    Only of float32 the NaNs are quiet ones: FloatLists are read through Python's floats, which have no others.
    """
    width = np.dtype(dtype).itemsize * int(np.prod(shape))
    raw = st.binary(min_size=width, max_size=width) | st.sampled_from([b"\xff" * width, b"\0" * width])
    if dtype == "bool":
        return raw.map(lambda data: (np.frombuffer(data, np.uint8) % 2 == 1).reshape(shape))
    arrays = raw.map(lambda data: np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).reshape(shape).copy())
    return arrays.map(quiet) if dtype == "float32" else arrays


def quiet(array: np.ndarray) -> np.ndarray:
    array.view(np.uint32)[np.isnan(array)] |= np.uint32(0x0040_0000)
    return array


def scalar(array: np.ndarray) -> Any:
    value = array[()].item()
    return float("nan") if value != value else value  # a float of Python has no float32's NaN bits


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
FLAT = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | TEXTS
DOCUMENTS = FLAT.filter(lambda value: value is not None) | st.recursive(
    st.lists(FLAT, max_size=3),
    lambda inner: st.lists(inner | FLAT, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
)
SHAPES = st.sampled_from([(), (0,), (2,), (1, 2), (2, 0, 1)])
ARRAYS = st.tuples(st.sampled_from(NUMBERS), SHAPES).flatmap(lambda pair: numbers(*pair))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "utf8": TEXTS,
    "bytes": st.binary(max_size=5),
    "json": DOCUMENTS.filter(lambda value: not isinstance(value, float) or abs(value) != float("inf")),
    "msgpack": DOCUMENTS | st.binary(max_size=3),
    "array": ARRAYS,
}


@st.composite
def kinds(draw: st.DrawFn) -> str:
    codec = draw(st.sampled_from(NUMBERS + CODECS))
    dims = draw(st.sampled_from(DIMS if codec in NUMBERS else ("", "", "[]", "[2]")))
    optional = draw(st.sampled_from(["", "", "", "?"]))
    return f"{codec}{dims}{optional}"


@st.composite
def values(draw: st.DrawFn, kind: str) -> Any:
    codec, bracket, dims = kind.rstrip("?").partition("[")
    sizes = [part for group in dims.rstrip("]").split("][") for part in group.split(",")] if bracket else []
    shape = tuple(int(size) if size else draw(st.integers(0, 3)) for size in sizes)
    if codec in NUMBERS:
        array = draw(numbers(codec, shape))
        return array if bracket else scalar(array)
    return [draw(VALUES[codec]) for _ in range(shape[0])] if bracket else draw(VALUES[codec])


@st.composite
def data_sets(draw: st.DrawFn) -> tuple[dict[str, str], list[Record]]:
    spec: dict[str, str] = draw(st.dictionaries(st.sampled_from(NAMES), kinds(), min_size=1, max_size=4))
    records = []
    for _ in range(draw(st.integers(0, 4))):
        held = {n: draw(values(kind)) for n, kind in spec.items() if not kind.endswith("?") or draw(st.booleans())}
        records.append(held)
    return spec, records


# ---- expectations


def has_empty(value: Any) -> bool:
    return not all(value) if isinstance(value, list) else not value


def identical(left: Any, right: Any) -> bool:
    """Return True if two values are equal to the last bit."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(identical(left[name], right[name]) for name in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(identical, left, right))
    if isinstance(left, float):
        return struct.pack("<d", left) == struct.pack("<d", right)
    return bool(left == right)


def check(path: Path, way: Way, spec: Mapping[str, str], records: list[Record]) -> dataformats.RecordSource:
    """Fail unless these records are there; return their source."""
    src = dataformats.open(path, format=way.format, index=f"{path.parent}/indexes")  # a file of no records tells none
    assert src.spec == spec
    assert len(src) == len(records)
    for found in (list(src), list(src.read(range(len(records))))):
        for number, (left, right) in enumerate(zip(found, records, strict=True)):
            assert identical(left, right), f"record {number}: {left} is not {right}"
    return src


def write(path: Path, way: Way, spec: Mapping[str, str], records: list[Record]) -> bool:
    """Write the records that a way takes; return False if it must refuse them, does so, and leaves no files."""
    wrong = way.refused_fields(spec)
    if wrong:
        with pytest.raises(SpecError) as raised:
            dataformats.create(path, way.format, spec=spec, **way.options)
        assert all(repr(name)[:20] in str(raised.value) for name in wrong), str(raised.value)
    elif any(way.refuses(spec, record) for record in records):
        with pytest.raises(SpecError), dataformats.create(path, way.format, spec=spec, **way.options) as writer:
            writer.extend(records)
    else:
        with dataformats.create(path, way.format, spec=spec, **way.options) as writer:
            writer.extend(records)
        return True
    assert list(around(path)) == []
    return False


def around(path: Path) -> Iterator[Path]:
    return path.parent.glob(f"{path.name}*")


@settings(max_examples=share(20), deadline=None)
@given(data_set=data_sets())
def test_every_format_and_round_the_circle(data_set: tuple[dict[str, str], list[Record]]) -> None:
    spec, records = data_set
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / name for name in WAYS}
        taken = [name for name, way in WAYS.items() if write(paths[name], way, spec, records)]
        sources = {name: check(paths[name], WAYS[name], spec, records) for name in taken}
        for name in (name for name in WAYS if name not in taken and taken):
            with pytest.raises(SpecError):
                dataformats.convert(sources[taken[0]], paths[name], WAYS[name].format, **WAYS[name].options)
            assert list(around(paths[name])) == []
        source = sources[taken[0]] if taken else None
        for name in [*taken[1:], *taken[:1]] if source else []:
            path, way = Path(folder) / f"{name}.again", WAYS[name]
            report = dataformats.convert(source, path, way.format, **way.options)
            assert report.records == len(records)
            source = check(path, way, spec, records)
