"""Damage: small files that are cut, or have a flipped bit, at some places or at every one."""

from __future__ import annotations

import os
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from dataformats.columns.codec_resolver import as_bytes
from dataformats.errors import DataFormatsError, FormatError, SpecError
from dataformats.inspecting.verification import verify
from dataformats.interfaces.record_source import RecordSource
from dataformats.registry import backends
from dataformats.repairing import RepairReport, repair
from dataformats.testing.damage_choice import flipped
from dataformats.testing.dataset_fixture import DatasetFixture
from dataformats.testing.records import is_same_value

_PEAK_BYTES = 50 * 2**20
_N_REPAIRED = 60


class DamageDurability:
    """Any damage: an error of this package, or the right records."""

    def test_cut_at_every_byte(self, data: DatasetFixture) -> None:
        """Records before the cut are there, the rest is an error, nothing is lost silently."""
        _check_cuts(data, lambda size: data.choose_damage(range(0, size, data.case.cut_every)))

    def test_every_bit_flipped(self, data: DatasetFixture) -> None:
        """Checksums prevent every wrong record.

        Each bit of headers, tables and framing is flipped, and of a value that a checksum covers the bits of the first,
        the middle and the last byte.
        """
        covered = _stored_values(data) if data.case.verifies_records else []

        def choose(whole: bytes) -> Sequence[int]:
            inner = {n for value in covered for n in _inner_bytes(whole, value)}
            every = range(0, 8 * len(whole), data.case.flip_every)
            return data.choose_damage([bit for bit in every if bit // 8 not in inner])

        _check_flips(data, choose)

    def test_without_checksums(self, data: DatasetFixture) -> None:
        """Unverified data may be wrong, but raises nothing worse than an error of this package."""
        path = _write(data)
        for file in data.files(path):
            whole = file.read_bytes()
            for bit in data.choose_damage(range(0, 8 * len(whole), 29 * data.case.cut_every)):
                file.write_bytes(flipped(whole, bit))
                with _quiet(data, traced=bit % 8 == 7):
                    _read(data, path, bit, verify_checksums=False)
            file.write_bytes(whole)

    def test_repair(self, data: DatasetFixture) -> None:
        """A repaired file has the right records, in order, and the report counts them."""
        if not backends.get(data.case.format).copies_records:
            pytest.skip("records of the format are not copied as they are stored")
        path = _write(data)
        report = _check_repair(data, path)
        assert report is not None
        assert (report.kept, report.ok) == (3, True), f"sound records are lost: {report}"
        for file in data.files(path):
            whole = file.read_bytes()
            step = len(whole) // 8 + 1
            for n in data.choose_damage(range(0, len(whole), step)):
                file.write_bytes(flipped(whole, 8 * n + n % 8))
                report = _check_repair(data, path)
                assert report is None or report.kept == 3 or not report.ok, f"a loss is not reported: {report}"
                file.write_bytes(whole[:n])
                _check_repair(data, path)
            file.write_bytes(whole)

    def test_noise(self, data: DatasetFixture) -> None:
        """Bytes in the middle are overwritten, repeated, left out, inserted."""
        path = _write(data)
        for file in data.files(path):
            whole = file.read_bytes()
            middle = len(whole) // 2
            places = data.choose_damage(range(0, len(whole), 11 * data.case.cut_every))
            edits = [whole[:at] + fill + whole[at + skip :] for at in places
                     for fill, skip in ((b"\xff" * 8, 8), (b"\x00" * 8, 8), (b"", 3), (b"abc", 0))]  # fmt: skip
            all_of_it = (whole * 2, whole + b"\0", whole[middle:], whole[::-1], b"\xff" * 40)
            for number, damaged in enumerate(chain(edits, all_of_it)):
                file.write_bytes(damaged)
                with _quiet(data, traced=b"\xff" * 8 in damaged):  # bytes that make numbers large
                    _read(data, path, number, whole=damaged == whole * 2)
            file.write_bytes(whole)


class DamageConformance:
    """Damage at a sample of the places that `DamageDurability` tries, and the records around it."""

    def test_cuts(self, data: DatasetFixture) -> None:
        """A file cut at some of its bytes: its ends, and 10 places between."""
        _check_cuts(data, lambda size: range(0, size, size // 10 + 1))

    def test_flipped_bits(self, data: DatasetFixture) -> None:
        """About 60 flipped bits, at every position in a byte."""
        every = 8 * sum(map(len, data.contents(_write(data)).values())) // 60 | 1
        _check_flips(data, lambda whole: range(0, 8 * len(whole), every))

    def test_records_around_damage(self, data: DatasetFixture) -> None:
        """`omit` leaves damaged records out and lists them; `read` raises the error with its place."""
        ends = _ends(data)
        if ends is None or not data.case.verifies_records:
            pytest.skip("no byte is known to be covered by a checksum")
        path = _write(data)
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[ends[0] - 6] ^= 1  # the last bytes of the first record, before its checksum
        path.write_bytes(damaged)
        src = _open(data, path)
        assert len(src) == 3
        with pytest.raises(FormatError) as raised:
            src.read([2, 0])
        assert raised.value.index == 0
        assert raised.value.path == str(path)
        assert raised.value.offset_bytes is not None
        batch = src.read([2, 0, 1, 0], on_corrupt="omit")
        assert all(is_same_value(found, _records(data)[i]) for found, i in zip(batch, (2, 1), strict=True))
        assert batch.indices.tolist() == [2, 1]
        assert list(batch.failed) == [0]
        view = src[::-1].read([0, 2, 1], on_corrupt="omit")
        assert (view.indices.tolist(), list(view.failed)) == ([0, 1], [2])
        with pytest.raises(FormatError):
            list(src)
        report = verify(path, **_options(data))
        assert [finding.index for finding in report.findings] == [0]
        with pytest.raises(ValueError, match="on_corrupt"):
            src.read([0], on_corrupt="ignore")  # type: ignore[arg-type]

    def test_repair_saves_records_around_damage(self, data: DatasetFixture) -> None:
        """A repair saves the records in front of damage in the middle of a file, and behind it."""
        if not data.case.saves_behind_damage:
            pytest.skip("nothing shows where the records behind damage begin")
        path, n = data.write(_N_REPAIRED), _N_REPAIRED
        for file in data.files(path):
            whole = file.read_bytes()
            if file.name.endswith(data.case.cut_refused):
                continue
            middle = len(whole) // 2
            for damaged in (flipped(whole, 8 * middle), whole[:middle] + bytes(40) + whole[middle + 40 :]):
                file.write_bytes(damaged)
                report = repair(path, data.path("new"), overwrite=True, source_options={"format": data.case.format})
                found = [data.index(record) for record in data.open(report.path, **data.declared())]
                assert found[0] < n // 4 < 3 * n // 4 < found[-1], f"{file.name}: {report}"
                assert n // 2 < len(found) == report.kept <= n
            file.write_bytes(whole)

    def test_the_second_of_two_files(self, data: DatasetFixture) -> None:
        """The error names the damaged file; the files around it are read."""
        path = _write(data)
        good = [_write(data, "good0"), _write(data, "good1")]
        for file in data.files(path):
            whole = file.read_bytes()
            file.write_bytes(whole[: -1 - data.case.separator])
            _check_middle(data, [good[0], path, good[1]], file)
            file.write_bytes(whole)


def _check_cuts(data: DatasetFixture, choose: Callable[[int], Sequence[int]]) -> None:
    """Read each file cut at the places that are chosen for its size, and around its records' ends."""
    path = _write(data)
    ends = _ends(data)
    without_records = {file.read_bytes() for file in data.files(data.write_records([], _spec(data), "empty"))}
    for file in data.files(path):
        whole = file.read_bytes()
        near = {end + d for end in (0, *(ends or ()), len(whole)) for d in (-1, 0, 1)}
        cuts = sorted({*choose(len(whole)), *near})
        unnoticed = {end + more for end in ends or () for more in range(data.case.separator + 1)} | {0}
        for n in cuts:
            if not 0 <= n < len(whole):
                continue
            file.write_bytes(whole[:n])
            place = 0 if n in near else n
            with _quiet(data, traced=place % 8 == 0):
                found, complete = _read(data, path, place)
            at = f"{file.name} cut at byte {n} of {len(whole)}: {found}"
            if ends is not None:
                intact = sum(end <= n for end in ends)
                assert found[:intact] == [True] * intact, at
            assert False not in found or (None in found and not data.case.verifies_records), at
            noticed = not complete or n in unnoticed or whole[:n] in without_records
            assert noticed, f"{at}: the cut was not noticed"
        file.write_bytes(whole)


def _check_flips(data: DatasetFixture, choose: Callable[[bytes], Sequence[int]]) -> None:
    """Read each file with one bit flipped, for each of the bits that are chosen for its content."""
    path = _write(data)
    ends = _ends(data)
    for file in data.files(path):
        whole = file.read_bytes()
        for bit in choose(whole):
            with _quiet(data, traced=bit % 8 == 7):  # the bits that make numbers large
                file.write_bytes(flipped(whole, bit))
                found, _ = _read(data, path, bit)
                intact = sum(end + data.case.separator <= bit // 8 for end in ends or ())
                assert found[:intact] == [True] * intact, f"bit {bit}: a record before it is lost"
                if data.case.verifies_records:
                    assert False not in found[:3], f"bit {bit}: a wrong record"
                    assert len(found) <= 3 or None in found, f"bit {bit}: the flip was not noticed"
        file.write_bytes(whole)


def _check_middle(data: DatasetFixture, paths: list[Path], cut: Path) -> None:
    """Fail unless the records around a dataset with a cut file are read, and the cut is an error that names it."""
    if cut.name.endswith(data.case.cut_refused):
        with pytest.raises(FormatError, match=str(cut)):
            len(_open(data, paths))
        return
    src = _open(data, paths)
    n = len(src)
    found = [_one(data, src, i) for i in range(n)]
    last = [is_same_value(src[i - 3], _records(data)[i]) for i in range(3)]
    assert found[:3] == last == [True] * 3
    assert n in (9, 10)  # a rest that cannot be read is one more
    assert None in found[3:-3]
    streamed: list[Any] = []
    with pytest.raises(FormatError, match=str(cut.parent if data.case.folder else cut)):
        streamed.extend(src)
    assert len(streamed) >= 3


def _check_repair(data: DatasetFixture, path: Path) -> RepairReport | None:
    """Repair a damaged dataset, and compare the kept records; `None` if nothing locates its records."""
    new = data.path("repaired")
    try:
        report = repair(path, new, overwrite=True, source_options={"format": data.case.format})
    except (FormatError, SpecError):  # a damaged file may have other fields
        return None
    if data.case.verifies_records:
        found, left = list(_open(data, new)), iter(_records(data))
        assert len(found) == report.kept
        assert all(any(is_same_value(record, right) for right in left) for record in found), f"a wrong record: {report}"
    return report


def _spec(data: DatasetFixture) -> dict[str, str] | None:
    if not data.case.plain:
        return data.spec
    return None if data.spec is None else {"i": "int64", "d": data.spec["data"]}


def _records(data: DatasetFixture) -> list[dict[str, Any]]:
    if data.case.spec is not None:
        return data.records((1, 2, 300))
    values = [b"one", b"" if data.case.empty_values else b"2", b"x"]
    text = data.spec is None or data.spec["data"] == "utf8"
    return [{"i": i, "d": d.decode() if text else d} for i, d in zip((1, 2, 300), values, strict=True)]


def _write_all(data: DatasetFixture, name: str) -> Path:
    meaning = {"payload": data.case.payload} if data.case.documents else {"spec": _spec(data)}
    with data.create(data.path(name), overwrite=True, **meaning) as writer:
        writer.extend(_records(data))
    return data.path(name)


def _write(data: DatasetFixture, name: str = "damaged") -> Path:
    """Write three records, if possible without a sidecar, which would be one more file to damage."""
    path = _write_all(data, name)
    if not data.case.needs_sidecar:
        path.with_name(path.name + ".dataformats.json").unlink(missing_ok=True)
    return path


def _ends(data: DatasetFixture) -> list[int] | None:
    if data.case.ends is None:
        return None
    stored = _stored_values(data)
    n = len(stored) // 3
    return list(data.case.ends([sum(map(len, stored[at : at + n])) for at in range(0, 3 * n, n)]))


def _stored_values(data: DatasetFixture) -> list[bytes]:
    """Return the stored bytes of the three records, or of the values of one after the other."""
    src = data.open(_write_all(data, "whole"))
    if data.case.blobs:
        return [bytes(blob) for blob in src.read_bytes([0, 1, 2])]
    return [bytes(value) for record in src.with_spec(as_bytes(src.spec, src.spec)) for value in record.values()]


def _inner_bytes(whole: bytes, value: bytes) -> set[int]:
    """Return where a value lies in a file, but for its first, middle and last byte; compressed files have none."""
    at = whole.find(value) if value else -1
    return {*range(at, at + len(value))} - {at, at + len(value) // 2, at + len(value) - 1} if at >= 0 else set()


def _options(data: DatasetFixture) -> dict[str, Any]:
    nowhere = os.path.join(os.devnull, "x")  # no index is kept: thousands would be
    declared = {} if data.case.needs_sidecar else data.declared(_spec(data))
    return {"format": data.case.format, "index": nowhere, **declared}


def _open(data: DatasetFixture, path: Any, **options: Any) -> RecordSource:
    return data.open(path, **{**_options(data), **options})


def _read(
    data: DatasetFixture, path: Any, place: int, whole: bool = False, **options: Any
) -> tuple[list[bool | None], bool]:
    """Read a damaged file in every way; return for each record if it is right (`None`: an error).

    The file is opened once; each way is the first one at a third of the places. At every eighth place, the file is also
    recognized by its content, and verified by its path.

    The second value is True if the damage was not noticed: all records of the file are right.
    """
    if tracemalloc.is_tracing():
        tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    checked = data.case.verifies_records and options.get("verify_checksums", True) and not whole
    found: list[bool | None] | None = None
    report, ended = None, False

    def read_each(src: RecordSource) -> None:
        nonlocal found
        found = [_one(data, src, i) for i in range(len(src))]

    def read_in_order(src: RecordSource) -> None:
        nonlocal ended
        for streamed, record in enumerate(src):
            assert not checked or is_same_value(record, _records(data)[streamed])
        ended = True

    def verify_all(src: RecordSource) -> None:
        nonlocal report
        if place % 8 == 0:
            report = verify(path, **{**_options(data), **options})
        elif place % 8 == 7:
            report = verify(src)

    ways = [read_each, read_in_order, verify_all]
    if place % 8 == 0:
        with suppress(DataFormatsError):
            data.open(path, index=_options(data)["index"], **options)
    with suppress(DataFormatsError):
        src = _open(data, path, **options)
        for way in ways[place % 3 :] + ways[: place % 3]:
            with suppress(DataFormatsError):
                way(src)
    if checked:
        right = found is not None and None not in found
        assert ended == right, f"iteration ends, reading says {found}"
        assert report is None or report.ok == right, f"verify says {report}, reading {found}"
    assert tracemalloc.get_traced_memory()[1] - before < _PEAK_BYTES, "too much memory"
    return found or [], ended and found is not None and all(found)


def _one(data: DatasetFixture, src: RecordSource, index: int) -> bool | None:
    try:
        return is_same_value(src[index], _records(data)[index % 3])
    except DataFormatsError:
        return None


@contextmanager
def _quiet(data: DatasetFixture, *, traced: bool) -> Iterator[None]:
    """Measure memory if asked to, which takes three times as long; formats may warn of files that look old."""
    if traced and data.case.traces_memory:
        tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            yield
    finally:
        tracemalloc.stop()
