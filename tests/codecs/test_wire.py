from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dataformats.codecs.features.list_kinds import BYTES, FLOATS, INTEGERS
from dataformats.codecs.features.protobuf_messages import EXAMPLE_MESSAGE, FEATURE_MESSAGE
from dataformats.codecs.features.wire import (
    delimited,
    map_entry,
    packed_bytes,
    packed_integers,
    packed_numbers,
    varint,
)
from dataformats.testing.loop_over import loop_over

INT64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)


def serialized(**lists: Any) -> bytes:
    message = FEATURE_MESSAGE()
    for name, values in lists.items():
        getattr(message, name).SetInParent()
        getattr(message, name).value.extend(values)
    blob: bytes = message.SerializeToString()
    return blob


@given(st.lists(INT64))
def test_integers_as_protobuf_writes_them(values: list[int]) -> None:
    blob = delimited(INTEGERS, packed_integers(np.array(values, np.int64)))
    assert blob == serialized(int64_list=values)


@loop_over("bits", range(64))
def test_integers_at_every_length(bits: int) -> None:
    values = [2**bits - 1, -(2**bits), min(2**bits, 2**63 - 1), 0]
    blob = delimited(INTEGERS, packed_integers(np.array(values, np.int64)))
    assert blob == serialized(int64_list=values)
    assert varint(2**bits) == bytes([0x80] * (bits // 7) + [1 << bits % 7])


@given(arrays.arrays(np.float32, st.integers(0, 20)))
def test_floats_as_protobuf_writes_them(values: np.ndarray) -> None:
    blob = delimited(FLOATS, packed_numbers(values))
    parsed = np.array(FEATURE_MESSAGE.FromString(blob).float_list.value, np.float32)
    assert np.array_equal(parsed, values, equal_nan=True)
    assert len(blob) == len(serialized(float_list=values.tolist()))


@given(st.lists(st.binary(max_size=300)))
def test_bytes_as_protobuf_writes_them(values: list[bytes]) -> None:
    assert delimited(BYTES, packed_bytes(values)) == serialized(bytes_list=values)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.lists(INT64, max_size=3))
def test_map_entries_as_protobuf_writes_them(name: str, values: list[int]) -> None:
    message = EXAMPLE_MESSAGE()
    message.features.feature[name].int64_list.value.extend(values)
    message.features.feature[name].int64_list.SetInParent()
    feature = delimited(INTEGERS, packed_integers(np.array(values, np.int64)))
    assert EXAMPLE_MESSAGE.FromString(delimited(1, map_entry(1, name.encode(), feature))) == message
