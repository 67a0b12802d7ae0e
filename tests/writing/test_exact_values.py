"""Random specs and records: read back equal, or refused before anything is written."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dataformats
from dataformats.errors import CodecError, DataFormatsError, SpecError
from dataformats.testing.records import is_same_value
from tests.campaign import share

NUMBERS = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
]
CODECS = ["bytes", "utf8", "json"]
DIMS = ["", "[]", "[2]", "[0]", "[2,2]", "[][2]", "[2][]", "[][]"]
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=0, max_size=6)
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.lists(st.integers(-300, 300), max_size=4),
    st.lists(st.floats(width=32), min_size=2, max_size=2),
    st.lists(st.booleans(), max_size=3),
    st.lists(st.lists(st.integers(0, 9), min_size=2, max_size=2), max_size=3),
    st.lists(st.text(max_size=3), max_size=3),
    st.lists(st.binary(max_size=3), max_size=3),
    st.sampled_from(NUMBERS).map(lambda dtype: np.ones((2, 2), dtype)),
    st.sampled_from(NUMBERS).map(lambda dtype: np.array([0, 1], dtype)),
    st.sampled_from([">i4", ">f8"]).map(lambda dtype: np.arange(2, dtype=dtype)),
)


@st.composite
def kinds(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(NUMBERS + CODECS)) + draw(st.sampled_from(DIMS)) + draw(st.sampled_from(["", "", "?"]))


def expected(kind: str, value: Any) -> Any:
    """Return the value that an accepted value must come back as, by the rules of DESIGN alone."""
    codec, _, dims = kind.rstrip("?").partition("[")
    if codec not in NUMBERS:
        return value if not dims else value.tolist() if isinstance(value, np.ndarray) else list(value)
    array = np.asarray(value, dtype=None if np.size(value) else codec)
    if not np.size(value):
        array = np.zeros(array.shape, codec)
    assert (array.dtype.kind == "b") == (codec == "bool"), f"{value!r} was cast to {kind}"
    if not codec.startswith("float"):
        assert array.dtype.kind in "biu"
        assert array.astype(object).tolist() == array.astype(codec).astype(object).tolist(), "an integer was changed"
    with np.errstate(over="ignore"):
        rounded = array.astype(codec)
    assert not np.any(np.isinf(rounded.astype(float)) & np.isfinite(array.astype(float))), "rounded to infinity"
    return rounded if dims else rounded[()].item()


@pytest.mark.parametrize("format", ["tfrecord", "ffrecord"])  # each stores records as Examples
@settings(max_examples=share(60), deadline=None)
@given(data=st.data())
def test_equal_or_refused(format: str, data: Any) -> None:
    spec = data.draw(st.dictionaries(NAMES, kinds(), min_size=1, max_size=3))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        try:
            writer = dataformats.create(path, format, spec=spec)
        except SpecError:
            assert list(Path(folder).iterdir()) == []
            return
        taken = []
        with writer:
            for _ in range(data.draw(st.integers(0, 4))):
                record = {name: data.draw(VALUES) for name in spec}
                before = len(writer)
                try:
                    writer.append(record)
                except (SpecError, CodecError):
                    assert len(writer) == before
                else:
                    taken.append(record)
        src = dataformats.open(path, format=format, index=f"{path}/nowhere")
        assert len(src) == len(taken)
        for found, record in zip(src, taken, strict=True):
            check(spec, found, record)


def check(spec: dict[str, str], found: dict[str, Any], record: dict[str, Any]) -> None:
    for name, kind in spec.items():
        if record[name] is None:
            if name in found:  # null is a value of JSON, and a sequence that is missing is empty
                assert "json" in kind or len(found[name]) == 0
            continue
        wanted = expected(kind, record[name])
        if isinstance(wanted, np.ndarray) and wanted.size == 0:
            assert found[name].size == 0
            assert found[name].dtype == wanted.dtype
        elif "json" in kind:
            assert is_same_value(found[name], wanted) or found[name] == wanted
        else:
            assert is_same_value(found[name], wanted), f"{kind}: {record[name]!r} came back as {found[name]!r}"


def test_the_limits() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.tfrecord"
        with dataformats.create(path, "tfrecord", spec={"h": "float16", "u": "uint64", "d": "float64"}) as writer:
            for bad in ({"h": 65520.0}, {"h": 2049}, {"u": 2**63}, {"u": 2**64}, {"d": 2**53 + 1}, {"h": 1e39}):
                with pytest.raises(DataFormatsError):
                    writer.append({"h": 0.0, "u": 0, "d": 0.0, **bad})
            writer.append({"h": 65519.0, "u": 2**63 - 1, "d": math.nextafter(1, 2)})
            writer.append({"h": -math.inf, "u": 0, "d": 2**53})
        found = list(dataformats.open(path))
    assert found[0] == {"h": 65504.0, "u": 2**63 - 1, "d": math.nextafter(1, 2)}
    assert found[1] == {"h": -math.inf, "u": 0, "d": 2.0**53}
