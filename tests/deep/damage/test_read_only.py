"""Files of the formats that are only read, cut at many bytes, and with flipped bits."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from tests.backends.test_read_only import CASES, ReadOnly, check_damaged
from tests.campaign import chosen, share


@pytest.mark.parametrize("case", CASES, ids=str)
def test_damage_at_many_bytes(case: ReadOnly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert check_damaged(case, tmp_path, bits=17, cuts=3, choose=chosen) > share(200)
