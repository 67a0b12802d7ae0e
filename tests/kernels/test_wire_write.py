"""Writing records of features: the kernel and plain Python give the same bytes, and raise the same errors."""

from __future__ import annotations

import contextlib
import gc
import itertools
import sys
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dataformats.codecs.example import EXAMPLE
from dataformats.codecs.features import encoder
from dataformats.codecs.features.protobuf_messages import EXAMPLE_MESSAGE, OFRECORD_MESSAGE
from dataformats.codecs.ofrecord import OFRECORD
from dataformats.codecs.sequence_example import SEQUENCE_EXAMPLE
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.columns.exact_cast import DTYPES
from dataformats.errors import CodecError, SpecError
from dataformats.kernels.wire import Shape, wire_kernels
from dataformats.kernels.wire_write import BYTES_ITEM, MESSAGE, NUMBERS_ITEM, OTHER_ITEM, Field
from dataformats.spec import NUMBER_TYPES, Spec
from dataformats.testing.loop_over import loop_over

KERNEL = wire_kernels()
pytestmark = pytest.mark.skipif(KERNEL is None, reason="without kernels, Python writes")

PAYLOADS = {"example": EXAMPLE, "ofrecord": OFRECORD, "sequence_example": SEQUENCE_EXAMPLE}


def outcome(payload: str, spec: dict[str, str], record: Any, codecs: Any) -> Any:
    """Return the bytes of a record, or the error's type and words."""
    bound: Any = PAYLOADS[payload].bind(Spec(spec), CodecResolver(codecs, trusted=True))
    try:
        return bound.encode(record)
    except Exception as error:
        return type(error), str(error)


def check(payload: str, spec: dict[str, str], record: Any, codecs: Any = None) -> Any:
    """Return the outcome for a record, the same with and without kernels."""
    found = outcome(payload, spec, record, codecs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder, "plan_writer", lambda *given: None)
        assert found == outcome(payload, spec, record, codecs), (spec, record)
    return found


# ---- one value


class Odd:
    """Has nothing that a number has."""


VALUES = [
    *(None, True, False, 0, 1, -1, 127, 128, -128, -129, 255, 256, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64, -(2**63)),
    *(0.0, -0.0, 0.1, 1e39, -1e39, 3.4028235677973366e38, 1e-50, float("inf"), float("nan"), 65520.0, 1j, Odd()),
    *(b"", b"ab", "", "text", "é\U0001f600", "\ud800", bytearray(b"ab"), memoryview(b"ab"), [], (), {}, {"a": 1}),
    *(
        [1, 2],
        (1, 2),
        [1, 2.5],
        [True, False],
        [[1, 2], [3, 4]],
        [b"a", b""],
        ("a", "é"),
        ["a", b"b"],
        ["\ud800"],
        [None],
    ),
    *(np.int8(-3), np.uint64(2**63), np.float32(0.1), np.float64(0.1), np.bool_(True), np.str_("x"), np.bytes_(b"x")),
    *(
        np.arange(4),
        np.arange(4, dtype=np.int32)[::2],
        np.arange(4, dtype=">i4"),
        np.arange(4.0),
        np.array(5),
        np.array("x"),
    ),
    *(
        np.arange(4, dtype=np.float32).reshape(2, 2),
        np.array([1, 2**63], np.uint64),
        np.ma.masked_array([1, 2], [False, True]),
    ),
    *(np.array([], np.int64), np.zeros((0, 2), np.float32), np.zeros((2, 0)), np.array([1, "a"], object)),
    *(
        np.asfortranarray(np.arange(4.0).reshape(2, 2)),
        np.datetime64("2020-01-01"),
        np.timedelta64(1, "s"),
        np.void(b"x"),
        np.array([True, False]),
        np.float16(1),
    ),
    *(np.array([b"a"]), np.arange(4, dtype=np.uint8), np.arange(-2, 2, dtype=np.int16), np.ones(2, np.longdouble)),
]
NUMBERS = [name for name in NUMBER_TYPES if name in DTYPES and name != "float128"]  # whose padding is anything
TYPES = [
    *NUMBERS,
    *(f"{name}{dims}" for name in NUMBERS for dims in ("[]", "[2]", "[2,2]", "[][2]", "[4]?")),
    *("bytes", "utf8", "bytes[]", "utf8[]", "utf8[2]", "utf8[][2]", "bytes?", "json", "feature", "mystery", "json[]"),
]


@pytest.mark.parametrize("payload", ["example", "ofrecord"])
@loop_over("kind", TYPES)
def test_any_value_of_any_type(payload: str, kind: str) -> None:
    for value in VALUES:
        check(payload, {"a": kind}, {"a": value})


