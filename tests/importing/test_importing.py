"""Conversions from files of other programs: tables, tar files, folders of images."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dataformats
from dataformats import register_backend
from dataformats.errors import CodecError, DataFormatsError, FormatError, SpecError, TruncatedError
from dataformats.importing import import_source
from dataformats.registry import backends
from tests.contract.rows_format import Rows

N = 50


def imported(path: Any, **options: Any) -> dataformats.RecordSource:
    source = import_source(path, options)
    assert source is not None
    return source


def pixels(i: int) -> Any:
    return np.full((4, 3, 3), i, np.uint8)


def png(i: int) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels(i)).save(stream, "PNG")
    return stream.getvalue()


# ---- tables


def rows() -> list[dict[str, Any]]:
    return [
        {"n": i, "text": f"é{i}", "maybe": i if i % 3 else None, "doc": {"a": [i]}, "seq": [i, 1]} for i in range(N)
    ]


def write_parquet(path: Path, table: Any) -> None:
    from pyarrow import parquet

    parquet.write_table(table, path, row_group_size=7)


def write_ipc(path: Path, table: Any) -> None:
    import pyarrow

    with pyarrow.ipc.new_file(str(path), table.schema) as out:
        out.write_table(table, max_chunksize=7)


def write_ipc_stream(path: Path, table: Any) -> None:
    import pyarrow

    with pyarrow.ipc.new_stream(str(path), table.schema) as out:
        out.write_table(table)


def write_json(path: Path, table: Any) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()), "utf-8")


TABLES: dict[str, Callable[[Path, Any], None]] = {
    "x.parquet": write_parquet,
    "x.arrow": write_ipc,
    "x.feather": write_ipc_stream,
    "x.jsonl": write_json,
}


@pytest.fixture
def table() -> Any:
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    return arrow.Table.from_pylist(rows())


@pytest.mark.parametrize("name", TABLES)
def test_tables(name: str, table: Any, tmp_path: Path) -> None:
    TABLES[name](tmp_path / name, table)
    source = imported(tmp_path / name)
    assert source.spec == {"n": "int64", "text": "utf8", "maybe": "int64?", "doc": "json", "seq": "int64[]"}
    assert len(source) == N
    for again in (source, pickle.loads(pickle.dumps(source)), source.take(range(N))):
        order = [30, 5, 5, 49, 0, 6, 7]
        batch = again.read(order)
        assert batch["n"].tolist() == order
        assert [record.get("maybe") for record in batch] == [rows()[i]["maybe"] for i in order]
        assert batch[3]["doc"] == {"a": [49]}
        assert batch[3]["seq"].tolist() == [49, 1]
    report = dataformats.convert(tmp_path / name, tmp_path / "y.ffr")
    assert report.records == N
    assert dataformats.verify(tmp_path / "y.ffr", against=tmp_path / name).ok


def test_csv(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    (tmp_path / "x.csv").write_text('name,n,x\n"a, b",1,0.5\nc,2,\n', "utf-8")
    (tmp_path / "y.tsv").write_text("name\tn\ntab\t3\n", "utf-8")
    assert list(imported(tmp_path / "x.csv")) == [{"name": "a, b", "n": 1, "x": 0.5}, {"name": "c", "n": 2}]
    assert list(imported(tmp_path / "y.tsv")) == [{"name": "tab", "n": 3}]


def test_text_and_bytes_take_the_types_of_the_new_data(table: Any, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")
    image = {"bytes": png(1), "path": None}
    write_parquet(tmp_path / "x.parquet", arrow.table({"image": [image] * 3, "doc": ['{"a": 1}', "[2]", "3"]}))
    spec = {"image": "png", "doc": "json"}
    dataformats.convert(tmp_path / "x.parquet", tmp_path / "x.tfrecord", spec=spec)
    found = dataformats.open(tmp_path / "x.tfrecord")
    assert [record["doc"] for record in found] == [{"a": 1}, [2], 3]
    assert np.array_equal(found[2]["image"], pixels(1))
    assert found.with_spec({**spec, "image": "bytes"})[0]["image"] == png(1)
    with pytest.raises(CodecError, match=r"record 0 of .*x\.parquet.*JPEG"):
        imported(tmp_path / "x.parquet", spec={"image": "jpg"})[0]


def test_several_tables_are_one_dataset(table: Any, tmp_path: Path) -> None:
    for number in range(3):
        write_parquet(tmp_path / f"part-{number}.parquet", table)
    for path in (tmp_path, tmp_path / "part-*.parquet", [tmp_path / f"part-{number}.parquet" for number in range(3)]):
        assert len(imported(path)) == 3 * N
    assert imported(tmp_path).origin(2 * N) == (str(tmp_path / "part-2.parquet"), 2 * N)
    write_parquet(tmp_path / "part-3.parquet", table.select(["n"]))
    with pytest.raises(SpecError, match="different schemas"):
        imported(tmp_path)


@pytest.mark.parametrize("name", TABLES)
def test_damaged_tables(name: str, table: Any, tmp_path: Path) -> None:
    TABLES[name](tmp_path / name, table)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2] + b"\0" * 8)
    with pytest.raises(FormatError, match=name):
        list(imported(tmp_path / name))


def test_a_parquet_column_of_another_type_than_the_schema(table: Any, tmp_path: Path) -> None:
    """pyarrow ends the process if the statistics of such a column are asked for."""
    path = tmp_path / "x.parquet"
    write_parquet(path, table)
    whole = path.read_bytes()
    byte_array, unknown = b"\x15\x0c\x19", b"\x15\x10\x19"  # Thrift: the type of a column, then its encodings
    assert byte_array in whole
    path.write_bytes(whole.replace(byte_array, unknown))
    with pytest.raises(FormatError, match="other types than the schema"):
        imported(path)


# ---- tar files


def write_tar(path: Path, members: dict[str, bytes]) -> None:
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, data in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))


def members(first: int) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for i in range(first, first + 5):
        found |= {
            f"train/{i:04d}.png": png(i),
            f"train/{i:04d}.cls": b"%d" % i,
            f"train/{i:04d}.json": b'{"i": %d}' % i,
        }
        found |= {f"train/{i:04d}.seg.txt": b"text"} if i % 2 else {}
    return found


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz"])
def test_tar_files(suffix: str, tmp_path: Path) -> None:
    for number in range(2):
        write_tar(tmp_path / f"train-{number}{suffix}", members(5 * number))
    source = imported(tmp_path / f"train-*{suffix}")
    assert source.spec == {"png": "png", "cls": "int64", "json": "json", "seg.txt": "utf8?", "__key__": "utf8"}
    batch = source.read([7, 0, 7])
    assert batch["cls"].tolist() == [7, 0, 7]
    assert np.array_equal(batch["png"][0], pixels(7))
    assert batch[0] == {**batch[2], "png": batch[0]["png"]}
    assert (batch[0]["__key__"], batch[0]["seg.txt"]) == ("train/0007", "text")
    assert "seg.txt" not in batch[1]
    report = dataformats.convert(
        tmp_path / f"train-*{suffix}", tmp_path / "x.tfrecord", fields=["png", "cls"], rename={"cls": "label"}
    )
    assert report.records == 10
    found = dataformats.open(tmp_path / "x.tfrecord", spec={"png": "bytes", "label": "int64"})
    assert found[7] == {"png": png(7), "label": 7}  # copied, not encoded again


def test_damaged_tar_files(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    write_tar(path, members(0))
    whole = path.read_bytes()
    for size in (0, 100, 700, 3000):
        path.write_bytes(whole[:size])
        with pytest.raises(FormatError, match=r"x\.tar"):
            list(imported(path))
    write_tar(path, {"a.txt": b"1", "b.txt": b"2"})
    path.write_bytes(path.read_bytes()[:1024])  # the first member, and nothing that says there was another
    with pytest.raises(TruncatedError, match="zeros behind the last member"):
        imported(path)
    for member, message in (("a.__key__", "a field of its own"), ("\udcff.txt", "not UTF-8"), ("a.cls", "of 64 bits")):
        write_tar(path, {member: str(2**63).encode()})
        with pytest.raises(DataFormatsError, match=message):
            list(imported(path))
    write_tar(path, {"a.cls": b"one", "b.cls": b"2"})
    with pytest.raises(DataFormatsError, match=r"record 0 of .*x\.tar.*field 'cls'.*digits"):
        list(imported(path))
    omitted = imported(path).read([0, 1], on_corrupt="omit")
    assert (omitted["cls"].tolist(), list(omitted.failed)) == ([2], [0])
    write_tar(path, {"a.png": png(0), "b.cls": b"1", "a.cls": b"2", "b.png": png(1)})
    assert len(imported(path)) == 4  # only neighbors are a record


# ---- folders of images


def write_images(folder: Path) -> None:
    for label in ("cat", "dog"):
        (folder / label / "more").mkdir(parents=True)
        for i in range(3):
            (folder / label / f"{i}.png").write_bytes(png(i))
        (folder / label / "more" / "9.png").write_bytes(png(9))
    (folder / "notes.txt").write_text("not an image", "utf-8")


def test_folders_of_images(tmp_path: Path) -> None:
    write_images(tmp_path / "photos")
    source = imported(tmp_path / "photos")
    assert source.spec == {"image": "png", "path": "utf8", "label": "int64", "label_name": "utf8"}
    assert source.read(range(8))["label"].tolist() == [0] * 4 + [1] * 4
    assert {**source[7], "image": None} == {"image": None, "path": "dog/more/9.png", "label": 1, "label_name": "dog"}
    target = tmp_path / "y"
    report = dataformats.convert(tmp_path / "photos", target, "ffrecord", shard_records=3, shuffle_seed=1)
    assert (report.records, report.files) == (8, 3)
    found = dataformats.open(target)
    assert sorted(record["path"] for record in found) == sorted(record["path"] for record in source)
    assert all(np.array_equal(record["image"], pixels(int(Path(record["path"]).stem))) for record in found)


def test_a_folder_without_labels(tmp_path: Path) -> None:
    for i in (10, 2):
        (tmp_path / f"{i}.png").write_bytes(png(i))
    assert [record["path"] for record in imported(tmp_path)] == ["2.png", "10.png"]
    (tmp_path / "3.jpg").write_bytes(b"not checked")
    assert imported(tmp_path).spec == {"image": "bytes", "path": "utf8"}
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.png").write_bytes(png(1))
    with pytest.raises(FormatError, match="beside folders of images"):
        imported(tmp_path)


def test_folders_behind_urls(table: Any, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    write_images(tmp_path / "photos")
    for number in (2, 10):
        (tmp_path / "rows.parquet").mkdir(exist_ok=True)
        write_parquet(tmp_path / "rows.parquet" / f"{number}.parquet", table.slice(number))
        (tmp_path / "rows.parquet" / "_SUCCESS").write_bytes(b"")  # Spark leaves it
    write_tar(tmp_path / "train" / "0.tar", members(0))
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path), "/folders", recursive=True)
    try:
        for name in ("photos", "rows.parquet", "rows.parquet/*.parquet", "train"):
            expected = imported(tmp_path / name)
            found = imported(f"memory://folders/{name}")
            assert found.spec == expected.spec
            assert found.fingerprint == expected.fingerprint
            assert str(list(found)) == str(list(expected))
        assert list(imported("memory://folders/photos").read(range(8))["path"])[3] == "cat/more/9.png"
    finally:
        memory.rm("/folders", recursive=True)


def test_conversions_resume_and_try(tmp_path: Path) -> None:
    write_images(tmp_path / "photos")
    options: dict[str, Any] = {"format": "tfrecord", "shard_records": 2}
    assert dataformats.convert(tmp_path / "photos", tmp_path / "y", **options, dry_run=True).records == 8
    assert not (tmp_path / "y").exists()

    def stop(done: int, total: int) -> None:
        if done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dataformats.convert(tmp_path / "photos", tmp_path / "y", **options, progress=stop)
    report = dataformats.convert(tmp_path / "photos", tmp_path / "y", **options, resume=True)
    assert report.records == 8
    assert report.resumed >= 2
    assert dataformats.verify(tmp_path / "y", against=tmp_path / "photos").ok


def test_other_paths_are_not_imported(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with dataformats.create(tmp_path / "data" / "x.ffr") as out:
        out.append(b"")
    assert import_source(tmp_path / "data", {}) is None
    assert import_source(tmp_path / "data" / "x.ffr", {}) is None
    assert import_source(tmp_path / "x.tar", {"format": "ffrecord"}) is None
    with pytest.raises(FileNotFoundError):
        import_source(tmp_path / "x.tar", {})


def test_an_installed_backend_comes_before_an_importer(tmp_path: Path) -> None:
    """By its suffix, or under another name by its magic number."""
    for suffixes in ((".tar",), ()):
        backend = type("Installed", (Rows,), {"suffixes": suffixes})()
        register_backend(backend, replace=True)
        try:
            with dataformats.create(tmp_path / "x.tar", "rows", spec={"n": "int64"}, overwrite=True) as out:
                out.append({"n": 7})
            dataformats.convert(tmp_path / "x.tar", tmp_path / "y.ffr", overwrite=True)
            assert dataformats.open(tmp_path / "y.ffr")[0] == {"n": 7}
            assert import_source([tmp_path / "x.tar", tmp_path / "x.tar"], {}) is None
        finally:
            del backends._objects["rows"]
