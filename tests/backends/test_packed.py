"""Packed folders: folders of the original program, hostile folders, and folders that we write."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from dataformats.backends.ffrecord import BACKEND, PackedFolder, pack_folder
from dataformats.backends.ffrecord.packed_tree import MAGIC, build_structure, parse_structure
from dataformats.errors import FormatError
from dataformats.testing.loop_over import loop_over

GOLDEN = Path(__file__).parents[1] / "golden" / "ffrecord"
ENTRIES: list[dict[str, Any]] = json.loads((GOLDEN / "expected.json").read_text("utf-8"))["entries"]
PACKED = [entry for entry in ENTRIES if "packed_files" in entry]
REFUSED = [entry for entry in ENTRIES if entry.get("stage") == "packed"]
TREE: Any = {"a": {"b.txt": 0, "c": {"d": 1, "e": {}}}, "f": 2, "ä": 3}
N_FILES = 4


def ordered(tree: Any) -> Any:
    return OrderedDict((k, ordered(v)) for k, v in tree.items()) if isinstance(tree, dict) else tree


def parse(pickled: bytes, n_files: int = N_FILES) -> Any:
    return parse_structure(MAGIC + pickled, n_files, path="a.ffr", offset_bytes=100)


def write(path: Path, blobs: list[bytes]) -> None:
    writer = BACKEND.create(path)
    for blob in blobs:
        writer.append(blob)
    writer.close()


@loop_over("entry", PACKED)
def test_golden(entry: dict[str, Any]) -> None:
    with PackedFolder(GOLDEN / entry["path"]) as folder:
        assert folder.num_files == entry["num_files"]
        assert folder.list(recursive=True) == [item["path"] for item in entry["packed_files"]]
        files = [item for item in entry["packed_files"] if not item.get("dir")]
        assert folder.list(recursive=True, folders=False) == [item["path"] for item in files]
        contents = folder.read([item["path"] for item in files])
        assert [hashlib.sha256(content).hexdigest() for content in contents] == [i["sha256"] for i in files]
        for item in entry["packed_files"]:
            assert folder.exists(item["path"])
            assert folder.is_dir(item["path"]) == bool(item.get("dir"))
            assert folder.is_file(item["path"]) != bool(item.get("dir"))


@loop_over("entry", REFUSED)
def test_refused(entry: dict[str, Any]) -> None:
    os.environ.pop("GOLDEN_PICKLE_RAN", None)
    with pytest.raises(FormatError, match=entry["id"]):
        PackedFolder(GOLDEN / entry["path"])
    assert "GOLDEN_PICKLE_RAN" not in os.environ


def test_unsafe_pickle_error_names_global_and_opcode() -> None:
    with pytest.raises(FormatError, match=r"'builtins exec', which was not executed \(opcode STACK_GLOBAL\)"):
        PackedFolder(GOLDEN / "corrupt/packed_evil.ffr")


def test_paths() -> None:
    with PackedFolder(GOLDEN / "packed.ffr") as folder:
        assert folder.list() == ["img", "readme.txt", "void", "zeta"]
        assert folder.list("img/deep") == ["er"]
        assert folder.list(Path("void")) == []
        assert folder.read_one("./img//deep/er/c.bin") == folder.read_one("img/deep/er/c.bin")
        assert folder.read([]) == []
        assert repr(folder) == f"PackedFolder({str(GOLDEN / 'packed.ffr')!r}, 5 files)"
        for path in ("nothing", "img/../zeta", "/zeta", "zeta/x", "..", "img/nothing"):
            assert not folder.exists(path)
            assert not folder.is_file(path)
            assert not folder.is_dir(path)
            with pytest.raises(FileNotFoundError, match=r"packed\.ffr"):
                folder.read_one(path)
        with pytest.raises(IsADirectoryError):
            folder.read(["zeta", "img"])
        with pytest.raises(NotADirectoryError):
            folder.list("zeta")
        with pytest.raises(FileNotFoundError):
            folder.list("nothing")
        with pytest.raises(TypeError, match="read_one"):
            folder.read("zeta")


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        PackedFolder(tmp_path / "nothing.ffr")
    with pytest.raises(IsADirectoryError):
        PackedFolder(tmp_path)


@loop_over("blobs", [[], [b""], [MAGIC], [b"a", MAGIC[:-1]]])
def test_no_packed_folder(tmp_path: Path, blobs: list[bytes]) -> None:
    write(tmp_path / "a.ffr", blobs)
    with pytest.raises(FormatError):
        PackedFolder(tmp_path / "a.ffr")


def test_a_damaged_file_is_named_and_others_are_read(tmp_path: Path) -> None:
    data = bytearray((GOLDEN / "packed.ffr").read_bytes())
    data[data.index(b"hello\n")] ^= 1
    (tmp_path / "a.ffr").write_bytes(data)
    folder = PackedFolder(tmp_path / "a.ffr")
    assert folder.read_one("zeta") == PackedFolder(GOLDEN / "packed.ffr").read_one("zeta")
    with pytest.raises(FormatError, match=r"record 3 of .*a\.ffr"):
        folder.read(["zeta", "readme.txt"])


# ---- the structure


@loop_over("protocol", [2, 3, 4, 5])
@loop_over("make", [ordered, lambda tree: tree])
def test_every_protocol(protocol: int, make: Any) -> None:
    assert parse(pickle.dumps(make(TREE), protocol=protocol)) == TREE


@loop_over("protocol", [2, 3, 4, 5])
def test_many_files(protocol: int) -> None:
    tree = {f"{i}": {f"{j}": 70_000 + j for j in range(i)} for i in range(300)}
    assert parse(pickle.dumps(ordered(tree), protocol=protocol), 2**20) == tree


def test_our_structure_is_the_originals() -> None:
    assert build_structure(TREE) == MAGIC + pickle.dumps(ordered(TREE), protocol=4)


def nested(depth: int) -> Any:
    tree: Any = OrderedDict()
    for _ in range(depth - 1):
        tree = OrderedDict(a=tree)
    return tree


def itself() -> Any:
    tree: Any = OrderedDict()
    tree["a"] = tree
    return tree


def twice() -> Any:
    inner: Any = OrderedDict(x=0)
    return OrderedDict(a=inner, b=inner)


class Evil:
    def __reduce__(self) -> Any:
        return os.putenv, ("DATAFORMATS_TEST_RAN", "1")


BAD = {
    "protocol 0": pickle.dumps(ordered(TREE), protocol=0),
    "no folder": pickle.dumps(5),
    "a list": pickle.dumps([1]),
    "a name with a slash": pickle.dumps(OrderedDict({"a/b": 0})),
    "dots": pickle.dumps(OrderedDict({"..": 0})),
    "an empty name": pickle.dumps(OrderedDict({"": 0})),
    "NUL": pickle.dumps(OrderedDict({"a\0": 0})),
    "a number as a name": pickle.dumps(OrderedDict({5: 0})),
    "an index too large": pickle.dumps(OrderedDict(a=N_FILES)),
    "a huge index": pickle.dumps(OrderedDict(a=2**70)),
    "a negative index": pickle.dumps(OrderedDict(a=-1)),
    "True": pickle.dumps(OrderedDict(a=True)),
    "a float": pickle.dumps(OrderedDict(a=1.0)),
    "text": pickle.dumps(OrderedDict(a="b")),
    "None": pickle.dumps(OrderedDict(a=None)),
    "bytes": pickle.dumps(OrderedDict({b"a": 0})),
    "too many files": pickle.dumps(OrderedDict({str(i): 0 for i in range(N_FILES + 1)})),
    "too deep": pickle.dumps(nested(65)),
    "inside itself": pickle.dumps(itself()),
    "used twice": pickle.dumps(twice()),
    "a call": pickle.dumps(OrderedDict(a=Evil())),
    "bytes behind": pickle.dumps(ordered(TREE)) + b"x",
    "nothing": b"",
    "only stop": b".",
    "the class itself": b"\x80\x04\x8c\x0bcollections\x8c\x0bOrderedDict\x93.",
    "the class as a value": b"}\x8c\x01accollections\nOrderedDict\ns.",
    "one name twice": b"}(\x8c\x01aK\x00\x8c\x01aK\x01u.",
    "odd items": b"}(\x8c\x01au.",
    "items without a mark": b"}\x8c\x01aK\x00u.",
    "a mark as a value": b"}\x8c\x01a(s.",
    "memo of nothing": b"}\x8c\x01ah\x07s.",
    "memo of a mark": b"}(\x94.",
    "protocol 6": b"\x80\x06}.",
    "OrderedDict with arguments": b"\x8c\x0bcollections\x8c\x0bOrderedDict\x93}\x85R.",
    "a frame without an end": b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff}",
    "a text of 2**62 bytes": b"}\x8d\x00\x00\x00\x00\x00\x00\x00\x40",
    "persistent id": b"}\x8c\x01aK\x00Qs.",
}


@loop_over("name", BAD)
def test_bad_structures(name: str) -> None:
    with pytest.raises(FormatError, match=r"a\.ffr.* at byte \d+"):
        parse(BAD[name])
    assert "DATAFORMATS_TEST_RAN" not in os.environ


def test_nesting_of_64_levels_is_allowed() -> None:
    assert parse(pickle.dumps(nested(64))) == nested(64)


@pytest.mark.parametrize("protocol", [2, 4])
def test_damaged_structures(protocol: int) -> None:
    pickled = pickle.dumps(ordered(TREE), protocol=protocol)
    for stop in range(len(pickled)):
        with pytest.raises(FormatError):
            parse(pickled[:stop])
    for bit in range(8 * len(pickled)):
        flipped = bytearray(pickled)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            tree = parse(bytes(flipped))
        except FormatError:
            continue
        assert isinstance(tree, dict)  # another name or number: the record's CRC tells


# ---- packing


def unpack(entry: dict[str, Any], source: Path, into: Path) -> None:
    with PackedFolder(source) as folder:
        for item in entry["packed_files"]:
            if item.get("dir"):
                (into / item["path"]).mkdir()
            else:
                (into / item["path"]).write_bytes(folder.read_one(item["path"]))


def test_pack_as_the_original(tmp_path: Path) -> None:
    entry = next(entry for entry in PACKED if entry["id"] == "packed")
    (tmp_path / "in").mkdir()
    unpack(entry, GOLDEN / "packed.ffr", tmp_path / "in")
    pack_folder(tmp_path / "in", tmp_path / "out.ffr")
    assert (tmp_path / "out.ffr").read_bytes() == (GOLDEN / "packed.ffr").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["in", "out.ffr"]


def test_pack_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pack_folder(tmp_path / "in", tmp_path / "out.ffr")
    with PackedFolder(tmp_path / "out.ffr") as folder:
        assert folder.num_files == 0
        assert folder.list() == []


def test_pack_refuses_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    os.symlink("..", tmp_path / "in" / "above")
    with pytest.raises(ValueError, match="nested more than"):
        pack_folder(tmp_path / "in", tmp_path / "out.ffr")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        pack_folder(tmp_path / "file", tmp_path / "out.ffr")
    assert sorted(os.listdir(tmp_path)) == ["file", "in"]


def test_no_warning_of_an_old_version() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PackedFolder(GOLDEN / "packed.ffr")
