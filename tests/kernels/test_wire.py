"""Parsing batches of features: the kernels find the same as protobuf, or both refuse the record."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataformats.batch import Blobs
from dataformats.codecs.features.located_features import WireColumn
from dataformats.codecs.features.protobuf_column import find_in_messages
from dataformats.codecs.features.protobuf_messages import EXAMPLE_MESSAGE, OFRECORD_MESSAGE, SEQUENCE_MESSAGE, parse
from dataformats.codecs.features.validation import names_in
from dataformats.codecs.features.wire import delimited, varint
from dataformats.errors import CorruptRecordError
from dataformats.kernels.wire import COUNT, KIND, STEPS, FeatureTable, Names, Shape, find_features, wire_kernels
from dataformats.testing.loop_over import loop_over

KERNEL = wire_kernels()
pytestmark = pytest.mark.skipif(KERNEL is None, reason="without kernels, protobuf parses")

GOLDEN = Path(__file__).parents[1] / "golden"
MESSAGES = {
    Shape.EXAMPLE: EXAMPLE_MESSAGE,
    Shape.SEQUENCE_EXAMPLE: SEQUENCE_MESSAGE,
    Shape.OFRECORD: OFRECORD_MESSAGE,
}
DTYPES = {2: "<f4", 3: "<i8", 4: "<f8", 5: "<i4"}
NAMES = ("", "a", "b", "é", "longer name")


def wanted_of(shape: Shape, names: Sequence[str] = NAMES) -> list[tuple[int, str]]:
    return [(part, name) for part in ((0, 1) if shape == Shape.SEQUENCE_EXAMPLE else (0,)) for name in names]


def find(shape: Shape, blobs: Sequence[bytes], wanted: list[tuple[int, str]]) -> FeatureTable:
    records = Blobs.join(blobs)
    names = Names.of(wanted, [(0, "known")])
    return find_features(shape, records.buffer, records.starts, records.lengths, names)


def plain(column: Any) -> list[Any]:
    """Return kind, count and values of each feature of a column, as bytes."""
    if STEPS in column.kinds:
        return [column.kinds.tolist(), column.counts.tolist(), plain(column.steps())]
    values = [value.tobytes() if isinstance(value, np.ndarray) else value for value in column.values()]
    return [column.kinds.tolist(), column.counts.tolist(), values]


def check(shape: Shape, *blobs: bytes, names: Sequence[str] = NAMES) -> bool:
    """Compare the kernels with protobuf on records; return whether all parse.

    Each record comes twice: the second time, its entries are where the kernels expect them.
    """
    blobs = tuple(blob for blob in blobs for _ in range(2))
    wanted, records = wanted_of(shape, names), Blobs.join(blobs)
    messages: list[Any] = []
    table = find(shape, blobs, wanted)
    try:
        expected = find_in_messages(shape, MESSAGES[shape], records, wanted, lambda one, _: messages.append(one))
    except CorruptRecordError as error:
        failed, expected = error.index, []
    else:
        failed = -1
    assert table.failed == failed, (shape, blobs)
    if failed != -1:
        return False
    for features, survey, oracle in zip(table.features, table.surveys.tolist(), expected, strict=True):
        column = WireColumn(shape, records.buffer, features, *survey)
        assert plain(column) == plain(oracle), (shape, blobs)
        assert (column.held, column.fewest, column.most) == (oracle.held, oracle.fewest, oracle.most)
        assert column.n_values == oracle.counts.sum()
    for stray, message in zip(table.strays, messages, strict=True):
        assert stray or not has_others(shape, message, wanted)
    return True


def maps_of(shape: Shape, message: Any) -> list[Any]:
    """Return the maps of a message, by part."""
    if shape == Shape.SEQUENCE_EXAMPLE:
        return [message.context.feature, message.feature_lists.feature_list]
    return [message.feature if shape == Shape.OFRECORD else message.features.feature]


def has_others(shape: Shape, message: Any, wanted: list[tuple[int, str]]) -> bool:
    """Return whether a record has something under a name that is neither wanted nor known."""
    names = [*wanted, (0, "known")]
    features, *lists = maps_of(shape, message)
    others = [name for name in names_in(features) if features[name].ByteSize() and (0, name) not in names]
    return bool(others) or any((1, name) not in names for steps in lists for name in names_in(steps))


# ---- records that tools write


def frames(path: str, head: int, tail: int) -> list[bytes]:
    data, at, found = (GOLDEN / path).read_bytes(), 0, []
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        found.append(data[at + head : at + head + length])
        at += head + length + tail
    return found


@loop_over(
    "shape, path",
    [(Shape.EXAMPLE, f"tfrecord/{name}.tfrecord") for name in ("examples", "handmade", "nsynth_like", "vahidk")]
    + [(Shape.EXAMPLE, "tfrecord/corrupt/not_examples.tfrecord"), (Shape.EXAMPLE, "real/photos.tfrecord")]
    + [(Shape.EXAMPLE, "tfrecord/sequence.tfrecord"), (Shape.SEQUENCE_EXAMPLE, "tfrecord/examples.tfrecord")]
    + [(Shape.SEQUENCE_EXAMPLE, "tfrecord/sequence.tfrecord")]
    + [(Shape.OFRECORD, f"ofrecord/{name}.ofrecord") for name in ("base", "handmade", "kinds", "one", "many_1000")],
)
def test_golden_files(shape: Shape, path: str) -> None:
    head, tail = (8, 0) if path.startswith("ofrecord") else (12, 4)
    for blob in frames(path, head, tail):
        names: set[str] = set()
        with suppress(CorruptRecordError):
            names.update(*maps_of(shape, parse(MESSAGES[shape], blob)))
        check(shape, blob, names=sorted(names))


# ---- records that no writer should write


def entry(name: bytes, value: bytes, more: bytes = b"") -> bytes:
    return delimited(1, delimited(1, name) + delimited(2, value) + more)


def group(depth: int) -> bytes:
    return b"\x7b" * depth + b"\x7c" * depth


ONE = delimited(1, delimited(1, b"x"))
INT64S = delimited(5, delimited(1, b"\x05"))
ODD_MAPS = {
    "an entry with an unknown field is ignored": entry(b"a", INT64S, b"\x18\x01"),
    "nor with a group": entry(b"a", INT64S, b"\x1b\x1c"),
    "nor with a name of another type": delimited(1, b"\x08\x01" + delimited(1, b"a") + delimited(2, INT64S)),
    "nor with a value of another type": delimited(1, delimited(1, b"a") + delimited(2, INT64S) + b"\x10\x01"),
    "it replaces nothing": entry(b"a", INT64S) + entry(b"a", ONE, b"\x18\x01"),
    "but must parse": entry(b"a", delimited(5, delimited(1, b"\x80")), b"\x18\x01"),
    "no name": delimited(1, delimited(2, INT64S)),
    "no value": delimited(1, delimited(1, b"a")),
    "value before name": delimited(1, delimited(2, INT64S) + delimited(1, b"a")),
    "two names": delimited(1, delimited(1, b"b") + delimited(1, b"a") + delimited(2, INT64S)),
    "two values are merged": delimited(1, delimited(1, b"a") + delimited(2, INT64S) + delimited(2, INT64S)),
    "the last entry counts": entry(b"a", INT64S) + entry(b"a", ONE) + entry(b"b", ONE),
    "an empty one as well": entry(b"a", INT64S) + entry(b"a", b""),
    "the last list counts": entry(b"a", INT64S + ONE),
    "with its kind before it": entry(b"a", ONE + INT64S + INT64S),
    "and only right before it": entry(b"a", INT64S + ONE + INT64S),
    "over several values": delimited(
        1, delimited(1, b"a") + delimited(2, INT64S) + delimited(2, ONE) + delimited(2, INT64S * 2)
    ),
    "a list of another type replaces nothing": entry(b"a", INT64S + b"\x08\x01"),
    "an empty list counts": entry(b"a", INT64S + delimited(2, b"")),
    "unknown fields in a feature": entry(b"a", b"\x78\x01" + INT64S + b"\x7b\x7c"),
    "unknown fields in a list": entry(b"a", delimited(5, b"\x78\x01\x08\x05\x15\0\0\0\0\x08\x06")),
    "packed and not": entry(b"a", delimited(5, b"\x08\x05" + delimited(1, b"\x06\x07") + b"\x08\x08")),
    "floats one by one": entry(b"a", delimited(2, b"\x0d\0\0\x80\x3f" + delimited(1, bytes(8)) + b"\x0d1234")),
    "a signalling NaN": entry(b"a", delimited(2, delimited(1, b"\x01\0\xa0\x7f"))),
    "floats that are cut": entry(b"a", delimited(2, delimited(1, bytes(7)))),
    "doubles that are cut": entry(b"a", delimited(3, delimited(1, bytes(12)))),
    "int32 in ten bytes": entry(b"a", delimited(4, delimited(1, b"\xfe" * 9 + b"\x01"))),
    "int32 beyond its range": entry(b"a", delimited(4, delimited(1, b"\x80\x80\x80\x80\x18"))),
    "names are any bytes": entry(b"\xff", INT64S),
    "in unknown entries too": delimited(1, delimited(1, b"\xff") + b"\x18\x01"),
    "the second of two names counts": delimited(1, delimited(1, b"\xff") + delimited(1, b"a")),
    "also if the first is text": delimited(1, delimited(1, b"a") + delimited(1, b"\xff") + delimited(2, INT64S)),
    "a NUL in a name": entry(b"a\0", INT64S),
    "fields in a group may have number 0": b"\x7b\x00\x01\x7c" + entry(b"a", INT64S),
    "but no others": b"\x00\x01",
    "a group that ends another": b"\x7b\x74",
    "a group without an end": b"\x7b",
    "an end without a group": b"\x7c",
    "wire types that are none": b"\x7e",
    "a length of 2^31": b"\x7b\x0a\xff\xff\xff\xff\x0f\x7c",
    "a tag of six bytes": b"\xf8\x80\x80\x80\x80\x00\x01",
    "a tag of 2^32": b"\xf8\xff\xff\xff\x1f\x01",
    "the largest tag": b"\xf8\xff\xff\xff\x0f\x01" + entry(b"a", INT64S),
    "tags and lengths with zeros behind": b"\x8a\x80\x80\x80\x00\x8c\x80\x80\x80\x00" + entry(b"a", INT64S)[2:],
    "an entry that reaches out": delimited(1, delimited(1, b"a") + b"\x12\x05") + b"\x78\x01" * 3,
}
ODD_NAMES = ["\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"]
BROKEN_NAMES = [
    *(
        b"\x80",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x80\x80",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xe2\x82",
    ),
    *(
        b"\xf0\x80\x80\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xff",
        b"\xe2\x28\xa1",
        b"a\xc3",
    ),
]


def wrapped(shape: Shape, features: bytes) -> list[bytes]:
    """Return records of a shape that have this map in each of their places."""
    if shape == Shape.OFRECORD:
        return [features]
    records = [delimited(1, features), delimited(1, features) + delimited(1, b"") + delimited(1, entry(b"b", ONE))]
    if shape == Shape.SEQUENCE_EXAMPLE:
        records.append(delimited(2, features) + delimited(1, features))
        records.append(delimited(2, entry(b"a", delimited(1, ONE) + delimited(1, features) + delimited(1, INT64S * 2))))
    return records


@loop_over("shape", Shape)
@loop_over("features", ODD_MAPS.values())
def test_odd_records(shape: Shape, features: bytes) -> None:
    for blob in wrapped(shape, features):
        check(shape, blob)


@loop_over("shape", Shape)
@loop_over("name", [*map(str.encode, ODD_NAMES), *BROKEN_NAMES])
def test_names(shape: Shape, name: bytes) -> None:
    for blob in wrapped(shape, entry(name, ONE) + entry(b"x" + name + b"yz", ONE)):
        check(shape, blob)


@loop_over("n_bytes", [1, 2, 5, 8, 9, 10, 11])
@loop_over("last", [1, 0x7F])
def test_varints_of_any_length(n_bytes: int, last: int) -> None:
    number = b"\xff" * (n_bytes - 1) + bytes([last])
    for value in (b"\x08" + number, delimited(1, number), delimited(1, b"\x01" * 9 + number + b"\x02" * 9)):
        for shape in Shape:
            for kind in (3, 4, 5):
                for blob in wrapped(shape, entry(b"a", delimited(kind, value)) + b"\x78" + number):
                    check(shape, blob)


def overlong(value: int, n_bytes: int) -> bytes:
    """Return a varint in more bytes than it needs."""
    given = varint(value % 2**64)
    if len(given) >= n_bytes:
        return given
    return given[:-1] + bytes([given[-1] | 0x80]) + b"\x80" * (n_bytes - len(given) - 1) + b"\0"


NUMBERS = st.one_of(st.integers(0, 300), st.integers(0, 2**21), st.integers(-(2**63), 2**63 - 1))


@given(st.lists(st.tuples(NUMBERS, st.sampled_from([1, 1, 1, 2, 3, 4, 5, 8, 9, 10])), max_size=90), st.data())
def test_lists_of_varints(numbers: list[tuple[int, int]], data: st.DataObject) -> None:
    """Lists that are read many at a time, cut anywhere, and with a byte that begins another varint."""
    packed = b"".join(overlong(value, n_bytes) for value, n_bytes in numbers)
    begin = data.draw(st.integers(0, len(packed)))
    cut = data.draw(st.integers(0, len(packed)))
    damaged = packed[:cut] + b"\xff" * data.draw(st.integers(0, 11)) + packed[cut:]
    for shape in (Shape.EXAMPLE, Shape.OFRECORD):
        for kind in (3, 4, 5):
            for piece in (packed, packed[begin:], damaged):
                for blob in wrapped(shape, entry(b"a", delimited(kind, delimited(1, piece)))):
                    if check(shape, blob):
                        check_variants(shape, blob)


def check_variants(shape: Shape, blob: bytes) -> None:
    """Compare the numbers of "a" by portable C with the numbers by the kernel for this machine."""
    (features,) = find(shape, [blob], [(0, "a")]).features
    count, kind = features[0, [COUNT, KIND]].tolist()
    if kind in DTYPES:
        outs = [np.zeros(count * np.dtype(DTYPES[kind]).itemsize, np.uint8) for _ in range(2)]
        for portable, out in enumerate(outs):
            assert KERNEL.wire_numbers(shape, blob, features, out, kind, bool(portable)) == -1
        assert outs[0].tobytes() == outs[1].tobytes()


@loop_over("depth", [*range(94, 103), 500])
def test_how_deep_groups_may_lie(depth: int) -> None:
    inside = group(depth)
    for shape in Shape:
        places = [inside, entry(b"a", ONE, inside), entry(b"a", ONE + inside), entry(b"a", delimited(1, inside))]
        for features in places:
            for blob in [inside, *wrapped(shape, features)]:
                check(shape, blob)
        for steps in (inside, delimited(1, inside), delimited(1, delimited(1, inside))):
            check(shape, delimited(2, entry(b"a", steps)))
    deep = delimited(1, entry(b"a", INT64S + b"\x1a\x02" + b"\x08\x01" + b"\x1a\x02\x08\x01" + group(97)))
    assert check(Shape.EXAMPLE, deep)  # walked twice: once to find, once for its pieces


# ---- random records


class Maker:
    """Makes records at random: mostly of the grammar, with a bit of everything else."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def record(self, shape: Shape) -> bytes:
        if shape == Shape.OFRECORD:
            return self.map(lambda: self.feature(5))
        parts = [(1, lambda: self.map(lambda: self.feature(3)))]
        if shape == Shape.SEQUENCE_EXAMPLE:
            parts.append((2, lambda: self.map(lambda: self.message([(1, lambda: self.feature(3))]))))
        return self.message(parts)

    def message(self, parts: list[tuple[int, Callable[[], bytes]]]) -> bytes:
        made = []
        for _ in range(self.random.choice([0, 1, 1, 2, 3])):
            number, part = self.random.choice(parts)
            made.append(delimited(number, part()) if self.random.random() < 0.85 else self.anything())
        return b"".join(made)

    def map(self, value: Callable[[], bytes]) -> bytes:
        return self.message([(1, lambda: self.message([(1, self.name), (2, value), (2, value)]) + self.named(value))])

    def named(self, value: Callable[[], bytes]) -> bytes:
        return delimited(1, self.name()) + delimited(2, value()) if self.random.random() < 0.8 else b""

    def name(self) -> bytes:
        return self.random.choice([b"", b"a", b"b", "é".encode(), b"known", b"other", b"a", b"b"])

    def feature(self, n_kinds: int) -> bytes:
        lists = {1: self.blobs, 2: self.floats, 3: self.doubles if n_kinds == 5 else self.integers}
        lists |= {4: self.integers, 5: self.integers} if n_kinds == 5 else {}
        return self.message([(kind, partial(self.several, make)) for kind, make in lists.items()])

    def several(self, make: Callable[[], bytes]) -> bytes:
        return b"".join(make() for _ in range(self.random.choice([0, 1, 1, 2])))

    def blobs(self) -> bytes:
        return delimited(1, self.random.choice([b"", b"ab", b"\xff\0"]))

    def floats(self) -> bytes:
        return self.random.choice([delimited(1, bytes(range(8))), b"\x0d1234", delimited(1, b"")])

    def doubles(self) -> bytes:
        return self.random.choice([delimited(1, bytes(range(16))), b"\x0912345678", delimited(1, b"")])

    def integers(self) -> bytes:
        numbers = [b"", b"\x05", b"\xff" * 9 + b"\x01", b"\x80\x01\x02", bytes(12), b"\x80" * 9 + b"\x7f"]
        return self.random.choice(
            [delimited(1, self.random.choice(numbers)), b"\x08" + self.random.choice(numbers[1:3])]
        )

    def anything(self) -> bytes:
        number = self.random.choice([1, 2, 3, 9, 300])
        return self.random.choice(
            [
                varint(number << 3) + varint(self.random.choice([0, 300, 2**63])),
                varint(number << 3 | 1) + bytes(8),
                varint(number << 3 | 5) + bytes(4),
                varint(number << 3 | 3) + self.random.choice([b"", b"\0\1", b"\x43\x44"]) + varint(number << 3 | 4),
                delimited(number, self.random.randbytes(self.random.randrange(6))),
                self.random.randbytes(self.random.randrange(3)),
            ]
        )

    def damaged(self, blob: bytes) -> bytes:
        """Return the bytes with something cut, flipped, taken out or put in."""
        if not blob:
            return blob
        at, to = sorted(self.random.randrange(len(blob) + 1) for _ in range(2))
        bit = 1 << self.random.randrange(8)
        flipped = blob[:at] + bytes(byte ^ bit for byte in blob[at : at + 1]) + blob[at + 1 :]
        return self.random.choice([blob[:at], flipped, blob[:at] + blob[to:], blob[:to] + blob[at:]])


