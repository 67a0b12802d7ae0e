"""Statistics of the fields of every golden file, sound or damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

import dataformats
from dataformats.reading.stats import scan_stats

GOLDEN = Path(__file__).parents[2] / "golden"
FILES = [path for path in GOLDEN.rglob("*") if path.is_file() and not {"frozen", "granular"} & {*path.parts}]
DATASETS = sorted({*FILES, *(path.parent for path in (GOLDEN / "granular").rglob("*") if path.is_file())})


@pytest.mark.filterwarnings("ignore:.*old version of FFRecord:UserWarning", "ignore:.*is left out:UserWarning")
def test_golden_files() -> None:
    n_opened = 0
    refused = []
    for path in DATASETS:
        try:
            src = dataformats.open(path)
            n = len(src)
        except (dataformats.FormatError, dataformats.SpecError):  # tokens need window=
            continue
        n_opened += 1
        try:
            *_, running = scan_stats(src)
        except dataformats.UnknownNameError:  # files may not name pickle
            continue
        except dataformats.FormatError:
            refused.append(path.name)
            continue
        assert running.records == n, path
        for stats in running.snapshot().values():
            assert stats.count + stats.missing + stats.failed == n, path
    assert refused == ["unknown_dtype.syr"]  # no record has this field
    assert n_opened > 150
