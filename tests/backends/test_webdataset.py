"""WebDataset's tar files: golden files of webdataset and GNU tar, damage, keys, extensions, brace patterns."""

from __future__ import annotations

import io
import itertools
import json
import shutil
import tarfile
from pathlib import Path
from random import Random
from typing import Any

import fsspec
import numpy as np
import pytest

import dataformats
from dataformats.backends.webdataset import members
from dataformats.errors import DataFormatsError, FormatError, SpecError, TruncatedError
from dataformats.storage.brace_patterns import expand_braces
from dataformats.testing.loop_over import loop_over

GOLDEN = Path(__file__).parents[1] / "golden" / "webdataset"
EXPECTED: dict[str, list[dict[str, str]]] = json.loads((GOLDEN / "expected.json").read_text("utf-8"))
SPEC = {"label": "int64", "score": "float32", "text": "utf8?", "vec": "float32[3]", "raw": "bytes", "flag": "bool"}


def in_hex(record: Any) -> dict[str, str]:
    return {name: value if isinstance(value, str) else value.hex() for name, value in record.items()}


def as_stored(source: dataformats.RecordSource) -> dataformats.RecordSource:
    kinds = {name: ("utf8" if name == "__key__" else "bytes", kind.optional) for name, kind in source.spec.items()}
    return source.with_spec({name: codec + "?" * optional for name, (codec, optional) in kinds.items()})


def record(i: int) -> dict[str, Any]:
    found = {"label": i - 3, "score": i / 4, "vec": np.arange(3, dtype="f4") + i, "raw": b"x" * i, "flag": i % 2 == 0}
    return found | ({"text": f"é{i}"} if i % 3 else {})


def write(path: Path, n: int = 10, **options: Any) -> Path:
    with dataformats.create(path, "webdataset", spec=SPEC, **options) as writer:
        writer.extend(map(record, range(n)))
    return path


def write_tar(path: Path, members: dict[str, bytes], mode: Any = "w") -> None:
    with tarfile.open(path, mode) as archive:
        for name, data in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path / "cache"))


# ---- golden files


@loop_over("name", EXPECTED)
def test_golden_files_read_as_webdataset_reads_them(name: str) -> None:
    for _ in range(2):  # by a scan, and by the index that is kept
        source = as_stored(dataformats.open(GOLDEN / name))
        assert [in_hex(one) for one in source] == EXPECTED[name]
        batch = source.read(range(len(source))[::-1])
        assert [in_hex(one) for one in batch] == EXPECTED[name][::-1]


def test_values_are_decoded() -> None:
    source = dataformats.open(GOLDEN / "train-*.tar")
    types = {"bin": "bytes", "cls": "int64", "emb.npy": "npy", "json": "json", "png": "png", "caption.txt": "utf8?"}
    assert dict(source.spec.to_json()) == {"__key__": "utf8", **types}
    batch = source.read([9, 0, 4])
    assert batch["cls"].tolist() == [22, -5, 7]
    assert batch["cls"].dtype == np.int64
    assert batch[2]["json"] == {"i": 4, "text": "é"}
    assert batch[2]["caption.txt"] == "sample 4"
    assert "caption.txt" not in batch[1]
    assert np.array_equal(batch[0]["emb.npy"], np.arange(3, dtype="f4") * 9)
    assert batch[2]["png"].tolist() == ((np.arange(48) * 5) % 256).reshape(4, 4, 3).tolist()
    typed = source.with_spec({"cls": "int8", "emb.npy": "float32[3]", "json": "bytes"})
    assert typed.read([3])["emb.npy"].shape == (1, 3)
    assert typed.read([3])["cls"].dtype == np.int8
    with pytest.raises(SpecError, match="cannot be read as"):
        source.with_spec({"cls": "float32[3]"}).read([0])


DAMAGED = {
    "cut_data": {0: "reaches outside the file"},
    "cut_header": {2: "ends in a header"},
    "duplicate": {1: "two members"},
    "first_header": {0: "wrong checksum"},
    "flipped_header": {0: "wrong checksum"},
    "huge_size": {0: "wrong size in a header"},
    "lone_zeros": {0: "a block of zeros where a header is expected"},
    "pax_length": {0: "a pax header is damaged"},
    "sparse_gnu": {0: "sparse"},
    "sparse_pax": {0: "sparse"},
    "wide_size": {0: "reaches outside the file"},
    "no_end": {},
}


