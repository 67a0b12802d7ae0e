"""Merging and splitting files of the original programs: stored bytes and checksums are copied."""

from __future__ import annotations

import gzip
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.reading.blob_source import BlobSource
from dataformats.testing.loop_over import loop_over
from dataformats.writing.dataset_writer import DatasetWriter
from tests.cases import GOLDEN, frames

DIGITS = sorted((GOLDEN / "real").glob("digits-*.tfrecord"))


def opened(path: Path) -> BlobSource:
    source = dataformats.open(path)
    assert isinstance(source, BlobSource)
    return source


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_merged_class_names(tmp_path: Path) -> None:
    paths = [tmp_path / "a.ffr", tmp_path / "b.ffr"]
    for path, classes in zip(paths, (["cat", "dog"], ["dog", "cat"]), strict=True):
        with dataformats.create(path, spec={"n": {"type": "int64", "class_names": classes}}) as writer:
            writer.append({"n": 0})
    for sources in (paths, [*map(opened, paths)]):
        with pytest.warns(UserWarning, match=f"class 0 is 'cat' in '{paths[0]}' and 'dog' in '{paths[1]}'"):
            dataformats.merge(sources, tmp_path / "c.ffr", overwrite=True)
        assert dataformats.open(tmp_path / "c.ffr").spec["n"].class_names == ()


# ---- bytes


@loop_over(
    "files",
    [
        DIGITS,
        [GOLDEN / "tfrecord" / name for name in ("raw.tfrecord", "many_1000.tfrecord", "zero_length.tfrecord")],
        [GOLDEN / "ofrecord" / name for name in ("base.ofrecord", "many_1000.ofrecord", "one.ofrecord")],
    ],
)
def test_frames_are_copied(tmp_path: Path, files: list[Path]) -> None:
    merged = tmp_path / f"all{files[0].suffix}"
    dataformats.merge(files, merged, source_options={"payload": "bytes"})
    whole = b"".join(file.read_bytes() for file in files)
    assert merged.read_bytes() == whole
    shards = dataformats.split(merged, tmp_path / "shards", shards=7)
    assert max(shards.values()) - min(shards.values()) <= 1
    assert b"".join(Path(shard).read_bytes() for shard in shards) == whole


def test_compressed_files_have_the_same_frames(tmp_path: Path) -> None:
    raw = [GOLDEN / "tfrecord" / f"raw.tfrecord{suffix}" for suffix in ("", ".gz", ".zlib")]
    whole = raw[0].read_bytes() + gzip.decompress(raw[1].read_bytes()) + zlib.decompress(raw[2].read_bytes())
    plain, merged = tmp_path / "all.tfrecord", tmp_path / "all.tfrecord.gz"
    dataformats.merge(raw, plain)
    assert plain.read_bytes() == whole
    dataformats.merge(plain, merged)
    assert gzip.decompress(merged.read_bytes()) == whole
    shards = dataformats.split(merged, tmp_path / "shards", shards=2)
    assert b"".join(gzip.decompress(Path(shard).read_bytes()) for shard in shards) == whole
    with pytest.raises(dataformats.SpecError, match=r"differ in compression: gzip and none\. Convert"):
        dataformats.merge(raw[:2], tmp_path / "other", shards=2)


def test_checksums_of_ffrecord_are_copied(tmp_path: Path) -> None:
    files = [GOLDEN / "ffrecord" / name for name in ("base.ffr", "many_1000.ffr", "n0.ffr", "mixed_lengths.ffr")]
    dataformats.merge(files, tmp_path / "all.ffr")
    tables = [table_of(file) for file in files]
    assert table_of(tmp_path / "all.ffr") == (b"".join(t[0] for t in tables), b"".join(t[1] for t in tables))


def table_of(file: Path) -> tuple[bytes, bytes]:
    """The checksums and the data of an FFRecord, by the format's text alone."""
    content = file.read_bytes()
    (n,) = struct.unpack_from("<q", content, 4)
    return content[12 : 12 + 4 * n], content[12 + 12 * n :]


