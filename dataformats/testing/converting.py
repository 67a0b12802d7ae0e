"""Conversion, from this format to every other one and back."""

from __future__ import annotations

from typing import Any

import pytest

import dataformats.converting
import dataformats.reading.opening
from dataformats.errors import ChecksumError, DataFormatsError
from dataformats.interfaces import BlobBackend
from dataformats.registry import backends
from dataformats.testing.dataset_fixture import Workshop, check_plain
from dataformats.testing.records import plain, same, values

__all__ = ["ConvertingConformance"]

_KINDS = {"n": "int64", "x": "float32[2]", "data": "bytes", "text": "utf8", "maybe": "int64?", "seq": "int64[]"}


class ConvertingConformance:
    """The same records in another format."""

    def test_there_and_back(self, shop: Workshop) -> None:
        """With stored payloads copied where both sides have them."""
        spec = {name: kind for name, kind in _KINDS.items() if kind not in shop.case.refuses}
        columns = {name: values(kind, 15, empty=shop.case.empty_values) for name, kind in spec.items()}
        rows = zip(*([(name, held) for held in column] for name, column in columns.items()), strict=True)
        records = [{name: held for name, held in row if held is not None} for row in rows]
        src = shop.open(shop.write_records(records, spec))
        for format in ("ffrecord", "tfrecord", shop.case.format):
            there = shop.folder / f"there.{format}"
            options = shop.case.create_options if format == shop.case.format else {}
            report = dataformats.converting.convert(src, there, format, overwrite=True, **options)
            assert (report.records, report.format) == (15, format)
            target, payload = backends.get(format), shop.case.payload
            keeps = payload is not None and isinstance(target, BlobBackend) and target.accepts_payload(payload)
            assert report.copied == keeps
            _check(dataformats.reading.opening.open(there), records)
            back = shop.path("back")
            again = dataformats.converting.convert(
                there, back, shop.case.format, overwrite=True, **shop.case.create_options
            )
            assert again.records == 15
            _check(shop.open(back), records)
            assert shop.open(back).spec == spec

    def test_views_are_encoded_again(self, shop: Workshop) -> None:
        """Chosen records are copied, chosen fields encoded; functions need a spec."""
        src = shop.plain(10)
        convert = dataformats.converting.convert
        options = dict(shop.case.create_options)
        report = convert(src[::3], shop.path("taken"), shop.case.format, **options)
        assert report.copied == shop.case.blobs
        check_plain(shop.open(shop.path("taken")), range(0, 10, 3))
        report = convert(src.select("id"), shop.path("ids"), shop.case.format, **options)
        assert not report.copied
        assert list(shop.open(shop.path("ids"))) == [{"id": plain(i)["id"]} for i in range(10)]
        mapped = src.map(lambda record: {"half": record["id"] / 2})
        report = convert(mapped, shop.path("half"), shop.case.format, spec={"half": "float64"}, **options)
        assert [record["half"] for record in shop.open(shop.path("half"))] == [plain(i)["id"] / 2 for i in range(10)]
        spec = {"id": "int64", "data": "bytes" if "bytes?" in shop.case.refuses else "bytes?"}
        report = convert(src, shop.path("new"), shop.case.format, spec=spec, **options)
        assert shop.open(shop.path("new")).spec == spec
        check_plain(shop.open(shop.path("new")), range(10))

    def test_as_bytes(self, shop: Workshop) -> None:
        """`payload="bytes"` keeps what is stored and forgets what it means."""
        if not shop.case.blobs:
            pytest.skip("the format stores fields apart")
        src = shop.plain(5)
        path = shop.path("raw")
        report = dataformats.converting.convert(
            src, path, shop.case.format, payload="bytes", **shop.case.create_options
        )
        assert report.copied
        assert list(shop.open(path, payload="bytes")) == src.read_bytes(range(5))
        check_plain(shop.open(path, **shop.told()), range(5))

    def test_shards_and_progress(self, shop: Workshop) -> None:
        """Into a folder, told on the way."""
        told: list[tuple[int, int]] = []
        path = shop.folder / "shards"
        options = {**shop.case.create_options, "shard_records": 300}
        dataformats.converting.convert(
            shop.write(700), path, shop.case.format, progress=lambda *step: told.append(step), **options
        )
        assert told[-1] == (700, 700)
        assert len(told) > 1
        assert len(list(path.iterdir())) == 3
        assert [record["id"] for record in shop.open(path)] == [plain(i)["id"] for i in range(700)]

    def test_damage_stops_it(self, shop: Workshop) -> None:
        """Nothing is left behind."""
        if not shop.case.checksums or shop.case.ends is None:
            pytest.skip("no byte is known to be covered by a checksum")
        path = shop.write(6)
        data = bytearray(path.read_bytes())
        data[-6] ^= 1
        path.write_bytes(data)
        with pytest.raises(ChecksumError):
            dataformats.converting.convert(path, shop.path("out"), shop.case.format, **shop.case.create_options)
        assert not any("out" in left.name for left in shop.folder.iterdir())
        with pytest.raises(DataFormatsError):
            dataformats.converting.convert(path, shop.path("out"), "no-such-format")


def _check(found: Any, records: list[dict[str, Any]]) -> None:
    assert len(found) == len(records)
    for i, record in enumerate(records):
        assert same(found[i], record), f"record {i}: {found[i]} is not {record}"
