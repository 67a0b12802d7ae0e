"""The backend of examples/megatron_backend.py survives damage at every byte, other processes and killed writers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dataformats.testing import BackendDurability, FormatCase
from tests.contract import test_megatron_backend

pytestmark = test_megatron_backend.pytestmark
registered = test_megatron_backend.registered


class TestMegatron(BackendDurability):
    @pytest.fixture
    def case(self) -> FormatCase:
        return replace(test_megatron_backend.CASE, flip_every=3)
