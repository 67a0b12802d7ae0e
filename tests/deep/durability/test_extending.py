"""The formats of docs/extending.md survive damage at every byte, other processes and killed writers."""

from __future__ import annotations

from itertools import accumulate

import pytest

from dataformats.testing import BackendDurability, FormatCase
from tests.campaign import chosen
from tests.contract.test_extending import ROWS, SQLITE
from tests.examples import install_examples, needs_examples, register_examples

pytestmark = needs_examples
registered = register_examples("length_prefixed")
installed = install_examples("dataformats_rows", "dataformats_sqlite")


class TestLengthPrefixed(BackendDurability):
    choose_damage = staticmethod(chosen)

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


class TestInstalled(BackendDurability):
    choose_damage = staticmethod(chosen)

    @pytest.fixture(params=[ROWS, SQLITE], ids=str)
    def case(self, request: pytest.FixtureRequest) -> FormatCase:
        found: FormatCase = request.param
        return found
