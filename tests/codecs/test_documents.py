from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataformats.batch import Blobs
from dataformats.codecs import documents
from dataformats.codecs.documents import JSON, MAX_DEPTH, MSGPACK, PICKLE
from dataformats.codecs.json_object import JSON_OBJECT
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import CodecError, CorruptRecordError, SpecError
from dataformats.spec import Spec, Type
from dataformats.testing.loop_over import loop_over

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(VALUES)
def test_round_trips(value: Any) -> None:
    for codec in (JSON, MSGPACK, PICKLE):
        assert codec.decode(codec.encode(value)) == value


def test_lone_surrogates_are_escaped() -> None:
    value = {"a\udfff": "\ud83d\\\ud83d", "é": "\U0001f600"}
    assert JSON.encode(value) == rb'{"a\udfff":"\ud83d\\\ud83d",' + '"é":"\U0001f600"}'.encode()
    assert JSON.decode(JSON.encode(value)) == value


def nested(levels: int, innermost: Any) -> Any:
    value = innermost
    for level in range(levels):
        value = [1, value] if level % 2 else {"a": value, "b": 2}
    return value


@loop_over("name", ["json", "msgpack", "tree"])
@loop_over("innermost", [0, [], {}, "text", [1, 2.5]])
def test_the_deepest_document_is_read_and_written(name: str, innermost: Any) -> None:
    codec = CodecResolver(trusted=False).codec(Type(name))
    levels = MAX_DEPTH - isinstance(innermost, list | dict)
    value = nested(levels, innermost)
    assert codec.decode(codec.encode(value)) == value
    for deeper in (1, 2, 100, 400):
        value = nested(levels + deeper, innermost)
        with pytest.raises(ValueError, match="levels of nesting"):
            codec.encode(value)
        stored = json.dumps(value).encode() if name == "json" else msgpack.packb(value)
        with pytest.raises(ValueError, match="levels of nesting"):
            codec.decode(stored or b"")


def test_nesting_is_bounded() -> None:
    deep: Any = 0
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    with pytest.raises(ValueError, match="levels of nesting"):
        JSON.encode(deep)
    with pytest.raises(ValueError, match="levels of nesting"):
        JSON.decode(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))
    assert JSON.decode(b'["' + b"[" * 5000 + b'\\"["]') == ["[" * 5000 + '"[']
    cyclic: list[Any] = []
    cyclic += [cyclic, cyclic]
    for codec in (JSON, MSGPACK):
        with pytest.raises((ValueError, RecursionError)):
            codec.encode(cyclic)


_NUMBERS = st.from_regex(r"-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,3})?", fullmatch=True)
_CODER = JSON_OBJECT.bind(Spec({"x": "json"}), CodecResolver(trusted=False))
_SPECIAL = ["NaN", "-Infinity", "1e999", '"\\ud800"', "{}", "1 2", "9" * 5000, "[" * 513 + "]" * 513, '{"a":1,"a":[2]}']


@given(
    st.one_of(st.builds(json.dumps, VALUES, ensure_ascii=st.booleans()), _NUMBERS, st.sampled_from(_SPECIAL)), st.data()
)
def test_msgspec_equals_the_standard_library(text: str, data: st.DataObject) -> None:
    """It is asked about whole documents, and about those with a changed, missing or additional byte."""
    pytest.importorskip("msgspec")
    blob = bytearray(f'{{"x": {text}}}'.encode())
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(blob) - 1))
        blob[place : place + data.draw(st.integers(0, 1))] = data.draw(st.binary(max_size=1))

    def outcomes(decode: Any) -> list[str]:
        found = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(documents, "_DECODE", decode)
            for decoded in (
                JSON.decode,
                JSON_OBJECT.decode,
                lambda one: _CODER.decode_batch(Blobs.join([one]), {"x": True}),
            ):
                try:
                    found.append(repr(decoded(bytes(blob))))
                except (CorruptRecordError, SpecError, ValueError) as error:
                    found.append(str(error))
        return found

    assert outcomes(documents._DECODE) == outcomes(None)


def test_deep_records_of_a_batch_are_named() -> None:
    brackets = b'{"x": [' + b"[]," * MAX_DEPTH + b'"[[["]}'
    assert _CODER.decode_batch(Blobs.join([brackets]), {"x": True})["x"] == [[*[[]] * MAX_DEPTH, "[[["]]
    deep = b'{"x":' * (MAX_DEPTH + 1) + b"0" + b"}" * (MAX_DEPTH + 1)
    with pytest.raises(CorruptRecordError, match="levels of nesting") as raised:
        _CODER.decode_batch(Blobs.join([brackets, deep]), {"x": True})
    assert raised.value.index == 1


@pytest.mark.parametrize("name", ["json", "msgpack"])
@given(blob=st.binary(max_size=60))
def test_any_bytes_give_a_value_or_our_error(name: str, blob: bytes) -> None:
    with suppress(CodecError):
        CodecResolver(trusted=False).decode(Type(name), Blobs.join([blob]))


def test_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_BYTES", 10)
    for codec in (JSON, MSGPACK):
        with pytest.raises(ValueError, match="at most 10 bytes"):
            codec.encode("a long text")
        with pytest.raises(ValueError, match="at most 10 bytes"):
            codec.decode(bytes(11))
