"""Damage: small files cut at every byte and with every bit flipped."""

from __future__ import annotations

import os
import time
import tracemalloc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from dataformats.errors import DataFormatsError, FormatError, SpecError
from dataformats.inspecting import verify
from dataformats.reading.source import RecordSource
from dataformats.testing.dataset_fixture import Workshop
from dataformats.testing.records import same

__all__ = ["DamageConformance"]

_SPEC = {"i": "int64", "d": "bytes"}
_PEAK_BYTES = 50 * 2**20
_LIMIT_S = 60.0  # tells a hang from work, and nothing of speed


class DamageConformance:
    """Whatever is in a file: an error of this package, or the right records."""

    def test_cut_at_every_byte(self, shop: Workshop) -> None:
        """Records before the cut are there, the rest is an error, nothing is lost in silence."""
        path = _write(shop)
        ends = _ends(shop)
        for file in shop.files(path):
            whole = file.read_bytes()
            unnoticed = {*(ends or ()), 0} if not file.name.endswith(shop.case.cut_unnoticed) else range(len(whole))
            with _quiet():
                for n in range(len(whole)):
                    file.write_bytes(whole[:n])
                    found, complete = _read(shop, path)
                    at = f"{file.name} cut at byte {n} of {len(whole)}: {found}"
                    if ends is not None:
                        intact = sum(end <= n for end in ends)
                        assert found[:intact] == [True] * intact, at
                    assert False not in found or (None in found and not shop.case.checksums), at
                    assert not complete or n in unnoticed, f"{at}: nothing was noticed"
            file.write_bytes(whole)

    def test_every_bit_flipped(self, shop: Workshop) -> None:
        """With checksums, never a wrong record."""
        path = _write(shop)
        for file in shop.files(path):
            whole = file.read_bytes()
            for bit in range(0, 8 * len(whole), shop.case.flip_every):
                with _quiet(traced=bit % 8 == 7):  # the bits that make numbers large
                    file.write_bytes(_flipped(whole, bit))
                    found, _ = _read(shop, path, verified=bit % 8 in (0, 7))
                    if shop.case.checksums:
                        assert False not in found[:3], f"bit {bit}: a wrong record"
                        assert len(found) <= 3 or None in found, f"bit {bit}: nothing was noticed"
            file.write_bytes(whole)

    def test_without_checksums(self, shop: Workshop) -> None:
        """What is not verified may be wrong, but ends in nothing worse than an error."""
        path = _write(shop)
        for file in shop.files(path):
            whole = file.read_bytes()
            with _quiet():
                for bit in range(0, 8 * len(whole), 13):
                    file.write_bytes(_flipped(whole, bit))
                    _read(shop, path, verify_checksums=False)
            file.write_bytes(whole)

    def test_noise(self, shop: Workshop) -> None:
        """Bytes in the middle overwritten, repeated, left out, put in."""
        path = _write(shop)
        for file in shop.files(path):
            whole = file.read_bytes()
            middle = len(whole) // 2
            edits = [whole[:at] + fill + whole[at + skip :] for at in range(0, len(whole), 5)
                     for fill, skip in ((b"\xff" * 8, 8), (b"\x00" * 8, 8), (b"", 3), (b"abc", 0))]  # fmt: skip
            with _quiet():
                for damaged in chain(edits, (whole * 2, whole + b"\0", whole[middle:], whole[::-1], b"\xff" * 40)):
                    file.write_bytes(damaged)
                    _read(shop, path, whole=damaged == whole * 2)
            file.write_bytes(whole)

    def test_records_around_damage(self, shop: Workshop) -> None:
        """`omit` leaves out what is damaged and says so; `read` raises the error with its place."""
        ends = _ends(shop)
        if ends is None or not shop.case.checksums:
            pytest.skip("no byte is known to be covered by a checksum")
        path = _write(shop)
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[ends[0] - 6] ^= 1  # inside the first record: in its last bytes but its checksum
        path.write_bytes(damaged)
        src = _open(shop, path)
        assert len(src) == 3
        with pytest.raises(FormatError) as raised:
            src.read([2, 0])
        assert raised.value.index == 0
        assert raised.value.path == str(path)
        assert raised.value.offset_bytes is not None
        batch = src.read([2, 0, 1, 0], on_corrupt="omit")
        assert [record["i"] for record in batch] == [300, 2]
        assert batch.indices.tolist() == [2, 1]
        assert list(batch.failed) == [0]
        view = src[::-1].read([0, 2, 1], on_corrupt="omit")
        assert (view.indices.tolist(), list(view.failed)) == ([0, 1], [2])
        with pytest.raises(FormatError):
            list(src)
        report = verify(path, **_options(shop))
        assert [finding.index for finding in report.findings] == [0]
        with pytest.raises(ValueError, match="on_corrupt"):
            src.read([0], on_corrupt="ignore")  # type: ignore[arg-type]

    def test_the_second_of_two_files(self, shop: Workshop) -> None:
        """Its damage is named as its own; the files around it are read."""
        path = _write(shop)
        good = [_write(shop, "good0"), _write(shop, "good1")]
        for file in shop.files(path):
            whole = file.read_bytes()
            file.write_bytes(whole[:-1])
            _check_middle(shop, [good[0], path, good[1]], file)
            file.write_bytes(whole)


