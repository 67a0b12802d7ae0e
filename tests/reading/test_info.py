"""`info` tells what an index knows about damage, and one size of the data."""

from __future__ import annotations

from pathlib import Path

import dataformats
from dataformats.testing.loop_over import loop_over


@loop_over("suffix, cut", [("tfrecord", 30), ("ofrecord", 30), ("ffr", 100), ("tfrecord", 0)])
def test_a_torn_record_is_told(suffix: str, cut: int, tmp_path: Path) -> None:
    """The other file is whole. The header of FFRecord tells where a record begins, and not where the last one ends."""
    paths = [tmp_path / f"{number}.{suffix}" for number in range(2)]
    for path in paths:
        with dataformats.create(path, spec={"data": "bytes"}) as writer:
            writer.extend({"data": bytes(50)} for _ in range(10))
        Path(f"{path}.dataformats.json").unlink(missing_ok=True)
    paths[0].write_bytes(paths[0].read_bytes()[: paths[0].stat().st_size - cut])
    about = dataformats.info(list(map(str, paths)))
    assert about.records == 20
    assert len(about.problems) == bool(cut)
    if cut:
        assert f"record 9 of {str(paths[0])!r}" in about.problems[0]
        assert "past the end of the file" in about.problems[0]
    assert about.to_json()["problems"] == about.problems


def test_a_dataset_of_folders_has_one_size(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x", "granular", spec={"data": "bytes"}, shard_records=2) as writer:
        writer.extend({"data": bytes(50)} for _ in range(5))
    about = dataformats.info(tmp_path / "x")
    report = dataformats.convert(tmp_path / "x", tmp_path / "y", "granular", shard_records=2)
    assert about.nbytes == sum(file.nbytes for file in about.files)
    assert about.nbytes == report.nbytes == dataformats.verify(tmp_path / "x").nbytes
