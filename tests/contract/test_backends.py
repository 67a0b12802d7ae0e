"""The fast part of the conformance suite, over every format of this package and every way of writing it."""

from __future__ import annotations

import pytest

from dataformats.testing import BackendConformance, FormatCase, TableConformance
from tests.cases import FORMATS, TABLES


class TestBackends(BackendConformance):
    @pytest.fixture(params=FORMATS, ids=str)
    def case(self, request: pytest.FixtureRequest) -> FormatCase:
        found: FormatCase = request.param
        return found


class TestTables(TableConformance):
    @pytest.fixture(params=TABLES, ids=str)
    def case(self, request: pytest.FixtureRequest) -> FormatCase:
        found: FormatCase = request.param
        return found
