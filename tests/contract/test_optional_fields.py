"""A writer of blocks of records that may lack fields, on the format of examples/dataformats_rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats.registry import backends
from dataformats.testing import BackendConformance, FormatCase
from tests.contract.test_extending import ROWS
from tests.examples import load_example, needs_examples

pytestmark = needs_examples


def register() -> None:
    """Make the format known to this process."""
    rows = load_example("dataformats_rows")

    class BlockWriter(rows.RowsWriter):  # type: ignore[misc, name-defined]  # mypy does not see the examples
        """Writes blocks of three records; the last ones at `close` alone, so that a suspended writer loses them."""

        def __init__(self, *args: Any) -> None:
            self.waiting: list[Any] = []
            super().__init__(*args)

        @property
        def n_records(self) -> int:
            return self._n_written + len(self.waiting)

        @n_records.setter
        def n_records(self, n: int) -> None:
            self._n_written = n - len(self.waiting)

        def append(self, record: Any, /) -> None:
            self.waiting.append(record)
            if len(self.waiting) == 3:
                self._write_block()

        def _write_block(self) -> None:
            block, self.waiting = self.waiting, []
            for record in block:
                super().append(record)

        def close(self, *, sync: bool = True) -> None:
            self._write_block()
            super().close(sync=sync)

    class Blocks(rows.RowsBackend):  # type: ignore[misc, name-defined]
        def create(self, path: Path, *, stored: Any, resume: bool = False, **_: Any) -> Any:
            return BlockWriter(path, stored, resume)

    dataformats.register_backend(Blocks(), replace=True)


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    register()
    yield
    del backends._objects["rows"]


CASE = replace(
    ROWS,
    name="blocks",
    setup="tests.contract.test_optional_fields:register",
    pending_may_be_lost=True,
    flip_every=3,
    cut_every=5,
)


class TestBlocks(BackendConformance):
    @pytest.fixture
    def case(self) -> FormatCase:
        return CASE
