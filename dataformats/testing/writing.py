"""Writing: whole or not at all, resumed, sharded, encoded by workers; and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataformats.errors import CodecError, DataFormatsError, SpecError
from dataformats.inspecting import verify
from dataformats.interfaces import natural_key
from dataformats.reading.concat import concat
from dataformats.testing.dataset_fixture import Workshop, check_plain, fail_after
from dataformats.testing.records import PLAIN, blob, plain, same

__all__ = ["WritingConformance"]


class WritingConformance:
    """Files appear whole or not at all."""

    def test_names_appear_at_close(self, shop: Workshop) -> None:
        """Before, only a partial file is there; after, nothing else is."""
        path = shop.path()
        writer = shop.create(path, spec=PLAIN)
        writer.append(plain(0))
        writer.flush()
        assert not path.exists()
        assert len(writer) == 1
        writer.close()
        writer.close()
        assert path.exists()
        assert _partial(shop.folder) == []
        with pytest.raises(ValueError, match="closed"):
            writer.append(plain(1))
        check_plain(shop.open(path), [0])

    def test_an_exception_leaves_nothing(self, shop: Workshop) -> None:
        """Neither does one in a record, nor one of the caller."""
        for last in ({"id": "no number", "data": b""}, plain(1)):
            with pytest.raises((DataFormatsError, ZeroDivisionError)):
                fail_after(shop.create(shop.path(), spec=PLAIN), [plain(0), last])
            assert list(shop.folder.iterdir()) == []

    def test_existing_data_stay(self, shop: Workshop) -> None:
        """Unless `overwrite=True`, and then until the new data are complete."""
        path = shop.write(3)
        with pytest.raises(FileExistsError, match="overwrite"):
            shop.create(path, spec=PLAIN)
        with pytest.raises(ZeroDivisionError):
            fail_after(shop.create(path, spec=PLAIN, overwrite=True), [plain(9)])
        check_plain(shop.open(path), range(3))
        with shop.create(path, spec={"x": "int64"}, overwrite=True) as writer:
            writer.append({"x": 5})
        assert list(shop.open(path)) == [{"x": 5}]

    def test_a_refused_record_is_not_there(self, shop: Workshop) -> None:
        """The writer goes on behind it."""
        with shop.create(shop.path(), spec=PLAIN) as writer:
            writer.append(plain(0))
            for wrong in ({"id": 1.5, "data": b"d"}, {"id": 2**63, "data": b"d"}, {"id": 1, "data": "text"}, {"id": 1}):
                with pytest.raises((SpecError, CodecError)):
                    writer.append(wrong)
            with pytest.raises(SpecError, match="more"):
                writer.append({**plain(1), "more": 1})
            assert len(writer) == 1
            writer.append(plain(1))
        check_plain(shop.open(shop.path()), range(2))

    def test_resume(self, shop: Workshop) -> None:
        """An exception keeps what was written; who resumes goes on with `len(writer)`."""
        path = shop.path()
        done = 0
        for stop in (5, 5, 12):
            interrupted = shop.create(path, spec=PLAIN, resume=True)
            assert len(interrupted) == done
            with pytest.raises(ZeroDivisionError):
                fail_after(interrupted, map(plain, range(done, stop)))
            done = stop
            assert not path.exists()
        with shop.create(path, spec=PLAIN, resume=True) as writer:
            assert len(writer) == 12
            writer.extend(plain(i) for i in range(12, 20))
            assert len(writer) == 20
        check_plain(shop.open(path), range(20))
        assert _partial(shop.folder) == []
        if not shop.case.grows:
            with pytest.raises(FileExistsError):
                shop.create(path, spec=PLAIN, resume=True)
            return
        for last in (21, 23):
            with shop.create(path, spec=PLAIN, resume=True) as writer:
                writer.extend(map(plain, range(len(writer), last)))
            check_plain(shop.open(path), range(last))
        assert verify(path, **shop.case.open_options).ok

    def test_starting_anew(self, shop: Workshop) -> None:
        """Without `resume=True`, what an interrupted writer left is replaced."""
        with pytest.raises(ZeroDivisionError):
            fail_after(shop.create(shop.path(), spec=PLAIN, resume=True), map(plain, range(5)))
        with shop.create(shop.path(), spec=PLAIN) as writer:
            assert len(writer) == 0
            writer.append(plain(7))
        check_plain(shop.open(shop.path()), [7])
        assert _partial(shop.folder) == []

    @pytest.mark.parametrize("options", [{"shard_records": 4}, {"shard_bytes": 150}, {"shard_records": 100}], ids=str)
    def test_shards(self, shop: Workshop, options: dict[str, int]) -> None:
        """A folder of the format's own names, in reading order, within the limits."""
        folder = shop.folder / "train"
        with shop.create(folder, spec=PLAIN, **options) as writer:
            writer.extend(map(plain, range(10)))
            assert not folder.exists()
        src = shop.open(folder)
        check_plain(src, range(10))
        names = sorted(path.name for path in folder.iterdir())
        assert len(names) == len(src.paths) or shop.case.folder
        if options == {"shard_records": 4}:
            assert tuple(names) == shop.case.shard_names
        if "shard_bytes" in options:
            assert len(names) > 1
        assert _partial(shop.folder) == []
        facts = json.loads((shop.folder / "train.dataformats.json").read_text("utf-8"))
        assert [entry["name"] for entry in facts["files"]] == sorted(names, key=natural_key)
        assert sum(entry["records"] for entry in facts["files"]) == 10
        assert verify(folder).ok

    def test_shards_of_nothing(self, shop: Workshop) -> None:
        """No records are a shard without records."""
        with shop.create(shop.folder / "train", spec=PLAIN, shard_records=4):
            pass
        assert len(shop.open(shop.folder / "train", format=shop.case.format)) == 0

    def test_shards_resume(self, shop: Workshop) -> None:
        """Complete shards stay as they are."""
        folder = shop.folder / "train"
        for stop in (3, 4, 9):
            interrupted = shop.create(folder, spec=PLAIN, shard_records=4, resume=True)
            with pytest.raises(ZeroDivisionError):
                fail_after(interrupted, map(plain, range(len(interrupted), stop)))
        with shop.create(folder, spec=PLAIN, shard_records=4, resume=True) as writer:
            assert len(writer) == 9
            writer.extend(plain(i) for i in range(9, 12))
        check_plain(shop.open(folder), range(12))
        assert len(list(folder.iterdir())) == 3

    @pytest.mark.parametrize("workers", [1, 3])
    def test_workers_keep_the_order(self, shop: Workshop, workers: int) -> None:
        """Encoded in parallel, laid down one after the other; the same file as without."""
        path = shop.path()
        with shop.create(path, spec=PLAIN, workers=workers) as writer:
            writer.extend(map(plain, range(200)))
            writer.append(plain(200))
        check_plain(shop.open(path), range(201))
        assert shop.contents(path) == shop.contents(shop.write(201, "alone"))

    def test_workers_that_fail(self, shop: Workshop) -> None:
        """The error of the first bad record, and nothing left."""
        records = [plain(0), {"id": "x", "data": b""}, plain(2)]
        with pytest.raises(SpecError, match="id"), shop.create(shop.path(), spec=PLAIN, workers=2) as writer:
            writer.extend(records)
        assert list(shop.folder.iterdir()) == []

    def test_our_sibling(self, shop: Workshop) -> None:
        """Spec and payload stand beside the data; a call's own words go before."""
        path = shop.write(3)
        sibling = path.with_name(path.name + ".dataformats.json")
        facts = json.loads(sibling.read_text("utf-8"))
        assert (facts["version"], facts["spec"], facts["format"]) == (1, PLAIN, shop.case.format)
        nbytes = sum(map(len, shop.contents(path).values()))
        assert facts["files"] == [{"name": path.name, "records": 3, "bytes": nbytes}]
        part = {"id": "int64?" if shop.case.blobs else "int64"}
        assert shop.open(path, spec=part).spec == part
        sibling.unlink()
        check_plain(shop.open(path, **shop.told()), range(3))

    @pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 2}', '{"version": 1, "spec": 3}',
                                      '{"version": 1, "payload": 3}', '{"version": 1, "spec": {"a": 1}}',
                                      '{"version": 1, "files": 3}', "[" * 100000])  # fmt: skip
    def test_a_damaged_sibling(self, shop: Workshop, text: str) -> None:
        """It is named, not believed."""
        path = shop.write(3)
        sibling = path.with_name(path.name + ".dataformats.json")
        sibling.write_text(text)
        with pytest.raises(DataFormatsError, match=r"dataformats\.json"):
            shop.open(path)
        assert not verify(path).ok

    def test_other_files_than_were_written(self, shop: Workshop) -> None:
        """`verify` compares with what the writer said."""
        path = shop.write(3)
        other = shop.write(5, "other")
        shop.move(other, path)
        report = verify(path, **shop.case.open_options)
        assert [finding.kind for finding in report.findings] == ["FormatError"]
        sibling = path.with_name(path.name + ".dataformats.json")
        sibling.write_text(json.dumps({"version": 1, **shop.told()}))
        assert verify(path, **shop.case.open_options).ok

    def test_numbers_are_exact(self, shop: Workshop) -> None:
        """Floats are rounded but not to infinity, integers must fit, nothing else is cast."""
        spec = {"f": "float32", "h": "float16[2]", "i": "uint8", "b": "bool"}
        good: dict[str, Any] = {"f": 0.1, "h": [1, 2.5], "i": 255, "b": True}
        bad: list[dict[str, Any]] = [
            {"f": 1e39},
            {"h": [1e5, 0]},
            {"h": [1]},
            {"i": 256},
            {"i": -1},
            {"i": 1.0},
            {"i": True},
            {"b": 1},
        ]
        bad += [{"f": "1"}, {"f": 2**24 + 1}, {"f": None}, {"f": 1j}, {"h": [[1, 2]]}, {"b": "x"}, {"f": [1.0]}]
        with shop.create(shop.path(), spec=spec) as writer:
            for wrong in bad:
                with pytest.raises(SpecError, match=f"'{next(iter(wrong))}'"):
                    writer.append({**good, **wrong})
            writer.append(good)
        found = shop.open(shop.path())[0]
        expected = {"f": float(np.float32(0.1)), "h": np.array([1, 2.5], np.float16), "i": 255, "b": True}
        assert same(found, expected)

    @pytest.mark.parametrize("spec", [{"x": "float32[][]"}, {"x": "nothing-like-it"}, {"x": "float32[]]"}, {"x": 3}])
    def test_specs_are_refused(self, shop: Workshop, spec: dict[str, Any]) -> None:
        """Before anything is written."""
        with pytest.raises(DataFormatsError), shop.create(shop.path(), spec=spec) as writer:
            writer.append({"x": [1.0]})
        assert list(shop.folder.iterdir()) == []

    def test_payloads(self, shop: Workshop) -> None:
        """Whole records by a codec; a spec that it cannot hold is refused."""
        if not shop.case.blobs:
            pytest.skip("the format stores fields apart")
        documents = [{"n": i, "list": [1, None, "é"]} for i in range(5)]
        for payload in ("msgpack", "json"):
            with shop.create(shop.path(payload), payload=payload) as writer:
                writer.extend(documents)
            src = shop.open(shop.path(payload))
            assert src.payload == payload
            assert list(src) == documents
        with pytest.raises(SpecError, match="spec"):
            shop.create(shop.path(), payload=shop.case.payload)
        with pytest.raises(SpecError, match="spec"):
            shop.create(shop.path(), payload="json", spec=PLAIN)
        with pytest.raises(CodecError, match="json"), shop.create(shop.path(), payload="json") as writer:
            writer.append(object())
        pair = {"mine": (lambda value: bytes([value]), lambda stored: stored[0])}
        with shop.create(shop.path("mine"), payload="mine", codecs=pair) as writer:
            writer.extend([1, 2])
        assert list(shop.open(shop.path("mine"), codecs=pair)) == [1, 2]

    def test_empty_records(self, shop: Workshop) -> None:
        """Taken, or refused one by one."""
        if not shop.case.blobs:
            pytest.skip("the format stores fields apart")
        with shop.create(shop.path()) as writer:
            writer.append(b"x")
            if shop.case.empty_records:
                writer.append(b"")
            else:
                with pytest.raises(SpecError):
                    writer.append(b"")
        expected = [b"x", b""] if shop.case.empty_records else [b"x"]
        assert list(shop.open(shop.path(), payload="bytes")) == expected

    def test_empty_values(self, shop: Workshop) -> None:
        """Taken, and read in every way; or refused one by one."""
        records = [{"id": i, "data": b"" if i % 3 != 1 else b"x" * i} for i in range(9)]
        if not shop.case.empty_values:
            with shop.create(shop.path(), spec=PLAIN) as writer:
                for record in records:
                    if record["data"]:
                        writer.append(record)
                        continue
                    with pytest.raises((SpecError, CodecError), match="data"):
                        writer.append(record)
            assert list(shop.open(shop.path())) == [record for record in records if record["data"]]
            return
        for kept in (records, records[:1], records[2:4] + records[5:]):  # nothing but empty ones, among them
            src = shop.open(shop.write_records(kept, PLAIN, f"data{len(kept)}"))
            n = len(kept)
            for found in (src, src.read(range(n)), [src[i] for i in range(n)], concat([src[:1], src[1:]])):
                assert list(found) == kept
            assert list(src[::-1].select("data")) == [{"data": record["data"]} for record in reversed(kept)]
            assert [src[i, ["data"]]["data"] for i in range(n)] == [record["data"] for record in kept]

    def test_odd_arguments(self, shop: Workshop) -> None:
        """Are refused by name."""
        for options in ({"shard_records": 0}, {"shard_bytes": 0}):
            with pytest.raises(ValueError, match="shard"):
                shop.create(shop.path(), spec=PLAIN, **options)
        with pytest.raises(TypeError, match="no_such_option"):
            shop.create(shop.path(), spec=PLAIN, no_such_option=1)
        with pytest.raises(TypeError, match="no_such_option"):
            shop.open(shop.write(1), no_such_option=1)
        assert blob(4) == b""


def _partial(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if "partial" in path.name or "journal" in path.name]
