"""Writing: complete or not at all, resumed, sharded, encoded by workers; and refused arguments."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dataformats.errors import CodecError, DataFormatsError, FormatError, SpecError
from dataformats.inspecting.verification import verify
from dataformats.interfaces import FieldsBackend, natural_key
from dataformats.reading.concat import concat
from dataformats.registry import backends
from dataformats.storage import atomic
from dataformats.testing.dataset_fixture import DatasetFixture, fail_after
from dataformats.testing.loop_over import loop_over
from dataformats.testing.records import blob, is_same_value


class WritingConformance:
    """Files appear complete or not at all."""

    def test_names_appear_at_close(self, data: DatasetFixture) -> None:
        """Only a partial file exists before `close`; only the data and their sidecar exist afterwards."""
        path = data.path()
        writer = data.create(path)
        writer.append(data.record(0))
        writer.flush()
        assert not path.exists()
        assert len(writer) == 1
        writer.close()
        writer.close()
        assert path.exists()
        assert _partial(data.folder) == []
        with pytest.raises(ValueError, match="closed"):
            writer.append(data.record(1))
        data.check(data.open(path), [0])

    def test_an_exception_leaves_nothing(self, data: DatasetFixture) -> None:
        """An exception of the caller or in a record removes the partial data."""
        for last in (_unwritable(data), data.record(1)):
            with pytest.raises((DataFormatsError, ZeroDivisionError)):
                fail_after(data.create(data.path()), [data.record(0), last])
            assert list(data.folder.iterdir()) == []

    def test_existing_data_stay(self, data: DatasetFixture) -> None:
        """Unless `overwrite=True`, and then until the new data are complete."""
        path = data.write(3)
        with pytest.raises(FileExistsError, match="overwrite"):
            data.create(path)
        with pytest.raises(ZeroDivisionError):
            fail_after(data.create(path, overwrite=True), [data.record(9)])
        data.check(data.open(path), range(3))
        with data.create(path, overwrite=True) as writer:
            writer.append(data.record(5))
        data.check(data.open(path), [5])

    def test_a_refused_record_is_not_there(self, data: DatasetFixture) -> None:
        """The writer continues after a refused record."""
        data.need_fields()
        with data.create(data.path()) as writer:
            writer.append(data.record(0))
            good = data.record(1)
            for wrong in ({**good, "id": 1.5}, {**good, "id": 2**63}, {**good, "data": 7}, {"id": 1}):
                with pytest.raises((SpecError, CodecError)):
                    writer.append(wrong)
            with pytest.raises(SpecError, match="more"):
                writer.append({**data.record(1), "more": 1})
            assert len(writer) == 1
            writer.append(data.record(1))
        data.check(data.open(data.path()), range(2))

    def test_resume(self, data: DatasetFixture) -> None:
        """An exception keeps the records if `resume=True`; the next writer starts at `len(writer)`."""
        path = data.path()
        done = 0
        for stop in (5, 5, 12):
            interrupted = data.create(path, resume=True)
            there = data.check_resumed(interrupted, done)
            with pytest.raises(ZeroDivisionError):
                fail_after(interrupted, data.records(range(there, stop)))
            done = stop
            assert not path.exists()
        with data.create(path, resume=True) as writer:
            writer.extend(data.record(i) for i in range(data.check_resumed(writer, 12), 20))
            assert len(writer) == 20
        data.check(data.open(path), range(20))
        assert _partial(data.folder) == []
        if not data.case.grows:
            with pytest.raises(FileExistsError):
                data.create(path, resume=True)
            return
        for last in (21, 23):
            with data.create(path, resume=True) as writer:
                writer.extend(data.records(range(len(writer), last)))
            data.check(data.open(path), range(last))
        assert verify(path, **data.case.open_options).ok

    def test_flushed_records_survive_a_kill(self, data: DatasetFixture) -> None:
        """What a kill leaves after `flush()` are its files: the next writer continues behind the flushed records."""
        path, left = data.path(), data.folder / "left"
        writer = data.create(path, resume=True)
        writer.extend(data.records(range(6)))
        writer.flush()
        files = [file for file in data.folder.rglob("*") if file.is_file()]
        for file in files:
            copy = left / file.relative_to(data.folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
        writer.abort()
        with data.create(left / path.name, resume=True) as resumed:
            assert len(resumed) == (6 if data.case.survives_kill else 0)
            resumed.extend(data.records(range(len(resumed), 10)))
        data.check(data.open(left / path.name), range(10))

    @loop_over("shards", [None, 4])
    def test_data_reach_the_disk(
        self, data: DatasetFixture, monkeypatch: pytest.MonkeyPatch, shards: int | None
    ) -> None:
        """`flush(sync=True)` syncs all that was written, and `close` does before a file gets its final name."""
        if shards and data.case.beside:
            return  # its files cannot be shards
        disk = _Disk(monkeypatch)
        options = {} if shards is None else {"shard_records": shards}
        with data.create(data.folder / "train" if shards else data.path(), resume=True, **options) as writer:
            for last in (3, 6):
                writer.extend(data.records(range(len(writer), last)))
                writer.flush(sync=True)
                if data.case.survives_kill:
                    assert disk.unsynced(data.folder) == []
                    assert shards is None or disk.unnamed(data.folder) == []
            writer.extend(data.records(range(6, 10)))
        assert disk.unsynced(data.folder) == []
        assert disk.unnamed(data.folder) == []
        assert disk.renamed_unsynced == []

    def test_compressions(self, data: DatasetFixture) -> None:
        """The format takes the names that it lists, `"none"` and `None`; all formats refuse others alike."""
        listed = backends.get(data.case.format).compressions
        names = [name.replace("LEVEL", "3") for name in listed if name != "auto"]
        values = ["none", None, *names, *map(str.upper, names)] if names else []
        for number, value in enumerate(values):
            path = data.path(str(number))
            with data.create(path, compression=value) as writer:
                writer.extend(data.records(range(5)))
            data.check(data.open(path), range(5))
        with pytest.raises(ValueError if names else TypeError, match=r"compression.*'lz5'|'compression'"):
            data.create(data.path(), compression="lz5")

    def test_starting_anew(self, data: DatasetFixture) -> None:
        """A writer without `resume=True` replaces the partial data of an interrupted writer."""
        with pytest.raises(ZeroDivisionError):
            fail_after(data.create(data.path(), resume=True), data.records(range(5)))
        with data.create(data.path()) as writer:
            assert len(writer) == 0
            writer.append(data.record(7))
        data.check(data.open(data.path()), [7])
        assert _partial(data.folder) == []

    @loop_over("options", [{"shard_records": 4}, {"shard_bytes": 150}, {"shard_records": 100}])
    def test_shards(self, data: DatasetFixture, options: dict[str, int]) -> None:
        """A folder of the format's own names, in reading order, within the limits."""
        folder = data.folder / "train"
        with data.create(folder, **options) as writer:
            writer.extend(data.records(range(10)))
            assert not folder.exists()
        src = data.open(folder)
        data.check(src, range(10))
        names = sorted(path.name for path in folder.iterdir())
        assert len(names) == len(src.paths) or data.case.folder
        if options == {"shard_records": 4}:
            assert tuple(names) == data.case.shard_names
        if "shard_bytes" in options:
            assert len(names) > 1
        assert _partial(data.folder) == []
        assert verify(folder).ok
        facts = json.loads(data.need_sidecar(folder).read_text("utf-8"))
        assert [entry["name"] for entry in facts["files"]] == sorted(names, key=natural_key)
        assert sum(entry["records"] for entry in facts["files"]) == 10

    def test_shards_of_nothing(self, data: DatasetFixture) -> None:
        """A writer without records writes one empty shard."""
        with data.create(data.folder / "train", shard_records=4):
            pass
        assert len(data.open(data.folder / "train", format=data.case.format)) == 0

    def test_shards_resume(self, data: DatasetFixture) -> None:
        """Complete shards are kept on resume."""
        folder = data.folder / "train"
        for stop in (3, 4, 9):
            interrupted = data.create(folder, shard_records=4, resume=True)
            with pytest.raises(ZeroDivisionError):
                fail_after(interrupted, data.records(range(len(interrupted), stop)))
        with data.create(folder, shard_records=4, resume=True) as writer:
            writer.extend(data.record(i) for i in range(data.check_resumed(writer, 9), 12))
        data.check(data.open(folder), range(12))
        assert len(list(folder.iterdir())) == 3

    @loop_over("workers", [1, 3])
    def test_workers_keep_the_order(self, data: DatasetFixture, workers: int) -> None:
        """Records are encoded in parallel and written in order: the same file as with one worker."""
        path = data.path()
        with data.create(path, workers=workers) as writer:
            writer.extend(data.records(range(200)))
            writer.append(data.record(200))
        data.check(data.open(path), range(201))
        assert data.contents(path) == data.contents(data.write(201, "alone"))

    def test_failing_encoder_worker_leaves_nothing(self, data: DatasetFixture) -> None:
        """The error of the first bad record is raised, and nothing is left."""
        records = [data.record(0), _unwritable(data), data.record(2)]
        with pytest.raises((SpecError, CodecError)), data.create(data.path(), workers=2) as writer:
            writer.extend(records)
        assert list(data.folder.iterdir()) == []

    def test_the_sidecar(self, data: DatasetFixture) -> None:
        """The sidecar holds spec and payload; the arguments of a call override them."""
        path = data.write(3)
        sidecar = data.need_sidecar(path)
        facts = json.loads(sidecar.read_text("utf-8"))
        assert (facts["version"], facts.get("spec"), facts["format"]) == (1, data.spec, data.case.format)
        (entry,) = facts["files"]
        nbytes = sum(map(len, data.contents(path).values()))
        assert (entry["name"], entry["records"], entry["bytes"]) == (path.name, 3, nbytes)
        if data.case.plain:
            part = {"id": "int64?" if data.case.blobs else "int64"}
            assert data.open(path, spec=part).spec == {**facts["spec"], **part}
        sidecar.unlink()
        data.check(data.open(path, **data.declared()), range(3))

    @loop_over("text", ["", "{", "[]", "{}", '{"version": 2}', '{"version": 1, "spec": 3}',
                       '{"version": 1, "payload": 3}', '{"version": 1, "spec": {"a": 1}}',
                       '{"version": 1, "files": 3}', "[" * 100000])  # fmt: skip
    def test_a_damaged_sidecar(self, data: DatasetFixture, text: str) -> None:
        """A damaged sidecar is an error that names it."""
        path = data.write(3)
        sidecar = path.with_name(path.name + ".dataformats.json")
        sidecar.write_text(text)
        with pytest.raises(DataFormatsError, match=r"dataformats\.json"):
            data.open(path)
        assert not verify(path).ok

    def test_other_files_than_were_written(self, data: DatasetFixture) -> None:
        """`verify` compares the files with the sidecar."""
        path = data.write(3)
        sidecar = data.need_sidecar(path)
        other = data.write(5, "other", first=1)
        data.move(other, path)
        report = verify(path, **data.case.open_options)
        assert [finding.kind for finding in report.findings] == ["FormatError"]
        assert report.records == 5
        with pytest.raises(FormatError, match=r"the sidecar .*dataformats\.json.* (lists|describes)"):
            data.open(path)
        assert len(data.open(path, **data.declared())) == 5
        sidecar.write_text(json.dumps({"version": 1, **data.declared()}))
        assert verify(path, **data.case.open_options).ok

    def test_numbers_are_exact(self, data: DatasetFixture) -> None:
        """Floats are rounded but not to infinity, integers must fit, nothing else is cast."""
        data.need_fields()
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
        with data.create(data.path(), spec=spec) as writer:
            for wrong in bad:
                with pytest.raises(SpecError, match=f"'{next(iter(wrong))}'"):
                    writer.append({**good, **wrong})
            writer.append(good)
        found = data.open(data.path())[0]
        expected = {"f": float(np.float32(0.1)), "h": np.array([1, 2.5], np.float16), "i": 255, "b": True}
        assert is_same_value(found, expected)

    @loop_over("spec", [{"x": "float32[][]"}, {"x": "nothing-like-it"}, {"x": "float32[]]"}, {"x": 3}])
    def test_specs_are_refused(self, data: DatasetFixture, spec: dict[str, Any]) -> None:
        """A bad spec is refused before anything is written."""
        data.need_fields()
        with pytest.raises(DataFormatsError), data.create(data.path(), spec=spec) as writer:
            writer.append({"x": [1.0]})
        assert list(data.folder.iterdir()) == []

    def test_payloads(self, data: DatasetFixture) -> None:
        """Other payloads than the payload of the case are written; a spec that a payload cannot hold is refused."""
        data.need_bytes()
        documents = [{"n": i, "list": [1, None, "é"]} for i in range(5)]
        for payload in ("msgpack", "json"):
            with data.create(data.path(payload), payload=payload) as writer:
                writer.extend(documents)
            src = data.open(data.path(payload))
            assert src.payload == payload
            assert list(src) == documents
        with pytest.raises(SpecError, match="spec"):
            data.create(data.path(), payload=data.case.payload)
        with pytest.raises(SpecError, match="spec"):
            data.create(data.path(), payload="json", spec=data.spec)
        with pytest.raises(CodecError, match="json"), data.create(data.path(), payload="json") as writer:
            writer.append(object())
        pair = {"mine": (lambda value: bytes([value]), lambda stored: stored[0])}
        with data.create(data.path("mine"), payload="mine", codecs=pair) as writer:
            writer.extend([1, 2])
        assert list(data.open(data.path("mine"), codecs=pair)) == [1, 2]

    def test_empty_records(self, data: DatasetFixture) -> None:
        """Empty records are written, or refused one by one."""
        data.need_bytes()
        with data.create(data.path(), spec=None) as writer:
            writer.append(b"x")
            if data.case.empty_records:
                writer.append(b"")
            else:
                with pytest.raises(SpecError):
                    writer.append(b"")
        expected = [b"x", b""] if data.case.empty_records else [b"x"]
        assert list(data.open(data.path(), payload="bytes")) == expected

    def test_empty_values(self, data: DatasetFixture) -> None:
        """Empty values are written, and read in every way; or refused one by one."""
        data.need_fields()
        x: Any = "x" if "bytes" in data.case.refuses else b"x"
        records = [{"id": i, "data": x[:0] if i % 3 != 1 else x * i} for i in range(9)]
        if not data.case.empty_values:
            with data.create(data.path()) as writer:
                for record in records:
                    if record["data"]:
                        writer.append(record)
                        continue
                    with pytest.raises((SpecError, CodecError), match="data"):
                        writer.append(record)
            assert list(data.open(data.path())) == [record for record in records if record["data"]]
            return
        for kept in (records, records[:1], records[2:4] + records[5:]):  # one of the datasets has only empty records
            src = data.open(data.write_records(kept, data.spec, f"data{len(kept)}"))
            n = len(kept)
            for found in (src, src.read(range(n)), [src[i] for i in range(n)], concat([src[:1], src[1:]])):
                assert list(found) == kept
            assert list(src[::-1].select("data")) == [{"data": record["data"]} for record in reversed(kept)]
            assert [src[i, ["data"]]["data"] for i in range(n)] == [record["data"] for record in kept]

    def test_records_without_fields(self, data: DatasetFixture) -> None:
        """A format that stores fields apart refuses them; another one reads them as written."""
        data.need_fields()
        if isinstance(backends.get(data.case.format), FieldsBackend):
            with pytest.raises(SpecError, match="stores fields"):
                data.create(data.path(), spec={})
        elif data.case.empty_records:
            assert list(data.open(data.write_records([{}, {}], {}))) == [{}, {}]

    def test_odd_arguments(self, data: DatasetFixture) -> None:
        """The error names the argument."""
        for options in ({"shard_records": 0}, {"shard_bytes": 0}):
            with pytest.raises(ValueError, match="shard"):
                data.create(data.path(), **options)
        with pytest.raises(TypeError, match="no_such_option"):
            data.create(data.path(), no_such_option=1)
        with pytest.raises(TypeError, match="no_such_option"):
            data.open(data.write(1), no_such_option=1)
        assert blob(4) == b""