@pytest.mark.parametrize("seed", range(6))
def test_records_at_random(seed: int) -> None:
    maker, parsed = Maker(seed), 0
    for _ in range(60):
        for shape in Shape:
            blob = maker.record(shape)
            parsed += check(shape, blob)
            for _ in range(3):
                check(shape, blob, maker.damaged(blob))
    assert parsed > 60


@given(st.sampled_from(Shape), st.binary(max_size=60))
def test_any_bytes(shape: Shape, blob: bytes) -> None:
    check(shape, blob)


@pytest.mark.parametrize("shape", Shape)
def test_cut_at_every_byte_and_every_flipped_bit(shape: Shape) -> None:
    features = entry(b"a", delimited(3, delimited(1, bytes(16)))) + entry(b"b", delimited(1, delimited(1, b"xy")))
    for whole in wrapped(shape, features):
        check(shape, whole)
        for at in range(len(whole)):
            check(shape, whole, whole[:at])
            for bit in range(8):
                check(shape, whole, whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])


# ---- many names


@given(st.sampled_from(Shape), st.lists(st.text("ab", max_size=6), unique=True, max_size=60), st.data())
def test_names_in_any_order(shape: Shape, names: list[str], data: st.DataObject) -> None:
    stored = data.draw(st.lists(st.sampled_from(["", "abba", *names]), max_size=40))
    features = b"".join(entry(name.encode(), data.draw(st.sampled_from([b"", ONE, INT64S]))) for name in stored)
    for blob in wrapped(shape, features):
        check(shape, blob, names=data.draw(st.permutations(names)))


