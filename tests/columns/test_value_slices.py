"""Value slices: large values read straight into their column give the same columns as the ordinary read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats import Type
from dataformats.batch import Blobs
from dataformats.batch import value_slices as windows
from dataformats.batch.value_slices import SliceHints, SplitBlobs, ValueSlice, common_slice, join_blobs
from dataformats.errors import ChecksumError, SpecError
from dataformats.kernels import reads_batches
from dataformats.testing.loop_over import loop_over

SIZE = 5000
N = 40


def vector(index: int, n_bytes: int = SIZE) -> np.ndarray:
    return np.random.default_rng(index).integers(0, 256, n_bytes, np.uint8)


def picture_records(labels: list[int]) -> Iterator[dict[str, Any]]:
    return ({"picture": vector(index), "label": label, "note": f"{index}"} for index, label in enumerate(labels))


PICTURE = {"picture": f"uint8[{SIZE}]", "label": "int64", "note": "utf8"}
SPECS: dict[str, dict[str, str]] = {
    "picture first": PICTURE,
    "picture last": {name: PICTURE[name] for name in ("label", "note", "picture")},
    "picture between": {name: PICTURE[name] for name in ("label", "picture", "note")},
    "as bytes": PICTURE | {"picture": "bytes"},
    "as floats": PICTURE | {"picture": f"float32[{SIZE // 4}]"},
    "as int64": PICTURE | {"picture": f"int64[{SIZE // 8}]"},
    "may be missing": PICTURE | {"picture": f"uint8[{SIZE}]?"},
}
LABELS = {
    "alike": [7] * N,
    "of all widths": [1 << index % 60 for index in range(N)],
    "alike at first": [3] * (N // 2) + [1 << 40] * (N // 2),
}

CASES = [(format, spec) for format in ("tfrecord", "ffrecord", "ofrecord") for spec in SPECS]
CASES += [("granular", spec) for spec in SPECS if spec != "may be missing"]  # the format has no missing values


def write(path: Path, format: str, spec: dict[str, str], labels: list[int]) -> None:
    more: dict[str, Any] = {"payload": "example"} if format == "ffrecord" else {}
    kind = spec["picture"]
    with dataformats.create(path, format, spec=spec, **more) as writer:
        for record in picture_records(labels):
            raw = record["picture"]
            if kind == "bytes":
                record["picture"] = raw.tobytes()
            elif kind.startswith(("float32", "int64")):
                record["picture"] = raw[: Type.parse(kind).dims[0]].astype(kind[: kind.find("[")])
            writer.append(record)


def same(one: Any, other: Any) -> None:
    assert one.keys() == other.keys()
    for name in one.keys():  # noqa: SIM118 - a batch is no mapping
        left, right = one[name], other[name]
        assert type(left) is type(right)
        if isinstance(left, np.ndarray):
            assert (left.dtype, left.shape, left.flags.writeable) == (right.dtype, right.shape, right.flags.writeable)
            np.testing.assert_array_equal(left, right)
        else:
            for mine, theirs in zip(left, right, strict=True):
                np.testing.assert_array_equal(mine, theirs)


# Each format with each spec; labels and caches take turns, so that each meets all formats and all specs.
TURNS = zip(CASES, cycle(LABELS), cycle([None, "memory"]), strict=False)


@loop_over("format, spec, labels, cache", [(*case, *turn) for case, *turn in TURNS])
def test_columns_are_the_same(
    format: str, labels: str, spec: str, cache: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"x.{format}"
    write(path, format, SPECS[spec], LABELS[labels])
    steps = [range(16), range(8, 24), [39, 0, 39], [5], [], range(N)]
    ours = dataformats.open(path, cache=cache, spec=SPECS[spec])
    found = [ours.read(step) for step in steps] + [ours.read(step, fields=["label"]) for step in steps]
    monkeypatch.setattr(windows, "_TRIES", 0)
    plain = dataformats.open(path, spec=SPECS[spec])
    expected = [plain.read(step) for step in steps] + [plain.read(step, fields=["label"]) for step in steps]
    for one, other in zip(found, expected, strict=True):
        same(one, other)


@pytest.mark.skipif(not reads_batches(), reason="without compiled kernels nothing is read around")
@loop_over("format, spec, n_windows", [
    ("tfrecord", "picture first", 1),
    ("ofrecord", "picture last", 1),
    ("ffrecord", "picture between", 1),
    ("tfrecord", "as floats", 1),
    ("tfrecord", "as int64", 0),
    ("granular", "picture first", 1),
])  # fmt: skip
def test_repeated_reads_split_large_values(format: str, spec: str, n_windows: int, tmp_path: Path) -> None:
    path = tmp_path / f"x.{format}"
    write(path, format, SPECS[spec], LABELS["alike"])
    source: Any = dataformats.open(path, spec=SPECS[spec])
    source.read(range(30))
    source.read(range(30))
    batch = source.read(range(30))
    assert len(source._schema.decoder.hints.known) == n_windows
    held = batch["picture"].copy()
    del batch
    source.read(range(10, 40))
    again = source.read(range(30))["picture"]
    source.read(range(10, 40))
    np.testing.assert_array_equal(again, held)  # later reads do not change the batch


def test_split_value_supports_element_ranges(tmp_path: Path) -> None:
    pictures = np.stack([vector(index).reshape(50, SIZE // 50) for index in range(N)])
    with dataformats.create(tmp_path / "x", "granular", spec={"picture": f"uint8[50,{SIZE // 50}]"}) as writer:
        writer.extend({"picture": picture} for picture in pictures)
    source = dataformats.open(tmp_path / "x")
    for _ in range(3):
        np.testing.assert_array_equal(source.read(range(N))["picture"], pictures)
        part = source.read(range(N), {"picture": range(2, 40, 3)})["picture"]
        np.testing.assert_array_equal(part, pictures[:, 2:40:3])


def test_guesses_end(tmp_path: Path) -> None:
    """If every record is laid out differently, reads soon stop guessing value slices."""
    path = tmp_path / "x.tfrecord"
    labels = [1 << 7 * (index // 10 % 2) for index in range(N)]
    write(path, "tfrecord", SPECS["picture between"] | {"note": "utf8"}, labels)
    source: Any = dataformats.open(path, spec=SPECS["picture between"])
    for turn in range(20):
        first = turn % 4 * 10
        part = range(first, first + 10)
        np.testing.assert_array_equal(source.read(part)["picture"], [vector(index) for index in part])
    assert source._schema.decoder.hints._tries[("label", "picture", "note")] <= windows._TRIES


@pytest.mark.parametrize("format", ["tfrecord", "ffrecord"])
def test_damage_in_the_window_is_seen(format: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{format}"
    write(path, format, PICTURE, LABELS["alike"])
    content = path.read_bytes()
    at = content.find(vector(20).tobytes()) + SIZE // 2
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    source = dataformats.open(path, spec=PICTURE)
    source.read(range(10))
    with pytest.raises(ChecksumError, match="record 20"):
        source.read(range(15, 25))
    left = source.read(range(15, 25), on_corrupt="omit")
    assert list(left.failed) == [20]
    np.testing.assert_array_equal(left["picture"], [vector(index) for index in range(15, 25) if index != 20])


def test_the_culprit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    with dataformats.create(path, "tfrecord", spec=PICTURE | {"label": "int64[]"}) as writer:
        for index, record in enumerate(picture_records([7] * N)):
            writer.append(record | {"label": [7] * (1 + (index == 33))})
    source = dataformats.open(path, spec=PICTURE)
    source.read(range(20))
    with pytest.raises(SpecError, match="record 33"):
        source.read(range(20, 40))


def test_common_window() -> None:
    blobs = Blobs.join([b"abcdef", b"abcdefgh"])
    begin, size = np.array([2, 8]), 3
    later, further = np.array([2, 10]), np.array([2, 9])
    assert common_slice(blobs, begin, begin + size) == ValueSlice(2, 3)
    assert common_slice(blobs, later, later + size) == ValueSlice(-4, 3)
    assert common_slice(blobs, further, further + size) is None
    assert common_slice(blobs, begin, begin + np.array([3, 4])) is None
    assert common_slice(blobs.take(slice(0)), begin[:0], begin[:0]) is None


def test_whole_restores_split_values() -> None:
    texts = [b"abcdef", b"ab", b"uvwxyz"]
    for window, places in ((ValueSlice(1, 3), (1, 9)), (ValueSlice(-5, 3), (1, 9)), (ValueSlice(-3, 3), (3, 11))):
        blobs = Blobs(np.frombuffer(b"".join(texts), np.uint8).copy(), np.array([0, 6, 8]), np.array([6, 2, 6]))
        rows = np.array([blobs.buffer[places[0] :][:3], list(b"???"), blobs.buffer[places[1] :][:3]], np.uint8)
        for start in places:
            blobs.buffer[start : start + 3] = 0
        assert list(join_blobs(SplitBlobs(blobs, window, rows))) == texts


def test_learning_ends() -> None:
    known = SliceHints()
    asked: list[int] = []
    for turn in range(10):
        known.learn("x", 100, lambda turn=turn: asked.append(turn))  # type: ignore[misc]  # finds nothing
        known.learn("y", 2, lambda: ValueSlice(0, 9999))
    assert len(asked) == windows._TRIES
    assert not known.known
    known.learn("z", 100, lambda: ValueSlice(4, 9999))
    assert known.known.get("z") == (4, 9999)
    known.forget("z")
    assert known.known.get("z") is None
