"""Records behind damage in the middle of a file are saved, those in front of it too, and nothing else is."""

from __future__ import annotations

import contextlib
import io
import random
import tarfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.errors import FormatError
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN

N = 60
Damage = Callable[[bytes], bytes]


FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "jsonl": ("x.jsonl", {"spec": {"n": "int64", "t": "utf8"}}),
    "zstd": ("x.jsonl.zst", {"spec": {"n": "int64", "t": "utf8"}}),
    "webdataset": ("x.tar", {"spec": {"n": "int64", "d": "bytes"}}),
    "array_record": ("x.array_record", {"payload": "bytes", "group_size": 4}),
    "mds": ("x", {"spec": {"n": "int64", "d": "bytes"}, "format": "mds", "size_limit": 4096}),
    "megatron": ("x.bin", {"spec": {"tokens": "int32[]"}, "format": "megatron"}),
}


def written(kind: str, folder: Path) -> Path:
    """Write 60 records whose bytes do not repeat; return the path, without a sidecar."""
    pytest.importorskip({"array_record": "array_record", "zstd": "backports.zstd"}.get(kind, "numpy"))
    name, options = FILES[kind]
    with dataformats.create(folder / name, **options) as writer:
        writer.extend(record(kind, number) for number in range(N))
    (folder / f"{name}.dataformats.json").unlink(missing_ok=True)
    return folder / name


def record(kind: str, number: int) -> Any:
    noise = random.Random(number).randbytes({"zstd": 60_000, "array_record": 6_000}.get(kind, 200))
    if kind in ("jsonl", "zstd"):
        return {"n": number, "t": noise.hex()}
    if kind == "megatron":
        return {"tokens": np.arange(number, number + 5 + number % 3, dtype=np.int32)}
    return number.to_bytes(1, "little") + noise if kind == "array_record" else {"n": number, "d": noise}


def as_bytes(one: Any) -> Any:
    return (
        {name: as_bytes(value) for name, value in one.items()} if isinstance(one, dict) else np.asarray(one).tobytes()
    )


def flipped(at: float) -> Damage:
    def damage(whole: bytes) -> bytes:
        place = int(at * len(whole))
        return whole[:place] + bytes([whole[place] ^ 0x11]) + whole[place + 1 :]

    return damage


def zeroed(at: float, n: int = 1024) -> Damage:
    return lambda whole: whole[: int(at * len(whole))] + bytes(n) + whole[int(at * len(whole)) + n :]


def saved(kind: str, path: Path) -> list[int]:
    """Repair a damaged dataset, and return the numbers of the saved records; fails for a record that there was not."""
    new = path.with_name(f"new{path.suffix if kind != 'zstd' else '.jsonl.zst'}")
    format = "jsonl" if kind == "zstd" else kind
    report = dataformats.repair(path, new, source_options={"format": format}, overwrite=True)
    known = [as_bytes(record(kind, number)) for number in range(N)]
    found = [known.index(as_bytes(one)) for one in dataformats.open(new, format=format, payload=report.payload)]
    assert found == sorted(set(found))
    assert len(found) == report.kept
    assert not report.ok or len(found) == N
    return found


