"""A backend on the public base classes survives damage at every byte, other processes and killed writers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dataformats.testing import BackendDurability, FormatCase
from tests.contract import test_optional_fields

registered = test_optional_fields.registered


class TestRows(BackendDurability):
    @pytest.fixture
    def case(self) -> FormatCase:
        return replace(test_optional_fields.CASE, flip_every=3)