def test_c_encoder_needs_no_python_call() -> None:
    values = {
        "i": ("int64", 5),
        "u": ("uint8", 200),
        "t": ("bool", True),
        "f": ("float32", 0.1),
        "d": ("float64[]", np.arange(3.0)),
        "m": ("float32[2,2]", np.zeros((2, 2), np.float32)),
        "n": ("int16", np.int16(3)),
        "p": ("uint8[4]", np.arange(4, dtype=np.uint8)),
        "b": ("bytes", b"x"),
        "s": ("utf8", "é"),
        "l": ("utf8[]", ["a", "b"]),
        "k": ("bytes[]", (b"a",)),
        "o": ("int64?", None),
    }
    spec = Spec({name: kind for name, (kind, _) in values.items()})
    for shape, lists in ((0, EXAMPLE.lists), (2, OFRECORD.lists)):
        places = {name: (0, name) for name in spec}
        made = encoder.RecordEncoder(Shape(shape), lists, CodecResolver(trusted=True), spec, places)
        fields = tuple(tuple(made._field(name, kind)) for name, kind in spec.items())
        plan = KERNEL.wire_plan(shape, fields, np.ndarray, np.generic)
        given = tuple(value for _, value in values.values())
        assert KERNEL.wire_write(plan, given, pytest.fail) == made({name: value for name, (_, value) in values.items()})


def test_overrides_and_steps() -> None:
    codecs = {"int64": (lambda value: str(value).encode(), bytes.decode), "utf8": (str.encode, bytes.decode)}
    assert check("example", {"a": "int64", "b": "utf8[]"}, {"a": 5, "b": ["x"]}, codecs) == example(a=[b"5"], b=[b"x"])
    spec = {
        "n": "int64[]",
        "m": "float32[][2]",
        "t": "utf8[][]",
        "context/c": "int64[]",
        "f": "feature[]",
        "i": "int64",
    }
    for record in (
        {"n": [1, 2], "m": [[1, 2]], "t": [["a"], []], "context/c": np.arange(3), "f": [None, [b"x"]], "i": 1},
        {"n": [], "i": 1},
        {"n": 5, "i": 1},
        {"n": "text", "i": 1},
        {"i": None},
        {"i": 1, "x": 2},
        {},
    ):
        check("sequence_example", spec, record)


def test_dict_subclasses_and_odd_keys_are_encoded_or_refused() -> None:
    class Record(dict[str, Any]):
        def get(self, name: str, default: Any = None) -> Any:
            return 7

    assert check("example", {"a": "int64"}, Record()) == example(a=[7])
    assert check("example", {"a": "int64?"}, {"a": 1, 5: 2})[0] is SpecError


# ---- whole records


def example(**features: list[Any]) -> bytes:
    """Return an Example made by protobuf, a feature after the other."""
    whole = b""
    for name, values in features.items():
        message = EXAMPLE_MESSAGE()
        kinds = {int: "int64_list", float: "float_list", bytes: "bytes_list"}
        getattr(message.features.feature[name], kinds[type(values[0])]).value.extend(values)
        whole += message.features.SerializeToString()
    message = EXAMPLE_MESSAGE()
    message.features.MergeFromString(whole)
    blob: bytes = message.SerializeToString(deterministic=True)
    return blob


@st.composite
def columns(draw: st.DrawFn) -> tuple[str, Any]:
    """A type, and a value that fits it."""
    name = draw(st.sampled_from(["utf8", "bytes", *NUMBERS]))
    count = draw(st.integers(0, 20))
    if name == "utf8":
        return "utf8[]", draw(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
    if name == "bytes":
        return "bytes", draw(st.binary(max_size=300))
    return f"{name}[]", draw(arrays.arrays(DTYPES[name], count))


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=200), columns(), max_size=5))
def test_records(fields: dict[str, tuple[str, Any]]) -> None:
    spec = {name: kind for name, (kind, _) in fields.items()}
    record = {name: value for name, (_, value) in fields.items()}
    for payload, message in (("example", EXAMPLE_MESSAGE), ("ofrecord", OFRECORD_MESSAGE)):
        blob = check(payload, spec, record)
        if isinstance(blob, bytes):
            parsed = message.FromString(blob)
            assert len(parsed.features.feature if payload == "example" else parsed.feature) == len(spec)
        else:
            assert blob[0] in (SpecError, CodecError)


@given(arrays.arrays(np.int64, st.integers(0, 40), elements=st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200)))
def test_integers_as_protobuf_writes_them(values: np.ndarray) -> None:
    blob = check("ofrecord", {"a": "int64[]"}, {"a": values})
    message = OFRECORD_MESSAGE()
    message.feature["a"].int64_list.SetInParent()
    message.feature["a"].int64_list.value.extend(values.tolist())
    assert blob == message.SerializeToString()


