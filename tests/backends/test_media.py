"""Folders of media: as torchvision and Hugging Face read them, and written."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dataformats
from dataformats.errors import CodecError, DataFormatsError, FormatError, SpecError, TargetExistsError
from dataformats.testing.loop_over import loop_over


def pixels(i: int) -> Any:
    return np.full((4, 3, 3), i, np.uint8)


def encoded(i: int, kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels(i)).save(stream, kind)
    return stream.getvalue()


def write_images(folder: Path, labels: Any = ("cat", "dog")) -> Path:
    for label in labels:
        (folder / label / "more").mkdir(parents=True)
        for i in range(3):
            (folder / label / f"{i}.png").write_bytes(encoded(i))
        (folder / label / "more" / "9.png").write_bytes(encoded(9))
    (folder / "notes.txt").write_text("not an image", "utf-8")
    return folder


def test_folders_of_labels(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "photos")
    source = dataformats.open(folder)
    assert source.format == "images"
    assert source.spec == {"image": "png", "path": "utf8", "label": "int64", "label_name": "utf8"}
    assert source.spec["label"].class_names == ("cat", "dog")
    assert source.read(range(8))["label"].tolist() == [0] * 4 + [1] * 4
    assert {**source[7], "image": None} == {"image": None, "path": "dog/more/9.png", "label": 1, "label_name": "dog"}
    assert source.origins([7]) == [(str(folder / "dog" / "more" / "9.png"), 7, -1)]
    assert len(pickle.dumps(source)) < 1000
    assert pickle.loads(pickle.dumps(source)).fingerprint == source.fingerprint
    assert dataformats.verify(folder).ok
    assert dataformats.open(folder, spec={"image": "bytes"})[3] == {**source[3], "image": encoded(9)}


def test_links_in_a_circle_are_ignored(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "photos")
    (folder / "cat" / "around").symlink_to("around")
    (folder / "round.png").symlink_to("round.png")
    assert len(dataformats.open(folder)) == 8


def test_linked_folder_is_a_label_of_its_name(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "photos")
    (folder / "bird").symlink_to(folder / "dog")
    batch = dataformats.open(folder).read([0, 3, 4])
    assert list(batch["path"]) == ["bird/0.png", "bird/more/9.png", "cat/0.png"]
    assert list(batch["label_name"]) == ["bird", "bird", "cat"]


def test_a_folder_without_labels(tmp_path: Path) -> None:
    for i in (10, 2):
        (tmp_path / f"{i}.png").write_bytes(encoded(i))
    assert [record["path"] for record in dataformats.open(tmp_path)] == ["10.png", "2.png"]
    (tmp_path / "3.JPG").write_bytes(encoded(3, "JPEG"))
    assert dataformats.open(tmp_path).spec == {"image": "bytes", "path": "utf8"}
    assert len(dataformats.open(str(tmp_path / "*.png"))) == 2
    assert dataformats.open(tmp_path / "2.png")[0]["path"] == "2.png"
    (tmp_path / "cat").mkdir()
    assert len(dataformats.open(tmp_path)) == 3  # an empty folder is no label
    (tmp_path / "cat" / "1.png").write_bytes(encoded(1))
    with pytest.raises(FormatError, match="beside folders of images"):
        dataformats.open(tmp_path)


def test_splits_are_no_labels(tmp_path: Path) -> None:
    for split in ("train", "val"):
        (write_images(tmp_path / split) / "notes.txt").unlink()
    with pytest.raises(FormatError, match=r"several splits.*'train', 'val'.*Pass split='val', or another one"):
        dataformats.open(tmp_path)
    assert [dataformats.open(tmp_path, split=split)[0]["label_name"] for split in ("train", "val")] == ["cat", "cat"]
    assert len(dataformats.open(tmp_path / "val")) == 8


def test_note_on_numbers_as_class_names(tmp_path: Path) -> None:
    for number in ("0", "1"):
        write_flat(tmp_path / number, 1)
    assert dataformats.info(tmp_path).notes == ()
    write_flat(tmp_path / "10", 1)
    write_flat(tmp_path / "2", 1)
    expected = "field 'label' counts the classes in the order of their names: 2 is the class '10'"
    assert dataformats.info(tmp_path).notes == (expected,)
    dataformats.convert(tmp_path, tmp_path / "x.tfrecord")
    assert expected in dataformats.info(tmp_path / "x.tfrecord").notes


def test_labels_equal_torchvision(tmp_path: Path) -> None:
    datasets = pytest.importorskip("torchvision.datasets", reason="torchvision is not installed")
    folder = write_images(tmp_path / "photos", [*map(str, range(12)), "a-b", "a", "Z"])
    theirs = datasets.ImageFolder(folder)
    ours = dataformats.open(folder)
    batch = ours.read(range(len(ours)), ["path", "label"])
    assert [
        (str(folder / path), label) for path, label in zip(batch["path"], batch["label"].tolist(), strict=True)
    ] == [(path, label) for path, label in theirs.samples]
    dataformats.convert(folder, tmp_path / "new", "images")
    assert [label for _, label in datasets.ImageFolder(tmp_path / "new").samples] == batch["label"].tolist()


def test_other_datasets_come_first(tmp_path: Path) -> None:
    write_images(tmp_path / "data" / "plots")
    with dataformats.create(tmp_path / "data" / "train" / "x.tfrecord", "tfrecord") as writer:
        writer.append(b"1")
    with pytest.raises(FormatError, match="folders in it do"):
        dataformats.open(tmp_path / "data")
    (tmp_path / "data" / "train" / "plot.png").write_bytes(encoded(1))
    assert dataformats.open(tmp_path / "data" / "train").format == "tfrecord"
    assert dataformats.open(tmp_path / "data" / "train", format="images").format == "images"


def test_a_table_beside_folders_of_labels_is_ambiguous(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "photos")
    (folder / "labels.csv").write_text("name,label\n0.png,3\n")
    with pytest.raises(FormatError, match=r"several formats: found csv: .*; images: ") as raised:
        dataformats.open(folder)
    assert "format='images'" in str(raised.value)
    assert len(dataformats.open(folder, format="csv")) == 1
    (note,) = dataformats.info(folder, format="images").notes
    assert "1 files beside the media are not read, such as 'labels.csv'" in note


def test_a_table_beside_one_folder_of_images_comes_first(tmp_path: Path) -> None:
    for split in ("train2017", "val2017"):
        (tmp_path / "images" / split).mkdir(parents=True)
        (tmp_path / "images" / split / "0.png").write_bytes(encoded(0))
    (tmp_path / "train.jsonl").write_text('{"image": "images/train2017/0.png"}\n')
    assert dataformats.open(tmp_path).format == "jsonl"


@loop_over("fields", [["image", "path"], ["image", "label_name"], ["image", "label"], ["image"]])
def test_written_folders(fields: list[str], tmp_path: Path) -> None:
    source = dataformats.open(write_images(tmp_path / "photos"))
    dataformats.convert(source.select(fields), tmp_path / "records.tfrecord")
    report = dataformats.convert(tmp_path / "records.tfrecord", tmp_path / "new", "images")
    assert report.records == 8
    found = dataformats.open(tmp_path / "new")
    for one, other in zip(found, source, strict=True):
        assert np.array_equal(one["image"], other["image"])
        assert {name: one.get(name) for name in fields[1:]} == {name: other[name] for name in fields[1:]}
    assert dataformats.verify(tmp_path / "new").ok
    stored = dataformats.open(tmp_path / "new", spec={"image": "bytes"})
    assert stored[3]["image"] == encoded(9)  # copied, not encoded again
    if fields == ["image", "label_name"]:
        assert sorted(os.listdir(tmp_path / "new" / "dog")) == [f"{number:08d}.png" for number in range(4, 8)]


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with dataformats.create("x", "images", spec={"image": "bytes"}) as writer:
        writer.append({"image": encoded(0)})
    assert len(dataformats.open("x")) == 1
    assert dataformats.verify("x").ok


def test_arrays_are_encoded(tmp_path: Path) -> None:
    for kind, ending in (("uint8[4,3,3]", ".png"), ("jpg(95)", ".jpg"), ("bytes", ".webp")):
        with dataformats.create(tmp_path / ending[1:], "images", spec={"image": kind, "label": "int64"}) as writer:
            writer.append({"image": encoded(7, "WEBP") if kind == "bytes" else pixels(7), "label": 0})
        assert os.listdir(tmp_path / ending[1:] / "000000") == [f"00000000{ending}"]
        assert dataformats.open(tmp_path / ending[1:]).select("image")[0]["image"] is not None


def test_labels_with_gaps_are_an_error(tmp_path: Path) -> None:
    spec = {"image": "png", "label": "int64"}
    with (
        pytest.raises(SpecError, match=r"no image has the label 1, so readers would read 3 as 1.*label_name"),
        dataformats.create(tmp_path / "x", "images", spec=spec) as writer,
    ):
        writer.extend({"image": pixels(label), "label": label} for label in (0, 7, 3))
    assert not (tmp_path / "x").exists()
    with dataformats.create(tmp_path / "x", "images", spec=spec) as writer:
        writer.extend({"image": pixels(label), "label": label} for label in (2, 0, 1, 2))
    assert dataformats.open(tmp_path / "x").read(range(4))["label"].tolist() == [0, 1, 2, 2]


def test_refused_records(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"field 'png'.*rename"):
        dataformats.create(tmp_path / "x", "images", spec={"png": "png"})
    with pytest.raises(SpecError, match=r"the name of a folder of images, found 'x\.png'"):
        dataformats.create(tmp_path / "x.png", "images", spec={"image": "png"})
    with pytest.raises(SpecError, match="has no shards"):
        dataformats.create(tmp_path / "x", "images", spec={"image": "png"}, shard_records=2)
    spec = {"image": "bytes", "path": "utf8"}
    with dataformats.create(tmp_path / "x", "images", spec=spec) as writer:
        writer.append({"image": encoded(1), "path": "a/1.png"})
        for path in ("../1.png", "/1.png", "a/../1.png", "a/.1.png", "a/1.txt", "", "a//1.png", "a/1.png"):
            with pytest.raises(SpecError, match="field 'path'"):
                writer.append({"image": encoded(1), "path": path})
    assert len(dataformats.open(tmp_path / "x")) == 1
    with dataformats.create(tmp_path / "y", "images", spec={"image": "bytes", "label_name": "utf8"}) as writer:
        for image, name in ((b"text", "a"), (encoded(1), "../a"), (encoded(1), ".a"), (encoded(1), "")):
            with pytest.raises(SpecError):
                writer.append({"image": image, "label_name": name})
        writer.append({"image": encoded(1), "label_name": "a"})
    with dataformats.create(tmp_path / "z", "images", spec=spec | {"label_name": "utf8"}) as writer:
        for path in ("b/1.png", "1.png"):
            with pytest.raises(SpecError, match="in the folder of its label 'a'"):
                writer.append({"image": encoded(1), "path": path, "label_name": "a"})
        writer.append({"image": encoded(1), "path": "a/b/1.png", "label_name": "a"})


def test_damaged_images(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "photos")
    (folder / "cat" / "0.png").write_bytes(b"not an image")
    source = dataformats.open(folder)
    before = source.fingerprint
    batch = source.read(range(8), ["label"])
    assert len(batch) == 8
    with pytest.raises(DataFormatsError, match=r"0\.png"):
        source[0]
    assert len(dataformats.verify(folder).findings) == 1
    (folder / "dog" / "1.png").write_bytes(encoded(1)[:-1])
    with pytest.raises(FormatError, match="replaced or changed"):
        source[5]
    assert dataformats.open(folder).fingerprint != before


def test_folders_behind_urls(tmp_path: Path) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    expected = dataformats.open(write_images(tmp_path / "photos"))
    memory.put(str(tmp_path), "/images", recursive=True)
    try:
        found = dataformats.open("memory://images/photos")
        assert found.fingerprint == expected.fingerprint
        assert str(list(found)) == str(list(expected))
    finally:
        memory.rm("/images", recursive=True)


@loop_over("left", ["zeros", "nothing", "no journal"])
def test_images_damaged_by_a_power_loss_are_written_again(left: str, tmp_path: Path) -> None:
    """Unsynced images have their names, and other bytes or none."""
    spec = {"image": "png", "path": "utf8"}
    rows = [{"image": encoded(i), "path": f"{'ab'[i % 2]}/{i}.png"} for i in range(6)]
    writer = dataformats.create(tmp_path / "x", "images", spec=spec, resume=True)
    writer.extend(rows)
    writer.abort()
    damaged = tmp_path / "x.partial" / "a" / "2.png"
    if left == "no journal":
        (tmp_path / "x.partial.journal").unlink()
    else:
        damaged.write_bytes(bytes(damaged.stat().st_size) if left == "zeros" else b"")
    with dataformats.create(tmp_path / "x", "images", spec=spec, resume=True) as writer:
        assert len(writer) == (6 if left == "no journal" else 2)
        writer.extend(rows[len(writer) :])
    found = dataformats.open(tmp_path / "x", spec={"image": "bytes", "path": "utf8"})
    assert {one["path"]: one["image"] for one in found} == {row["path"]: row["image"] for row in rows}
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_an_interrupted_writer_resumes(tmp_path: Path) -> None:
    spec = {"image": "png", "label_name": "utf8"}
    records = [{"image": pixels(i), "label_name": "ab"[i % 2]} for i in range(6)]
    writer = dataformats.create(tmp_path / "x", "images", spec=spec, resume=True)
    writer.extend(records[:4])
    writer.abort()
    assert not (tmp_path / "x").exists()
    with dataformats.create(tmp_path / "x", "images", spec=spec, resume=True) as writer:
        assert len(writer) == 4
        writer.extend(records[len(writer) :])
    found = dataformats.open(tmp_path / "x")
    assert [int(record["image"][0, 0, 0]) for record in found] == [0, 2, 4, 1, 3, 5]


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


def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path) -> None:
    spec = {"image": "png", "path": "utf8"}
    with dataformats.create(tmp_path / "x", "images", spec=spec) as out:
        out.append({"image": encoded(1), "path": "a/b.png"})
    (tmp_path / "x" / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(TargetExistsError, match="is not replaced"):
        dataformats.create(tmp_path / "x", "images", spec=spec, overwrite=True)
    assert (tmp_path / "x" / "notes.txt").exists()
    assert len(dataformats.open(tmp_path / "x")) == 1


@pytest.mark.parametrize("path", ["a\0.png", "a.png/b.png"])
def test_paths_no_file_can_have(path: str, tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x", "images", spec={"image": "png", "path": "utf8"}) as out:
        out.append({"image": encoded(1), "path": "a.png"})
        with pytest.raises(SpecError, match="field 'path'"):
            out.append({"image": encoded(1), "path": path})


def write_texts(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def write_flat(folder: Path, n: int = 3) -> Path:
    folder.mkdir(parents=True)
    for i in range(n):
        (folder / f"{i}.png").write_bytes(encoded(i))
    return folder


def test_captions_beside_images_are_fields(tmp_path: Path) -> None:
    folder = write_flat(tmp_path / "photos")
    write_texts(folder, {"0.txt": "zero", "2.txt": "two"} | {f"{i}.json": f'{{"id": {i}}}' for i in range(3)})
    write_texts(folder, {"._1.txt": "hidden", "__MACOSX/1.png": "", "README.md": "about"})
    for source in (dataformats.open(folder), dataformats.open(str(folder / "*.png"))):
        assert source.spec == {"image": "png", "path": "utf8", "json": "json", "txt": "utf8?"}
        assert [record.get("txt") for record in source] == ["zero", None, "two"]
        assert source.read([2, 0], ["json"])["json"] == [{"id": 2}, {"id": 0}]
    with dataformats.Loader(source.select("txt", "json"), 1, seed=1, collate=lambda records: {"r": records}) as loader:
        found = [record["r"][0] for record in loader]
    assert sorted(record.get("txt", "") for record in found) == ["", "two", "zero"]
    assert pickle.loads(pickle.dumps(source))[2]["txt"] == "two"
    dataformats.convert(folder, tmp_path / "x.ffr", fields=["image", "json"])
    assert dataformats.open(tmp_path / "x.ffr")[2]["json"] == {"id": 2}
    before = dataformats.open(folder).fingerprint
    (folder / "1.txt").write_text("one", "utf-8")
    assert dataformats.open(folder).fingerprint != before
    (folder / "5.txt").write_text("no image", "utf-8")
    with pytest.warns(UserWarning, match=r"1 files beside the media are not read, such as '5\.txt'"):
        dataformats.open(folder)


@loop_over("ending", ["csv", "jsonl", "parquet"])
def test_metadata_is_joined_by_file_name(ending: str, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import csv, parquet

    folder = write_images(tmp_path / "photos")
    rows = [
        {"file_name": f"{label}/{i}.png", "text": f"{label} {i}", "n": i} for label in ("dog", "cat") for i in (2, 0)
    ]
    table, path = arrow.Table.from_pylist([*rows, {"file_name": "gone.png", "text": "", "n": 7}]), folder / "metadata"
    if ending == "jsonl":
        path.with_suffix(".jsonl").write_text("\n".join(map(json.dumps, table.to_pylist())), "utf-8")
    else:
        {"csv": csv.write_csv, "parquet": parquet.write_table}[ending](table, path.with_suffix(f".{ending}"))
    with pytest.warns(UserWarning, match="metadata") as raised:
        source = dataformats.open(folder)
    assert "1 entries of 'metadata." in str(raised[0].message)
    assert "4 files have no entry in the metadata, such as 'cat/1.png'" in str(raised[1].message)
    assert {name: str(source.spec[name]) for name in ("text", "n", "label")} == {
        "text": "utf8?", "n": "int64?", "label": "int64"
    }  # fmt: skip
    assert {record["path"]: (record["text"], record["n"]) for record in source if "n" in record} == {
        row["file_name"]: (row["text"], row["n"]) for row in rows
    }
    assert len(dataformats.verify(folder).findings) == 2


def test_label_of_metadata_replaces_folders(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "photos", ["a"])
    names = "a/0.png", "a/1.png", "a/2.png", "a/more/9.png"
    lines = "".join(json.dumps({"file_name": name, "label": [name]}) + "\n" for name in names)
    (folder / "metadata.jsonl").write_text(lines)
    source = dataformats.open(folder)
    assert source.spec == {"image": "png", "path": "utf8", "label": "json"}
    assert source[3]["label"] == ["a/more/9.png"]
    (folder / "metadata.jsonl").write_text('{"file_name": "a/0.png", "image": 1}\n')
    with pytest.raises(FormatError, match="the field 'image', which they have already"):
        dataformats.open(folder)


def test_boxes_of_yolo(tmp_path: Path) -> None:
    folder = write_flat(tmp_path / "data" / "images").parent
    write_texts(folder, {"labels/0.txt": "1 0.5 0.5 0.25 1\n0 0 0 1 1\n", "labels/1.txt": "", "data.yaml": "nc: 2"})
    source = dataformats.open(folder)
    assert source.spec == {"image": "png", "path": "utf8", "class": "int64[]", "boxes": "float32[][4]"}
    assert [record["class"].tolist() for record in source] == [[1, 0], [], []]
    assert source[0]["boxes"].tolist() == [[0.5, 0.5, 0.25, 1], [0, 0, 1, 1]]
    assert dataformats.verify(folder).ok
    (folder / "labels" / "2.txt").write_text("1 0.5 0.5 0.5\n")
    damaged = dataformats.open(folder)
    with pytest.raises(FormatError, match="a class and four numbers"):
        damaged[2]
    assert len(damaged.read([0, 1], ["boxes"])) == 2
    assert len(dataformats.verify(folder).findings) == 1
    for line, found in (
        ("1 .1 .1 .4 .1 .4 .6", "7 numbers, as of a polygon. To go without"),
        ("1.5 0 0 1 1", "no integer"),
    ):
        (folder / "labels" / "2.txt").write_text(f"0 0 0 1 1\n{line}\n")
        with pytest.raises(FormatError, match=found):
            dataformats.open(folder)[2]
    assert "boxes" not in dataformats.open(folder).select("image")[2]


@loop_over(
    "classes",
    [
        ("data.yaml", "path: .\nnames: ['cat', \"dog\", 'a b']  # three\nnc: 3\n"),
        ("data.yaml", "nc: 3\nnames:\n  0: cat\n  1: dog # it\n\n  2: 'a b'\ntrain: images\n"),
        ("data.yaml", "names: # all\n- cat\n- dog\n- a b\nnc: 3"),
        ("data.yaml", "names: {0: cat, 1: dog,\n  2: a b}"),
        ("data.yaml", 'train: images\nnames: [cat, "red, light", no]\n'),
        ("classes.txt", "cat\ndog\na b\n"),
        ("obj.names", "cat\ndog\na b"),
        ("labels/classes.txt", "cat\ndog\na b"),
    ],
)
def test_class_names_of_yolo(classes: Any, tmp_path: Path) -> None:
    name, text = classes
    for split in ("train", "val"):
        write_flat(tmp_path / "x" / "images" / split)
        write_texts(tmp_path / "x", {f"labels/{split}/0.txt": "2 0.5 0.5 1 1", name: text})
        write_flat(tmp_path / "y" / split / "images")
        write_texts(tmp_path / "y" / split, {"labels/0.txt": "2 0.5 0.5 1 1", f"../{name.rpartition('/')[2]}": text})
    for path in (tmp_path / "x" / "images" / "val", tmp_path / "y" / "train"):
        source = dataformats.open(path)
        expected = ("cat", "red, light", "no") if "light" in text else ("cat", "dog", "a b")
        assert source.spec["class"].class_names == expected
        assert dataformats.info(path).notes == ()
        dataformats.convert(path, tmp_path / "z.parquet", overwrite=True)
        assert dataformats.open(tmp_path / "z.parquet").spec["class"].class_names == expected
    (tmp_path / "x" / name).write_text("names: 3\n" if name == "data.yaml" else "cat\ncat")
    assert dataformats.open(tmp_path / "x" / "images" / "val").spec["class"].class_names == ()


@pytest.mark.parametrize("is_missing", [True, False])
def test_unread_class_names_of_yolo(is_missing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_flat(tmp_path / "x" / "images").parent
    write_texts(folder, {"labels/0.txt": "0 0 0 1 1", "data.yaml": "names: [cat]" if is_missing else "names: [cat"})
    if is_missing:
        monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.warns(UserWarning, match="install PyYAML" if is_missing else "is damaged"):
        source = dataformats.open(folder)
    assert source.spec["class"].class_names == ()


def test_boxes_of_yolo_beside_images_in_one_folder(tmp_path: Path) -> None:
    write_texts(write_flat(tmp_path / "x"), {"labels/1.txt": "7 0.5 0.5 1 1"})
    assert [record["class"].tolist() for record in dataformats.open(tmp_path / "x")] == [[], [7], []]


def test_boxes_of_yolo_by_split(tmp_path: Path) -> None:
    for split in ("train", "val"):
        write_flat(tmp_path / "images" / split)
        write_texts(tmp_path, {f"labels/{split}/2.txt": "7 0.5 0.5 1 1"})
    with pytest.raises(
        FormatError, match=r"several splits: found \['train', 'val'\]. Open one of them, such as '.*/val'"
    ):
        dataformats.open(tmp_path)
    for source in (dataformats.open(tmp_path / "images" / "val"), dataformats.open(tmp_path / "images", split="val")):
        assert [record["class"].tolist() for record in source] == [[], [], [7]]


def test_boxes_of_coco(tmp_path: Path) -> None:
    folder = write_flat(tmp_path / "data" / "val2017").parent
    box = {"image_id": 7, "bbox": [1, 2, 3.5, 4], "category_id": 90}
    names = [{"id": 90, "name": "toothbrush"}, {"id": 1, "name": "person", "supercategory": "person"}]
    document = {
        "categories": names,
        "images": [{"id": 7 - i, "file_name": f"{i}.png"} for i in range(3)],
        "annotations": [box, box],
    }
    (folder / "annotations").mkdir()
    (folder / "annotations" / "instances_val2017.json").write_text(json.dumps(document))
    source = dataformats.open(folder)
    assert [record["class"].tolist() for record in source] == [[90, 90], [], []]
    assert source.spec["class"].class_names[:3] + source.spec["class"].class_names[89:] == (
        "0", "person", "2", "89", "toothbrush"
    )  # fmt: skip
    assert source[0]["boxes"].tolist() == [box["bbox"]] * 2
    (folder / "train2017").mkdir()
    (folder / "train2017" / "7.png").write_bytes(encoded(7))
    assert dataformats.open(folder, split="val2017").read([0])["class"][0].tolist() == [90, 90]
    with pytest.raises(FormatError, match="several splits"):
        dataformats.open(folder)
    shutil.rmtree(folder / "train2017")
    (folder / "annotations" / "captions.json").write_text("{}")
    assert "'annotations/captions.json'" in dataformats.info(folder).notes[0]


def write_coco(path: Path, *names: str, category: int = 1, **others: Any) -> None:
    """Write a document in which each image has a box."""
    path.parent.mkdir(exist_ok=True)
    images = [{"id": i, "file_name": name} for i, name in enumerate(names)]
    boxes = [{"image_id": i, "bbox": [i, 2, 3, 4], "category_id": category, **others} for i in range(len(names))]
    path.write_text(json.dumps({"images": images, "annotations": boxes, "categories": []}))


def test_documents_of_coco_by_split(tmp_path: Path) -> None:
    """The files of both splits have the same names, and there are documents of keypoints."""
    names = [f"{i}.png" for i in range(3)]
    for category, split in enumerate(("train2017", "val2017")):
        write_flat(tmp_path / split)
        for kind in ("instances", "person_keypoints"):
            write_coco(tmp_path / "annotations" / f"{kind}_{split}.json", *names, category=category)
    with pytest.warns(UserWarning, match="2 files beside the media are not read, such as 'annotations/person_key"):
        source = dataformats.open(tmp_path, split="train2017")
    assert [record["class"] for record in source] == [[0], [0], [0]]


def test_files_of_one_name_in_coco(tmp_path: Path) -> None:
    """Names begin from a folder that the document does not tell; a name of two files tells neither."""
    for folder in ("a", "b"):
        write_flat(tmp_path / "images" / folder, 1)
    write_coco(tmp_path / "annotations" / "x.json", "b/0.png", "a/0.png")
    assert [record["boxes"][0, 0] for record in dataformats.open(tmp_path)] == [1, 0]
    write_coco(tmp_path / "annotations" / "x.json", "0.png")
    with pytest.warns(UserWarning, match="1 files beside the media are not read"):
        assert "boxes" not in dataformats.open(tmp_path).spec
    write_coco(tmp_path / "annotations" / "x.json", "b/0.png", "a/0.png", iscrowd=1, area=9, keypoints=[])
    assert dataformats.open(tmp_path)[0]["annotations"] == [{"iscrowd": 1, "keypoints": []}]
    write_coco(tmp_path / "annotations" / "x.json", "b/0.png", "images/b/0.png")
    with pytest.raises(FormatError, match=r"a file has two entries: found images/b/0\.png\. Keep one entry of each"):
        dataformats.open(tmp_path)


def test_nan_in_an_annotation_costs_its_image(tmp_path: Path) -> None:
    write_flat(tmp_path / "images")
    write_coco(tmp_path / "annotations" / "x.json", "0.png", "1.png", "2.png", iscrowd=0)
    assert "annotations" not in dataformats.open(tmp_path).spec
    path = tmp_path / "annotations" / "x.json"
    path.write_text(path.read_text().replace('"iscrowd": 0', '"score": NaN', 1).replace('"iscrowd": 0', '"iscrowd": 1'))
    source = dataformats.open(tmp_path)
    assert source.read([0, 1, 2], fields=["boxes"])["boxes"].lengths.tolist() == [1, 1, 1]
    assert source[1]["annotations"] == [{"iscrowd": 1}]
    with pytest.raises(CodecError, match=r"record 0 of '.*x.json', field 'annotations', .*expected JSON, found NaN"):
        source[0]
    assert dataformats.open(tmp_path, spec={"annotations": "bytes"})[0]["annotations"] == b'[{"score":NaN}]'


def test_nan_in_metadata_costs_its_image(tmp_path: Path) -> None:
    folder = write_flat(tmp_path / "images", 2)
    rows = '{"file_name": "0.png", "x": {"a": NaN}}\n{"file_name": "1.png", "x": {"a": 1}}\n'
    (folder / "metadata.jsonl").write_text(rows)
    source = dataformats.open(folder)
    assert source[1]["x"] == {"a": 1}
    with pytest.raises(CodecError, match=r"record 0 of '.*metadata.jsonl', field 'x', .*expected JSON, found NaN"):
        source[0]


def test_annotations_of_coco_are_read_when_used(tmp_path: Path) -> None:
    """Annotations come in any order, images may have none, and two may have one id."""
    write_flat(tmp_path / "images", 4)
    images = [{"id": number, "file_name": f"{i}.png"} for i, number in enumerate((7, "b", 7, 9))]
    of = [("b", "é\ud83d"), (7, {"]": [1.5]}), (8, 3), ("b", [{}, '"']), (7, None)]
    found = [{"image_id": image, "bbox": [0, 1, 2, 3], "category_id": 4, "x": x} for image, x in of]
    (tmp_path / "annotations").mkdir()
    path = tmp_path / "annotations" / "x.json"
    path.write_text(json.dumps({"annotations": found, "images": images}, indent=1))
    source = dataformats.open(tmp_path)
    expected = [[{"x": x} for image, x in of if image == one["id"]] for one in images]
    assert [record["annotations"] for record in source] == expected
    path.write_text(json.dumps({"annotations": found}))
    assert source.read([1], fields=["class"])["class"].lengths.tolist() == [2]
    with pytest.raises(FormatError, match=r"x.json': the file was replaced or changed while it was open"):
        source[1]


def test_boxes_with_other_class_names(tmp_path: Path) -> None:
    folders, coco = [tmp_path / "a" / "images", tmp_path / "b" / "images"], write_flat(tmp_path / "coco", 2)
    for number, classes in enumerate((["cat", "dog"], ["cow", "dog"])):
        write_flat(folders[number], 1)
        write_texts(tmp_path / "ab"[number], {"labels/0.txt": "1 0.5 0.5 1 1", "classes.txt": "\n".join(classes)})
        document = coco / "annotations" / f"instances_{number}.json"
        write_coco(document, f"{number}.png")
        categories = [{"id": one, "name": name} for one, name in enumerate(classes)]
        document.write_text(json.dumps({**json.loads(document.read_text()), "categories": categories}))
    for path, one, other in ((folders, "a/images", "b/images"), (coco, "instances_0.json", "instances_1.json")):
        with pytest.warns(UserWarning, match=f"class 0 is 'cat' in '.*/{one}' and 'cow' in '.*/{other}'"):
            assert dataformats.open(path).spec["class"].class_names == ()


@loop_over("format", ["videos", "audio"])
def test_folders_of_videos_and_sounds(format: str, tmp_path: Path) -> None:
    ending, field = {"videos": ("mp4", "video"), "audio": ("wav", "audio")}[format]
    head = {"mp4": b"\0\0\0\x14ftypisom", "wav": b"RIFF\0\0\0\0WAVE"}[ending]
    for i in range(4):
        (tmp_path / "x" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        (tmp_path / "x" / "ab"[i % 2] / f"{i}.{ending}").write_bytes(head + bytes([i] * 50))
        (tmp_path / "x" / "ab"[i % 2] / f"{i}.txt").write_text(f"said {i}")
    source = dataformats.open(tmp_path / "x", spec={field: "bytes"})
    assert source.format == format
    assert str(dataformats.open(tmp_path / "x").spec[field]) == {"wav": "audio", "mp4": "mp4"}[ending]
    assert [(record["label_name"], record["txt"], record[field][-1]) for record in source] == [
        ("a", "said 0", 0), ("a", "said 2", 2), ("b", "said 1", 1), ("b", "said 3", 3)
    ]  # fmt: skip
    dataformats.convert(source.select(field, "label_name"), tmp_path / "x.tfrecord")
    dataformats.convert(tmp_path / "x.tfrecord", tmp_path / "new", format)
    assert (tmp_path / "new" / "b" / f"00000003.{ending}").read_bytes() == head + bytes([3] * 50)
    (tmp_path / "x" / "a" / "0.png").write_bytes(encoded(0))
    (tmp_path / "x" / "b" / "1.png").write_bytes(encoded(0))
    with pytest.raises(FormatError, match=f"several formats.*images.*Pass format='{format}'"):
        dataformats.open(tmp_path / "x")


OTHERS: dict[str, Any] = {
    "caption": "utf8?", "name": "utf8", "size": "float64[2]", "ids": "int32[]?", "doc": "json", "n": "uint8",
    "is": "bool",
}  # fmt: skip


def others(i: int) -> dict[str, Any]:
    found = {"name": f"é{i}", "size": np.array([i, 0.5]), "doc": {"a": [i]}, "n": i, "is": i > 1}
    return found | ({"caption": f"a {i}\n"} if i else {"ids": np.array([i] * i, np.int32)})


@loop_over("killed", ["nothing", "after 3", "before the last rename"])
def test_other_fields_are_written_to_metadata(killed: str, tmp_path: Path) -> None:
    spec = {"image": "bytes", "label_name": "utf8", **OTHERS}
    rows = [{"image": encoded(i), "label_name": "ab"[i % 2], **others(i)} for i in range(5)]
    if killed != "nothing":
        writer = dataformats.create(tmp_path / "x", "images", spec=spec, resume=True)
        writer.extend(rows[: 3 if killed == "after 3" else 5])
        writer.abort()
        if killed != "after 3":
            (tmp_path / "x.partial" / "metadata.jsonl").write_text("torn")
    with dataformats.create(tmp_path / "x", "images", spec=spec, resume=True) as writer:
        writer.extend(rows[len(writer) :])
    expected = [rows[i] | {"path": f"{'ab'[i % 2]}/{i:08d}.png"} for i in (0, 2, 4, 1, 3)]
    dataformats.convert(tmp_path / "x", tmp_path / "y", "images")
    dataformats.convert(tmp_path / "x", tmp_path / "y", "images", overwrite=True)
    assert dataformats.diff(tmp_path / "x", tmp_path / "y").equal
    found = dataformats.open(tmp_path / "x", spec={"image": "bytes"})
    for one, other in zip(found, expected, strict=True):
        assert {name: str(one[name]) for name in one if name != "label"} == {name: str(other[name]) for name in other}
    assert dataformats.verify(tmp_path / "x").ok
    first = json.loads((tmp_path / "x" / "metadata.jsonl").read_text("utf-8").splitlines()[0])
    assert first == {"file_name": "a/00000000.png", "name": "é0", "size": [0.0, 0.5], "ids": [], "doc": {"a": [0]},
                     "n": 0, "is": False}  # fmt: skip


def test_types_of_metadata_are_inferred(tmp_path: Path) -> None:
    """The sidecar has the type of the number that names folders, and none of metadata, which may hold no value."""
    spec: dict[str, Any] = {"image": "bytes", "cls": "int32", "none": "utf8?", "tags": "utf8[]?", "a": "uint8[1,2]"}
    rows = [{"image": encoded(i), "cls": i, "a": [[i, 2]]} | ({"tags": ["x"] * (i - 1)} if i else {}) for i in range(3)]
    with dataformats.create(tmp_path / "x.ffr", spec=spec | {"doc": "json"}) as writer:
        writer.extend(row | {"doc": [1]} for row in rows)
    dataformats.convert(tmp_path / "x.ffr", tmp_path / "y", "images")
    source = dataformats.open(tmp_path / "y")
    assert str(source.spec["label_name"]) == "int32"
    assert str(source.spec["image"]) == "png"
    assert [(one.get("tags"), one["a"], one["label_name"]) for one in source] == [
        (None, [[0, 2]], 0), ([], [[1, 2]], 1), (["x"], [[2, 2]], 2)
    ]  # fmt: skip
    assert [len(one["doc"]) for one in source] == [1] * 3


def test_metadata_refuses_other_types(tmp_path: Path) -> None:
    rows = [{"image": encoded(i), "mask": encoded(i), "file_name": "a", "txt": "b"} for i in range(2)]
    spec = {"image": "bytes", "mask": "bytes", "file_name": "utf8", "txt": "utf8"}
    with dataformats.create(tmp_path / "x.ffr", spec=spec) as writer:
        writer.extend(rows)
    with pytest.raises(SpecError, match=r"lists or JSON.*--|fields=\['image', 'txt'\]"):
        dataformats.convert(tmp_path / "x.ffr", tmp_path / "new", "images", rename={"image": "image"})
    dataformats.convert(tmp_path / "x.ffr", tmp_path / "new", "images", fields=["image", "txt"])
    assert sorted(os.listdir(tmp_path / "new")) == ["00000000.png", "00000001.png", "metadata.jsonl"]
    with dataformats.create(tmp_path / "y", "images", spec={"image": "bytes", "name": "bytes"}) as writer:
        with pytest.raises(DataFormatsError, match="field 'name'"):
            writer.append({"image": encoded(0), "name": b"\xff"})
        writer.append({"image": encoded(0), "name": b"a"})
    assert len(dataformats.open(tmp_path / "y")) == 1


@loop_over(
    "labels",
    [
        ("utf8", "cat dog cat", "cat dog"),
        ("int64", (1, 3, 1), "000001 000003"),
        ("float32", (0, 1, 0), "000000 000001"),
        ({"type": "int32", "class_names": ["cat", "dog", "fox"]}, (0, 1, 0), "cat dog"),
        ({"type": "int64", "class_names": ["dog", "cat"]}, (0, 1, 0), "000000 000001"),
    ],
)
def test_any_label_becomes_folders(labels: Any, tmp_path: Path) -> None:
    kind, found, folders = labels
    found = found.split() if isinstance(found, str) else found
    with dataformats.create(tmp_path / "x.ffr", spec={"img": "bytes", "cls": kind, "n": "int64"}) as writer:
        writer.extend({"img": encoded(i, "JPEG"), "cls": found[i], "n": i} for i in range(3))
    dataformats.convert(tmp_path / "x.ffr", tmp_path / "new", "images")
    assert sorted(os.listdir(tmp_path / "new")) == [*folders.split(), "metadata.jsonl"]
    read = dataformats.open(tmp_path / "new")
    assert sorted(record["n"] for record in read) == [0, 1, 2]
    has_classes = folders == "cat dog" and found == (0, 1, 0)
    assert [record["label" if has_classes else "label_name"] for record in read] == sorted(found)
    assert (tmp_path / "new" / folders.split()[1] / "00000001.jpg").read_bytes() == encoded(1, "JPEG")


def test_labels_without_a_class_are_refused(tmp_path: Path) -> None:
    spec: dict[str, Any] = {"image": "bytes", "label": {"type": "int64", "class_names": ["cat", "dog", "fox"]}}
    with dataformats.create(tmp_path / "x", "images", spec=spec) as writer:
        writer.append({"image": encoded(0), "label": 0})
        with pytest.raises(SpecError, match="expected a label below 3, the number of classes, found 3"):
            writer.append({"image": encoded(0), "label": 3})
        writer.append({"image": encoded(0), "label": 2})
        with pytest.raises(SpecError, match="no image has the label 1, so readers would read 2 as 1"):
            writer.close()


def test_fractions_are_no_labels(tmp_path: Path) -> None:
    with dataformats.create(tmp_path / "x", "images", spec={"image": "bytes", "label_name": "float32"}) as writer:
        with pytest.raises(SpecError, match=r"expected a whole number, found 0\.5"):
            writer.append({"image": encoded(0), "label_name": 0.5})
        writer.append({"image": encoded(0), "label_name": 2})
    assert dataformats.open(tmp_path / "x")[0]["label_name"] == 2
