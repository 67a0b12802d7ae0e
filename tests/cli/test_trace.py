"""`trace`: the records of a step, from a state in a file."""

from __future__ import annotations

import json
from pathlib import Path

import dataformats
from tests.cases import GOLDEN
from tests.cli.conftest import Run

DIGITS = f"{GOLDEN}/real/digits-*.tfrecord"
STATE = str(GOLDEN / "real" / "state.json")


def test_json_has_place_and_values_of_each_record(run: Run) -> None:
    source = dataformats.open(DIGITS)
    found = run("trace", STATE, "--data", DIGITS, "--step", "3:5", "--fields", "label", "--json")
    records = json.loads(found.out)["records"]
    loader = dataformats.Loader(source, 4, seed=7, world_size=2)
    expected = [one._asdict() for step in (3, 4) for one in loader.trace(step)]
    assert records == [one | {"record": {"label": source[one["index"]]["label"]}} for one in expected]
    lines = run("trace", STATE, "--data", DIGITS, "--step", "3:5", "--fields", "label", "--jsonl").out
    assert [json.loads(line) for line in lines.splitlines()] == records


def test_steps_are_named_by_position_or_from_the_end(run: Run) -> None:
    last = run("trace", STATE, "--data", DIGITS).out
    assert "(step 19, rank 1, position 159, " in last
    assert run("trace", STATE, "--data", DIGITS, "--last", "1").out == last
    assert run("trace", STATE, "--data", DIGITS, "--position", "153").out == last
    assert run("trace", STATE, "--data", DIGITS, "--step", "19").out == last


def test_damaged_records_are_reported(run: Run, tmp_path: Path) -> None:
    data = GOLDEN / "tfrecord" / "corrupt" / "data_bit.tfrecord"
    loader = dataformats.Loader(dataformats.open(data), 5, shuffle=False)
    (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    found = run(
        "trace",
        str(tmp_path / "state.json"),
        "--data",
        str(data),
        "--step",
        "0",
    )
    assert "record 2 (step 0" in found.out
    assert "record 3 (step 0" not in found.out
    assert "record 3" in found.err


def test_wrong_states_are_usage_errors(run: Run, tmp_path: Path) -> None:
    photos = str(GOLDEN / "real" / "photos.tfrecord")
    assert (
        "fingerprint differs"
        in run(
            "trace",
            STATE,
            "--data",
            photos,
        ).err
    )
    (tmp_path / "state.json").write_text("{")
    assert (
        "expected a JSON document"
        in run(
            "trace",
            str(tmp_path / "state.json"),
            "--data",
            DIGITS,
        ).err
    )
    assert (
        "one of --step"
        in run(
            "trace",
            STATE,
            "--data",
            DIGITS,
            "--step",
            "1",
            "--last",
            "2",
        ).err
    )
    mixed = dataformats.Loader(dataformats.mix({"a": range(5), "b": range(4)}, {"a": 1, "b": 1}), 2)
    (tmp_path / "state.json").write_text(json.dumps(mixed.state_dict()))
    assert (
        "Loader.trace"
        in run(
            "trace",
            str(tmp_path / "state.json"),
            "--data",
            DIGITS,
        ).err
    )


def test_skip_list_gets_the_records_of_more_and_more_steps(run: Run, tmp_path: Path) -> None:
    path, source = tmp_path / "skip.json", dataformats.open(DIGITS)
    loader = dataformats.Loader(source, 4, seed=7, world_size=2)
    expected: set[int] = set()
    for step in ("3", "5:7"):
        assert run("trace", STATE, "--data", DIGITS, "--step", step, "--skip-list", str(path)).out
        expected |= {one.index for number in ((3,) if step == "3" else (5, 6)) for one in loader.trace(number)}
        assert json.loads(path.read_text())["records"] == [sorted(expected)]
    again = dataformats.Loader(source, 8, seed=7, skip=path, new_skip=True)
    again.load_state_dict(json.loads(Path(STATE).read_text()))
    assert again.skip_list(sorted(expected)).digest == again.state_dict()["skip_list"]
    (tmp_path / "state.json").write_text(json.dumps(again.state_dict()))
    assert run("trace", str(tmp_path / "state.json"), "--data", DIGITS, "--step", "19").out
    path.write_text("{}")
    found = run("trace", STATE, "--data", DIGITS, "--skip-list", str(path))
    assert "expected a skip list of version 1" in found.err
