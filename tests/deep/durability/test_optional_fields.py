"""A backend on the public base classes survives damage at every byte, other processes and killed writers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dataformats.testing import BackendDurability, FormatCase
from tests.campaign import chosen
from tests.contract import test_optional_fields

registered = test_optional_fields.registered


class TestRows(BackendDurability):
    choose_damage = staticmethod(chosen)

    @pytest.fixture(params=[test_optional_fields.CASE, test_optional_fields.BLOCKS], ids=str)
    def case(self, request: pytest.FixtureRequest) -> FormatCase:
        case: FormatCase = request.param
        return replace(case, flip_every=3)
