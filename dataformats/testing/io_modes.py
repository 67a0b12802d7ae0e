"""Every I/O mode: engines, files in memory, mapped files. The same records, the same errors."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dataformats.errors import DataFormatsError
from dataformats.testing.dataset_fixture import DatasetFixture
from dataformats.testing.records import is_same_value

MODES: dict[str, dict[str, Any]] = {
    "uring": {"io": "uring"},
    "libaio": {"io": "libaio"},
    "threads": {"io": "threads"},
    "memory": {"cache": "memory"},
    "mmap": {"io": "mmap"},
}
_N = 12


class IoModeConformance:
    """Every mode gives the records of the default mode, which the rest of the suite checks."""

    def test_the_same_records(self, data: DatasetFixture) -> None:
        """Records are the same in batches of any order, with repeats, one by one, and streamed."""
        path = data.write(200)
        expected = data.open(path)
        orders = [[], [7], range(200), [*range(199, 0, -3), 5, 5, 5]]
        batches, records = [list(expected.read(order)) for order in orders], list(expected)
        for mode in _modes(data, path):
            found = data.open(path, **MODES[mode])
            for order, batch in zip(orders, batches, strict=True):
                assert is_same_value(list(found.read(order)), batch), mode
            assert is_same_value(found[17], records[17]), mode
            assert is_same_value(list(found), records), mode
            assert found.fingerprint == expected.fingerprint, mode

    def test_unknown_modes(self, data: DatasetFixture) -> None:
        """The error lists the modes."""
        path = data.write(3)
        with pytest.raises(ValueError, match=r"io .*auto.*uring.*'warp'"):
            data.open(path, io="warp")


class IoModeDurability:
    """The modes against each other on damaged files."""

    def test_the_same_damage(self, data: DatasetFixture) -> None:
        """Cut, and with bits flipped: the same outcome for each record in every mode."""
        path = data.write(_N)
        path.with_name(path.name + ".dataformats.json").unlink(missing_ok=True)
        modes = _modes(data, path)
        for file in data.files(path):
            whole = file.read_bytes()
            for damaged in data.choose_damage([*_damaged(whole)]):
                file.write_bytes(damaged)
                expected = _outcomes(data, path, None)
                assert {mode: found for mode in modes if (found := _outcomes(data, path, mode)) != expected} == {}
            file.write_bytes(whole)


def _modes(data: DatasetFixture, path: Path) -> list[str]:
    """Return the modes that a dataset can be opened in: decompressed data cannot be mapped."""
    try:
        data.open(path, **MODES["mmap"], **data.declared())
    except ValueError as error:
        if "needs uncompressed local files" not in str(error):
            raise
        return [mode for mode in MODES if mode != "mmap"]
    return [*MODES]


def _damaged(whole: bytes) -> Iterator[bytes]:
    for n in range(0, len(whole), max(1, len(whole) // 12)):
        yield whole[:n]
    for at in range(3, len(whole), max(1, len(whole) // 25)):
        yield whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :]


def _outcomes(data: DatasetFixture, path: Path, mode: str | None) -> list[str]:
    """Return each record, or its error, as text."""
    nowhere = os.path.join(os.devnull, "x")
    found: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a damaged FFRecord may look like an old one
        try:
            options = {} if mode is None else MODES[mode]
            src = data.open(path, index=nowhere, format=data.case.format, **data.declared(), **options)
            n = len(src)
        except DataFormatsError as error:
            return [f"{type(error).__name__}: {error}"]
        try:
            found += [f"{number}: {error}" for number, error in src.read(range(n), on_corrupt="omit").failed.items()]
        except DataFormatsError as error:
            found.append(f"{type(error).__name__}: {error}")
        for index in range(n):
            try:
                found.append(repr(src[index]))
            except DataFormatsError as error:
                found.append(f"{type(error).__name__}: {error}")
    return found
