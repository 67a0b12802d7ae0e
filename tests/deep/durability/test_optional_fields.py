"""A writer of blocks survives damage at every byte, other processes and killed writers."""

from __future__ import annotations

import pytest

from dataformats.testing import BackendDurability, FormatCase
from tests.campaign import chosen
from tests.contract import test_optional_fields
from tests.examples import needs_examples

pytestmark = needs_examples
registered = test_optional_fields.registered


class TestBlocks(BackendDurability):
    choose_damage = staticmethod(chosen)

    @pytest.fixture
    def case(self) -> FormatCase:
        return test_optional_fields.CASE
