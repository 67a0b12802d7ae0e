"""DamageChoice: which places of data a suite damages; and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class DamageChoice:
    """A part of the conformance suites."""

    @staticmethod
    def choose_damage(places: Sequence[Any], /) -> Sequence[Any]:
        """Return the places to damage, of all that a test knows; a subclass may choose some by a seed."""
        return places


def flipped(data: bytes, bit: int) -> bytes:
    """Return the bytes with one bit changed."""
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)
