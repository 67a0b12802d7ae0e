"""Conversions without waiting for the disk, in short ranges: a test converts few records, many times."""

from __future__ import annotations

import os

import pytest

import dataformats.converting.run


@pytest.fixture(autouse=True)
def _no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(autouse=True)
def _short_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataformats.converting.run, "_RANGE_RECORDS", 7)
