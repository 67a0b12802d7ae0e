"""A sidecar is believed only of the data that it describes: stale ones, and shards that are missing, new or cut."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import dataformats
from dataformats import FormatError, TruncatedError
from dataformats.sidecars import file_comparison
from dataformats.sidecars.file_digest import file_digest
from dataformats.storage.files import LocalFile
from dataformats.testing.loop_over import loop_over
from tests.cases import frames

SPEC = {"x": "float32[4]", "i": "int64"}


def write(path: Path, format: str = "tfrecord", n: int = 12, x: float = 0.5, **options: Any) -> Path:
    with dataformats.create(path, format, spec=SPEC, **options) as writer:
        writer.extend({"x": [i, i + x, -i, x], "i": i} for i in range(n))
    return path


def sidecar_of(path: Path) -> Path:
    return path.with_name(path.name + ".dataformats.json")


def edit(path: Path, **metadata: Any) -> None:
    """Change metadata of a sidecar; `None` removes one."""
    found = json.loads(sidecar_of(path).read_text()) | metadata
    sidecar_of(path).write_text(json.dumps({name: fact for name, fact in found.items() if fact is not None}))


def forget_digests(path: Path) -> None:
    """Make the sidecar one of an earlier version, which had neither digests nor parts."""
    files = json.loads(sidecar_of(path).read_text())["files"]
    edit(path, files=[{name: entry[name] for name in ("name", "records", "bytes")} for entry in files])


def numbers(path: Any, **options: Any) -> list[int]:
    return [record["i"] for record in dataformats.open(path, **options)]


# ---- one file


@loop_over("n", [12, 3000])
@loop_over(
    "format, suffix", [("tfrecord", ".tfrecord"), ("ffrecord", ".ffr"), ("ofrecord", ".ofrecord"), ("syrah", ".syr")]
)
def test_another_file_of_the_same_size(format: str, suffix: str, n: int, tmp_path: Path) -> None:
    path = write(tmp_path / f"x{suffix}", format, n)
    other = write(tmp_path / f"y{suffix}", format, n, x=0.25)
    assert other.stat().st_size == path.stat().st_size
    shutil.copy(other, path)
    with pytest.raises(FormatError, match=r"not the file that the sidecar .*dataformats\.json' describes") as caught:
        dataformats.open(path)
    assert caught.value.path == str(path)
    assert ("payload=" in str(caught.value.remedy)) == (format != "syrah")  # Syrah stores fields apart
    sidecar_of(path).unlink()
    assert len(dataformats.open(path)) == n


def test_a_stale_sidecar_gives_no_value(tmp_path: Path) -> None:
    """Another program replaced the data by others, which the old spec would misread."""
    path = tmp_path / "v.ffr"
    for payload, value, there in (("int64", 1, path), ("float64", 1.5, tmp_path / "w.ffr")):
        with dataformats.create(there, "ffrecord", payload=payload) as writer:
            writer.extend([value] * 5)
    shutil.copy(tmp_path / "w.ffr", path)
    with pytest.raises(FormatError, match="describes"):
        dataformats.open(path)
    assert list(dataformats.open(path, payload="float64")) == [1.5] * 5


@pytest.mark.parametrize("n", [12, 3000])
def test_a_cut_file_and_a_longer_one(tmp_path: Path, n: int) -> None:
    path = write(tmp_path / "x.tfrecord", n=n)
    data = path.read_bytes()
    for content, kind in ((data[:-5], TruncatedError), (data + frames(b""), FormatError)):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=f"expected {len(data)} bytes, found {len(content)} bytes") as caught:
            dataformats.open(path)
        assert type(caught.value) is kind
        assert dataformats.open(path, payload="example", spec=SPEC)[3]["i"] == 3
        assert dataformats.open(path, payload="bytes")[0] == dataformats.open(path, payload="bytes").read_bytes([0])[0]
        report = dataformats.verify(path)
        assert report.findings[0].kind == kind.__name__
        assert report.records >= n


def test_damage_in_a_large_file_is_an_error_of_its_record_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tfrecord", n=3000)
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    source = dataformats.open(path)
    assert source[1]["i"] == 1
    with pytest.raises(dataformats.ChecksumError):
        source[0]
    assert [finding.kind for finding in dataformats.verify(path).findings] == ["ChecksumError"]


def test_data_renamed_with_their_sidecar_are_read(tmp_path: Path) -> None:
    pairs = [(write(tmp_path / "x.tfrecord"), tmp_path / "y.tfrecord")]
    pairs += [
        (write(tmp_path / "d", "granular"), tmp_path / "e"),
        (write(tmp_path / "s", shard_records=5), tmp_path / "t"),
    ]
    for old, new in pairs:
        for is_old_version in (False, True):
            old.rename(new)
            sidecar_of(old).rename(sidecar_of(new))
            if is_old_version:
                forget_digests(new)
            assert numbers(new) == list(range(12))
            assert dataformats.verify(new).ok
            new.rename(old)
            sidecar_of(new).rename(sidecar_of(old))


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "s", shard_records=5)
    write(tmp_path / "d", "granular", shard_records=5)
    write(tmp_path / "x.tfrecord")
    monkeypatch.chdir(tmp_path / "s")
    for path in (".", "../s", "../d", "../d/../s", "../x.tfrecord", "./*"):
        assert numbers(path) == list(range(12)), path
    monkeypatch.chdir(tmp_path)
    for path in ("s", "./s", "d", "x.tfrecord", "s/*", "./s/*.tfrecord"):
        assert numbers(path) == list(range(12)), path


@loop_over("format", ["tfrecord", "ffrecord", "ofrecord", "syrah", "granular"])
def test_the_remedy_helps(tmp_path: Path, format: str) -> None:
    """The arguments that it names are accepted, and no others are needed."""
    path = write(tmp_path / "x", format)
    for other in (write(tmp_path / "y", format, n=15, x=0.25), write(tmp_path / "z", format, x=0.25)):
        if path.is_dir():
            shutil.rmtree(path)
            shutil.copytree(other, path)
        else:
            shutil.copy(other, path)
        with pytest.raises(FormatError) as caught:
            dataformats.open(path)
        remedy = str(caught.value.remedy)
        payload = "ofrecord" if format == "ofrecord" else "example"
        declared: dict[str, Any] = {"payload": payload} if "payload=" in remedy else {}
        assert "spec=" in remedy
        assert dataformats.open(path, spec=SPEC, **declared)[3]["i"] == 3


def test_disagreeing_sidecars_name_only_the_differing_option(tmp_path: Path) -> None:
    first = write(tmp_path / "a", "granular")
    with dataformats.create(tmp_path / "b", "granular", spec={"x": "float32[2,2]", "i": "int64"}) as writer:
        writer.append({"x": [[1, 2], [3, 4]], "i": 12})
    with pytest.raises(FormatError, match=r"Pass spec=\.") as caught:
        dataformats.open([first, tmp_path / "b"])
    assert "payload" not in str(caught.value.remedy)


# ---- pairs and folders


def test_a_bag_with_the_index_of_another(tmp_path: Path) -> None:
    for name, payload, values in (("x", "int64", [1, 2, 3]), ("y", "utf8", ["8 bytes.", "7 bytes", "9 bytes.."])):
        with dataformats.create(tmp_path / f"{name}.bag", "granular", payload=payload) as writer:
            writer.extend(values)
    assert list(dataformats.open(tmp_path / "x.bag")) == [1, 2, 3]
    whole = (tmp_path / "x.idx").read_bytes()
    (tmp_path / "x.idx").write_bytes((tmp_path / "y.idx").read_bytes())
    with pytest.raises(FormatError, match="describes") as caught:
        dataformats.open(tmp_path / "x.bag")
    assert caught.value.path == str(tmp_path / "x.idx")
    (tmp_path / "x.idx").write_bytes(whole)
    for name in ("x.bag", "x.idx", "x.bag.dataformats.json"):
        (tmp_path / name).rename(tmp_path / f"z{name[1:]}")
    assert list(dataformats.open(tmp_path / "z.bag")) == [1, 2, 3]
    (tmp_path / "z.idx").unlink()
    with pytest.raises(FormatError, match=r"missing.*z\.bag\.dataformats\.json") as caught:
        dataformats.open(tmp_path / "z.bag")
    assert caught.value.path == str(tmp_path / "z.idx")


@loop_over("name", ["i.bag", "i.idx", "spec.json", "000001/x.bag", "000001/spec.json"])
def test_changed_file_of_a_dataset_is_refused(tmp_path: Path, name: str) -> None:
    options = {"shard_records": 5} if "/" in name else {}
    path = write(tmp_path / "d", "granular", **options)
    file = path / name
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(FormatError, match="describes") as caught:
        dataformats.open(path)
    assert caught.value.path == str(file)
    file.write_bytes(whole + b"\0")
    if name in {"i.bag", "i.idx"}:  # a crashed program that appends leaves this
        assert numbers(path)[:12] == list(range(12)) if name == "i.bag" else dataformats.open(path)[11]["i"] == 11
    else:
        with pytest.raises(FormatError, match="bytes") as caught:
            dataformats.open(path)
        assert caught.value.path == str(file)
    file.write_bytes(whole)
    assert numbers(path) == list(range(12))


# ---- shards


@pytest.mark.filterwarnings("ignore:.* shards are missing")
@loop_over("format", ["tfrecord", "ffrecord", "granular"])
@loop_over("is_old_version", [False, True])
def test_a_missing_shard(tmp_path: Path, format: str, is_old_version: bool) -> None:
    path = write(tmp_path / "d", format, shard_records=5)
    if is_old_version:
        forget_digests(path)
    assert numbers(path) == list(range(12))
    shards = sorted(path.iterdir())
    shards[1].rename(tmp_path / "elsewhere")
    declared: dict[str, Any] = {"spec": SPEC, "format": format}
    if format != "granular":
        declared["payload"] = "example"
    for options in ({}, declared):
        with pytest.raises(FormatError, match=r"missing.*d\.dataformats\.json") as caught:
            dataformats.open(path, **options)
        assert str(caught.value.path).startswith(str(shards[1]))
    with pytest.raises(FormatError, match="missing"):
        dataformats.info(path)
    report = dataformats.verify(path)
    assert (report.records, report.findings[0].path) == (7, caught.value.path)
    assert numbers(f"{path}/*") == [0, 1, 2, 3, 4, 10, 11] if format != "granular" else True
    (tmp_path / "elsewhere").rename(shards[1])
    assert numbers(path) == list(range(12))


def test_unlisted_shard_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "d", shard_records=5)
    shutil.copy(path / "d-00000-of-00003.tfrecord", path / "more.tfrecord")
    with pytest.raises(FormatError, match="does not list") as caught:
        dataformats.open(path)
    assert caught.value.path == str(path / "more.tfrecord")
    assert len(dataformats.open(path, payload="example", spec=SPEC)) == 17
    assert [finding.path for finding in dataformats.verify(path).findings] == [str(path / "more.tfrecord")]
    with pytest.raises(FormatError, match=r"no sidecar describes"):
        dataformats.open(f"{path}/*")


@pytest.mark.parametrize("as_glob", [False, True])
def test_changed_shard_is_refused(tmp_path: Path, as_glob: bool) -> None:
    path = write(tmp_path / "d", shard_records=5)
    shard = path / "d-00001-of-00003.tfrecord"
    whole = shard.read_bytes()
    for wrong in (whole[:-1], whole[::-1]):
        shard.write_bytes(wrong)
        with pytest.raises(FormatError) as caught:
            dataformats.open(f"{path}/*" if as_glob else path)
        assert caught.value.path == str(shard)
        with pytest.raises(FormatError):
            dataformats.open(shard)
    assert numbers(path / "d-00000-of-00003.tfrecord") == list(range(5))
    assert numbers([path / "d-00000-of-00003.tfrecord", path / "d-00002-of-00003.tfrecord"]) == [0, 1, 2, 3, 4, 10, 11]


def test_many_shards_are_compared_by_size_and_some_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "d", n=200, shard_records=1)
    compared: list[str] = []

    def digest(file: LocalFile, size: int) -> str:
        compared.append(file.basename)
        return file_digest(file, size)

    monkeypatch.setattr(file_comparison, "file_digest", digest)
    dataformats.open(path)
    assert 40 <= len(set(compared)) == len(compared) <= 64
    assert compared[0].startswith("d-00000")
    last = path / "d-00199-of-00200.tfrecord"
    last.write_bytes(last.read_bytes() + b"\0")
    with pytest.raises(FormatError, match="00199"):
        dataformats.open(path)


# ---- sidecars of interrupted writers: see tests/deep/durability/test_publishing.py


def test_facts_of_neither_the_old_nor_the_new_data(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tfrecord")
    metadata = json.loads(sidecar_of(path).read_text())
    edit(path, previous={name: metadata[name] for name in ("format", "payload", "spec", "files")})
    path.write_bytes(frames(b"1", b"2"))
    with pytest.raises(TruncatedError):
        dataformats.open(path)
    edit(path, previous={})
    assert dataformats.open(path).payload == "bytes"
    invalid: list[Any] = [3, [], {"files": 3}, {"spec": []}]
    for wrong in invalid:
        edit(path, previous=wrong)
        with pytest.raises(FormatError, match="invalid"):
            dataformats.open(path)


def test_sidecar_paths_stay_in_the_folder(tmp_path: Path) -> None:
    """No name in a sidecar leads out of the folder of the data."""
    (tmp_path / "data").mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    path = write(tmp_path / "data" / "x.tfrecord")
    (entry,) = json.loads(sidecar_of(path).read_text())["files"]
    for name in ("../secret", "/etc/passwd", str(tmp_path / "secret"), "", "..", "a\0b"):
        edit(path, files=[entry | {"parts": [{"name": name, "bytes": 6, "digest": ""}]}])
        with pytest.raises(FormatError, match="missing"):
            dataformats.open(path)


@loop_over(
    "files",
    [
        [],
        [{"name": "x", "records": 1, "bytes": -1}],
        [{"name": "x", "records": 1, "bytes": 10**30, "digest": "zz"}],
        [{"name": "x", "records": 12, "bytes": 1, "digest": "", "parts": [{"name": "y", "bytes": 1}]}],
        [{"name": "x", "records": 1, "bytes": 1}, {"name": "y", "records": 1, "bytes": 1}],
        [{"name": "x", "records": 1, "bytes": 1, "parts": [{"name": "x", "bytes": 1, "parts": []}]}],
        [{"name": "x", "records": 1, "bytes": 1, "digest": 3}],
        None,
    ],
)
@loop_over("is_folder", [False, True])
def test_wrong_file_lists_never_change_records(tmp_path: Path, files: Any, is_folder: bool) -> None:
    path = write(tmp_path / "d", shard_records=5) if is_folder else write(tmp_path / "x.tfrecord")
    edit(path, files=files)
    try:
        found = numbers(path)
    except FormatError:
        found = list(range(12))
    assert found == list(range(12))
    dataformats.verify(path)


def test_an_emptied_folder(tmp_path: Path) -> None:
    """Sidecars without lists of parts."""
    path = write(tmp_path / "x", "granular")
    forget_digests(path)
    shutil.rmtree(path)
    path.mkdir()
    with pytest.raises(dataformats.TargetExistsError, match="other files than its sidecar lists"):
        write(path, "granular", resume=True)
    write(path, "granular", overwrite=True)
    assert numbers(path) == list(range(12))
