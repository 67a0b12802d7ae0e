"""Scalars of JSON objects: the kernel's columns are those of the parser, or none where the parser has an error."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dataformats.batch import Blobs, Nullable, Ragged
from dataformats.codecs.json_object import JSON_OBJECT
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import DataFormatsError
from dataformats.kernels import find_json_fields, implementation, read_json_integers, unescape_json
from dataformats.spec import Spec
from dataformats.testing.loop_over import loop_over

pytestmark = pytest.mark.skipif(implementation() != "native", reason="the kernels for JSON exist only in C")

_TYPES = {
    "text": "utf8?",
    "n": "int64?",
    "small": "int8?",
    "unsigned": "uint16?",
    "x": "float64?",
    "flag": "bool?",
    "ids": "int64[]?",
}
_TEXT = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ['"', "\\\n", "\U0001f600", "\0", "a" * 40]
)
_NUMBERS = st.integers(-(2**70), 2**70) | st.integers(-300, 300) | st.floats(allow_nan=False, allow_infinity=False)
_ANY = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXT,
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(_TEXT, parts, max_size=3),
    max_leaves=6,
)
_FITTING = st.fixed_dictionaries({}, optional={
    "text": _TEXT | st.none(), "n": st.integers(-(10**18) + 1, 10**18 - 1), "small": st.integers(-128, 127),
    "unsigned": st.integers(0, 65535), "x": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9),
    "flag": st.booleans(), "ids": st.lists(st.integers(-(10**18) + 1, 10**18 - 1), max_size=3),
})  # fmt: skip
_RECORDS = st.lists(_FITTING | st.dictionaries(st.sampled_from([*_TYPES, "other", "é"]), _ANY), min_size=1, max_size=4)


def _decoded(blobs: list[bytes], spec: Any, inferred: bool, by_kernel: bool) -> Any:
    """Return the columns as lists; the error if there is one; `None` if the kernel leaves them to the parser."""
    coder: Any = JSON_OBJECT.bind(Spec(spec), CodecResolver(trusted=True), inferred=inferred)
    wanted = dict.fromkeys(spec, True)
    if by_kernel:
        columns = coder._scalars.columns(Blobs.join(blobs), wanted)
        if columns is None:
            return None
    else:
        coder._scalars.columns = lambda *_: None
        try:
            columns = coder.decode_batch(Blobs.join(blobs), wanted)
        except DataFormatsError as error:
            return type(error)
    return {name: _listed(column) for name, column in columns.items()}


def _listed(column: Any) -> Any:
    if isinstance(column, Nullable):
        assert isinstance(column.values, np.ndarray)
        return str(column.values.dtype), [repr(value) for value in column]
    if isinstance(column, Ragged):
        present = [True] * len(column) if column.present is None else column.present.tolist()
        return column.item_kind, str(getattr(column.values, "dtype", "")), [*map(repr, column)], present
    return str(getattr(column, "dtype", "list")), [repr(value) for value in column]


def _check(blobs: list[bytes], spec: Any, *, must_fit: bool = False) -> None:
    for inferred in (False, True):
        found = _decoded(blobs, spec, inferred, by_kernel=True)
        expected = _decoded(blobs, spec, inferred, by_kernel=False)
        assert found == expected or (found is None and not must_fit)


@given(_RECORDS, st.booleans(), st.sampled_from([None, 0, 1]))
def test_random_records(records: list[Any], ascii_only: bool, indent: int | None) -> None:
    blobs = [json.dumps(record, ensure_ascii=ascii_only, indent=indent).encode() for record in records]
    _check(blobs, _TYPES)
    for name, kind in _TYPES.items():
        _check(blobs, {name: kind})
        _check(blobs, {name: kind.rstrip("?")})


@given(st.lists(_FITTING, min_size=1, max_size=5), st.booleans())
def test_fitting_records_take_the_kernel(records: list[Any], ascii_only: bool) -> None:
    _check([json.dumps(one, ensure_ascii=ascii_only).encode() for one in records], _TYPES, must_fit=True)


@given(_RECORDS, st.data())
def test_damaged_records(records: list[Any], data: st.DataObject) -> None:
    """A changed, missing or additional byte."""
    blobs = [json.dumps(record).encode() for record in records]
    row = data.draw(st.integers(0, len(blobs) - 1))
    place = data.draw(st.integers(0, len(blobs[row]) - 1))
    new = data.draw(st.sampled_from([b"", *(bytes([byte]) for byte in b'"\\{}[],:0-+.eEutn \n\x00\x1f\xff\xc3')]))
    keeps = data.draw(st.integers(0, 1))
    blobs[row] = blobs[row][:place] + new + blobs[row][place + keeps :]
    _check(blobs, _TYPES)


_ESCAPES = [
    "n",
    '"',
    "\\",
    "/",
    "u0041",
    "u00e9",
    "u20AC",
    "ud83d\\ude00",
    "u0000",
    "ud83d",
    "ude00",
    "x",
    "u12g4",
    "u12",
]


@loop_over("value", [
    "NaN", "Infinity", "-Infinity", "1e999", "-0", "-0.0", "01", "1.", ".5", "+1", "1e5", "1E-5", "1e", "--1", "-",
    "9" * 18, "9" * 19, "true", "True", "nul", "null", "[]", "[1,]",
    "[ 1 , -2\t]", "[1 2]", "[1,,2]", "[[1]]", "[1.0]", "[true]", "[null]", "[,1]", "[" + "9" * 19 + "]",
    "{}", '{"a":1,}', "[" * 40 + "]" * 40,
    "[" * 600 + "]" * 600, '"\t"', '"\x7f"', '"', "",  "1" * 5000, "1." + "0" * 70, '"a" "b"', "/**/1",
    "4e-324", "9007199254740993", "9007199254740992", "0.1", "123456789012345678.5",
    *(f'"a\\{escape}b"' for escape in _ESCAPES),
])  # fmt: skip
def test_values(value: str) -> None:
    texts = [f'{{"v":{value}}}', f' {{ "v" : {value} }} \r\n', f'{{"v":1,"v":{value}}}', f'{{"w":{value},"v":1}}']
    for text in texts:
        for kind in ("utf8", "int64", "float64", "bool", "uint8", "utf8?", "int64[]", "json"):
            _check([text.encode()], {"v": kind})


@loop_over("blob", [
    b"", b" ", b"{", b"{}", b"[]", b"{}{}", b"{} x", b"null", b'{"v"}', b'{"v":}', b'{"v" 1}', b'{v:1}', b'{"v":1,}',
    b"\xef\xbb\xbf{}", b'{"v":1}\x00', b'{"\\u0076":1}', b'{"v":"\xff"}', b'{"v":"\xed\xa0\x80"}', b'{,"v":1}',
    b'{"v":1 "w":2}', b'{"w":[1 2]}', b'{"w":{"a" 1}}', b'{"w":{"a":1,}}', b'{"v":1\x0b}', b"{\xc2\xa0}",
])  # fmt: skip
def test_blobs(blob: bytes) -> None:
    for kind in ("int64", "int64?", "utf8?"):
        _check([blob], {"v": kind})
        _check([b'{"v":1}', blob], {"v": kind, "w": "utf8?"})


def test_short_records_of_many_fields_take_the_parser() -> None:
    """The kernel notes 25 bytes for each field in each record, whether it is there or not."""
    spec = {f"k{n}": "int64?" for n in range(90)}
    short = [b"{}"] * 100_000
    assert _decoded(short[:1000], spec, inferred=True, by_kernel=True) is not None
    assert _decoded(short, spec, inferred=True, by_kernel=True) is None
    _check(short[:10], {f"k{n}": "int64?" for n in range(110)})


def test_wrong_arguments() -> None:
    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    assert find_json_fields(b"{}", one, one + 2, (), only_names=True) == []
    assert find_json_fields(b"{}", one, one + 3, (), only_names=False) is None
    assert find_json_fields(b"{}", one - 1, one, (), only_names=False) is None
    with pytest.raises(ValueError, match="of n records"):
        find_json_fields(b"{}", one, two, (b"v",), only_names=True)
    with pytest.raises(TypeError):
        find_json_fields(b"{}", one, one, ("v",), only_names=True)  # type: ignore[arg-type]
    for begin, length in ((-1, 1), (0, -1), (0, 3), (2, 1), (1, 1)):
        with pytest.raises(ValueError, match="outside the buffer, or has an invalid escape"):
            unescape_json(b"a\\", one + begin, one + length)


def test_lists_of_integers() -> None:
    lists = [b"[]", b"[ ]", b"[1]", b"[-2 , 3]"]
    ends = np.cumsum([*map(len, lists)])
    starts = np.append(0, ends[:-1])
    found = read_json_integers(b"".join(lists), starts, ends - starts)
    assert found is not None
    assert (found[0].tolist(), found[1].tolist()) == ([1, -2, 3], [0, 0, 1, 2])
    for wrong in (b"", b"[", b"[1", b"[1,", b"1]", b"[1]x", b"[1,]", b"[1][", b"{}", b"[1e5]"):
        assert read_json_integers(wrong, np.array([0]), np.array([len(wrong)])) is None
    for begin, length in ((-1, 2), (0, -1), (0, 3), (3, 0)):
        assert read_json_integers(b"[]", np.array([begin]), np.array([length])) is None


@given(_TEXT)
@example("\U0010ffff\ue000\x7f")
def test_unescaping(text: str) -> None:
    blob = json.dumps(text).encode()[1:-1]
    found, lengths = unescape_json(blob * 2, np.array([0, len(blob)]), np.array([len(blob)] * 2))
    assert (found.tobytes().decode(), lengths.tolist()) == (text * 2, [len(text.encode())] * 2)
