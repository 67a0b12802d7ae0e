"""BackendConformance and BackendDurability: all tests of a format, in a fast class and a thorough one."""

from __future__ import annotations

import functools
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dataformats.errors import SpecError
from dataformats.merging import merge, split
from dataformats.repairing import repair
from dataformats.testing.case import FormatCase
from dataformats.testing.columns import ColumnConformance
from dataformats.testing.converting import ConvertingConformance
from dataformats.testing.damage import DamageConformance, DamageDurability
from dataformats.testing.damage_choice import DamageChoice
from dataformats.testing.dataset_fixture import DatasetFixture
from dataformats.testing.indexes import IndexConformance, IndexDurability
from dataformats.testing.io_modes import IoModeConformance, IoModeDurability
from dataformats.testing.locations import LocationConformance
from dataformats.testing.merging import MergingConformance
from dataformats.testing.processes import PickleConformance, ProcessDurability
from dataformats.testing.reading import ReadingConformance
from dataformats.testing.views import ViewConformance
from dataformats.testing.writing import WritingConformance


class BackendSuite(DamageChoice):
    """The part that both classes share: a subclass names the format in a fixture `case`."""

    timeout_s: ClassVar[float] = 300.0

    @pytest.fixture
    def case(self) -> FormatCase:
        """Return the format under test."""
        raise NotImplementedError("a subclass returns the FormatCase from a fixture `case`")

    @pytest.fixture
    def data(self, case: FormatCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DatasetFixture]:
        """Return where the test makes its datasets; indexes are kept there, too."""
        monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))
        folder = tmp_path / "work"
        folder.mkdir()
        with _time_limit(self.timeout_s):
            yield DatasetFixture(case, folder, self.choose_damage)


class BackendConformance(
    BackendSuite,
    ReadingConformance,
    ColumnConformance,
    ViewConformance,
    WritingConformance,
    LocationConformance,
    IndexConformance,
    PickleConformance,
    ConvertingConformance,
    MergingConformance,
    DamageConformance,
    IoModeConformance,
):
    """The tests that every format must pass, in milliseconds each and without other processes."""


class TableConformance(
    BackendSuite,
    ReadingConformance,
    ColumnConformance,
    ViewConformance,
    WritingConformance,
    LocationConformance,
    PickleConformance,
    ConvertingConformance,
    DamageConformance,
    IoModeConformance,
):
    """The tests for a format whose `open` returns a `Table`. Its records cannot be copied as they are stored."""

    def test_records_are_not_copied(self, data: DatasetFixture) -> None:
        """`merge`, `split` and `repair` refuse the format in the same words, and name `convert`."""
        path, new = data.write(3), data.path("copy")
        said = rf"records of {data.case.format} cannot be copied as they are stored, only records of .*convert"
        for source in (path, data.open(path)):
            for copy in (merge, functools.partial(split, shard_records=1)):
                with pytest.raises(SpecError, match=said):
                    copy(source, new)
        with pytest.raises(SpecError, match=said):
            repair(path, new)
        assert not new.exists()


class BackendDurability(BackendSuite, ProcessDurability, DamageDurability, IndexDurability, IoModeDurability):
    """The thorough tests: damage at every byte and bit, other processes, and writers that are killed."""

    timeout_s: ClassVar[float] = 600.0


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` in a test that takes longer; no-op without `SIGALRM`.

    A timer that is already set, as by pytest-timeout, goes on afterwards.
    """
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def expire(*_: Any) -> None:
        raise TimeoutError(f"the test takes longer than {seconds:g} s: expected less. Set timeout_s of the test class.")

    before, begin = signal.signal(signal.SIGALRM, expire), time.monotonic()
    left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        elapsed = time.monotonic() - begin
        signal.setitimer(signal.ITIMER_REAL, max(left - elapsed, 0.001) if left else 0)
        signal.signal(signal.SIGALRM, before)
