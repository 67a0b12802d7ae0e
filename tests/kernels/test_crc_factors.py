"""The constants of CRC folding equal the values derived from their polynomials."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HEADER = Path(__file__).parents[2] / "dataformats" / "kernels" / "checksum" / "crc_fold.h"
POLYNOMIALS = {"crc32": 0x104C11DB7, "crc32c": 0x11EDC6F41}  # coefficients from degree 32 down to 0
DISTANCES = (2048, 1536, 1024, 512, 384, 256, 128)  # bits

pytestmark = pytest.mark.skipif(not HEADER.exists(), reason="reads C of a checkout, and these tests are outside")


def divided(power: int, polynomial: int) -> tuple[int, int]:
    """Return quotient and remainder of x^power by `polynomial`, over GF(2)."""
    quotient, remainder = 0, 1 << power
    for shift in range(power - 32, -1, -1):
        if remainder >> (shift + 32) & 1:
            quotient |= 1 << shift
            remainder ^= polynomial << shift
    return quotient, remainder


def reflected(value: int, n_bits: int) -> int:
    return int(f"{value:0{n_bits}b}"[::-1], 2)


def factor(power: int, polynomial: int) -> int:
    return reflected(divided(power, polynomial)[1], 32) << 1


def written(name: str) -> dict[str, list[int]]:
    """The numbers of one `crc_factors` of the header, by member."""
    found = re.search(rf"crc_factors {name}_factors = \{{(.*?)\n\}};", HEADER.read_text(), re.DOTALL)
    assert found is not None
    members = re.findall(r"\.(\w+) = \{?([^}\n]*?)\}?,\n", found[1] + "\n")
    return {member: [int(number, 16) for number in numbers.split(", ")] for member, numbers in members}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_factors(name: str) -> None:
    polynomial = POLYNOMIALS[name]
    over = {f"over_{bits}": [factor(bits + 32, polynomial), factor(bits - 32, polynomial)] for bits in DISTANCES}
    assert written(name) == over | {
        "over_64": [factor(64, polynomial)],
        "polynomial": [reflected(polynomial, 33)],
        "quotient": [reflected(divided(64, polynomial)[0], 33)],
    }