class _Disk:
    """Watches which files are synced, how long they were then, and which names a synced folder had."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: dict[int, int] = {}
        self.names: set[tuple[int, str]] = set()
        self.renamed_unsynced: list[str] = []
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._watched_sync(getattr(os, name)))
        for name in ("rename", "replace"):
            monkeypatch.setattr(os, name, self._watched_rename(getattr(os, name)))
        monkeypatch.setattr(atomic, "publish", self._watched_rename(atomic.publish))

    def unsynced(self, path: Path) -> list[str]:
        """Return the files, including files in a folder, with bytes written after their last sync."""
        return [
            str(file)
            for file in _files_but_indexes(path)
            if self.synced.get(file.stat().st_ino, 0) < file.stat().st_size
        ]

    def unnamed(self, path: Path) -> list[str]:
        """Return the files in a folder whose names were not synced."""
        return [
            str(file) for file in _files_but_indexes(path) if (file.parent.stat().st_ino, file.name) not in self.names
        ]

    def _watched_sync(self, sync: Callable[[Any], None]) -> Callable[[Any], None]:
        def watched(file: Any) -> None:
            sync(file)
            status = os.fstat(file if isinstance(file, int) else file.fileno())
            self.synced[status.st_ino] = status.st_size
            if stat.S_ISDIR(status.st_mode):
                self.names |= {(status.st_ino, name) for name in os.listdir(file)}

        return watched

    def _watched_rename(self, rename: Callable[..., None]) -> Callable[..., None]:
        def watched(source: Any, destination: Any, **options: Any) -> None:
            self.renamed_unsynced += self.unsynced(Path(source))
            rename(source, destination, **options)

        return watched


def _files_but_indexes(path: Path) -> list[Path]:
    found = [path, *path.rglob("*")]
    return [file for file in found if file.is_file() and ".dataformats.idx" not in file.name]


def _unwritable(data: DatasetFixture) -> dict[str, Any]:
    name = next(iter(data.record(0)))
    return {**data.record(0), name: "no number" if data.case.plain else object()}


def _partial(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if "partial" in path.name or "journal" in path.name]
