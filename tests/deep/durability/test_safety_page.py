"""The table of docs/safety.md: each cell is compared with what a trial finds, or with a flag that the suites try."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from PIL import Image
from zarr.codecs import Crc32cCodec

import dataformats
from dataformats.backends.granular.bag_appender import BagAppender
from dataformats.codecs.images import PNG
from dataformats.codecs.sounds import Audio
from dataformats.codecs.videos import MP4
from dataformats.errors import DataFormatsError, FormatError, TargetExistsError
from dataformats.registry import backends
from dataformats.storage.compressed.zstd_frames import encode_zstd
from dataformats.testing import FormatCase
from dataformats.testing.records import is_same_value, plain_record, plain_spec
from tests.cases import FORMATS, TABLES
from tests.deep.durability.faults.scenarios import BAGS
from tests.deep.durability.test_publishing import fault
from tests.deep.interop.test_format_table import ROWS, Data
from tests.writing.failing_memory import Killed

PAGE = Path(__file__).parents[3] / "docs" / "safety.md"
N_OLD, N = 3, 10
READ_ONLY = "read only"


@dataclasses.dataclass(frozen=True)
class Promises:
    """A row of the table."""

    old_or_new: str
    resume: str
    flush: str
    flush_sync: str
    checksums: str
    links: str
    bounds: str


def _table() -> dict[str, Promises]:
    rows = re.findall(r"^\| \[[^\]]+\]\(formats/(\w+)\.md\) \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(rows) == len({name for name, _ in rows})
    return {name: Promises(*cells.split(" | ")) for name, cells in rows}


TABLE = _table()
GOLDEN = {name: row for name, row in ROWS.items() if name == row.format}
MEDIA = [
    FormatCase(name, name, "", payload=None, folder=True, spec={name.removesuffix("s"): "bytes"})
    for name in ("images", "videos", "audio")
]
WRITTEN = [*FORMATS, *TABLES, *MEDIA]


def record(case: FormatCase, i: int) -> Any:
    if case.format == "images":
        return {"image": PNG.encode(np.full((4, 4), i, np.uint8))}
    if case.format == "videos":
        return {"video": MP4.encode(np.full((3, 16, 16, 3), 20 * i, np.uint8))}
    if case.format == "audio":
        return {"audio": Audio(8000).encode(np.arange(40 + i, dtype=np.int16))}
    return f"value {i}".encode() if case in BAGS else plain_record(case, i)


def meaning(case: FormatCase) -> dict[str, Any]:
    """Return the arguments of `create` besides path and format."""
    what = {"payload": case.payload} if case.documents or case in BAGS else {"spec": plain_spec(case)}
    return {**case.create_options, **what}


def records(case: FormatCase, numbers: Sequence[int]) -> list[Any]:
    return [record(case, i) for i in numbers]


def found_in(path: Path, case: FormatCase) -> list[Any]:
    """Return the records under a name, without the fields that folders of media have besides."""
    with dataformats.open(path) as source:
        if case in MEDIA:
            return list(source.with_spec(case.spec or {}).select(*case.spec or ()))
        return list(source)


def test_every_format_has_a_row() -> None:
    assert {*TABLE} == {*GOLDEN} == {name for name in backends if backends.shipped(name)}
    written = {case.format for case in WRITTEN}
    for name, row in TABLE.items():
        cells = (row.old_or_new, row.resume, row.flush, row.flush_sync)
        assert (READ_ONLY in cells) == ({*cells} == {READ_ONLY}) == (name not in written), name


# ---- writers


@pytest.mark.parametrize("case", [*WRITTEN, *BAGS], ids=str)
def test_old_or_new(case: FormatCase, tmp_path: Path) -> None:
    """The writer is killed before each change of a name."""
    old, new = (records(case, range(first, first + N_OLD)) for first in (0, N))
    states, is_replaced = set(), case not in MEDIA
    if not is_replaced:
        write(tmp_path / "data", case, old)
        with pytest.raises(TargetExistsError, match="is not replaced"):
            write(tmp_path / "data", case, new, overwrite=True)
    for at in range(60):
        folder = tmp_path / str(at)
        folder.mkdir()
        path = folder / f"data{case.suffix}"
        if is_replaced:
            write(path, case, old)
        has_failed: Callable[[], bool] = bool
        try:
            with fault(at, Killed, True) as has_failed:
                write(path, case, new, overwrite=is_replaced)
        except Killed:
            pass
        found = found_in(path, case) if path.exists() else None
        states.add(
            None if found is None else "old" if is_same(found, old) else "new" if is_same(found, new) else "torn"
        )
        if not has_failed():
            break
    if not is_replaced:
        assert TABLE[case.format].old_or_new == "yes; without a sidecar not replaced"
        assert states == {None, "new"}
    elif case.name in ("bag-3", "megatron"):
        assert "or neither for a moment" in TABLE[case.format].old_or_new
        assert states == {"old", "new", None}
    else:
        assert TABLE[case.format].old_or_new.split("; ")[0] == "yes"
        assert states == {"old", "new"}


def write(path: Path, case: FormatCase, held: list[Any], **options: Any) -> None:
    with dataformats.create(path, case.format, **meaning(case), **options) as writer:
        writer.extend(held)


def is_same(found: list[Any], expected: list[Any]) -> bool:
    if len(found) != len(expected):
        return False
    return all(is_same_value(one, other) for one, other in zip(found, expected, strict=True))


def test_rows_in_place_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer is killed behind the ends of each field."""
    assert TABLE["granular"].old_or_new.endswith("in place: whole rows")
    path, left = tmp_path / "data", list[Path]()
    spec = {"a": "int64", "b": "utf8", "c": "float32[]"}
    rows = [{"a": i, "b": f"text {i}", "c": np.full(i % 3, i, np.float32)} for i in range(N)]
    with dataformats.create(path, "granular", spec=spec) as writer:
        writer.extend(rows[:N_OLD])
    write_ends = BagAppender.write_ends

    def killed_behind(bag: BagAppender) -> None:
        write_ends(bag)
        left.append(tmp_path / str(len(left)))
        shutil.copytree(path, left[-1])

    monkeypatch.setattr(BagAppender, "write_ends", killed_behind)
    with dataformats.create(path, "granular", spec=spec, append=True) as writer:
        for one in rows[N_OLD:]:
            writer.append(one)
            writer.flush()
    sizes = [len(dataformats.open(folder)) for folder in left]
    assert sorted({*sizes}) == list(range(N_OLD, N + 1))
    assert all(is_same(list(dataformats.open(folder)), rows[:n]) for folder, n in zip(left, sizes, strict=True))


