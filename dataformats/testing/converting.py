"""Conversion to other formats and back."""

from __future__ import annotations

from typing import Any

import pytest

import dataformats.converting
import dataformats.reading.opening
from dataformats.errors import ChecksumError, DataFormatsError
from dataformats.interfaces import BlobBackend
from dataformats.registry import backends
from dataformats.spec import Spec
from dataformats.testing.dataset_fixture import DatasetFixture
from dataformats.testing.records import is_same_value, values

_CLASSES = ("cat", 'dog, or "hound"', "höhe")
_KINDS = {"n": "int64", "x": "float32[2]", "data": "bytes", "text": "utf8", "maybe": "int64?", "seq": "int64[]"}


class ConvertingConformance:
    """The same records in another format."""

    def test_there_and_back(self, data: DatasetFixture) -> None:
        """Stored payloads are copied if both formats hold them; class names are kept."""
        data.need_fields()
        kinds = {name: kind for name, kind in _KINDS.items() if kind not in data.case.refuses}
        spec = Spec({**kinds, "n": {"type": "int64", "class_names": _CLASSES}})
        columns = {name: values(kind, 15, empty=data.case.empty_values) for name, kind in kinds.items()}
        rows = zip(*([(name, held) for held in column] for name, column in columns.items()), strict=True)
        records = [{name: held for name, held in row if held is not None} for row in rows]
        src = data.open(data.write_records(records, spec))
        for format in ("ffrecord", "tfrecord", data.case.format):
            there = data.folder / f"there.{format}"
            options = data.case.create_options if format == data.case.format else {}
            report = dataformats.converting.convert(src, there, format, overwrite=True, **options)
            assert (report.records, report.format) == (15, format)
            backend, payload = backends.get(format), data.case.payload
            keeps = payload is not None and isinstance(backend, BlobBackend) and backend.accepts_payload(payload)
            assert report.copied == keeps
            _check(dataformats.reading.opening.open(there), records)
            back = data.path("back")
            again = dataformats.converting.convert(
                there, back, data.case.format, overwrite=True, **data.case.create_options
            )
            assert again.records == 15
            _check(data.open(back), records)
            assert data.open(back).spec == spec
            assert data.open(back).spec["n"].class_names == _CLASSES

    def test_views_are_encoded_again(self, data: DatasetFixture) -> None:
        """Selected records are copied, selected fields encoded; a mapped source needs a spec."""
        data.need_fields()
        src = data.source(10)
        convert = dataformats.converting.convert
        options = dict(data.case.create_options)
        report = convert(src[::3], data.path("taken"), data.case.format, **options)
        assert report.copied == data.case.blobs
        data.check(data.open(data.path("taken")), range(0, 10, 3))
        report = convert(src.select("id"), data.path("ids"), data.case.format, **options)
        assert not report.copied
        assert list(data.open(data.path("ids"))) == [{"id": data.record(i)["id"]} for i in range(10)]
        mapped = src.map(lambda record: {"half": record["id"] / 2})
        report = convert(mapped, data.path("half"), data.case.format, spec={"half": "float64"}, **options)
        assert [record["half"] for record in data.open(data.path("half"))] == [
            data.record(i)["id"] / 2 for i in range(10)
        ]
        kind = str((data.spec or {})["data"])
        spec = {"id": "int64", "data": kind if f"{kind}?" in data.case.refuses else f"{kind}?"}
        report = convert(src, data.path("new"), data.case.format, spec=spec, **options)
        assert data.open(data.path("new")).spec == spec
        data.check(data.open(data.path("new")), range(10))

    def test_as_bytes(self, data: DatasetFixture) -> None:
        """`payload="bytes"` keeps the stored bytes and drops the spec."""
        data.need_bytes()
        src = data.source(5)
        path = data.path("raw")
        report = dataformats.converting.convert(
            src, path, data.case.format, payload="bytes", **data.case.create_options
        )
        assert report.copied
        assert list(data.open(path, payload="bytes")) == src.read_bytes(range(5))
        data.check(data.open(path, **data.declared()), range(5))

    def test_shards_and_progress(self, data: DatasetFixture) -> None:
        """A conversion writes a folder of shards and reports progress."""
        data.need_shards()
        steps: list[tuple[int, int]] = []
        path = data.folder / "shards"
        options = {**data.case.create_options, "shard_records": 300}
        dataformats.converting.convert(
            data.write(700), path, data.case.format, progress=lambda *step: steps.append(step), **options
        )
        assert steps[-1] == (700, 700)
        assert len(steps) > 1
        assert len(list(path.iterdir())) == 3
        assert [data.index(record) for record in data.open(path)] == list(range(700))

    def test_damage_stops_it(self, data: DatasetFixture) -> None:
        """A damaged record raises, and nothing is left behind."""
        if not data.case.verifies_records or data.case.ends is None:
            pytest.skip("no byte is known to be covered by a checksum")
        path = data.write(6)
        damaged = bytearray(path.read_bytes())
        damaged[-6] ^= 1
        path.write_bytes(damaged)
        path.with_name(path.name + ".dataformats.json").unlink(missing_ok=True)  # it describes the sound file
        with pytest.raises(ChecksumError):
            dataformats.converting.convert(path, data.path("out"), data.case.format, **data.case.create_options)
        assert not any("out" in left.name for left in data.folder.iterdir())
        with pytest.raises(DataFormatsError):
            dataformats.converting.convert(path, data.path("out"), "no-such-format")


def _check(found: Any, records: list[dict[str, Any]]) -> None:
    assert len(found) == len(records)
    for i, record in enumerate(records):
        assert is_same_value(found[i], record), f"record {i}: {found[i]} is not {record}"
