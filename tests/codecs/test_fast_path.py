"""The fast path, the slow path and protobuf give equal columns and errors."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dataformats.batch import Blobs, Nullable, Ragged, RecordBatch
from dataformats.batch.value_slices import SplitBlobs, ValueSlice
from dataformats.codecs.example import EXAMPLE
from dataformats.codecs.features import located_features
from dataformats.codecs.features.fast_path import FastPath
from dataformats.codecs.features.wire import delimited, varint
from dataformats.codecs.ofrecord import OFRECORD
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import DataFormatsError
from dataformats.kernels.wire import wire_kernels
from dataformats.spec import Spec
from dataformats.testing.loop_over import loop_over

SPEC = {
    "plain": "bytes",
    "text": "utf8",
    "maybe": "int64?",
    "code": "bytes?",
    "small": "uint8",
    "flag": "bool",
    "picture": "uint8[2,3]",
    "wide": "float64[2]",
    "vector": "float32[3]",
    "tokens": "int64[]",
    "points": "float32[][2]",
    "names": "bytes[]",
    "flags": "bool[4]",
    "any": "feature",
}


def record(i: int) -> dict[str, Any]:
    return {
        "plain": bytes(i),
        "text": "é" * i,
        "maybe": i,
        "code": b"x",
        "small": i,
        "flag": i % 2 == 0,
        "picture": np.full((2, 3), i, np.uint8),
        "wide": [i, i / 3],
        "vector": [i, 1, 2],
        "tokens": range(-i, i),
        "points": np.zeros((i, 2), np.float32),
        "names": [b"a"] * i,
        "flags": [True, False, True, i == 1],
        "any": np.arange(i),
    }


TYPES = (
    *("bool", "int8", "uint8", "int32", "uint64", "int64", "float32", "float64", "int64[2]", "float32[2]", "uint8[4]"),
    *(
        "uint8[]",
        "int64[]",
        "float32[]",
        "float32[][2]",
        "int32[][2]",
        "bytes",
        "utf8",
        "bytes[]",
        "utf8[2]",
        "feature",
    ),
)
LISTS = {EXAMPLE: ("bytes", "float", "int64"), OFRECORD: ("bytes", "float", "double", "int32", "int64")}


def any_features(chance: random.Random, payload: Any) -> bytes:
    """Return a record with up to four features of any kind, made by protobuf."""
    message = payload.message()
    for name in chance.sample(["a", "b", "c", "z"], chance.choice([2, 3, 4, 4])):
        kind = chance.choice(LISTS[payload])
        choices: list[Any] = [b"", b"ab", b"1234", b"12345678"] if kind == "bytes" else [0, 1, 200, -1, 2**30]
        choices += [-1.5] if kind in ("float", "double") else []
        values = [chance.choice(choices) for _ in range(chance.choice([1, 1, 2, 2, 0]))]
        getattr(payload.features(message)[name], kind + "_list").value.extend(values)
    blob: bytes = message.SerializeToString()
    return blob


def same(left: Any, right: Any) -> bool:
    if isinstance(left, Ragged):
        parts = same(left.values, right.values) and same(left.offsets, right.offsets)
        return parts and left.item_kind == right.item_kind and same(left.present, right.present)
    if isinstance(left, Nullable):
        return same(left.values, right.values) and same(left.present, right.present)
    if isinstance(left, np.ndarray):
        return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(type(left) is type(right) and left == right)


def outcome(coder: Any, blobs: Blobs, mask: dict[str, Any]) -> Any:
    try:
        return coder.decode_batch(blobs, mask)
    except (DataFormatsError, IndexError) as error:
        return type(error), str(error)


def check(coder: Any, blobs: Blobs, mask: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the outcome of a coder; the slow path, protobuf and single records must have the same outcome."""
    found = outcome(coder, blobs, mask)
    for blob in blobs:
        check_alone(coder, blob, mask)
    with monkeypatch.context() as patched:
        patched.setattr(FastPath, "columns", lambda *given: None)
        agree(found, outcome(coder, blobs, mask))
        patched.setattr(located_features, "wire_kernels", lambda: None)
        agree(found, outcome(coder, blobs, mask))
    return found