CASES: dict[str, tuple[str, str, Damage, int]] = {
    "jsonl, zeros": ("jsonl", "x.jsonl", zeroed(0.5), 5),
    "zstd, a frame": ("zstd", "x.jsonl.zst", zeroed(0.5), 20),
    "tar, a header": ("webdataset", "x.tar", lambda whole: flipped((_headers(whole)[60] + 130) / len(whole))(whole), 1),
    "tar, zeros": ("webdataset", "x.tar", lambda whole: zeroed(_headers(whole)[60] / len(whole))(whole), 1),
    "tar, the first header": ("webdataset", "x.tar", flipped(0), 0),
    "array_record, zeros": ("array_record", "x.array_record", zeroed(0.2), 8),
    "array_record, no postscript": ("array_record", "x.array_record", lambda whole: whole[: -(2**16)], 0),
    "array_record, no end": ("array_record", "x.array_record", lambda whole: zeroed(0.1)(whole)[: -(2**17)], 24),
    "array_record, a damaged postscript": ("array_record", "x.array_record", flipped(7 / 8), 0),
    "mds, an offset": ("mds", "x/shard.00001.mds", flipped(0.01), 2),
    "mds, a cut shard": ("mds", "x/shard.00001.mds", lambda whole: whole[: len(whole) // 2], 10),
    "mds, the number of samples": ("mds", "x/shard.00001.mds", flipped(0), 0),
    "mds, a shard without table": ("mds", "x/shard.00001.mds", lambda whole: whole[:9], 18),
    "megatron, sizes": ("megatron", "x.idx", zeroed(0.1, 40), 11),
    "megatron, pointers": ("megatron", "x.idx", zeroed(0.3, 80), 11),
    "megatron, documents": ("megatron", "x.idx", zeroed(0.8, 80), 12),
    "megatron, a document": ("megatron", "x.idx", flipped(0.8), 3),
    "megatron, a cut table": ("megatron", "x.idx", lambda whole: whole[:-100], 14),
    "megatron, more bytes": ("megatron", "x.idx", lambda whole: whole + b"more bytes of another file", 0),
}
ENDS_EARLY = ("array_record, no end", "megatron, a cut table")


def _headers(whole: bytes) -> list[int]:
    return [at for at in range(0, len(whole), 512) if whole[at + 257 : at + 262] == b"ustar"]


@loop_over("name", CASES)
def test_records_around_damage_are_saved(name: str, tmp_path: Path) -> None:
    kind, file, damage, most_lost = CASES[name]
    path = written(kind, tmp_path)
    (tmp_path / file).write_bytes(damage((tmp_path / file).read_bytes()))
    found = saved(kind, path)
    assert N - most_lost <= len(found) <= N - bool(most_lost)
    assert found[0] == 0
    assert found[-1] == N - 1 or name in ENDS_EARLY


def test_missing_shard_costs_its_samples(tmp_path: Path) -> None:
    path = written("mds", tmp_path)
    (path / "shard.00001.mds").unlink()
    lost = {*range(N)} - {*saved("mds", path)}
    report = dataformats.repair(path, tmp_path / "y", dry_run=True)
    ((name, cause, first, n),) = [(one.path, one.cause, one.index, one.records) for one in report.losses]
    assert (name, cause) == (str(path / "shard.00001.mds"), "the shard is missing")
    assert lost == {*range(first or 0, (first or 0) + (n or 0))}


def test_report_has_the_damaged_range(tmp_path: Path) -> None:
    """A sample is lost with all its members, and the samples around it keep their bytes."""
    path = written("webdataset", tmp_path)
    whole = path.read_bytes()
    first, second = _headers(whole)[61], _headers(whole)[63]  # of one sample: the spec is the first member
    path.write_bytes(whole[: first + 512 + 512] + b"?" + whole[first + 512 + 513 :])  # its second header
    report = dataformats.repair(path, tmp_path / "y.tar")
    ((loss),) = report.losses
    assert (loss.start, loss.stop, loss.index, loss.records) == (first, second, 30, None)
    assert (report.kept, report.lost, report.n_unknown) == (N - 1, 0, 1)


def test_records_of_recordio_behind_damage_are_converted(tmp_path: Path) -> None:
    """RecordIO is not written here, so its sound records are converted."""
    whole = (GOLDEN / "recordio" / "images.rec").read_bytes()
    path = tmp_path / "x.rec"
    for at in (0, 300, 301, 304, 306, 1000):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x21]) + whole[at + 1 :])
        report = dataformats.convert(
            path, tmp_path / "y.tfrecord", on_corrupt="omit", overwrite=True, source_options={"format": "recordio"}
        )
        assert report.records >= 38
    path.write_bytes(whole[:1000] + bytes(200) + whole[1200:])
    dataformats.convert(path, tmp_path / "y.tfrecord", on_corrupt="omit", overwrite=True)
    found = [one["id"] for one in dataformats.open(tmp_path / "y.tfrecord")]
    assert found == sorted(set(found))
    assert (found[0], found[-1]) == (0, 39)


# ---- data that look like records


def test_members_of_a_tar_file_in_a_member_are_no_samples(tmp_path: Path) -> None:
    """The header of the member with the tar file is damaged: then the members in it could be taken for samples."""
    inner = io.BytesIO()
    _write_tar(inner, {f"inner{n}.bin": b"inner" for n in range(5)})
    names = [f"{n}.bin" for n in range(9)]
    _write_tar(tmp_path / "x.tar", {name: inner.getvalue() if name == "4.bin" else name.encode() for name in names})
    whole = bytearray((tmp_path / "x.tar").read_bytes())
    whole[whole.index(b"4.bin") + 130] ^= 1
    (tmp_path / "x.tar").write_bytes(whole)
    found = [one["__key__"] for one in dataformats.open(tmp_path / "x.tar").read(range(9), on_corrupt="omit")]
    assert found == ["0", "1", "2", "3", "5", "6", "7", "8"]


def test_name_without_its_extended_header_is_not_believed(tmp_path: Path) -> None:
    """A name of more than 100 bytes is in an extended header; the header of the member has a part of it."""
    for style in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        _write_tar(tmp_path / "x.tar", {f"{'long' * 30}{n}.bin": b"data" for n in range(5)}, style)
        whole = bytearray((tmp_path / "x.tar").read_bytes())
        second = [at for at in range(0, len(whole), 512) if whole[at + 156] in b"xL"][2]
        whole[second + 130] ^= 1
        (tmp_path / "x.tar").write_bytes(whole)
        source = dataformats.open(tmp_path / "x.tar")
        found = [one["__key__"] for one in source.read(range(len(source)), on_corrupt="omit")]
        assert found == [f"{'long' * 30}{n}" for n in (0, 1, 3, 4)]