class Disk:
    """Notes how long each file was when it was synced last."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: dict[int, int] = {}
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._noted(getattr(os, name)))

    def _noted(self, sync: Any) -> Any:
        def noted(file: Any) -> None:
            sync(file)
            status = os.stat(file if isinstance(file, int) else file.fileno())
            self.synced[status.st_ino] = status.st_size

        return noted

    def copy(self, folder: Path, new: Path, *, power_fails: bool) -> None:
        """Copy files as a kill leaves them, or only the bytes that were synced."""
        shutil.copytree(folder, new)
        for file in filter(Path.is_file, folder.rglob("*") if power_fails else ()):
            n, copy = self.synced.get(file.stat().st_ino), new / file.relative_to(folder)
            copy.unlink() if n is None else os.truncate(copy, min(n, copy.stat().st_size))


@pytest.mark.parametrize("sync", [False, True], ids=["flush", "flush-sync"])
@pytest.mark.parametrize("case", [*WRITTEN, *BAGS], ids=str)
def test_flush_and_resume(case: FormatCase, sync: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, row = Disk(monkeypatch), TABLE[case.format]
    cell = row.flush_sync if sync else row.flush
    assert cell == row.resume == ("yes" if case.survives_kill else "whole shards")
    for shards in ({}, {"shard_records": 4}):
        if shards and (case.beside or case in (*MEDIA, *BAGS)):
            continue
        folder, left = tmp_path / f"folder{len(shards)}", tmp_path / f"left{len(shards)}"
        folder.mkdir()
        name = "data" if shards else f"data{case.suffix}"
        options = {"resume": True, **meaning(case), **shards}
        writer = dataformats.create(folder / name, case.format, **options)
        writer.extend(records(case, range(6)))
        writer.flush(sync=sync)
        disk.copy(folder, left, power_fails=sync)
        writer.abort()
        with dataformats.create(left / name, case.format, **options) as writer:
            assert len(writer) == (6 if cell == "yes" else 4 if shards else 0)
            writer.extend(records(case, range(len(writer), N)))
        assert is_same(found_in(left / name, case), records(case, range(N)))


# ---- readers


@pytest.fixture(scope="module", params=GOLDEN)
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Data:
    return Data(request.param, tmp_path_factory.mktemp(request.param))


def test_bounds(data: Data) -> None:
    options = {"max_record_bytes": 1, **data.row.options}
    try:
        list(dataformats.open(data.folder / data.target, **options))
        found = "no"
    except FormatError as error:
        found = "a block of rows" if "a block of" in str(error) else "each record"
    assert found == TABLE[data.name].bounds


def test_links(data: Data, tmp_path: Path) -> None:
    data.source.close()
    path = max(data.paths, key=lambda path: (path.suffix != ".json", path.stat().st_size))
    shutil.copy(path, tmp_path / path.name)  # another file for LMDB, which opens each once
    path.unlink()
    path.symlink_to(tmp_path / path.name)
    whole = data.folder / data.target
    try:
        # A link that is named is followed, so its folder is.
        opened = dataformats.open(path.parent if path == whole else whole, format=data.row.format, **data.row.options)
        found = "anything" if list(opened) else "nothing"
    except FormatError as error:
        found = "its own folder" if "leads out of its folder" in str(error) else str(error)
    finally:
        path.unlink()
        shutil.copy(tmp_path / path.name, path)
    assert found == TABLE[data.name].links


def outcomes(opened: Any, path: Path, places: Iterable[int], *, until: str = "") -> Counter[str]:
    """Flip a bit at each of these places of a file, and count the errors, the wrong values and the right ones."""
    expected, found = list(opened()), Counter[str]()
    with path.open("r+b", buffering=0) as file:
        for at in places:
            byte = os.pread(file.fileno(), 1, at)
            os.pwrite(file.fileno(), bytes([byte[0] ^ 16]), at)
            try:
                found["right" if is_same(list(opened()), expected) else "wrong"] += 1
            except DataFormatsError:
                found["error"] += 1
            os.pwrite(file.fileno(), byte, at)
            if found[until]:
                break
    return found


def spread(path: Path, n: int = 25) -> list[int]:
    """Return some places in a file."""
    return sorted({*np.linspace(0, path.stat().st_size - 1, n).astype(int).tolist()})


def places_of_values(data: Data, path: Path) -> Iterator[int]:
    """Yield the middles of values that a file holds as they are, then other places if the library bears that."""
    values = [value for one in data.records[:5] for value in one.values()] if isinstance(data.records[0], dict) else []
    stored = [value.tobytes() if isinstance(value, np.ndarray) else value for value in values]
    stored = [value.encode() if isinstance(value, str) else value for value in stored]
    whole = path.read_bytes()
    for value in stored:
        if isinstance(value, bytes) and len(value) > 3:
            yield from (found.start() + len(value) // 2 for found in re.finditer(re.escape(value), whole))
    if data.name not in ("lance", "lmdb"):
        yield from spread(path, 200)


def open_copy(data: Data, folder: Path) -> Any:
    """Open a copy of a folder, because LMDB opens each file once."""
    new = folder / str(len(list(folder.iterdir())))
    return dataformats.open(shutil.copytree(data.folder / data.target, new))


def test_checksums(data: Data, tmp_path: Path) -> None:
    cell, covered = TABLE[data.name].checksums, data.row.checked
    path = max(data.paths, key=lambda path: (path.suffix != ".json", path.stat().st_size))
    if cell in ("all", "PNG files: all"):
        assert not outcomes(data.open, path, spread(path))["wrong"]
    elif cell in ("pages", "headers", "chunks"):
        assert covered is not None
        found = outcomes(data.open, data.paths[0], range(*covered, 9))
        assert found["error"] > found["wrong"] == 0
    elif not cell.startswith("none, or"):
        assert cell.startswith("none")
        assert covered is None
        opened = functools.partial(open_copy, data, tmp_path) if data.name == "lmdb" else data.open
        assert outcomes(opened, path, places_of_values(data, path), until="wrong")["wrong"]
    limited = LIMITED.get(cell)
    assert (limited is not None) == (cell not in ("all", "none", "pages", "headers", "chunks"))
    if limited is not None:
        limited(data, tmp_path)


def _compressed(data: Data, folder: Path) -> None:
    (path,) = data.paths
    for ending, pack in ((".gz", gzip.compress), (".zst", encode_zstd)):
        if data.name == "csv" and ending == ".zst":
            continue  # not opened
        new = folder / (path.name + ending)
        new.write_bytes(pack(path.read_bytes()))
        assert not outcomes(functools.partial(dataformats.open, new), new, spread(new))["wrong"]


def _jpeg(_: Data, folder: Path) -> None:
    for i in range(3):
        Image.fromarray(np.random.default_rng(i).integers(0, 255, (32, 32, 3)).astype(np.uint8)).save(
            folder / f"{i}.jpg"
        )
    path = folder / "1.jpg"
    assert outcomes(functools.partial(dataformats.open, folder), path, spread(path))["wrong"]


def _fletcher(_: Data, folder: Path) -> None:
    numbers = np.random.default_rng(1).integers(0, 2**31, 100, np.int32)
    for checked, expected in ((True, "error"), (False, "wrong")):
        path = folder / f"{checked}.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=numbers, chunks=(50,), fletcher32=checked)
        at = path.read_bytes().find(numbers[50:].tobytes())
        found = outcomes(functools.partial(dataformats.open, path), path, range(at, at + 200, 50))
        assert found.keys() == {expected}


def _crc(_: Data, folder: Path) -> None:
    for compressors, expected in (([Crc32cCodec()], "error"), (None, "wrong")):
        path = folder / f"{expected}.zarr"
        group = zarr.open_group(path, mode="w", zarr_format=3)
        array = group.create_array("x", shape=(100,), chunks=(50,), dtype="i4", compressors=compressors)
        array[:] = np.arange(100)
        found = outcomes(functools.partial(dataformats.open, path), path / "x" / "c" / "1", range(0, 200, 60))
        assert found.keys() == {expected}


LIMITED = {
    "none; compressed: all": _compressed,
    "PNG files: all": _jpeg,
    "none, or Fletcher-32 of chunks": _fletcher,
    "none, or a codec's": _crc,
}
