"""Links in a dataset that lead out of its folder are refused, unless `follow_links` says otherwise."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import dataformats
from dataformats.errors import FormatError
from dataformats.inspecting.verification import verify

GOLDEN = Path(__file__).parents[1] / "golden"
REFUSED = "a link that leads out of its folder"
LINES = '{"x": 1}\n'


def linked(path: Path, private: Path) -> None:
    """Move a file or folder to another place, and leave a link to it."""
    shutil.move(path, private)
    path.symlink_to(private)


@pytest.mark.parametrize(
    ("dataset", "name"),
    [
        ("zarr/v3.zarr", "zarr.json"),
        ("zarr/v3.zarr", "*/c/0*"),
        ("zarr/v3.zarr", "*/c"),
        ("lance/types.lance", "data/*"),
        ("lance/types.lance", "_versions"),
        ("lmdb/folder", "data.mdb"),
        ("litdata/*", "*.bin"),
    ],
)
def test_read_only_formats_refuse_links_out(dataset: str, name: str, tmp_path: Path) -> None:
    pytest.importorskip("lance" if "lance" in dataset else "numpy")
    source = next(path for path in sorted(GOLDEN.glob(dataset)) if path.is_dir() and [*path.glob(name)])
    folder = tmp_path / source.name
    shutil.copytree(source, folder)
    rows = len(dataformats.open(folder))
    linked(next(folder.glob(name)), tmp_path / "private")
    with pytest.raises(FormatError, match=REFUSED):
        dataformats.open(folder)
    assert len(dataformats.open(folder, follow_links=True)) == rows


def test_files_beside_a_file_are_no_links_out(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("int32.bin", "int32.idx"):
        shutil.copy(GOLDEN / "megatron" / name, folder)
    index = folder / "int32.idx"
    linked(index, tmp_path / "private")
    with pytest.raises(FormatError, match=REFUSED):
        dataformats.open(index.with_suffix(".bin"))
    assert len(dataformats.open(index.with_suffix(".bin"), follow_links=True))


def test_named_links_are_opened(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(LINES)
    (tmp_path / "data").mkdir()
    for name in ("0.jsonl", "1.jsonl"):
        (tmp_path / "data" / name).symlink_to("../a.jsonl")
    (tmp_path / "named").symlink_to("data")
    assert len(dataformats.open(sorted((tmp_path / "data").iterdir()))) == 2
    assert len(dataformats.open(tmp_path / "named" / "0.jsonl")) == 1
    assert len(dataformats.open(tmp_path / "*" / "1.jsonl")) == 2  # in the folder before the star
    for path in (tmp_path / "named", tmp_path / "named" / "*.jsonl"):
        with pytest.raises(FormatError, match=REFUSED):
            dataformats.open(path)


def test_links_inside_are_followed_up_to_a_circle(tmp_path: Path) -> None:
    one = tmp_path / "kind=a"
    one.mkdir()
    (one / "0.jsonl").write_text(LINES)
    (one / "1.jsonl").symlink_to("0.jsonl")
    (tmp_path / "kind=b").symlink_to("kind=a")
    assert len(dataformats.open(tmp_path)) == 4
    for name in ("kind=c", "kind=d"):
        (tmp_path / name).symlink_to(".")
    shutil.copytree(GOLDEN / "zarr" / "v3.zarr", tmp_path / "x.zarr")
    (tmp_path / "x.zarr" / "around").symlink_to(".")
    for path in (tmp_path, tmp_path / "x.zarr"):
        with pytest.raises(FormatError, match="lead in a circle"):
            dataformats.open(path)


def test_caches_of_downloads_may_link_to_their_blobs_alone(tmp_path: Path) -> None:
    snapshot = tmp_path / "datasets--a--b" / "snapshots" / "1a2b"
    snapshot.mkdir(parents=True)
    blobs = snapshot.parents[1] / "blobs"
    blobs.mkdir()
    (blobs / "5e6f").write_text(LINES)
    (snapshot / "train.jsonl").symlink_to("../../blobs/5e6f")
    assert len(dataformats.open(snapshot)) == 1
    blobs.rename(tmp_path / "private")
    blobs.symlink_to(tmp_path / "private")
    with pytest.raises(FormatError, match=REFUSED):
        dataformats.open(snapshot)


def test_copies_follow_links_if_asked(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "private").write_text(LINES)
    (tmp_path / "data" / "0.jsonl").symlink_to("../private")
    out = tmp_path / "out.jsonl"
    with pytest.raises(FormatError, match=REFUSED):
        dataformats.convert(tmp_path / "data", out)
    assert not out.exists()
    assert not verify(tmp_path / "data").ok
    assert verify(tmp_path / "data", follow_links=True).ok
    dataformats.convert(tmp_path / "data", out, source_options={"follow_links": True})
    assert out.read_text() == LINES
