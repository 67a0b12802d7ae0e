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
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import CodecError
from dataformats.spec import Type
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