def test_concatenated_tar_files_are_read(tmp_path: Path) -> None:
    """Equal keys in neighbors are two samples."""
    tars = []
    for n in (1, 9, 20, 3):  # 9 members and the zeros fill a record of blocks, 20 members fill two
        _write_tar(buffer := io.BytesIO(), {f"{number}.bin": b"data" for number in range(n)}, tarfile.PAX_FORMAT)
        tars.append(buffer.getvalue())
    tars[1:1] = tars[:1]
    (tmp_path / "x.tar").write_bytes(b"".join(tars))
    source = dataformats.open(tmp_path / "x.tar")
    expected = [str(number) for n in (1, 1, 9, 20, 3) for number in range(n)]
    assert list(source.read(range(len(source)))["__key__"]) == expected


def test_concatenated_files_of_this_package_are_read(tmp_path: Path) -> None:
    """They end with two blocks of zeros, whatever their size is."""
    path = written("webdataset", tmp_path)
    one = list(map(as_bytes, dataformats.open(path)))
    path.write_bytes(path.read_bytes() * 2)
    assert list(map(as_bytes, dataformats.open(path))) == one * 2


def test_zeros_between_members_are_damage(tmp_path: Path) -> None:
    """They may have been members."""
    _write_tar(tmp_path / "x.tar", {f"{n}.bin": b"data" for n in range(9)})
    whole = bytearray((tmp_path / "x.tar").read_bytes())
    whole[2 * 1024 : 5 * 1024] = bytes(3 * 1024)
    (tmp_path / "x.tar").write_bytes(whole)
    source = dataformats.open(tmp_path / "x.tar")
    assert [one["__key__"] for one in source.read(range(7), on_corrupt="omit")] == ["0", "1", "5", "6", "7", "8"]
    with pytest.raises(FormatError, match=r"record 2 of .*members follow two blocks of zeros"):
        source[2]


def _write_tar(path: Any, members: dict[str, bytes], style: int = tarfile.USTAR_FORMAT) -> None:
    where: Any = {"fileobj": path} if isinstance(path, io.BytesIO) else {"name": path}
    with tarfile.open(mode="w", format=style, **where) as archive:
        for name, data in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))


HOSTILE = {
    "magic numbers": ("recordio", 0xCED7230A.to_bytes(4, "little") * 2),
    "frames without end": (
        "recordio",
        0xCED7230A.to_bytes(4, "little") + (2**20).to_bytes(4, "little") + b"....\0\0\0\0",
    ),
    "frames between damage": ("recordio", (0xCED7230A.to_bytes(4, "little") + bytes(4)) * 2 + b"damage.."),
    "headers between damage": ("webdataset", b"header and damage"),
    "folders between damage": ("webdataset", b"folders and damage"),
    "archives": ("webdataset", b"archives"),
}


def _content(what: bytes) -> bytes:
    """Return what is repeated in a hostile file."""
    if what.startswith(b"header"):
        return _header("a.bin", tarfile.REGTYPE) + b"damage..".ljust(512, b".")
    if what.startswith(b"folders"):
        return _header("a", tarfile.DIRTYPE) * 30 + b"damage..".ljust(512, b".")
    return _header("a.bin", tarfile.REGTYPE) + bytes(1024) + b"." * 512 if what == b"archives" else what


def _header(name: str, kind: bytes) -> bytes:
    about = tarfile.TarInfo(name)
    about.type = kind
    return about.tobuf(tarfile.USTAR_FORMAT)


@loop_over("name", HOSTILE)
def test_files_full_of_headers_are_read_in_linear_time(name: str, tmp_path: Path) -> None:
    """Four times the bytes may not take sixteen times as long."""
    kind, what = HOSTILE[name]
    content, path, seconds = _content(what), tmp_path / "x", []
    for n_bytes in (2**20, 2**22):
        path.write_bytes(content * (n_bytes // len(content)))
        begin = time.process_time()
        with contextlib.suppress(FormatError):
            len(dataformats.open(path, format=kind))
        seconds.append(time.process_time() - begin)
    assert seconds[1] < 8 * max(seconds[0], 0.5), seconds


def test_damage_everywhere_does_not_fill_memory(tmp_path: Path) -> None:
    whole = b"".join(_header(f"{name}.bin", tarfile.REGTYPE) for name in "abc")
    (tmp_path / "x.tar").write_bytes((whole + b".".ljust(512, b".")) * 12_000)
    source = dataformats.open(tmp_path / "x.tar", format="webdataset")
    assert len(source.read(range(len(source)), on_corrupt="omit").failed) == 10_001
    members = b"".join(_header(f"a{n}.b{n}", tarfile.REGTYPE) for n in range(20_000))
    (tmp_path / "x.tar").write_bytes(members + b".".ljust(512, b".") + members)
    tracemalloc.start()
    with pytest.raises(FormatError, match="extensions differ too much"):
        dataformats.open(tmp_path / "x.tar", format="webdataset")
    assert tracemalloc.get_traced_memory()[1] < 200 * 2**20
    tracemalloc.stop()
