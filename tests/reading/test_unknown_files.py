"""Files of other programs, and folders without a dataset: errors name the likely format and the remedy."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import random
import shutil
import sqlite3
import tarfile
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import fsspec
import pytest

import dataformats
from dataformats import FormatError
from dataformats.registry import backends
from dataformats.testing.loop_over import loop_over
from tests.cases import GOLDEN
from tests.examples import load_example, needs_examples

PHOTOS = GOLDEN / "real" / "photos.tfrecord"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"


def saved(save: Callable[[io.BytesIO], None]) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


def zipped(name: str) -> bytes:
    def save(buffer: io.BytesIO) -> None:
        with zipfile.ZipFile(buffer, "w") as file:
            file.writestr(name, b"content")

    return saved(save)


def tarred() -> bytes:
    def save(buffer: io.BytesIO) -> None:
        with tarfile.open(fileobj=buffer, mode="w") as file:
            file.addfile(tarfile.TarInfo("0.jpg"))

    return saved(save)


def database() -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table numbers (n)")
        return connection.serialize()


KINDS: dict[str, tuple[bytes, str]] = {
    "a.tfrecord": (POINTER, "a git-lfs pointer. Run git lfs pull --include a.tfrecord"),
    "a b.ffr": (POINTER, "a git-lfs pointer. Run git lfs pull --include 'a b.ffr'"),
    "a.bag": (POINTER, "a git-lfs pointer."),
    "a.ofrecord": (POINTER, "a git-lfs pointer."),
    "a.tfrecord.gz": (POINTER, "a git-lfs pointer."),
    "b.tfrecord": (b"\n <!DOCTYPE html><html>404", "an HTML page, as failed downloads leave it. Copy or download"),
    "c.tfrecord": (b"<?xml version='1.0'?><Error><Code>AccessDenied", "XML, as failed downloads"),
    "part-0": (b"PAR1" + bytes(50), "a damaged Parquet file. Copy or download it again"),
    "a.arrow": (b"ARROW1\0\0" + bytes(50), "a damaged Arrow IPC file. Copy"),
    "a.zip": (zipped("a.txt"), "a ZIP file. Open the files in it: run unzip "),
    "a.npz": (zipped("arr_0.npy"), "a NumPy .npz file"),
    "a.pt": (zipped("model/data.pkl"), "a PyTorch checkpoint"),
    "a.gz": (gzip.compress(b"\0\1\2" * 99), "gzip of an unknown file. Run gzip -dc "),
    "cut.gz": (b"\x1f\x8b\x08", "gzip of an unknown file"),
    "a.bz2": (bz2.compress(b"text"), "a file compressed with bzip2"),
    "a.xz": (lzma.compress(b"text"), "a file compressed with xz"),
    "a.db": (database(), "a SQLite database"),
    "a.pkl": (pickle.dumps({"a": [1, 2]}), "a pickle"),
    "b.jsonl": (b'{\n  "a": [1,\n 2}\n}\n', "damaged JSON. Pass format='json' to read the values before the damage."),
    "c.gz": (gzip.compress(b'[\n{"a": 1]]'), "gzip of damaged JSON."),
    "d.jsonl": (
        '{"a": "é"}\n{"a": "b"}\n'.encode("latin-1"),
        "JSON that is not in UTF-8. If it is Latin-1, run iconv -f LATIN1 -t UTF-8 ",
    ),
    "e.jsonl": ('{"a": 1}\n'.encode("utf-16"), "text in UTF-16. Run iconv -f UTF-16 -t UTF-8 "),
    "table.dat": (b"a,b\n1,2\n", "CSV. Give it a name with the ending: run mv "),
    "table.gz": (gzip.compress(b"a,b\n1,2\n"), "gzip of CSV. Give it a name with the ending: run mv "),
    "a.md": ("# Grüße\n".encode() * 900, "text"),
    "e.tfrecord": (bytes(100_000), "zeros: space that was never written"),
    "a.txt": (
        "Grüße aus Köln\n".encode("latin-1") * 9,
        "text that is not UTF-8. If it is Latin-1, run iconv -f LATIN1",
    ),
    "a.feather": (b"FEA1" + bytes(60), "a Feather file of version 1. Write it anew: pandas.read_feather('"),
    "a.orc": (b"ORC\n" + bytes(60), "an ORC file. Write it anew: pandas.read_orc('"),
    "a.avro": (b"Obj\1" + bytes(60), "an Avro file. Read it in Python"),
    "a.7z": (b"7z\xbc\xaf'\x1c" + bytes(60), "a 7-Zip archive. Open the files in it: run 7z x "),
    "a.rar": (b"Rar!\x1a\7" + bytes(60), "a RAR archive. Open the files in it: run unrar x "),
    "a.xlsx": (
        zipped("[Content_Types].xml"),
        "an Office document, such as Excel's. Save it as CSV: pandas.read_excel('",
    ),
    "b.pt": (pickle.dumps(0x1950A86A20F9469CFC6C, 2), "a PyTorch checkpoint. Read it in Python"),
    "b.pkl": (pickle.dumps({"a": 1}, 0), "a pickle. Read it in Python"),
    "a.mat": (b"MATLAB 5.0 MAT-file", "a MATLAB file. Read it with scipy.io.loadmat"),
    "b.mat": (b"MATLAB 7.3 MAT-file", "a MATLAB file of version 7.3. It is an HDF5 file: pass format='hdf5'."),
    "a.duckdb": (bytes(8) + b"DUCK@\0\0\0", "a DuckDB database. Write a table of it to a file, in DuckDB: COPY"),
    "a.nc": (b"CDF\1" + bytes(60), "a netCDF file of version 3. Read it in Python"),
    "b.bag": (b"#ROSBAG V2.0\n" + bytes(60), "a ROS bag. Read it in Python"),
    "a.gguf": (b"GGUF\3\0\0\0", "weights of a model (GGUF). It holds no records"),
    "a.pdf": (b"%PDF-1.7\n%\xe2", "a PDF file. Read it in Python"),
    "a.so": (b"\x7fELF\2\1", "a program. It holds no records"),
    "a.lz4": (b"\x04\x22M\x18" + bytes(9), "a file compressed with LZ4. Run lz4 -dc "),
    "a.sz": (b"\xff\6\0\0sNaPpY", "a file compressed with Snappy. Run snzip -dc "),
    "a.Z": (b"\x1f\x9d\x90", "a file compressed with compress. Run uncompress -c "),
}
REFUSED = {
    "a.tfrecord": ("not tfrecord: bytes 8 to 11 are not the checksum of a length", "or run dataformats repair"),
    "a.ffr": ("not ffrecord: not a header", "or run dataformats repair"),
    "a.parquet": ("not parquet: it does not begin with PAR1", "or pass format= if it has another format."),
    "a.jsonl.gz": ("not jsonl: its first lines are no JSON objects", "Copy it again"),
    "a.csv": ("not csv: it is not text", "Copy it again"),
    "a.npy": ("not npy: no magic number of NumPy", "To read it as tokens, as of nanoGPT, pass format='tokens', "),
    "x.bin": ("not megatron: no .idx file beside it", "To read it as tokens, as of nanoGPT, pass format='tokens', "),
    "a.onnx": ("it begins with b'", "Pass format= if you know it."),
}
MOST = 300  # characters of an error, without the path


@loop_over("name", KINDS)
def test_a_file_of_another_program(tmp_path: Path, name: str) -> None:
    data, said = KINDS[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FormatError) as caught:
        dataformats.open(tmp_path / name)
    assert f"no known format: it looks like {said}" in str(caught.value)
    assert caught.value.path == str(tmp_path / name)
    assert len(str(caught.value).replace(str(tmp_path), "")) <= MOST


@loop_over("name", REFUSED)
def test_a_file_of_another_content_than_its_name(tmp_path: Path, name: str) -> None:
    found, remedy = REFUSED[name]
    (tmp_path / name).write_bytes(b"\xfe" + random.Random(5).randbytes(4999))
    with pytest.raises(FormatError, match=r"no known format: it begins with b'\\xfe") as caught:
        dataformats.open(tmp_path / name)
    assert found in str(caught.value)
    assert remedy in str(caught.value.remedy)
    assert len(str(caught.value).replace(str(tmp_path), "")) <= MOST


def test_random_bytes_look_like_nothing(tmp_path: Path) -> None:
    generator = random.Random(5)
    for n in (1, 3, 30, 5000):
        (tmp_path / "random").write_bytes(b"\xfe" + generator.randbytes(n))
        with pytest.raises(FormatError, match="no known format: it begins with"):
            dataformats.open(tmp_path / "random")


def test_large_ambiguous_text_is_refused_quickly(tmp_path: Path) -> None:
    for piece in (b"a,", b"{", b" ", b"<", b"a\t", b"\n", b",\n"):
        (tmp_path / "a").write_bytes(piece * 2**20)
        with pytest.raises(FormatError):
            dataformats.open(tmp_path / "a")


def test_a_folder_of_such_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"PAR1" + bytes(50))
    with pytest.raises(FormatError, match="known format: 'a' looks like a damaged Parquet file") as caught:
        dataformats.open(tmp_path)
    assert caught.value.path == str(tmp_path)


def test_folders_of_numbered_parts(tmp_path: Path) -> None:
    for number in (0, 1):
        (tmp_path / f"chunk-{number:03d}").mkdir()
        with dataformats.create(tmp_path / f"chunk-{number:03d}" / "x.jsonl", spec={"n": "int64"}) as writer:
            writer.append({"n": number})
    with pytest.raises(FormatError, match=r"Open all by '.*', or one of them") as caught:
        dataformats.open(tmp_path)
    pattern = str(caught.value.remedy).split("'")[1]
    assert [record["n"] for record in dataformats.open(pattern)] == [0, 1]


def test_a_folder_of_datasets(tmp_path: Path) -> None:
    for name in ("val", "train/2023", "train/2024/us"):
        (tmp_path / name).mkdir(parents=True)
        shutil.copy(PHOTOS, tmp_path / name)
    (tmp_path / "README.md").write_text("about the data")
    (tmp_path / "train" / "loop").symlink_to(tmp_path)
    (tmp_path / "closed").mkdir(mode=0)
    with pytest.raises(FormatError, match="no dataset, but folders in it do: found 'val', 'train/2023', ") as caught:
        dataformats.open(tmp_path)
    assert caught.value.remedy == f"Open one of them, such as {str(tmp_path / 'val')!r}"
    (tmp_path / "closed").chmod(0o700)


def test_many_folders_are_not_all_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(60):
        (tmp_path / f"{i}" / "empty").mkdir(parents=True)
    asked: set[str] = set()
    scan = os.scandir

    def asking(path: Path) -> Any:
        asked.add(str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", asking)
    monkeypatch.setattr("dataformats.reading.datasets_below._FOLDERS", 50)
    with pytest.raises(FormatError, match="the folder holds no data files"):
        dataformats.open(tmp_path)
    assert len(asked) < 120


def test_a_pointer_beside_its_sidecar(tmp_path: Path) -> None:
    dataformats.convert(PHOTOS, tmp_path / "a.ffr")
    (tmp_path / "a.ffr").write_bytes(POINTER)
    with pytest.raises(dataformats.TruncatedError, match=r"looks like a git-lfs pointer: expected .* bytes") as caught:
        dataformats.open(tmp_path / "a.ffr")
    assert caught.value.remedy == "Run git lfs pull --include a.ffr"


def test_a_pointer_with_a_named_format(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(POINTER)
    with pytest.raises(FormatError, match="not a TFRecord: it looks like a git-lfs pointer") as caught:
        len(dataformats.open(tmp_path / "a.tfrecord", format="tfrecord", payload="bytes"))
    assert caught.value.remedy == "Run git lfs pull --include a.tfrecord"


@pytest.fixture
def rows() -> Iterator[Any]:
    backend = load_example("dataformats_rows").RowsBackend()
    dataformats.register_backend(backend)
    yield backend
    del backends._objects["rows"]


def _is_shard(name: str) -> bool:
    """True for `x.rows-00000-of-00002`, which is a name of TFRecord shards as well."""
    return ".rows" in name


@needs_examples
@loop_over("infix", [False, True])
def test_content_decides_if_names_are_of_two_formats(tmp_path: Path, rows: Any, infix: bool) -> None:
    if infix:
        rows.matches_name = _is_shard
    (tmp_path / "new").mkdir()
    for number in range(2):
        path = tmp_path / "a.rows"
        with dataformats.create(path, "rows", spec={"n": "int64"}, overwrite=True) as writer:
            writer.append({"n": number})
        path.rename(tmp_path / "new" / f"x.rows-{number:05d}-of-00002")
    src = dataformats.open(tmp_path / "new")
    assert (src.format, [record["n"] for record in src]) == ("rows", [0, 1])


@needs_examples
def test_two_formats_stay_two(tmp_path: Path, rows: Any) -> None:
    rows.matches_name = _is_shard
    with dataformats.create(tmp_path / "x.rows-00000-of-00001", "rows", spec={"n": "int64"}) as writer:
        writer.append({"n": 1})
    shutil.copy(PHOTOS, tmp_path / "y.tfrecord")
    with pytest.raises(FormatError, match="files of several formats"):
        dataformats.open(tmp_path)


TABLES = {
    "a Delta table": ("_delta_log/0.json", "deltalake.DeltaTable("),
    "an Iceberg table": ("metadata/v1.metadata.json", "pyiceberg"),
    "a Hudi table": (".hoodie/hoodie.properties", "Spark"),
    "a Hugging Face dataset with selected rows": ("indices.arrow", "flatten_indices()"),
}


@loop_over("kind", TABLES)
def test_folders_whose_log_says_which_rows_count(kind: str, tmp_path: Path) -> None:
    log, remedy = TABLES[kind]
    fs = fsspec.filesystem("memory")
    url = f"memory://{uuid.uuid4().hex}"
    folders: list[Any] = [tmp_path / "x", str(tmp_path / "x"), url]
    folders += [tmp_path / "x" / "data", f"{tmp_path}/x/*.jsonl", f"{tmp_path}/x/data/**/*.jsonl", f"{url}/data"]
    folders += [tmp_path / "x" / "data" / "year=1", f"{url}/data/*/*.jsonl"]
    for name in (log, "data/year=1/a.jsonl", "b.jsonl"):
        (tmp_path / "x" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "x" / name).write_bytes(b'{"n": 1}\n')
        fs.pipe(f"{url}/{name}", b'{"n": 1}\n')
    for folder in folders:
        for format in (None, "jsonl"):
            with pytest.raises(FormatError, match=f"the folder is {kind}") as caught:
                dataformats.open(folder, format=format)
            assert remedy in str(caught.value)
    assert len(dataformats.open(tmp_path / "x" / "b.jsonl")) == 1
