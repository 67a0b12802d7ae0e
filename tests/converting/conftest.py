"""Conversions in short ranges: a test converts few records."""

from __future__ import annotations

import pytest

import dataformats.converting.converter


@pytest.fixture(autouse=True)
def _short_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataformats.converting.converter, "_RANGE_RECORDS", 7)
