from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dataformats.batch import Blobs
from dataformats.codecs.text import BYTES, UTF8


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_text_round_trips(texts: list[str]) -> None:
    column = UTF8.decode_batch(Blobs.join([UTF8.encode(text) for text in texts]))
    assert list(column) == texts
    assert [UTF8.decode(UTF8.encode(text)) for text in texts] == texts


@given(st.lists(st.binary()))
def test_bytes_round_trip(values: list[bytes]) -> None:
    assert list(BYTES.decode_batch(Blobs.join([BYTES.encode(value) for value in values]))) == values


@given(st.lists(st.binary(max_size=3)))
def test_a_batch_is_checked_as_its_parts_are(values: list[bytes]) -> None:
    def sound(decode: Any, value: Any) -> bool:
        try:
            decode(value)
        except UnicodeDecodeError:
            return False
        return True

    assert sound(UTF8.decode_batch, Blobs.join(values)) == all(sound(UTF8.decode, value) for value in values)
