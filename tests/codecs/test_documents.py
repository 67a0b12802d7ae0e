from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataformats.batch import Blobs
from dataformats.codecs import documents
from dataformats.codecs.documents import JSON, MAX_DEPTH, MSGPACK, PICKLE
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import CodecError
from dataformats.interfaces import Codec
from dataformats.spec import Type

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


def test_golden_bytes() -> None:
    assert JSON.encode({"b": [1, None, "é"], "a": 0.5}) == '{"b":[1,null,"é"],"a":0.5}'.encode()
    assert MSGPACK.encode({"a": b"x", "b": [1, -1]}) == b"\x82\xa1a\xc4\x01x\xa1b\x92\x01\xff"
    assert PICKLE.encode(1)[:2] == b"\x80\x05"


@pytest.mark.parametrize("codec", [JSON, MSGPACK], ids=["json", "msgpack"])
@pytest.mark.parametrize("value", [{1: 2}, [{"a": {None: 1}}], object(), {1, 2}])
def test_what_would_come_back_as_something_else_is_refused(codec: Codec, value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        codec.encode(value)


@pytest.mark.parametrize(
    "blob", [b"NaN", b"-Infinity", b"[1", b"{}{}", b"\xff", b"", b"9" * 5000, b"[" * 100_000, b'{"a":' * 5000]
)
def test_bad_json(blob: bytes) -> None:
    with pytest.raises(CodecError):
        CodecResolver(trusted=False).decode(Type("json"), Blobs.join([blob]))


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


@pytest.mark.parametrize(
    "blob",
    [
        b"\xdd\xff\xff\xff\xff",  # a list of 2^32 - 1
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xffx",
        b"\xdb\x7f\xff\xff\xffx",
        b"\x91" * 100_000,
        (b"\xdd" + (90_000).to_bytes(4, "big")) * 1000 + b"\x01" * 90_000,
        b"\x81\x01\x02",  # an integer key
        b"\x01\x02",
        b"\xc1",
        b"\xa1\xff",
        b"",
    ],
)
def test_bad_msgpack(blob: bytes) -> None:
    with pytest.raises(CodecError):
        CodecResolver(trusted=False).decode(Type("msgpack"), Blobs.join([blob]))


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
