"""`dataformats_compat.ffrecord`: files, packed folders and `dump` behave like the original."""

from __future__ import annotations

import io
import json
import pickle
import pickletools
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dataformats
from dataformats_compat.ffrecord import FileReader, FileWriter, PackedFolder, checkFsAlign, pack_folder
from dataformats_compat.ffrecord.package import MAGIC_BYTES, dump_files, dump_structure
from dataformats_compat.ffrecord.utils import dump
from tests.cases import GOLDEN

RECORDS = [bytes(range(n)) for n in range(20)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.ffr"
    with FileWriter(path, len(RECORDS)) as writer:
        for record in RECORDS:
            writer.write_one(record)
    return path


def reading(path: object, check_data: bool = True) -> FileReader:
    return FileReader(path, check_data)


# ---- reading


def test_files_are_the_original_s() -> None:
    reader = FileReader(fname=GOLDEN / "ffrecord" / "pickled_ints.ffr", check_data=True)
    assert (reader.n, reader.fnames, reader.check_data) == (100, [str(GOLDEN / "ffrecord" / "pickled_ints.ffr")], True)
    assert [pickle.loads(record) for record in reader.read([3, 6, 0, 10])] == [3, 6, 0, 10]


@pytest.mark.parametrize(
    "indices", [[], [4], [5, 5, 0], (1, 2), range(20), np.array([3, 0]), np.array([2], np.int32), [np.int64(19), 1]]
)
def test_read_keeps_order_and_repeats(path: Path, indices: list[int]) -> None:
    found = reading(path).read(indices)
    assert [record.tobytes() for record in found] == [RECORDS[index] for index in indices]
    assert all(type(record) is np.ndarray and record.dtype == np.uint8 and record.ndim == 1 for record in found)


def test_records_are_writable_and_apart_from_the_file(path: Path) -> None:
    reader = reading(path)
    for record in (reader.read([5, 5])[0], reader.read_one(np.int64(5))):
        record[:] = 255
    assert reader.read([5])[0].tobytes() == reader.read_one(5).tobytes() == RECORDS[5]


def test_more_records_than_the_original_allows(tmp_path: Path) -> None:
    with FileWriter(tmp_path / "many.ffr", 5000) as writer:
        for number in range(5000):
            writer.write_one(number.to_bytes(2, "little"))
    found = reading(tmp_path / "many.ffr").read(range(5000))
    assert [int(record.view("<u2")[0]) for record in found] == [*range(5000)]


def test_folders_and_lists(path: Path, tmp_path: Path) -> None:
    for name in ("a10.ffr", "a2.ffr", "other.bin"):
        (tmp_path / name).write_bytes(path.read_bytes())
    assert [Path(name).name for name in reading(tmp_path).fnames] == ["a.ffr", "a10.ffr", "a2.ffr"]
    twice = reading((path, str(path)))
    assert twice.n == 40
    assert twice.read_one(25).tobytes() == RECORDS[5]
    odd = tmp_path / "part[1]*.ffr"
    odd.write_bytes(path.read_bytes())
    assert reading(str(odd)).n == 20


def test_which_files_it_accepts(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"")
    for wrong in ([], tmp_path, tmp_path / "none.ffr", tmp_path / "a.bin", [tmp_path]):
        with pytest.raises(AssertionError):
            reading(wrong)
    with pytest.raises(FileNotFoundError, match=r"none\.ffr"):
        reading([tmp_path / "none.ffr"])
    for no_name in (5, None, b"a.ffr"):
        with pytest.raises(TypeError):
            reading(no_name)


@pytest.mark.parametrize(
    "call",
    [
        lambda reader: reader.read([0, 20]),
        lambda reader: reader.read([-1]),
        lambda reader: reader.read_one(20),
        lambda reader: reader.read_one(-1),
    ],
)
def test_an_index_out_of_range_is_a_runtime_error(path: Path, call: Callable[[FileReader], object]) -> None:
    with pytest.raises(RuntimeError, match="out of range") as caught:
        call(reading(path))
    assert isinstance(caught.value, IndexError)


def test_wrong_types(path: Path) -> None:
    reader = reading(path)
    for indices in (5, [1.5], ["a"], None):
        with pytest.raises(TypeError):
            reader.read(indices)  # type: ignore[arg-type]
    for index in (1.5, "1", None):
        with pytest.raises(TypeError):
            reader.read_one(index)  # type: ignore[arg-type]


def test_a_damaged_record(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    reader = reading(path)
    for call in (lambda: reader.read([18, 19]), lambda: reader.read_one(19)):
        with pytest.raises(RuntimeError, match="record 19 of") as caught:
            call()
        assert isinstance(caught.value, dataformats.FormatError)
        assert isinstance(caught.value.__cause__, dataformats.ChecksumError)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # a worker process sends it
    assert reader.read([18])[0].tobytes() == RECORDS[18]
    assert reading(path, check_data=False).read_one(19).tobytes() == data[-19:]


def test_a_damaged_header(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[14] ^= 1
    path.write_bytes(data)
    with pytest.raises(RuntimeError, match="checksum of the header"):
        reading(path)
    reader = reading(path, check_data=False)
    assert reader.read_one(1).tobytes() == RECORDS[1]
    with pytest.raises(RuntimeError, match="checksum of the header"):
        reader.validate()


def test_validate_checks_every_file(path: Path) -> None:
    other = path.with_name("b.ffr")
    other.write_bytes(path.read_bytes())
    reader = reading([path, other])
    data = bytearray(other.read_bytes())
    data[14] ^= 1
    other.write_bytes(data)
    with pytest.raises(RuntimeError, match=r"b\.ffr"):
        reader.validate()


def test_an_old_version_is_read_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="old version"):
        assert FileReader(GOLDEN / "ffrecord" / "old_version.ffr").read([0])


def test_tables(path: Path) -> None:
    reader = reading([path, path])
    offsets, checksums = reader.get_offsets(1), reader.get_checksums(1)
    assert (offsets.dtype.name, checksums.dtype.name, len(checksums)) == ("int64", "uint32", 20)
    assert np.diff(offsets).tolist() == [len(record) for record in RECORDS]
    assert offsets[-1] == path.stat().st_size
    reader.validate()


def test_a_closed_reader(path: Path) -> None:
    with reading(path) as reader:
        assert reader.read([1])
    reader.close()
    assert reader.n == 20
    for call in (lambda: reader.read([1]), lambda: reader.read_one(1)):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def test_readers_are_pickled(path: Path) -> None:
    again = pickle.loads(pickle.dumps(reading(path, check_data=False)))
    assert (again.fnames, again.check_data) == ([str(path)], False)
    assert again.read([3])[0].tobytes() == RECORDS[3]


def test_a_sidecar_of_this_package_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "numbers.ffr"
    with dataformats.create(path, payload="json") as writer:
        writer.extend([[1], [2]])
    assert [json.loads(record.tobytes()) for record in reading(path).read([1, 0])] == [[2], [1]]


def test_no_file_system_needs_alignment(path: Path) -> None:
    with path.open("rb") as file:
        assert checkFsAlign(file.fileno()) is False


# ---- writing


@pytest.mark.parametrize(
    "buffer",
    [b"abc", bytearray(b"abc"), memoryview(b"abc"), np.frombuffer(b"abc", np.uint8), memoryview(b"a-b-c")[::2]],
)
def test_buffers(tmp_path: Path, buffer: object) -> None:
    path = tmp_path / "a.ffr"
    writer = FileWriter(str(path), 1)
    writer.write_one(buffer)
    assert (writer.n, writer.count) == (1, 1)
    writer.close()
    writer.close()
    assert reading(path).read_one(0).tobytes() == b"abc"
    assert [file.name for file in tmp_path.iterdir()] == ["a.ffr"]


def test_writer_refuses_values_other_than_bytes(tmp_path: Path) -> None:
    with FileWriter(tmp_path / "a.ffr", 0) as writer:
        pass
    with pytest.raises(RuntimeError, match="expected n=0"):
        writer.write_one(b"")
    writer = FileWriter(tmp_path / "a.ffr", 1)
    for wrong in ("text", [1], 5, None):
        with pytest.raises(TypeError):
            writer.write_one(wrong)
    for array in (np.zeros(5, np.float32), np.zeros((2, 5), np.uint8), np.array(3, np.uint8)):
        with pytest.raises(ValueError, match="tobytes"):
            writer.write_one(array)
    assert writer.count == 0
    writer.write_one(b"")
    writer.close()


def test_the_number_of_records_is_kept(tmp_path: Path) -> None:
    writer = FileWriter(tmp_path / "a.ffr", 2)
    writer.write_one(b"1")
    with pytest.raises(RuntimeError, match="expected n=2 records, found 1"):
        writer.close()
    writer.write_one(b"2")
    with pytest.raises(RuntimeError, match="n=2"):
        writer.write_one(b"3")
    writer.close()
    with pytest.raises(RuntimeError, match="found 0"), FileWriter(tmp_path / "b.ffr", 1):
        pass
    with pytest.raises(KeyError), FileWriter(tmp_path / "b.ffr", 1) as writer:
        raise KeyError("of the block")
    assert [file.name for file in tmp_path.iterdir()] == ["a.ffr"]


def test_names_of_new_files(tmp_path: Path) -> None:
    for name in (tmp_path / "a.bin", str(tmp_path), 5):
        with pytest.raises(AssertionError, match=r"\.ffr"):
            FileWriter(name, 1)


# ---- packed folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.txt", "sub/c.bin", "sub/deep/z", "empty/"):
        file = tmp_path / "folder" / name
        (file if name.endswith("/") else file.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            file.write_bytes(name.encode())
    return tmp_path / "folder"


def packed(folder: Path) -> PackedFolder:
    pack_folder(folder, folder.with_suffix(".ffr"))
    return PackedFolder(folder.with_suffix(".ffr"))


def test_list(folder: Path) -> None:
    files = packed(folder)
    assert files.num_files() == files.reader.n - 1 == 4
    assert files.list() == files.list("") == ["a.txt", "b.txt", "empty", "sub"]
    assert files.list("sub/", list_dir=False) == ["c.bin"]
    assert files.list(Path("sub"), list_file=False) == ["deep"]
    below = [Path("sub/c.bin"), Path("sub/deep"), Path("sub/deep/z")]
    assert files.list(recursive=True) == ["a.txt", "b.txt", "empty", "sub", *below]
    assert files.structure == {"a.txt": 0, "b.txt": 1, "empty": {}, "sub": {"c.bin": 2, "deep": {"z": 3}}}
    assert type(files.structure["sub"]["deep"]) is OrderedDict


def test_read_packed_files(folder: Path) -> None:
    files = packed(folder)
    assert io.BytesIO(files.read_one("sub/deep/z")).read() == b"sub/deep/z"
    assert [file.tobytes() for file in files.read(("b.txt", Path("sub/c.bin")))] == [b"b.txt", b"sub/c.bin"]


def test_unknown_paths(folder: Path) -> None:
    files = packed(folder)
    rows = [(files.exists(name), files.is_file(name), files.is_dir(name)) for name in ("a.txt", "sub", "x", "a.txt/x")]
    assert rows == [(True, True, False), (True, False, True), (False, False, False), (False, False, False)]
    for call in (files.read_one, files.list):
        with pytest.raises(AssertionError, match="does not exist"):
            call("none")
    with pytest.raises(AssertionError, match="is a folder"):
        files.read_one("sub")
    with pytest.raises(AssertionError, match="is a file"):
        files.list("a.txt")
    with pytest.raises(AssertionError, match="list or tuple"):
        files.read("a.txt")


def test_pack_folder_prints_and_refuses(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack_folder(str(folder), folder.with_suffix(".ffr"), verbose=True)
    assert capsys.readouterr().out.splitlines()[2] == f"2/4 {folder}/sub/c.bin"
    for arguments in ((folder / "none", "x.ffr"), (folder, "x.bin")):
        with pytest.raises(AssertionError):
            pack_folder(*arguments)


def test_parts_of_pack_folder(folder: Path) -> None:
    structure: OrderedDict[str, object] = OrderedDict()
    assert dump_structure(folder / "sub", structure, 5) == 7
    assert structure == {"c.bin": 5, "deep": {"z": 6}}
    with FileWriter(folder / "out.ffr", 2) as writer:
        assert dump_files(writer, folder / "sub", structure, 5, False, 7) == 7
    assert reading(folder / "out.ffr").read_one(1).tobytes() == b"sub/deep/z"


def test_plain_ffrecord_is_no_packed_folder(path: Path, tmp_path: Path) -> None:
    FileWriter(tmp_path / "none.ffr", 0).close()
    for file in (path, tmp_path / "none.ffr"):
        with pytest.raises(ValueError, match="not a packed folder"):
            PackedFolder(file)


def test_pickled_code_in_structure_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
            return Path, (str(tmp_path / "evil"),)

    pickled = pickle.dumps(Evil())
    assert "REDUCE" in {opcode.name for opcode, _, _ in pickletools.genops(pickled)}
    with FileWriter(tmp_path / "evil.ffr", 1) as writer:
        writer.write_one(MAGIC_BYTES + pickled)
    with pytest.raises(dataformats.FormatError, match="not executed"):
        PackedFolder(tmp_path / "evil.ffr")


# ---- dump


def test_dump_to_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump(RECORDS, tmp_path / "a.ffr", 1, verbose=True)
    assert [record.tobytes() for record in reading(tmp_path / "a.ffr").read(range(20))] == RECORDS
    assert "20 records" in capsys.readouterr().out
