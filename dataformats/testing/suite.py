"""BackendConformance: every topic of the suite in one class."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataformats.testing.case import FormatCase
from dataformats.testing.columns import ColumnConformance
from dataformats.testing.converting import ConvertingConformance
from dataformats.testing.damage import DamageConformance
from dataformats.testing.dataset_fixture import Workshop
from dataformats.testing.indexes import IndexConformance
from dataformats.testing.io_modes import WaysConformance
from dataformats.testing.locations import PlaceConformance
from dataformats.testing.processes import ProcessConformance
from dataformats.testing.reading import ReadingConformance
from dataformats.testing.views import ViewConformance
from dataformats.testing.writing import WritingConformance

__all__ = ["BackendConformance"]


class BackendConformance(
    ReadingConformance,
    ColumnConformance,
    ViewConformance,
    WritingConformance,
    PlaceConformance,
    IndexConformance,
    ProcessConformance,
    ConvertingConformance,
    DamageConformance,
    WaysConformance,
):
    """What the core promises of every format. A subclass says which, in a fixture `case`."""

    @pytest.fixture
    def case(self) -> FormatCase:
        """Return the format under test."""
        raise NotImplementedError("a subclass says which FormatCase")

    @pytest.fixture
    def shop(self, case: FormatCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
        """Return where the test works; indexes are kept there, too."""
        monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))
        folder = tmp_path / "work"
        folder.mkdir()
        return Workshop(case, folder)