def test_checksums_are_not_computed_again(tmp_path: Path) -> None:
    """A wrong checksum stays wrong in a copy without verification."""
    content = bytearray((GOLDEN / "ffrecord" / "base.ffr").read_bytes())
    content[-1] ^= 1
    (tmp_path / "a.ffr").write_bytes(content)
    dataformats.merge(tmp_path / "a.ffr", tmp_path / "b.ffr", source_options={"verify_checksums": False})
    with pytest.raises(dataformats.ChecksumError):
        dataformats.open(tmp_path / "b.ffr")[-1]


@loop_over(
    "name", ["v2/sequences", *(f"v{n}/{name}" for n in (2, 3) for name in ("base", "basic", "custom_type", "sharded"))]
)
def test_rows_of_granular(tmp_path: Path, name: str) -> None:
    path = GOLDEN / "granular" / name
    dataformats.merge([path, path], tmp_path / "both")
    with opened(path) as old, opened(tmp_path / "both") as new:
        assert new.spec == old.spec
        assert stored(new) == 2 * stored(old)
        assert new.reader.metadata() == old.reader.metadata()


def test_single_bags(tmp_path: Path) -> None:
    for generation in ("v2", "v3"):
        bag = GOLDEN / "granular" / generation / "bag_1000.bag"
        dataformats.merge([bag, bag], tmp_path / f"{generation}.bag")
        assert stored(opened(tmp_path / f"{generation}.bag")) == 2 * stored(opened(bag))
    with pytest.raises(dataformats.SpecError, match="generation 1"):
        dataformats.merge(GOLDEN / "granular" / "v1" / "base", tmp_path / "old")


@loop_over("name", ["base", "dtypes", "strings", "ndim", "zero_length", "float128", "names"])
def test_arrays_of_syrah(tmp_path: Path, name: str) -> None:
    path = GOLDEN / "syrah" / f"{name}.syr"
    dataformats.merge([path, path], tmp_path / "both.syr")
    with opened(path) as old, opened(tmp_path / "both.syr") as new:
        assert new.spec == old.spec
        assert new.reader.stored_spec == old.reader.stored_spec
        assert stored(new) == 2 * stored(old)


def stored(source: BlobSource) -> list[dict[str, list[bytes]]]:
    return [{name: list(blobs) for name, blobs in record.items()} for part in source.scan_stored() for record in part]


@loop_over("name", ["x.tfrecord", "x.tfrecord.gz", "x.ffr", "x.ofrecord", "x.syr", "granular-2", "granular-3"])
def test_stored_records_between_others(tmp_path: Path, name: str) -> None:
    """They are appended as other records are, within the same limits of shards."""
    records = [{"x": np.full(i % 7 + 1, i, np.float32), "text": "a" * (i % 5 + 1)} for i in range(20)]
    options: dict[str, Any] = {"spec": {"x": "float32[]", "text": "utf8"}}
    if name.startswith("granular"):
        options |= {"format": "granular", "generation": int(name[-1])}
    with dataformats.create(tmp_path / name, **options) as out:
        out.extend(records)
    source = opened(tmp_path / name)
    options.setdefault("format", source.format)
    every: list[dict[str, Any]] = [{}, {"shard_records": 9}, {"shard_bytes": 400}]
    for limits in every:
        made = [tmp_path / "stored" / name, tmp_path / "encoded" / name]
        with dataformats.create(made[0], **options, **limits, overwrite=True) as out:
            assert isinstance(out, DatasetWriter)
            out.append(records[0])
            for part in source.scan_stored():
                out.append_stored(part[1:15])
            out.extend(records[15:])
        with dataformats.create(made[1], **options, **limits, overwrite=True) as out:
            out.extend(records)
        one, other = ({str(file.relative_to(path)): file.read_bytes() for file in files_of(path)} for path in made)
        assert one == other


