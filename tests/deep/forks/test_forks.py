"""A sample of the campaign: `python -m tests.deep.forks --forks 2000` is all of it."""

from __future__ import annotations

import os

import pytest

from tests.campaign import SEED, share
from tests.deep.forks.__main__ import main


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_no_child_hangs(capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["--forks", str(share(64)), "--seed", str(SEED)])
    assert code == 0, capfd.readouterr()