@pytest.mark.parametrize("shape", Shape)
def test_time_is_linear_in_the_number_of_features(shape: Shape) -> None:
    """Names that are compared with every other name take a minute here."""
    names = [f"{number:06}" for number in range(100_000)]
    orders = (names, names[::-1])
    blobs = [wrapped(shape, b"".join(entry(name.encode(), ONE) for name in stored))[0] for stored in orders]
    begin = time.thread_time()
    found = find(shape, blobs, wanted_of(shape, names))
    assert time.thread_time() - begin < 3
    n_wanted = len(names) * (2 if shape == Shape.SEQUENCE_EXAMPLE else 1)
    assert (found.failed, found.strays.tolist(), found.features.shape) == (-1, [0, 0], (n_wanted, 2, 6))
    assert (found.features[:, :, COUNT] == 1).sum() == 2 * len(names)


# ---- batches


def test_a_batch_is_its_records() -> None:
    maker = Maker(99)
    for shape in Shape:
        blobs = [blob for blob in (maker.record(shape) for _ in range(200)) if check(shape, blob)]
        assert check(shape, *blobs)
        assert not check(shape, *blobs[:7], b"\xff", *blobs)


def test_surveys() -> None:
    blobs = [wrapped(Shape.EXAMPLE, entry(b"a", delimited(3, delimited(1, bytes(n)))))[0] for n in (3, 1, 2)]
    blobs += [b"", wrapped(Shape.EXAMPLE, entry(b"a", b""))[0]]
    surveys = find(Shape.EXAMPLE, blobs, [(0, "a"), (0, "b")]).surveys
    assert surveys.tolist() == [[1 << 4 | 1 << 1 | 1 << 0, 1, 3, 6], [1, 0, 0, 0]]


