"""Every benchmark runs, on a few records and with the peers that are installed."""

from __future__ import annotations

import json
from pathlib import Path

from tests.benchmarks.test_harness import TINY, run


def test_every_case_runs(tmp_path: Path) -> None:
    *names, costs = run("--list", data=tmp_path).stdout.split()
    done = run(*TINY, "--together", "--json", str(tmp_path / "times.json"), data=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "failed" not in done.stdout
    results = json.loads((tmp_path / "times.json").read_text("utf-8"))
    assert [result["name"] for result in results] == names
    assert all(result["title"] in done.stdout for result in results)
    assert costs == "loader-costs"
    assert "Loader, a state" in done.stdout
    ran = [result for result in results if result["seconds"]]
    assert all(len(times) == len(result["scaling"]) for result in ran for times in result["seconds"].values())
    assert {"ffrecord-1kb", "ofrecord-waves", "syrah-open", "index"} <= {result["name"] for result in ran}


def test_the_table_goes_between_the_marks_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n\n<!-- make bench: begin -->\nold\n<!-- make bench: end -->\n\nafter\n", "utf-8")
    for _ in range(2):
        done = run(*TINY, "-k", "ffrecord-1kb", "--markdown", str(page), data=tmp_path)
        assert done.returncode == 0, done.stderr
    text = page.read_text("utf-8")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert text.count("| work |") == 1
    assert len(list(tmp_path.glob("*.ffr"))) == 1
