"""Sidecars: indexes are kept in the right place, and only used if they belong to the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dataformats.interfaces import SequentialReader
from dataformats.reading.blob_source import BlobSource
from dataformats.testing.damage_choice import flipped
from dataformats.testing.dataset_fixture import DatasetFixture


class IndexConformance:
    """Indexes change the speed of a read and nothing else."""

    def test_where_they_are_kept(self, data: DatasetFixture, tmp_path: Path) -> None:
        """An index in the cache, beside the data or in a folder is used the next time."""
        path = data.write(20)
        os.utime(path, ns=(10**18, 10**18))  # a new file may yet change within a tick of the clock
        chosen = tmp_path / "chosen"
        for index, place in (("cache", tmp_path / "cache"), (str(chosen), chosen), ("beside", data.folder)):
            data.check([data.open(path, index=index)[7]], [7])
            kept = sorted(place.rglob("*.dataformats.idx"))
            assert bool(kept) == data.case.indexed, f"index={index!r}"
            times = [file.stat().st_mtime_ns for file in kept]
            data.check(data.open(path, index=index).read([3]), [3])
            assert [file.stat().st_mtime_ns for file in kept] == times

    def test_iteration_needs_none(self, data: DatasetFixture, tmp_path: Path) -> None:
        """`open`, `spec` and `for` make no sidecar."""
        src = data.open(data.write(20))
        if not isinstance(src, BlobSource) or not isinstance(src.reader, SequentialReader):
            pytest.skip("the format is read in order by its index, too")
        data.check_spec(src)
        data.check((record for record in src), range(20))  # list(src) would ask for its length
        assert list(tmp_path.rglob("*.dataformats.idx")) == []

    def test_unwritable_cache_folder_keeps_index_in_memory(self, data: DatasetFixture, tmp_path: Path) -> None:
        """The index stays in memory."""
        (tmp_path / "file").write_bytes(b"")
        path = data.write(20)
        data.check(data.open(path, index=str(tmp_path / "file" / "x")).read([3, 5]), [3, 5])

    def test_stale_ones(self, data: DatasetFixture) -> None:
        """An index is not used after another file replaced its file, even one of the same size."""
        path = data.write(20)
        data.check([data.open(path, index="beside")[3]], [3])
        with data.create(path, overwrite=True) as writer:
            writer.extend(data.records(range(19, -1, -1)))  # the same bytes in another order: the same size
        data.check(data.open(path, index="beside").read(range(20)), range(19, -1, -1))
        os.utime(path, ns=(1, 1))
        data.check(data.open(path, index="beside").read(range(20)), range(19, -1, -1))

    def test_wrong_index_never_returns_other_records(self, data: DatasetFixture) -> None:
        """An index of another file with the same size and time: the right records, or an error."""
        if not data.case.indexed:
            pytest.skip("the format has its index inside")
        path = data.write(20)
        len(data.open(path, index="beside"))
        sidecar = path.with_name(path.name + ".dataformats.idx")
        kept = sidecar.read_bytes()
        for records in (list(range(19, -1, -1)), [0, *range(2, 20)]):
            other = data.path("other")
            with data.create(other, overwrite=True) as writer:
                writer.extend(data.record(i) for i in records)
            other.with_name(other.name + ".dataformats.idx").write_bytes(kept)  # came with the data: a hint
            data.check(data.open(other, index="beside", **data.declared()).read(range(len(records))), records)


class IndexDurability:
    """Damaged indexes."""

    def test_damaged_ones(self, data: DatasetFixture) -> None:
        """An index that is cut, or has a flipped bit, is built again."""
        if not data.case.indexed:
            pytest.skip("the format has its index inside")
        path = data.write(6)
        os.utime(path, ns=(10**18, 10**18))
        len(data.open(path, index="beside"))
        sidecar = path.with_name(path.name + ".dataformats.idx")
        whole = sidecar.read_bytes()
        wrong = [whole[:n] for n in range(0, len(whole), 7)]
        wrong += [flipped(whole, bit) for bit in range(0, 8 * len(whole), 11)]
        for damaged in [*data.choose_damage(wrong), whole + b"x"]:
            sidecar.write_bytes(damaged)
            data.check(data.open(path, index="beside").read(range(6)), range(6))