def test_nothing_is_kept() -> None:
    array, text = np.arange(1000, dtype=np.float32), ["a distinct text " + str(i) for i in range(3)]
    bound = EXAMPLE.bind(Spec({"x": "float32[]", "t": "utf8[]", "n": "int64"}), CodecResolver(trusted=True))
    gc.collect()
    before = [sys.getrefcount(value) for value in (array, text, text[0])]
    for record in (
        {"x": array, "t": text, "n": 1},
        {"x": array, "t": text, "n": "wrong"},
        {"x": array, "t": [*text, 5]},
    ):
        for _ in range(5):
            with contextlib.suppress(SpecError, CodecError):
                bound.encode(record)
    del record
    gc.collect()
    assert [sys.getrefcount(value) for value in (array, text, text[0])] == before
    assert array.base is None
    array.resize(10, refcheck=False)


def test_invalid_plans() -> None:
    good = Field(b"a", 0, 3, True, NUMBERS_ITEM, "i", 8, ())
    for change in (
        {"name": "a"},
        {"part": 2},
        {"part": 1},
        {"kind": 0},
        {"kind": 7},
        {"kind": 2},  # floats
        {"kind": 2, "letter": "f"},
        {"kind": 4, "letter": "f"},  # Example has no doubles
        {"kind": MESSAGE},
        {"item": BYTES_ITEM},
        {"item": OTHER_ITEM},
        {"item": 4},
        {"letter": "f"},
        {"letter": "\0"},
        {"letter": "c"},
        {"letter": "\u0169"},
        {"width": 3},
        {"dims": (1,) * 33},
        {"dims": ("a",)},
    ):
        with pytest.raises((TypeError, ValueError)):
            KERNEL.wire_plan(0, (tuple(good._replace(**change)),), np.ndarray, np.generic)
    with pytest.raises(TypeError):
        KERNEL.wire_plan(0, (tuple(good)[:7],), np.ndarray, np.generic)
    with pytest.raises(TypeError, match="expected a shape"):
        KERNEL.wire_plan(9, (tuple(good),), np.ndarray, np.generic)
    plan = KERNEL.wire_plan(0, (tuple(good),), np.ndarray, np.generic)
    with pytest.raises(TypeError, match="values must be a tuple of 1"):
        KERNEL.wire_write(plan, [1], pytest.fail)
    with pytest.raises(TypeError, match="normalized value of field 0"):
        KERNEL.wire_write(plan, ("x",), lambda number, value: value)


@loop_over("shape", Shape)
def test_every_plan(shape: Shape) -> None:
    """A plan is refused, or writes any value or raises: sanitizers watch this."""
    n_plans = 0
    for part, kind, item, letter, width, dims in itertools.product(
        *(range(2), range(-1, 8), range(4), "biuf\0", (1, 4, 8), ((), (-1,), (2,), (-1, 2)))
    ):
        try:
            field = (b"a", part, kind, True, item, letter, width, dims)
            plan = KERNEL.wire_plan(shape, (field,), np.ndarray, np.generic)
        except ValueError:
            continue
        n_plans += 1
        for value, normalized in zip(VALUES, VALUES[n_plans % len(VALUES) :] + VALUES, strict=False):
            with contextlib.suppress(TypeError):
                assert isinstance(KERNEL.wire_write(plan, (value,), lambda *_, made=normalized: made), bytes)
    assert n_plans > 100


@pytest.mark.skipif("float128" not in DTYPES, reason="this platform has no float128")
def test_float128() -> None:
    wide = np.zeros(3, DTYPES["float128"])
    for payload in ("example", "ofrecord"):
        assert isinstance(check(payload, {"a": "float128[]"}, {"a": wide}), bytes)
        assert isinstance(check(payload, {"a": "float128[3]"}, {"a": wide}), bytes)


def test_array_changing_during_encoding_raises() -> None:
    small, large = np.ones(200_000, np.int64), np.full(200_000, -1)  # 1 byte or 10 bytes for each
    array = small.copy()
    bound = EXAMPLE.bind(Spec({"n": "int64?", "x": "int64[]"}), CodecResolver(trusted=True))
    sizes = {len(bound.encode({"x": values})) for values in (small, large)}
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            array[:] = large  # NumPy copies without the GIL
            array[:] = small

    def encode_often() -> None:
        for _ in range(100_000):
            assert min(sizes) <= len(bound.encode({"x": array})) <= max(sizes)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        with pytest.raises(CodecError, match="field 'x': the array changed while the record was encoded"):
            encode_often()
    finally:
        done.set()
        thread.join()
