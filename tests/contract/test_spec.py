"""The type grammar: DESIGN, section 4."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataformats.errors import SpecError
from dataformats.spec import NUMBER_TYPES, Spec, Type
from dataformats.testing.loop_over import loop_over

# text, codec, args, dims, optional
GOLDEN: list[tuple[str, str, tuple[str, ...], tuple[int | None, ...], bool]] = [
    ("bytes", "bytes", (), (), False),
    ("utf8", "utf8", (), (), False),
    ("i64", "i64", (), (), False),
    ("bool", "bool", (), (), False),
    ("float32[28,28]", "float32", (), (28, 28), False),
    ("jpg[]", "jpg", (), (None,), False),
    ("utf8[]", "utf8", (), (None,), False),
    ("float32[][64]", "float32", (), (None, 64), False),
    ("float32[64][]", "float32", (), (64, None), False),
    ("float32[2][3]", "float32", (), (2, 3), False),
    ("int64?", "int64", (), (), True),
    ("int(8)", "int", ("8",), (), False),
    ("array(float32,64,128)", "array", ("float32", "64", "128"), (), False),
    ("jpg(90)[]?", "jpg", ("90",), (None,), True),
    ("x-y.z_1[0]", "x-y.z_1", (), (0,), False),
    ("uint8[height, image/width,3]?", "array", ("uint8", "height", "image/width", "3"), (), True),
    (" int64 ", "int64", (), (), False),
    ("f( a , b )[ 2 , 3 ]?", "f", ("a", "b"), (2, 3), True),
    ("f()", "f", (), (), False),
    ("f[6\x1f, 7]", "f", (), (6, 7), False),
]
BAD = ["", " ", "?", "[]", "1x", "-x", "int64??", "int64[", "int64]", "int64[]]", "int64[-1]", "int64[1.5]", "utf8[a]"]
BAD += ["int64[1,]", "int64[,]", "int64[,2]", "f(", "f)", "f(()", "f(a))", "int64?[]", "int64 64", "x" + "[1]" * 33]
BAD += ["int64[2147483648]", "int64[" + "9" * 5000 + "]", "a\nb", "int64[1][", "é[é]", "int64[a,]", "int64[a][]"]

names = st.from_regex(r"[A-Za-z_][\w.\-]{0,9}", fullmatch=True)
arguments = st.lists(st.from_regex(r"[^(),\s\[\]]{1,6}", fullmatch=True), max_size=3).map(tuple)
dims = (
    st.lists(st.none() | st.integers(0, 2**31 - 1), max_size=6)
    .map(tuple)
    .filter(lambda sizes: math.prod(size for size in sizes if size) < 2**40)
)
types = st.builds(Type, names, arguments, dims, st.booleans())


@loop_over("text, codec, args, sizes, optional", GOLDEN)
def test_types_parse(
    text: str, codec: str, args: tuple[str, ...], sizes: tuple[int | None, ...], optional: bool
) -> None:
    kind = Type.parse(text)
    assert (kind.codec, kind.args, kind.dims, kind.optional) == (codec, args, sizes, optional)
    assert Type.parse(str(kind)) == kind
    assert Type.parse(kind) is kind
    assert kind.fixed == (None not in sizes)


@loop_over("text", BAD)
def test_bad_types_are_refused(text: str) -> None:
    with pytest.raises(SpecError) as raised:
        Type.parse(text)
    assert len(str(raised.value)) < 400
    assert Type.named(text) == Type(text)


@loop_over("thing", [None, 3, b"int64", ["int64"], dict])
def test_only_text_is_a_type(thing: Any) -> None:
    with pytest.raises(SpecError):
        Type.parse(thing)
    with pytest.raises(SpecError, match="x"):
        Spec({"x": thing})


@given(types)
def test_types_survive_as_text(kind: Type) -> None:
    assert Type.parse(str(kind)) == kind
    assert pickle.loads(pickle.dumps(kind)) == kind


@given(st.text())
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        kind = Type.parse(text)
    except SpecError:
        return
    assert Type.parse(str(kind)) == kind


def test_parts_of_types() -> None:
    kind = Type.parse("float32[][64]?")
    assert (str(kind.item), str(kind.required), str(kind.element)) == ("float32[64]", "float32[][64]", "float32")
    assert kind.dtype == np.dtype("<f4")
    assert Type.parse("utf8").dtype is None
    assert Type.parse("int64(8)").dtype is None
    for name in set(NUMBER_TYPES) - {"float128"}:
        found = Type.parse(name).dtype
        assert found is not None
        assert found.name == name


@given(st.dictionaries(st.text(max_size=8), types, max_size=5))
def test_specs_survive_as_json(fields: dict[str, Type]) -> None:
    spec = Spec(fields)
    for again in (Spec(spec.to_json()), pickle.loads(pickle.dumps(spec)), copy.copy(spec), Spec(spec)):
        assert again == spec
        assert list(again) == list(fields)
        assert hash(again) == hash(spec)
    assert spec == spec.to_json()


def test_specs_are_mappings() -> None:
    spec = Spec({"a": "int64", "b": "jpg[]?"})
    assert spec != {"a": "int64"}
    assert spec != {"a": "int64", "b": 3}
    assert spec != {"a": "int64", "b": "]"}
    assert spec != 3
    assert list(spec.select(["b"])) == ["b"]
    assert repr(spec) == "Spec({'a': 'int64', 'b': 'jpg[]?'})"
    with pytest.raises(SpecError):
        Spec({3: "int64"})  # type: ignore[dict-item]
    with pytest.raises(SpecError, match="'b'"):
        Spec({"a": "int64", "b": "["})


def test_the_number_of_elements_is_bounded() -> None:
    assert Type.parse("uint8[1048576,1048575]").dims == (2**20, 2**20 - 1)
    for dims in ("1048576,1048576", "0,1048576,1048576", ",".join(["2147483647"] * 32)):
        with pytest.raises(SpecError, match=r"below 2\^40"):
            Type.parse(f"uint8[{dims}]?")