def _check_middle(shop: Workshop, paths: list[Path], cut: Path) -> None:
    """Fail unless the records around a data set with a cut file are read, and the cut is an error that names it."""
    if cut.name.endswith(shop.case.cut_refused):
        with pytest.raises(FormatError, match=str(cut)):
            len(_open(shop, paths))
        return
    src = _open(shop, paths)
    n = len(src)
    found = [_one(shop, src, i) for i in range(n)]
    last = [same(src[i - 3], _records(shop)[i]) for i in range(3)]
    assert found[:3] == last == [True] * 3
    if cut.name.endswith(shop.case.cut_unnoticed):
        assert n < 9
        assert None not in found
        return
    assert n in (9, 10)  # a rest that cannot be read is one more
    assert None in found[3:-3]
    streamed: list[Any] = []
    with pytest.raises(FormatError, match=str(cut.parent if shop.case.folder else cut)):
        streamed.extend(src)
    assert len(streamed) >= 3


def _records(shop: Workshop) -> list[dict[str, Any]]:
    return [{"i": 1, "d": b"one"}, {"i": 2, "d": b"" if shop.case.empty_values else b"2"}, {"i": 300, "d": b"x"}]


def _write(shop: Workshop, name: str = "damaged") -> Path:
    """Write three records without a sibling, which would be one more thing to be damaged."""
    path = shop.write_records(_records(shop), _SPEC, name)
    path.with_name(path.name + ".dataformats.json").unlink(missing_ok=True)
    return path


def _flipped(data: bytes, bit: int) -> bytes:
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def _ends(shop: Workshop) -> list[int] | None:
    if shop.case.ends is None:
        return None
    whole = shop.write_records(_records(shop), _SPEC, "whole")
    return list(shop.case.ends([len(stored) for stored in shop.open(whole).read_bytes([0, 1, 2])]))


def _options(shop: Workshop) -> dict[str, Any]:
    nowhere = os.path.join(os.devnull, "x")  # no index is kept: thousands would be
    return {"format": shop.case.format, "index": nowhere, **shop.told(_SPEC)}


def _open(shop: Workshop, path: Any, **options: Any) -> RecordSource:
    return shop.open(path, **{**_options(shop), **options})


def _read(
    shop: Workshop, path: Any, whole: bool = False, verified: bool = True, **options: Any
) -> tuple[list[bool | None], bool]:
    """Read a damaged file in every way; return for each record whether it is right (`None`: an error).

    The second value says that nothing was noticed: every record that there seems to be is right.
    """
    begin = time.perf_counter()
    if tracemalloc.is_tracing():
        tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    found: list[bool | None] = []
    opened = False
    with suppress(DataFormatsError):
        shop.open(path, index=_options(shop)["index"], **options)
    with suppress(DataFormatsError):
        src = _open(shop, path, **options)
        found = [_one(shop, src, i) for i in range(len(src))]
        opened = True
    try:
        for streamed, record in enumerate(_open(shop, path, **options), 1):
            if shop.case.checksums and options.get("verify_checksums", True) and not whole:
                assert same(record, _records(shop)[streamed - 1])
        ended = True
    except DataFormatsError:
        ended = False
    try:
        report = verify(path, **{**_options(shop), **options}) if verified else None
    except SpecError:  # a damaged file may have other fields than the call says
        assert not shop.case.blobs
        report = None
    if report is not None and shop.case.checksums and options.get("verify_checksums", True) and not whole:
        right = opened and None not in found
        assert report.ok == right, f"verify says {report}, reading {found}"
        assert ended == right, f"iteration ends, reading says {found}"
    assert tracemalloc.get_traced_memory()[1] - before < _PEAK_BYTES, "too much memory"
    assert time.perf_counter() - begin < _LIMIT_S, "too long"
    return found, opened and ended and all(found)


def _one(shop: Workshop, src: RecordSource, index: int) -> bool | None:
    try:
        return same(src[index], _records(shop)[index % 3])
    except DataFormatsError:
        return None


@contextmanager
def _quiet(traced: bool = True) -> Iterator[None]:
    """Measure memory if asked to; formats may warn of files that look old."""
    if traced:
        tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            yield
    finally:
        tracemalloc.stop()