def test_strays() -> None:
    blob = wrapped(Shape.EXAMPLE, entry(b"a", INT64S) + entry(b"c", ONE))[0]
    found = find_features(Shape.EXAMPLE, blob, np.array([0]), np.array([len(blob)]), Names.of([(0, "a")], [(0, "b")]))
    assert (found.failed, found.strays.tolist(), found.features.shape) == (-1, [1], (1, 1, 6))


def test_records_outside_the_buffer() -> None:
    for start, length in ((-1, 1), (0, 5), (5, 0), (4, 1), (0, -1), (2**62, 2**62)):
        starts, lengths = np.array([0, start]), np.array([0, length])
        assert find_features(Shape.EXAMPLE, bytes(4), starts, lengths, Names.of([])).failed == 1


@given(st.lists(st.integers(-3, 40), min_size=6, max_size=6), st.binary(max_size=30))
def test_features_from_elsewhere(row: list[int], data: bytes) -> None:
    """Any row is refused or read within the buffer."""
    features, n = np.array([row], np.int64), max(0, row[2])
    for kind in DTYPES:
        out = np.zeros(n * np.dtype(DTYPES[kind]).itemsize, np.uint8)
        assert KERNEL.wire_numbers(0, data, features, out, kind) in (-1, 0, 1)
    starts, lengths = np.zeros(n, np.int64), np.zeros(n, np.int64)
    if KERNEL.wire_places(0, data, features, starts, lengths) == -1:
        assert (starts >= 0).all()
        assert (starts + lengths <= len(data)).all()
    assert KERNEL.wire_steps(1, data, features, np.zeros((n, 6), np.int64)) in (-1, 0, 1)


def test_wire_find_refuses_wrong_arguments() -> None:
    good = (np.zeros(1, np.int64), np.zeros(1, np.int64))
    ends, tables = np.array([1]), (np.empty((1, 1, 6), np.int64), np.empty((1, 4), np.int64), np.empty(1, np.uint8))
    assert KERNEL.wire_find(0, b"", *good, b"a", ends, b"\0", *tables) == -1
    for wrong in (
        (3, b"", *good, b"a", ends, b"\0", *tables),
        (0, b"", good[0], np.zeros(2, np.int64), b"a", ends, b"\0", *tables),
        (0, b"", *good, b"ab", ends, b"\0", *tables),
        (0, b"", *good, b"a", ends, b"", *tables),
        (0, b"", *good, b"a", ends, b"\0", np.empty((1, 2, 6), np.int64), *tables[1:]),
    ):
        with pytest.raises(ValueError, match=r"shape must be|do not fit each other"):
            KERNEL.wire_find(*wrong)
    with pytest.raises(TypeError, match="starts must be a contiguous array of int64"):
        KERNEL.wire_find(0, b"", np.zeros(1, np.int32), good[1], b"a", ends, b"\0", *tables)
