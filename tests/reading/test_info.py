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


@loop_over("file, format", [("x.tar", "webdataset"), ("x/shard.00000.mds", "mds"), ("x.bin", "megatron")])
def test_record_outside_a_cut_file_is_told(file: str, format: str, tmp_path: Path) -> None:
    """The index tells an extent that the file no longer has; a tar without its end has one record more, the error."""
    path = tmp_path / (Path(file).parts[0])
    with dataformats.create(path, format, spec={"tokens": "int32[]"}) as writer:
        writer.extend({"tokens": [row] * 400} for row in range(1, 6))
    assert dataformats.info(path).problems == ()
    Path(f"{path}.dataformats.json").unlink(missing_ok=True)
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[: content.rindex(bytes([5, 0, 0, 0])) - 40])
    (problem,) = dataformats.info(path).problems
    assert Path(file).name in problem
