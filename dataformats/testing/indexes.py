"""Sidecars: where indexes are kept, that they are believed only where they fit, and that nobody needs them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dataformats.testing.dataset_fixture import Workshop, check_plain
from dataformats.testing.records import PLAIN, plain

__all__ = ["IndexConformance"]


class IndexConformance:
    """Indexes are a matter of speed alone."""

    def test_where_they_are_kept(self, shop: Workshop, tmp_path: Path) -> None:
        """In the cache, beside the data, or in a folder; always used the next time."""
        path = shop.write(20)
        os.utime(path, ns=(10**18, 10**18))  # what was just written may yet change within a tick of the clock
        chosen = tmp_path / "chosen"
        for index, place in (("cache", tmp_path / "cache"), ("beside", shop.folder), (str(chosen), chosen)):
            check_plain([shop.open(path, index=index)[7]], [7])
            kept = sorted(place.rglob("*.dataformats.idx"))
            assert bool(kept) == shop.case.indexed, f"index={index!r}"
            times = [file.stat().st_mtime_ns for file in kept]
            check_plain(shop.open(path, index=index).read([3]), [3])
            assert [file.stat().st_mtime_ns for file in kept] == times

    def test_iteration_needs_none(self, shop: Workshop, tmp_path: Path) -> None:
        """`open`, `spec` and `for` make no sidecar."""
        src = shop.open(shop.write(20))
        assert src.spec == PLAIN
        check_plain((record for record in src), range(20))  # list(src) would ask for its length
        assert list(tmp_path.rglob("*.dataformats.idx")) == []

    def test_folders_that_cannot_be_written(self, shop: Workshop, tmp_path: Path) -> None:
        """The index stays in memory."""
        (tmp_path / "file").write_bytes(b"")
        path = shop.write(20)
        check_plain(shop.open(path, index=str(tmp_path / "file" / "x")).read([3, 5]), [3, 5])

    def test_stale_ones(self, shop: Workshop) -> None:
        """Of a file that was replaced by another one, of the same size too."""
        path = shop.write(20)
        check_plain([shop.open(path, index="beside")[3]], [3])
        records = [plain(i) for i in range(19, -1, -1)]  # the same bytes in another order: the same size
        with shop.create(path, spec=PLAIN, overwrite=True) as writer:
            writer.extend(records)
        assert list(shop.open(path, index="beside").read(range(20))) == records
        os.utime(path, ns=(1, 1))
        assert list(shop.open(path, index="beside").read(range(20))) == records

    def test_damaged_ones(self, shop: Workshop) -> None:
        """Cut anywhere, any bit flipped: made again."""
        if not shop.case.indexed:
            pytest.skip("the format has its index inside")
        path = shop.write(6)
        os.utime(path, ns=(10**18, 10**18))
        len(shop.open(path, index="beside"))
        sidecar = path.with_name(path.name + ".dataformats.idx")
        whole = sidecar.read_bytes()
        wrong = [whole[:n] for n in range(0, len(whole), 7)] + [whole + b"x"]
        wrong += [_flipped(whole, bit) for bit in range(0, 8 * len(whole), 11)]
        for damaged in wrong:
            sidecar.write_bytes(damaged)
            check_plain(shop.open(path, index="beside").read(range(6)), range(6))

    def test_indexes_that_lie(self, shop: Workshop) -> None:
        """One of another file, made to fit by its size and time, gives errors or the right records."""
        if not shop.case.indexed:
            pytest.skip("the format has its index inside")
        path = shop.write(20)
        len(shop.open(path, index="beside"))
        sidecar = path.with_name(path.name + ".dataformats.idx")
        kept = sidecar.read_bytes()
        for records in (list(range(19, -1, -1)), [0, *range(2, 20)]):
            other = shop.path("other")
            with shop.create(other, spec=PLAIN, overwrite=True) as writer:
                writer.extend(plain(i) for i in records)
            other.with_name(other.name + ".dataformats.idx").write_bytes(kept)  # came with the data: a hint
            check_plain(shop.open(other, index="beside", **shop.told()).read(range(len(records))), records)


def _flipped(data: bytes, bit: int) -> bytes:
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)
