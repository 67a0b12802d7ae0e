"""The thorough part of the conformance suite, over every format of this package and every way of writing it."""

from __future__ import annotations

import pytest

from dataformats.testing import BackendDurability, FormatCase
from tests.campaign import chosen
from tests.cases import FORMATS

PROCESSES = {case.name for case in chosen(FORMATS)}
"""The formats whose writers are killed and whose sources go to other processes."""


class TestBackends(BackendDurability):
    choose_damage = staticmethod(chosen)

    @pytest.fixture(params=FORMATS, ids=str)
    def case(self, request: pytest.FixtureRequest) -> FormatCase:
        found: FormatCase = request.param
        if request.function.__qualname__.startswith("ProcessDurability.") and found.name not in PROCESSES:
            pytest.skip("another third of the formats has this turn")
        return found