def check_alone(coder: Any, blob: bytes, mask: dict[str, Any]) -> None:
    """Check that a single record has the values of its batch, or is left to the batch."""
    try:
        values = coder.decode_record(bytearray(blob), mask)
    except (DataFormatsError, UnicodeDecodeError):
        values = None
    if values is not None:
        batch = RecordBatch(coder.decode_batch(Blobs.join([blob]), mask), np.zeros(1, np.int64))[0]
        assert list(values) == list(batch)
        assert all(same(values[name], batch[name]) for name in batch)


def agree(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert found == expected
    else:
        assert list(found) == list(expected)
        assert all(type(found[name]) is type(expected[name]) for name in expected)
        assert all(same(found[name], expected[name]) for name in expected)


@loop_over("payload", [EXAMPLE, OFRECORD])
@loop_over("inferred", [False, True])
def test_all_kinds_of_fields(payload: Any, inferred: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    coder = payload.bind(Spec(SPEC), CodecResolver(trusted=True), inferred=inferred)
    blobs = Blobs.join([coder.encode(record(i)) for i in range(5)])
    masks: Sequence[dict[str, Any]] = [
        dict.fromkeys(SPEC, True),
        dict.fromkeys(SPEC, False),
        {"plain": True, "small": True, "text": False},
        {"vector": range(1, 3), "names": range(0), "plain": True},
        {"tokens": range(3)},
        {"plain": range(1)},
        *({name: True} for name in SPEC),
    ]
    for mask in masks:
        check(coder, blobs, mask, monkeypatch)
        check(coder, blobs.take(slice(None, None, 2)), mask, monkeypatch)
        check(coder, blobs.take(slice(0)), mask, monkeypatch)
    columns = coder.decode_batch(blobs, masks[0])
    assert columns["picture"].tolist() == [[[i] * 3] * 2 for i in range(5)]
    assert list(columns["plain"]) == [bytes(i) for i in range(5)]


@pytest.mark.parametrize("payload", [EXAMPLE, OFRECORD])
def test_fast_path_matches_slow_path_on_unfitting_records(payload: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    codecs = CodecResolver(trusted=True)
    coder = payload.bind(Spec(SPEC), codecs)
    others = {
        "plain": ("int64", 5),
        "text": ("bytes", b"\xff"),
        "maybe": ("float32", 5),
        "code": ("bytes[]", [b"a", b"b"]),
        "small": ("int64", 256),
        "flag": ("int64", 2),
        "picture": ("bytes", b"12345"),
        "wide": ("float32[3]", [1, 2, 3]),
        "vector": ("int64[3]", [1, 2, 2**24 + 1]),
        "tokens": ("float32[]", [1]),
        "points": ("float32[3]", [1, 2, 3]),
        "names": ("float32", 1),
        "flags": ("bytes", b"\0\1\2\0"),
    }
    good = [coder.encode(record(i)) for i in range(3)]
    for name, (kind, value) in others.items():
        bad = payload.bind(Spec(SPEC | {name: kind}), codecs).encode(record(1) | {name: value})
        lacking = payload.bind(Spec({other: kind for other, kind in SPEC.items() if other != name}), codecs)
        without = lacking.encode({other: given for other, given in record(1).items() if other != name})
        for odd in (bad, without, good[0][:-1]):
            for mask in (dict.fromkeys(SPEC, True), {name: True}):
                check(coder, Blobs.join([*good, odd, good[0]]), mask, monkeypatch)
        assert isinstance(check(coder, Blobs.join([*good, bad]), {name: True}, monkeypatch), tuple)


@pytest.mark.parametrize("payload", [EXAMPLE, OFRECORD])
@pytest.mark.parametrize("seed", range(3))
def test_records_at_random(payload: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, n_columns = random.Random(seed), 0
    for _ in range(200):
        spec = Spec({name: chance.choice(TYPES) + chance.choice(["", "", "?"]) for name in "abc"})
        coder = payload.bind(spec, CodecResolver(trusted=True), inferred=chance.random() < 0.2)
        blobs = [any_features(chance, payload)] * chance.choice([1, 2, 3])
        blobs += [any_features(chance, payload)] * chance.choice([0, 0, 1])
        damaged = bytearray(blobs[0] + b"\0")
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        for mask in [dict.fromkeys(spec, True), *({name: True} for name in spec)]:
            n_columns += isinstance(check(coder, Blobs.join(blobs), mask, monkeypatch), dict)
            check(coder, Blobs.join([*blobs, bytes(damaged)]), mask, monkeypatch)
    assert n_columns > 100


def test_unknown_field_fails_only_with_inferred_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    codecs = CodecResolver(trusted=True)
    spec = Spec({"a": "int64"})
    more = EXAMPLE.bind(Spec({"a": "int64", "b": "int64"}), codecs).encode({"a": 1, "b": 2})
    good = EXAMPLE.bind(spec, codecs).encode({"a": 1})
    for inferred, fails in ((True, True), (False, False)):
        coder = EXAMPLE.bind(spec, codecs, inferred=inferred)
        for mask in ({"a": True}, {"a": False}):
            found = check(coder, Blobs.join([good, more]), mask, monkeypatch)
            assert isinstance(found, tuple) == fails


def test_codecs_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"a": "bytes", "b": "int64", "c": "unknown"}
    blob = EXAMPLE.bind(Spec({"a": "bytes", "b": "int64"}), CodecResolver(trusted=True)).encode({"a": b"xy", "b": 5})
    taken: Any = {"bytes": (bytes, lambda blob: blob[::-1]), "int64": (bytes, bytes)}
    coder = EXAMPLE.bind(Spec(spec), CodecResolver(taken, trusted=True))
    assert check(coder, Blobs.join([blob]), {"a": True}, monkeypatch) == {"a": [b"yx"]}
    assert isinstance(check(coder, Blobs.join([blob]), {"b": True}, monkeypatch), tuple)
    assert isinstance(check(coder, Blobs.join([blob]), {"a": True, "c": True}, monkeypatch), tuple)


@loop_over(
    "kind, value",
    [
        ("bytes", b"0123456789ab"),
        ("bytes?", b"0123456789ab"),
        ("utf8", "0123456789ab"),
        ("uint8[12]", np.arange(12)),
        ("uint8[3,4]?", np.arange(12).reshape(3, 4)),
        ("bool[12]", [True, False] * 6),
        ("float32[3]", [1, 2, 3]),
        ("float32[]", [1, 2, 3]),
        ("float32[][3]", [[1, 2, 3]]),
        ("bytes[]", [b"0123456789ab"]),
        ("feature", [b"0123456789ab"]),
    ],
)
@pytest.mark.skipif(wire_kernels() is None, reason="without kernels, records are read whole")
def test_split_values_decode_like_whole_records(kind: str, value: Any) -> None:
    spec = Spec({"a": kind, "b": "int64"})
    coder = EXAMPLE.bind(spec, CodecResolver(trusted=True))
    blobs = Blobs.join([coder.encode({"b": i, "a": value}) for i in range(3)])
    mask = {"a": True, "b": True}
    window = coder.value_slice(blobs, mask)
    assert window is not None
    assert window.n_bytes == 12
    begins = SplitBlobs(blobs, window, np.empty((3, 12), np.uint8)).begins
    rows = np.stack([blobs.buffer[begin : begin + 12] for begin in begins])
    cleared = blobs.buffer.copy()
    for begin in begins:
        cleared[begin : begin + 12] = 0xEE
    around = SplitBlobs(Blobs(cleared, blobs.starts, blobs.lengths), window, rows)
    found, whole = coder.decode_split(around, mask), coder.decode_batch(blobs, mask)
    assert found is not None
    assert all(same(found[name], whole[name]) for name in mask)
    moved = SplitBlobs(around.blobs, ValueSlice(window.begin + 1, 12), rows)
    assert coder.decode_split(moved, mask) is None


# ---- records that are nearly alike


def entry(name: bytes, value: bytes) -> bytes:
    return delimited(1, delimited(1, name) + delimited(2, value))


def floats(*values: float) -> bytes:
    return delimited(2, delimited(1, np.array(values, "<f4").tobytes()))


def integers(*values: int) -> bytes:
    return delimited(3, delimited(1, b"".join(varint(value % 2**64) for value in values)))


USUAL = {
    b"id": integers(7),
    b"a longer name": integers(2**40),
    b"x": floats(0.5),
    b"small": integers(200),
    b"word": delimited(1, delimited(1, b"word")),
    b"list": integers(*range(100, 200)),
    b"pair": floats(1, 2),
    b"flag": integers(1),
}
NEAR_SPEC = {
    "id": "int64",
    "a longer name": "int64",
    "x": "float32",
    "small": "uint8",
    "word": "utf8",
    "list": "int64[]",
    "pair": "float32[2]",
    "flag": "bool",
}
VALUES = {
    "negative": integers(-3),
    "ten bytes": delimited(3, delimited(1, b"\xff" * 9 + b"\x7f")),
    "eleven bytes": delimited(3, delimited(1, b"\xff" * 10 + b"\x01")),
    "longer than needed": delimited(3, delimited(1, b"\x81\x80\x00")),
    "unfinished": delimited(3, delimited(1, b"\x81\x80")),
    "two varints": integers(300, 5),
    "not packed": delimited(3, b"\x08\x05"),
    "a list of strings": delimited(1, delimited(1, b"ab") + delimited(1, b"c")),
    "two pieces": delimited(3, delimited(1, b"\x05") + delimited(1, b"\x06")),
    "two lists": integers(5) + integers(6),
    "another list first": floats(1) + integers(6),
    "no values": delimited(3, b""),
    "an empty piece": delimited(3, delimited(1, b"")),
    "no list": b"",
    "of another type": floats(1.0),
    "half a float": delimited(2, delimited(1, b"ab")),
    "a string": delimited(1, delimited(1, b"\1")),
    "not UTF-8": delimited(1, delimited(1, b"\xc3")),
    "eight bytes": delimited(1, delimited(1, b"12345678")),
    "an unknown field": b"\x78\x01" + integers(5),
    "a long string": delimited(1, delimited(1, "é".encode() * 99)),
}
ORDERS = {
    "as usual": list(USUAL),
    "reversed": list(USUAL)[::-1],
    "missing": list(USUAL)[1:],
    "twice": [*USUAL, b"id"],
    "another": [*USUAL, b"other"],
    "begun late": [*list(USUAL)[3:], *list(USUAL)[:3]],
}


def near(order: Sequence[bytes], values: dict[bytes, bytes]) -> bytes:
    return delimited(1, b"".join(entry(name, values.get(name, USUAL.get(name, integers(9)))) for name in order))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("inferred", [False, True])
def test_fast_path_matches_slow_path_on_similar_records(
    order: str, inferred: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = near(ORDERS["as usual"], {})
    coder = EXAMPLE.bind(Spec(NEAR_SPEC), CodecResolver(trusted=True), inferred=inferred)
    optional = EXAMPLE.bind(Spec({n: kind + "?" for n, kind in NEAR_SPEC.items()}), CodecResolver(trusted=True))
    n_columns = 0
    for name in USUAL:
        for value in VALUES.values():
            odd = near(ORDERS[order], {name: value})
            for blobs in ([usual, odd, usual], [odd, odd], [odd, usual]):
                mask = dict.fromkeys(NEAR_SPEC, True)
                n_columns += isinstance(check(coder, Blobs.join(blobs), mask, monkeypatch), dict)
                if not inferred:
                    check(optional, Blobs.join(blobs), mask, monkeypatch)
            check(coder, Blobs.join([usual, odd]), {name.decode(): True}, monkeypatch)
    assert order == "missing" or (inferred and order == "another") or n_columns > 50
