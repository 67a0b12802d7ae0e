"""The fast part of the conformance suite, over every format of this package and every way of writing it."""

from __future__ import annotations

import pytest

from dataformats.registry import backends
from dataformats.testing import BackendConformance, FormatCase
from tests.cases import FORMATS


class TestBackends(BackendConformance):
    @pytest.fixture(params=FORMATS, ids=str)
    def case(self, request: pytest.FixtureRequest) -> FormatCase:
        found: FormatCase = request.param
        return found


def test_every_format_has_a_case() -> None:
    assert {case.format for case in FORMATS} == set(backends)