@loop_over("name", DAMAGED)
def test_damage_is_a_problem_of_its_record(name: str) -> None:
    source = dataformats.open(GOLDEN / "corrupt" / f"{name}.tar", format="webdataset")
    found: dict[int, str] = {}
    for i, error in source.read(range(len(source)), on_corrupt="omit").failed.items():
        assert f"{name}.tar" in str(error)
        found[i] = str(error)
    assert found.keys() == DAMAGED[name].keys()
    assert all(text in found[i] for i, text in DAMAGED[name].items()), found


def test_a_cut_behind_the_data_of_a_member(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as archive:
        for name in ("a.txt", "b.txt"):
            archive.addfile(tarfile.TarInfo(name))
            member = tarfile.TarInfo(name.replace("txt", "bin"))
            member.size = 3
            archive.addfile(member, io.BytesIO(b"one"))
    whole = path.read_bytes()
    for size in range(1024 + 4, 1024 + 512, 100):
        path.write_bytes(whole[:size])
        source = dataformats.open(path)
        assert source.read([0, 1], on_corrupt="omit").indices.tolist() == [0]
        with pytest.raises(TruncatedError, match="behind the data of a member"):
            source[1]


@loop_over("name", ["flipped_header", "lone_zeros", "huge_size"])
def test_samples_behind_damage_are_read(name: str) -> None:
    """The damage is in the first of four samples, which is lost with all its members."""
    source = as_stored(dataformats.open(GOLDEN / "corrupt" / f"{name}.tar", format="webdataset"))
    assert len(source) == 4
    found = [in_hex(one) for one in source.read(range(4), on_corrupt="omit")]
    assert found == EXPECTED["train-000000.tar"][1:]


@pytest.mark.parametrize(
    "names", [["0.a", "0.b"], ["0.a", "0.b", "1.a", "1.b", "1.c", "2.a", "2.b", "2.c"], ["0.a", "1.a", "0.b", "1.b"]]
)
def test_damage_never_leaves_a_part_of_a_sample(names: list[str], tmp_path: Path) -> None:
    write_tar(tmp_path / "whole.tar", dict.fromkeys(names, b"x"))
    whole = (tmp_path / "whole.tar").read_bytes()
    fields = [{name[2:] for name in names if name[0] == key} for key in "012"]
    for header, byte in itertools.product(range(len(names)), (2, 100, 155)):
        data = bytearray(whole)
        data[2 * members.BLOCK * header + byte] ^= 1
        path = tmp_path / f"{header}-{byte}.tar"
        path.write_bytes(data)
        source = as_stored(dataformats.open(path, format="webdataset"))
        for record in source.read(range(len(source)), on_corrupt="omit"):
            assert record.keys() - {"__key__"} == fields[int(record["__key__"])]


def test_mutated_files_raise_only_errors_of_this_package(tmp_path: Path) -> None:
    random, path = Random(0), tmp_path / "x.tar"
    for name in ("gnu.tar", "pax.tar", "ustar.tar", "train-000002.tar"):
        whole = (GOLDEN / name).read_bytes()
        for number in range(40):
            data = bytearray(whole)
            for _ in range(1 + number % 3):
                data[random.randrange(len(data))] = random.randrange(256)
            path.write_bytes(data if number % 4 else data[: random.randrange(len(data))])
            try:
                source = dataformats.open(path, format="webdataset", index=str(tmp_path))
                source.read(range(len(source)), on_corrupt="omit")
                dataformats.verify(path, format="webdataset", index=str(tmp_path))
            except DataFormatsError:
                pass


# ---- names


def test_names_are_split_as_webdataset_splits_them(tmp_path: Path) -> None:
    names = ("a.b/c.d.TXT", "__meta__/x.txt", "__meta__", "no_extension", "dir/.hidden.txt", "__a__b.txt", "/abs.txt")
    write_tar(tmp_path / "x.tar", dict.fromkeys(names, b"1"))
    source = dataformats.open(tmp_path / "x.tar")
    found = [(one["__key__"], [name for name in one if name != "__key__"]) for one in source]
    assert found == [("a.b/c", ["d.txt"]), ("dir/", ["hidden.txt"]), ("__a__b", ["txt"]), ("/abs", ["txt"])]


def test_files_of_macos_are_left_out(tmp_path: Path) -> None:
    names = ("a/._0.txt", "a/0.txt", "a/._0.jpg", "a/0.jpg", "__MACOSX/a/0.txt", "._1.txt", "1.txt")
    write_tar(tmp_path / "a.tar", dict.fromkeys(names, b"x"))
    source = dataformats.open(tmp_path / "a.tar", spec={"jpg": "bytes?"})
    assert [record["__key__"] for record in source] == ["a/0", "1"]
    assert source.spec == {"__key__": "utf8", "txt": "utf8", "jpg": "bytes?"}


def test_scattered_members_are_a_sample(tmp_path: Path) -> None:
    names = [f"{i}.{ending}" for ending in ("txt", "bin") for i in range(5)]
    write_tar(tmp_path / "x.tar", {name: name.encode() for name in names})
    for _ in range(2):  # by a scan, and by the index that is kept
        source = dataformats.open(tmp_path / "x.tar")
        assert source.spec == {"__key__": "utf8", "txt": "utf8", "bin": "bytes"}
        assert list(source) == [{"__key__": str(i), "txt": f"{i}.txt", "bin": f"{i}.bin".encode()} for i in range(5)]
    data = bytearray((tmp_path / "x.tar").read_bytes())
    data[7 * 1024] ^= 1  # the header of 2.bin: whole samples have both members
    (tmp_path / "x.tar").write_bytes(data)
    found = dataformats.open(tmp_path / "x.tar").read(range(6), on_corrupt="omit")
    assert [one["__key__"] for one in found if "bin" in one] == ["0", "4"]
    assert [*found.failed] == [1, 2, 3, 5]


def test_scattered_members_of_one_extension_stay_apart(tmp_path: Path) -> None:
    """Their keys begin anew, or a member is there twice: that they are one sample is a guess."""
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name in ("a.txt", "b.bin", "a.bin", "b.txt", "a.txt", "c.bin"):
            archive.addfile(tarfile.TarInfo(name))
    assert [one["__key__"] for one in dataformats.open(tmp_path / "x.tar")] == ["a", "b", "a", "a", "c"]


def test_dots_in_names_are_noted(tmp_path: Path) -> None:
    members = {f"song {i}.{i % 97} mix{ending}": b"1" for i in range(300) for ending in (".txt", ".json")}
    write_tar(tmp_path / "x.tar", members)
    notes = dataformats.info(tmp_path / "x.tar").notes
    assert [note.split(", and")[0] for note in notes] == [
        f"97 fields end in '.{ending}', such as '0 mix.{ending}'" for ending in ("txt", "json")
    ]
    write_tar(tmp_path / "y.tar", {f"{i}.view{view}.png": b"" for i in range(9) for view in range(9 + i % 2)})
    assert not dataformats.info(tmp_path / "y.tar").notes


def test_files_without_samples(tmp_path: Path) -> None:
    write_tar(tmp_path / "x.tar", {"README": b"", "folder/x": b""})
    with pytest.raises(FormatError, match="no member is a file with an extension"):
        dataformats.open(tmp_path / "x.tar")
    write_tar(tmp_path / "x.tar", {f"a{i}.{i}": b"" for i in range(2000)})
    with pytest.raises(FormatError, match="extensions differ too much"):
        dataformats.open(tmp_path / "x.tar")
    write_tar(tmp_path / "x.tar", {})
    assert len(dataformats.open(tmp_path / "x.tar")) == 0


class CountedBytes(bytes):
    """Bytes that count how many of them were copied."""

    n_copied = 0

    def rstrip(self, *arguments: Any) -> CountedBytes:
        return self._counted(super().rstrip(*arguments))

    def __getitem__(self, part: Any) -> Any:
        return self._counted(super().__getitem__(part)) if isinstance(part, slice) else super().__getitem__(part)

    def _counted(self, copy: bytes) -> CountedBytes:
        CountedBytes.n_copied += len(copy)
        return CountedBytes(copy)


def test_a_padded_pax_header_is_read_in_linear_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pax = members._pax
    monkeypatch.setattr(members, "_pax", lambda text, *more: pax(CountedBytes(text), *more))
    records = b"6 a=b\n" * 40_000
    head = tarfile.TarInfo("h")
    head.type, head.size = tarfile.XHDTYPE, 2**20
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.addfile(head, io.BytesIO(records.ljust(2**20, b"\0")))
        archive.addfile(tarfile.TarInfo("k.txt"))
    assert dataformats.open(tmp_path / "x.tar")[0] == {"__key__": "k", "txt": ""}
    assert len(records) < CountedBytes.n_copied < 10 * 2**20  # and no 40,000 copies of a megabyte


def test_a_size_with_other_signs_than_digits_is_damage(tmp_path: Path) -> None:
    write_tar(tmp_path / "x.tar", {"k.txt": b"a"})
    head = bytearray((tmp_path / "x.tar").read_bytes())
    assert members.header_is_sound(bytes(head[:512]))
    head[124:136] = b"0_0_0_0_0_1\0"
    head[148:156] = b"%06o\0 " % members.checksum(bytes(head[:512]))
    (tmp_path / "x.tar").write_bytes(head)
    with pytest.raises(FormatError, match="wrong size in a header"):
        dataformats.open(tmp_path / "x.tar")


def test_wrong_digits_are_an_error_of_their_record(tmp_path: Path) -> None:
    write_tar(tmp_path / "x.tar", {"a.cls": b"one", "b.cls": b" 2\n", "c.cls": str(2**63).encode()})
    source = dataformats.open(tmp_path / "x.tar")
    batch = source.read([0, 1, 2], on_corrupt="omit")
    assert (batch["cls"].tolist(), [*batch.failed]) == ([2], [0, 2])
    with pytest.raises(DataFormatsError, match=r"record 0 of .*x\.tar.*field 'cls'"):
        source[0]


# ---- writing


def test_written_files_are_plain_ustar(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tar")
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    assert members[0].name == "__dataformats__"
    assert [one.name for one in members[1:6]] == [
        f"000000000.{end}" for end in ("label.cls", "score.json", "vec.npy", "raw", "flag.cls")
    ]
    assert {(one.mtime, one.uid, one.mode, one.pax_headers == {}) for one in members} == {(0, 0, 0o644, True)}
    assert write(tmp_path / "y.tar").read_bytes() == path.read_bytes()
    path.with_name("x.tar.dataformats.json").unlink()
    source = dataformats.open(path)  # the file itself has the names and codecs
    assert dict(source.spec.to_json()) == {**SPEC, "vec": "npy"}
    assert source[4]["text"] == "é4"
    assert np.array_equal(source[4]["vec"], record(4)["vec"])


def test_names_of_fields_come_back(tmp_path: Path) -> None:
    names = {"jpg": "bytes", "image": "png", "seg.png": "png", "cls": "int64", "Label": "uint8", "id.txt": "int32"}
    pixels = np.zeros((2, 2, 3), np.uint8)
    with dataformats.create(tmp_path / "x.tar", spec=names) as writer:
        writer.append({"jpg": b"1", "image": pixels, "seg.png": pixels, "cls": 1, "Label": 2, "id.txt": 3})
    with tarfile.open(tmp_path / "x.tar") as archive:
        found = [name.partition(".")[2] for name in archive.getnames()[1:]]
    assert found == ["jpg", "image.png", "seg.png", "cls", "label.cls", "id.txt.cls"]
    dataformats.convert(tmp_path / "x.tar", tmp_path / "x.tfrecord")
    dataformats.convert(tmp_path / "x.tfrecord", tmp_path / "y.tar")
    assert dict(dataformats.open(tmp_path / "y.tar").spec.to_json()) == names
    assert (tmp_path / "y.tar").read_bytes() == (tmp_path / "x.tar").read_bytes()


@loop_over(
    "spec, message",
    [
        ({"a": "utf8[]"}, "one value a record"),
        ({"a/b": "bytes"}, "no extension"),
        ({"__url__": "bytes"}, "no extension"),
        ({"__key__": "int64"}, "utf8 for the key"),
        ({"a": "int64", "a.cls": "int64"}, "same extension"),
        ({"a": "bytes", "A": "bytes"}, "same extension"),
        ({"a": "float32[2][]"}, "dims"),
    ],
)
def test_refused_specs(spec: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=message):
        dataformats.create(tmp_path / "x.tar", spec=spec)
    with pytest.raises(SpecError, match="read, not written"):
        dataformats.create(tmp_path / "x.tar.gz", "webdataset", spec={"a": "bytes"})


def test_keys_are_unique_over_shards(tmp_path: Path) -> None:
    write(tmp_path / "out", shard_records=4)
    with dataformats.create(tmp_path / "out", "webdataset", spec=SPEC, append=True, shard_records=4) as writer:
        writer.extend(map(record, range(10, 13)))
    keys: list[str] = []
    for path in sorted((tmp_path / "out").glob("out-00000?.tar")):
        with tarfile.open(path) as archive:
            keys += dict.fromkeys(name.partition(".")[0] for name in archive.getnames()[1:])
    assert len(keys) == len({*keys}) == 13
    assert keys == [f"{i:09d}" for i in range(13)]
    assert [one["label"] for one in dataformats.open(tmp_path / "out")] == [i - 3 for i in range(13)]


def test_parallel_conversions_have_unique_keys(tmp_path: Path) -> None:
    write(tmp_path / "x.tar")
    dataformats.convert(tmp_path / "x.tar", tmp_path / "out", "webdataset", shard_records=4)
    with tarfile.open(tmp_path / "out" / "out-000002.tar") as archive:
        assert archive.getnames()[-1] == "000002-000000001.flag.cls"
    assert dataformats.verify(tmp_path / "out", against=tmp_path / "x.tar").ok


def test_keys_of_a_field(tmp_path: Path) -> None:
    keys = ["a", "deep/er/b", "k" * 150, "schlüssel"]
    with dataformats.create(tmp_path / "x.tar", spec={"__key__": "utf8", "n": "int64?"}) as writer:
        writer.extend({"__key__": key, "n": None if i == 1 else i} for i, key in enumerate(keys))
        for wrong in ("", "a.b", "schlüssel", "__x__/a", "a\0"):
            with pytest.raises(SpecError, match="expected"):
                writer.append({"__key__": wrong, "n": 1})
    found = list(dataformats.open(tmp_path / "x.tar"))
    assert found == [{"__key__": key} | ({} if i == 1 else {"n": i}) for i, key in enumerate(keys)]
    with tarfile.open(tmp_path / "x.tar") as archive:
        assert [name.rpartition(".")[0] for name in archive.getnames()[1:]] == [f"{keys[0]}.n", keys[1]] + [
            f"{key}.n" for key in keys[2:]
        ]


def test_the_key_before_is_known_on_resume(tmp_path: Path) -> None:
    options: dict[str, Any] = {"spec": {"__key__": "utf8", "n": "int64"}, "format": "webdataset"}
    writer = dataformats.create(tmp_path / "x.tar", **options, resume=True)
    writer.append({"__key__": "a", "n": 1})
    writer.abort()
    with dataformats.create(tmp_path / "x.tar", **options, resume=True) as writer:
        with pytest.raises(SpecError, match="another key"):
            writer.append({"__key__": "a", "n": 2})
        writer.append({"__key__": "b", "n": 2})
    assert [one["n"] for one in dataformats.open(tmp_path / "x.tar")] == [1, 2]


def test_a_file_without_its_end_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tar")
    path.with_name("x.tar.dataformats.json").unlink()
    whole = path.read_bytes()
    path.write_bytes(whole[:-1024])
    source = dataformats.open(path)
    assert len(source) == 11
    with pytest.raises(TruncatedError, match="truncated"):
        source[10]
    assert not dataformats.verify(path).ok
    path.write_bytes(whole[:100] + b"?" + whole[101:])
    source = dataformats.open(path)
    assert (len(source), list(source.spec)) == (10, list(dataformats.open(write(tmp_path / "y.tar")).spec))
    with pytest.raises(FormatError, match=r"record 0 of .*checksum"):
        source[0]
    path.write_bytes(whole[:100] + b"?" + whole[101:600] + b"?" + whole[601:])
    with pytest.raises(FormatError, match="the spec in the file is damaged"):
        dataformats.open(path)


def test_a_tar_file_of_another_program_without_its_end_is_a_fact(tmp_path: Path) -> None:
    write_tar(tmp_path / "x.tar", {"0.jpg": b"1", "0.txt": b"2", "1.jpg": b"3", "1.txt": b"4"})
    assert dataformats.info(tmp_path / "x.tar").metadata == {}
    (tmp_path / "x.tar").write_bytes((tmp_path / "x.tar").read_bytes()[: 3 * 2 * members.BLOCK])  # behind 1.jpg
    facts = dataformats.info(tmp_path / "x.tar").metadata
    assert facts["files are cut"].startswith(f"1 of 1, such as '{tmp_path / 'x.tar'}': no blocks of zeros end it")
    (finding,) = [one for one in dataformats.doctor(tmp_path / "x.tar").findings if one.kind == "Fact"]
    assert finding.message == f"files are cut: {facts['files are cut']}"


def test_compressed_files_and_pickles(tmp_path: Path) -> None:
    import gzip
    import pickle

    path = write(tmp_path / "x.tar", 200)
    expected = str(list(dataformats.open(path)))
    (tmp_path / "x.tgz").write_bytes(gzip.compress(path.read_bytes()))
    shutil.copy(path.with_name("x.tar.dataformats.json"), tmp_path / "x.tgz.dataformats.json")
    for _ in range(2):
        source = dataformats.open(tmp_path / "x.tgz", spec=SPEC)
        assert str(list(pickle.loads(pickle.dumps(source)))) == expected
        assert source.read([150, 3])["label"].tolist() == [147, 0]
    data = (tmp_path / "x.tgz").read_bytes()
    (tmp_path / "x.tgz").write_bytes(data[: len(data) // 2])
    source = dataformats.open(tmp_path / "x.tgz", spec=SPEC)
    assert 10 < len(source) < 200
    with pytest.raises(FormatError, match="end early"):
        source[len(source) - 1]
    (tmp_path / "x.tgz").write_bytes(data[:-5] + bytes([data[-5] ^ 1]) + data[-4:])
    with pytest.raises(FormatError, match="from 0 on, where the member begins"):
        dataformats.open(tmp_path / "x.tgz", spec=SPEC)[0]


# ---- patterns


def test_braces_and_lists_of_paths(tmp_path: Path) -> None:
    write(tmp_path / "out", 30, shard_records=3)
    pattern = f"{tmp_path}/out/out-{{000000..000009}}.tar"
    assert dataformats.open(pattern).read([29])["label"].tolist() == [26]
    two = dataformats.open(f"{tmp_path}/out/out-000001.tar::{tmp_path}/out/out-{{000003,000000}}.tar")
    assert [one["label"] for one in two] == [0, 1, 2, 6, 7, 8, -3, -2, -1]
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "out"), "/braces", recursive=True)
    try:
        source = dataformats.open("memory://braces/out-{000002..000004}.tar")
        assert source.read([8])["label"].tolist() == [11]
    finally:
        memory.rm("/braces", recursive=True)
    with pytest.raises(FileNotFoundError, match="out-000010"):
        dataformats.open(f"{tmp_path}/out/out-{{000009..000010}}.tar")
    shutil.copy(tmp_path / "out" / "out-000000.tar", tmp_path / "{1..2}.tar")
    assert len(dataformats.open(tmp_path / "{1..2}.tar")) == 3
    shutil.copytree(tmp_path / "out", tmp_path / "{a,b}")
    assert len(dataformats.open(f"{tmp_path}/{{a,b}}/out-00000[0-1].tar")) == 6
    with pytest.raises(FileNotFoundError):  # nested braces are expanded once
        dataformats.open(f"{tmp_path}/out/out-{{{{000001,000002}},000003}}.tar")


def test_expanded_braces() -> None:
    assert expand_braces("x") == ["x"]
    assert expand_braces("{a}{}{..}{1..}") == ["{a}{}{..}{1..}"]
    assert expand_braces("x{8..11}") == ["x8", "x9", "x10", "x11"]
    assert expand_braces("{098..101}") == ["098", "099", "100", "101"]
    assert expand_braces("{2..1}/{a,b}.c") == ["2/a.c", "2/b.c", "1/a.c", "1/b.c"]
    assert expand_braces("{{a,b},c}") == ["{a,c}", "{b,c}"]
    for pattern in ("{0..1000000}", "{0..999}{0..999}{0..9}", "{0..999999}" * 10_000):
        with pytest.raises(ValueError, match="at most 1000000"):
            expand_braces(pattern)
