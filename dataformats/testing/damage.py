"""Damage: small files cut at every byte and with every bit flipped."""

from __future__ import annotations

import os
import time
import tracemalloc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any

import pytest

from dataformats.errors import DataFormatsError, FormatError
from dataformats.inspecting import verify
from dataformats.source import RecordSource
from dataformats.testing.records import same
from dataformats.testing.workshop import Workshop

__all__ = ["DamageConformance"]

_SPEC = {"i": "int64", "d": "bytes"}
_RECORDS = [{"i": 1, "d": b"one"}, {"i": 2, "d": b""}, {"i": 300, "d": b"x"}]
_PEAK_BYTES = 50 * 2**20
_LIMIT_S = 5.0


class DamageConformance:
    """Whatever is in a file: an error of this package, or the right records."""

    def test_cut_at_every_byte(self, shop: Workshop) -> None:
        """Records before the cut are there, the rest is an error, nothing is lost in silence."""
        whole, path = _write(shop)
        ends = _ends(shop)
        with _quiet():
            for n in range(len(whole)):
                path.write_bytes(whole[:n])
                found, complete = _read(shop, path)
                if ends is not None:
                    intact = sum(end <= n for end in ends)
                    assert found[:intact] == [True] * intact, f"cut at byte {n}: {found}"
                assert not complete or n in (0, *(ends or ())), f"cut at byte {n}: nothing was noticed"

    def test_every_bit_flipped(self, shop: Workshop) -> None:
        """With checksums, never a wrong record."""
        whole, path = _write(shop)
        for bit in range(8 * len(whole)):
            with _quiet(traced=bit % 8 == 7):  # the bits that make numbers large
                damaged = bytearray(whole)
                damaged[bit // 8] ^= 1 << bit % 8
                path.write_bytes(damaged)
                found, _ = _read(shop, path, verified=bit % 8 in (0, 7))
                if shop.case.checksums:
                    assert False not in found[: len(_RECORDS)], f"bit {bit}: a wrong record"
                    assert len(found) <= len(_RECORDS) or None in found, f"bit {bit}: nothing was noticed"

    def test_without_checksums(self, shop: Workshop) -> None:
        """What is not verified may be wrong, but ends in nothing worse than an error."""
        whole, path = _write(shop)
        with _quiet():
            for bit in range(0, 8 * len(whole), 13):
                damaged = bytearray(whole)
                damaged[bit // 8] ^= 1 << bit % 8
                path.write_bytes(damaged)
                _read(shop, path, verify_checksums=False)

    def test_noise(self, shop: Workshop) -> None:
        """Bytes in the middle overwritten, repeated, left out, put in."""
        whole, path = _write(shop)
        middle = len(whole) // 2
        edits = [whole[:at] + fill + whole[at + skip :] for at in range(0, len(whole), 5)
                 for fill, skip in ((b"\xff" * 8, 8), (b"\x00" * 8, 8), (b"", 3), (b"abc", 0))]  # fmt: skip
        with _quiet():
            for damaged in chain(edits, (whole * 2, whole + b"\0", whole[middle:], whole[::-1], b"\xff" * 40)):
                path.write_bytes(damaged)
                _read(shop, path, whole=damaged == whole * 2)

    def test_records_around_damage(self, shop: Workshop) -> None:
        """`omit` leaves out what is damaged and says so; `read` raises the error with its place."""
        whole, path = _write(shop)
        ends = _ends(shop)
        if ends is None or not shop.case.checksums:
            pytest.skip("no byte is known to be covered by a checksum")
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
        whole, path = _write(shop)
        good = [shop.path("good0"), shop.path("good1")]
        for other in good:
            other.write_bytes(whole)
        path.write_bytes(whole[:-1])
        src = _open(shop, [good[0], path, good[1]])
        n = len(src)
        assert n in (9, 10)  # a rest that cannot be read is one more
        found = [_one(src, i) for i in range(n)]
        last = [same(src[i - 3], _RECORDS[i]) for i in range(3)]
        assert found[:3] == last == [True] * 3
        assert None in found[3:-3]
        streamed: list[Any] = []
        with pytest.raises(FormatError, match=str(path)):
            streamed.extend(src)
        assert len(streamed) >= 3


def _write(shop: Workshop) -> tuple[bytes, Any]:
    whole = shop.write_records(_RECORDS, _SPEC).read_bytes()
    path = shop.path("damaged")
    path.write_bytes(whole)
    return whole, path


def _ends(shop: Workshop) -> list[int] | None:
    if shop.case.ends is None:
        return None
    lengths = [len(stored) for stored in shop.open(shop.path()).read_bytes([0, 1, 2])] if shop.case.blobs else []
    return list(shop.case.ends(lengths))


def _options(shop: Workshop) -> dict[str, Any]:
    told = {"payload": "example", "spec": _SPEC} if shop.case.blobs else {}
    nowhere = os.path.join(os.devnull, "x")  # no index is kept: thousands would be
    return {"format": shop.case.format, "index": nowhere, **told}


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
        found = [_one(src, i) for i in range(len(src))]
        opened = True
    try:
        for streamed, record in enumerate(_open(shop, path, **options), 1):
            if shop.case.checksums and options.get("verify_checksums", True) and not whole:
                assert same(record, _RECORDS[streamed - 1])
        ended = True
    except DataFormatsError:
        ended = False
    report = verify(path, **{**_options(shop), **options}) if verified else None
    if report is not None and shop.case.checksums and options.get("verify_checksums", True) and not whole:
        right = opened and None not in found
        assert report.ok == right, f"verify says {report}, reading {found}"
        assert ended == right, f"iteration ends, reading says {found}"
    assert tracemalloc.get_traced_memory()[1] - before < _PEAK_BYTES, "too much memory"
    assert time.perf_counter() - begin < _LIMIT_S, "too long"
    return found, opened and ended and all(found)


def _one(src: RecordSource, index: int) -> bool | None:
    try:
        return same(src[index], _RECORDS[index % len(_RECORDS)])
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
