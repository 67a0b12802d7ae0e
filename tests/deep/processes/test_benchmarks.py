"""Every benchmark runs, on a few records and with the peers that are installed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.benchmarks import tables
from tests.benchmarks.test_harness import TINY, run


def test_every_case_runs(tmp_path: Path) -> None:
    *names, costs, scale = run("--list", data=tmp_path).stdout.split()
    done = run(*TINY, "--together", "--json", str(tmp_path / "times.json"), data=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "failed" not in done.stdout
    results = json.loads((tmp_path / "times.json").read_text("utf-8"))
    assert [result["name"] for result in results] == names
    assert all(result["title"] in done.stdout for result in results)
    assert (costs, scale) == ("loader-costs", "scale")
    assert "Loader, a state" in done.stdout
    assert done.stdout.count("µs a record, Loader step") == 6
    ran = [result for result in results if result["seconds"]]
    assert all(len(times) == len(result["scaling"]) for result in ran for times in result["seconds"].values())
    assert {"ffrecord-1kb", "ofrecord-waves", "syrah-open", "index"} <= {result["name"] for result in ran}


def test_update_replaces_rows_of_its_cases_only(tmp_path: Path) -> None:
    for path in (tables.PAGE, tables.RESULTS):
        (tmp_path / path).parent.mkdir(parents=True)
        shutil.copy(tables.CHECKOUT / path, tmp_path / path)
    old = json.loads((tmp_path / tables.RESULTS).read_text("utf-8"))
    for ways in ((), ("--together",)):
        done = run(*TINY, *ways, "-k", "ffrecord-1kb", "--update", str(tmp_path), data=tmp_path)
        assert done.returncode == 0, done.stderr
    new = json.loads((tmp_path / tables.RESULTS).read_text("utf-8"))
    changed = {row["name"] for row, before in zip(new["rows"], old["rows"], strict=True) if row != before}
    assert changed <= {"ffrecord-1kb", "single-ffrecord-1kb", "drop-in-ffrecord-1kb"}
    assert "ffrecord-1kb" in changed
    assert {name: new[name] for name in ("costs", "scale")} == {name: old[name] for name in ("costs", "scale")}
    assert (tmp_path / tables.PAGE).read_text("utf-8").count("\n| FFRecord, 200 × 1 KB, random") == 3
    assert len(list(tmp_path.glob("*.ffr"))) == 1
