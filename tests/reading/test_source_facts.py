"""What a source says of itself, and what its views keep and replace of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.indexing.files_reader import FilesReader
from dataformats.interfaces import Origin, SourceFacts, SpecFacts
from dataformats.reading.file_source import FileSource

DIGITS = "tests/golden/real/digits-*.tfrecord"


def test_views_keep_the_facts_of_their_source() -> None:
    digits = dataformats.open(DIGITS)
    assert digits.facts.files_per_record == 1
    assert (digits.facts.nbytes, len(digits.facts.paths)) == (digits.nbytes, 3)
    for view in (digits[5:9], digits.take([3, 1]), digits.select("label"), digits.map(str)):
        assert view.facts == digits.facts
    for view in (digits[5:9], digits.select("label")):
        assert view.spec_facts == digits.spec_facts == SpecFacts("example", "inferred")
    assert digits.map(str).spec_facts == SpecFacts(None, "computed")


def test_sources_of_several_sources_combine_facts(tmp_path: Path) -> None:
    digits = dataformats.open(DIGITS)
    dataformats.convert(digits, tmp_path / "digits.parquet")
    copy = dataformats.open(tmp_path / "digits.parquet")
    declared = digits.with_spec({"label": "int64"})
    both, pairs = (
        dataformats.concat([digits, declared]),
        dataformats.zip({"a": digits.select("label"), "b": copy.select("image")}),
    )
    assert both.facts == SourceFacts("tfrecord", digits.paths * 2, digits.nbytes * 2)
    assert both.spec_facts == SpecFacts("example", "inferred")
    assert dataformats.concat([declared, declared]).spec_facts == SpecFacts("example", "declared")
    assert pairs.facts.format == "tfrecord & parquet"
    assert (pairs.facts.paths, pairs.facts.files_per_record) == ((*digits.paths, *copy.paths), 2)
    assert pairs.payload is None
    assert copy.facts.decodes_blocks
    assert not digits.facts.decodes_blocks


def test_a_view_of_fields_has_their_opaque_fields(tmp_path: Path) -> None:
    path = tmp_path / "data.tfrecord"
    with dataformats.create(path, spec={"a": "pickle", "b": "int64"}) as writer:
        writer.append({"a": [1], "b": 2})
    source = dataformats.open(path)
    assert [*source.spec_facts.opaque_fields] == ["a"]
    assert source.spec_facts.provenance == "saved"
    assert [*source[:1].spec_facts.opaque_fields] == ["a"]
    assert [*source.select("b").spec_facts.opaque_fields] == []


def test_facts_of_files_read_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    source = dataformats.open(DIGITS)
    monkeypatch.setattr(FileSource, "read", None)
    monkeypatch.setattr(FilesReader, "counts", property(lambda _: pytest.fail("an index was built")))
    monkeypatch.setattr(FileSource, "spec_facts", property(lambda _: pytest.fail("records were sampled")))
    assert (source.format, len(source.paths), source.nbytes) == ("tfrecord", 3, source.facts.nbytes)


def test_record_bytes_are_an_average(tmp_path: Path) -> None:
    path = tmp_path / "data.tfrecord"
    with dataformats.create(path, payload="bytes") as writer:
        writer.extend(bytes(size) for size in (10, 20, 60))
    source = dataformats.open(path, payload="bytes")
    assert source.record_bytes() == path.stat().st_size / 3
    assert (source.record_bytes([1]), source.record_bytes([0, 2, 2])) == (20, 130 / 3)
    assert source[1:].record_bytes([0, 1]) == 40
    assert dataformats.concat([source, source[1:]]).record_bytes([0, 3]) == 15
    assert dataformats.zip([source, source]).record_bytes(range(3)) == 60


def test_record_bytes_of_joined_compressed_files_are_decompressed(tmp_path: Path) -> None:
    path = tmp_path / "data.tfrecord.gz"
    with dataformats.create(path, payload="bytes", compression="gzip") as writer:
        writer.extend([bytes(10_000)] * 20)
    source = dataformats.open(path, payload="bytes")
    assert dataformats.concat([source, source]).record_bytes() == source.record_bytes() > 10_000


def test_origins_name_the_record_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data.tfrecord"
    with dataformats.create(path, payload="bytes") as writer:
        writer.extend(bytes(size) for size in (10, 20, 60))
    source = dataformats.open(path, payload="bytes")
    assert source[1:].origins([1, 0]) == [Origin(str(path), 2), Origin(str(path), 1)]
    both = dataformats.concat([source, source.take([2, 0])])
    starts = [12, 12 + 10 + 16, 12 + 10 + 16 + 20 + 16]
    assert both.origins([4, 3, 1], offsets=True) == [Origin(str(path), index, starts[index]) for index in (0, 2, 1)]
    assert dataformats.zip({"a": source, "b": source[::-1]}).origins([1]) == [Origin(str(path), 1)]


def test_records_without_a_file_keep_their_index() -> None:
    source = Numbers()
    assert source.origins([3]) == source[2:].origins([3]) == [Origin("", 3)]
    assert dataformats.concat([source[:2], source]).origins(range(4)) == [Origin("", index) for index in range(4)]


class Numbers(dataformats.RecordSource):
    spec = dataformats.Spec({"n": "int64"})
    fingerprint = "numbers"

    def __len__(self) -> int:
        return 9

    def read(self, indices: Any, fields: Any = None, on_corrupt: Any = "raise") -> dataformats.RecordBatch:
        return dataformats.RecordBatch({"n": np.asarray(indices)}, np.asarray(indices))
