"""JSON with a checksum."""

from __future__ import annotations

import contextlib

from dataformats.storage.checked_json import pack_checked, parse_checked
from dataformats.testing.loop_over import loop_over


@loop_over("facts", [None, 3, [1.5, "é"], {"a": {"b": []}}])
def test_facts_are_packed_in_one_line(facts: object) -> None:
    packed = pack_checked(facts)
    assert b"\n" not in packed
    assert parse_checked(packed) == facts


def test_no_damage_is_believed() -> None:
    packed = pack_checked({"records": 4, "name": "x"})
    changed = [
        packed[:at] + bytes([packed[at] ^ 1 << bit]) + packed[at + 1 :] for at in range(len(packed)) for bit in range(8)
    ]
    for data in [*changed, *(packed[:at] for at in range(len(packed))), b"[]", b"3", b"[" * 100_000]:
        with contextlib.suppress(ValueError):
            assert parse_checked(data) == {"records": 4, "name": "x"}
