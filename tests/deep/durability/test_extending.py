"""The format of docs/extending.md survives damage at every byte, other processes and killed writers."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest

from dataformats.registry import backends
from dataformats.testing import BackendDurability, FormatCase

EXAMPLES = Path(__file__).parents[3] / "examples"

pytestmark = pytest.mark.skipif(
    not EXAMPLES.exists(), reason="runs the examples of a checkout, and these tests stand outside one"
)


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    """Register the format for the tests of this module only."""
    sys.path.insert(0, str(EXAMPLES))
    importlib.import_module("length_prefixed").register()
    yield
    sys.path.remove(str(EXAMPLES))
    del backends._objects["lengthprefixed"]


class TestLengthPrefixed(BackendDurability):
    @pytest.fixture
    def case(self) -> FormatCase:
        return FormatCase(
            "lengthprefixed",
            "lengthprefixed",
            ".lp",
            setup="length_prefixed:register",
            verifies_records=False,
            fingerprints_records=False,
            ends=lambda lengths: list(accumulate((4 + length for length in lengths), initial=8))[1:],
            flip_every=3,
        )
