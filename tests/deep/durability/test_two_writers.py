"""Two writers of one name: all interleavings of a few steps, more than tests/writing plays."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from tests.campaign import ALL, SEED
from tests.writing.test_two_writers import CASES, play, plays


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("resumes", list(itertools.product((False, True), repeat=2)), ids=str)
def test_every_interleaving(case: str, resumes: tuple[bool, bool], tmp_path: Path) -> None:
    step = 1 if ALL else 14
    for number, steps in enumerate([*plays(2), *plays(3)][SEED % step :: step]):
        folder = tmp_path / str(number)
        folder.mkdir()
        play(folder / CASES[case][0], case, resumes, steps)
        shutil.rmtree(folder)