def files_of(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


# ---- records and files


def test_spec_and_payload_go_into_the_sidecar(tmp_path: Path) -> None:
    spec = {"image": "uint8[8,8]", "label": "int64"}
    for number in range(2):
        with dataformats.create(tmp_path / f"{number}.ffr", "ffrecord", spec=spec) as writer:
            writer.extend({"image": np.full((8, 8), i, np.uint8), "label": i} for i in range(number, 9))
    shards = [
        *dataformats.split(tmp_path / "0.ffr", tmp_path / "parts", shards=2),
        *dataformats.split(tmp_path / "1.ffr", tmp_path / "records", shard_records=2),
    ]
    for shard in shards:
        source = dataformats.open(shard)
        assert (source.payload, source.spec) == ("example", dataformats.Spec(spec))
        assert source[0]["image"].shape == (8, 8)
    dataformats.merge([tmp_path / "parts", tmp_path / "records"], tmp_path / "all.ffr")
    assert [record["label"] for record in dataformats.open(tmp_path / "all.ffr")] == [*range(9), *range(1, 9)]


def test_many_small_files(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    for number in range(300):
        (small / f"x-{number}.tfrecord").write_bytes(frames(*(b"%d-%d" % (number, i) for i in range(number % 4))))
    counts = dataformats.merge(small, tmp_path / "large", shards=10)
    assert list(counts.values()) == [45] * 10
    merged = [blob for path in counts for blob in dataformats.open(path)]
    assert merged == [b"%d-%d" % (number, i) for number in range(300) for i in range(number % 4)]


def test_an_empty_dataset(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"{number}.tfrecord").write_bytes(b"")
    files = [tmp_path / "0.tfrecord", tmp_path / "1.tfrecord"]
    assert list(dataformats.merge(files, tmp_path / "all.tfrecord").values()) == [0]
    assert list(dataformats.split(files, tmp_path / "shards", shards=1).values()) == [0]
    assert len(dataformats.open(tmp_path / "shards")) == 0


def test_the_target_may_be_a_source(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    shutil.copy(DIGITS[0], path)
    dataformats.merge([path, DIGITS[1]], path, overwrite=True)
    assert path.read_bytes() == DIGITS[0].read_bytes() + DIGITS[1].read_bytes()


# ---- refused arguments


def test_several_formats(tmp_path: Path) -> None:
    other = GOLDEN / "ffrecord" / "base.ffr"
    for files in ([DIGITS[0], other], [other, DIGITS[0]], [GOLDEN / "syrah" / "base.syr", other]):
        with pytest.raises(dataformats.SpecError, match=r"is (ffrecord|tfrecord), and .* is .*Convert one"):
            dataformats.merge(files, tmp_path / "all")
    assert names(tmp_path) == []


def test_several_payloads(tmp_path: Path) -> None:
    raw = GOLDEN / "tfrecord" / "raw.tfrecord"
    with pytest.raises(dataformats.SpecError, match=r"raw.tfrecord' is bytes, but .* has example.*payload"):
        dataformats.merge([DIGITS[0], raw], tmp_path / "all.tfrecord")
    with pytest.raises(dataformats.SpecError, match="payload"):
        dataformats.merge([dataformats.open(DIGITS[0]), dataformats.open(raw)], tmp_path / "all.tfrecord")
    assert names(tmp_path) == []
    dataformats.merge([DIGITS[0], raw], tmp_path / "all.tfrecord", source_options={"payload": "bytes"})
    assert (tmp_path / "all.tfrecord").read_bytes() == DIGITS[0].read_bytes() + raw.read_bytes()


@loop_over("name", ["data_bit", "cut_in_data", "length_bit"])
def test_damage(tmp_path: Path, name: str) -> None:
    damaged = GOLDEN / "tfrecord" / "corrupt" / f"{name}.tfrecord"
    with pytest.raises(dataformats.FormatError) as expected:
        list(dataformats.open(damaged))
    n = len(dataformats.open(DIGITS[0]))
    with pytest.raises(dataformats.FormatError) as caught:
        dataformats.merge([DIGITS[0], damaged], tmp_path / "all.tfrecord", source_options={"payload": "bytes"})
    found, wanted = caught.value, expected.value
    assert (found.path, found.offset_bytes) == (wanted.path, wanted.offset_bytes)
    assert (found.index, type(found)) == (n + (wanted.index or 0), type(wanted))
    with pytest.raises(dataformats.FormatError):
        dataformats.split(damaged, tmp_path / "shards", shard_records=2)
    mask = np.ones(len(dataformats.open(damaged)), bool)
    with pytest.raises(dataformats.FormatError):
        dataformats.split(damaged, tmp_path / "a.tfrecord", where=mask, rest_path=tmp_path / "b.tfrecord")
    assert names(tmp_path) == []


def test_arguments(tmp_path: Path) -> None:
    mask, x = np.ones(599, bool), tmp_path / "x"
    wrong: list[dict[str, Any]] = [
        {},
        {"shard_records": 1, "shards": 1},
        {"where": mask},
        {"shards": 2, "rest_path": x},
    ]
    for options in wrong:
        with pytest.raises(TypeError, match="expected one of shards="):
            dataformats.split(DIGITS[0], tmp_path / "shards", **options)
    with pytest.raises(ValueError, match="found 0"):
        dataformats.split(DIGITS[0], tmp_path / "shards", shard_records=0)
    with pytest.raises(ValueError, match=r"expected bool\[599\]"):
        dataformats.split(DIGITS[0], tmp_path / "a.tfrecord", where=np.ones(5, bool), rest_path=tmp_path / "b.tfrecord")
    with pytest.raises(dataformats.TargetExistsError):
        dataformats.merge(DIGITS[0], tmp_path)
    assert names(tmp_path) == []


def test_a_name_of_another_format_is_refused(tmp_path: Path) -> None:
    """Copies keep their format: `all.ffr` would be a TFRecord."""
    dataformats.merge(DIGITS, tmp_path.parent / "part-00001", overwrite=True)  # a name, but no ending, of OFRecord
    mask, other = np.ones(599, bool), tmp_path / "all.ffr"
    with pytest.raises(dataformats.SpecError, match=r"all\.ffr' is a name of ffrecord data, and the records stay"):
        dataformats.merge(DIGITS, other)
    with pytest.raises(dataformats.SpecError, match="convert the data"):
        dataformats.split(DIGITS[0], tmp_path / "a.tfrecord", where=mask, rest_path=other)
    with pytest.raises(dataformats.SpecError, match="convert the data"):
        dataformats.repair(DIGITS[0], other)
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
def test_tables_are_divided_by_conversions(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    if name.endswith(".csv"):
        (tmp_path / name).write_text("i\n" + "".join(f"{i}\n" for i in range(20)), "utf-8")
    else:
        with dataformats.create(tmp_path / name, spec={"i": "int64"}) as writer:
            writer.extend({"i": i} for i in range(20))
    source = dataformats.open(tmp_path / name)
    train, rest = tmp_path / "train.parquet", tmp_path / "rest.jsonl"
    rest.touch()
    with pytest.raises(dataformats.TargetExistsError):
        dataformats.split(source, train, fraction=0.8, rest_path=rest)
    assert not train.exists()
    rest.unlink()
    for given in (tmp_path / name, source):
        counts = dataformats.split(given, train, fraction=0.8, seed=3, rest_path=rest, overwrite=True)
        assert counts == {str(train): 16, str(rest): 4}
        assert list(dataformats.open(train)) == list(source.split(0.8, seed=3)[0])
    dataformats.split(source, train, where="i < 5", rest_path=rest, overwrite=True)
    assert [record["i"] for record in dataformats.open(train)] == list(range(5))
    assert [record["i"] for record in dataformats.open(rest)] == list(range(5, 20))
