"""Conversions: renamed fields, fields that a target cannot hold."""

from __future__ import annotations

from pathlib import Path

import pytest

import dataformats
from tests.cases import GOLDEN


def test_renaming_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(dataformats.UnknownNameError, match="nearest: label"):
        dataformats.convert("tests/golden/real/digits-*.tfrecord", tmp_path / "x", "ffrecord", rename={"labels": "y"})


def test_a_conversion_leaves_no_field_out_unasked(tmp_path: Path) -> None:
    photos = GOLDEN / "real" / "photos.tfrecord"
    with pytest.raises(dataformats.SpecError, match="height, name, width"):
        dataformats.convert(photos, tmp_path / "x.syr", "syrah", spec={"image": "jpg"})
    report = dataformats.convert(photos, tmp_path / "x.syr", "syrah", spec={"image": "jpg"}, fields=["image"])
    assert (report.records, report.left_out) == (12, ("height", "name", "width"))
