"""The table of docs/formats: what each format does with files of its original programs, cell by cell."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dataformats
from dataformats.codecs.sounds import Audio
from dataformats.codecs.videos import MP4
from dataformats.errors import DataFormatsError
from dataformats.registry import backends
from dataformats.testing.records import is_same_value, value
from dataformats.viewer.app import viewer_app
from dataformats.viewer.dataset import ViewedDataset
from tests.campaign import chosen
from tests.deep.remote import s3_server
from tests.waiting import LIMIT_S

GOLDEN = Path(__file__).parents[2] / "golden"
GENERAL = {"label": "int64", "name": "utf8", "data": "bytes", "vector": "float32[3]"}


@dataclass(frozen=True)
class Row:
    """A format, its files, and what `open` takes: both relative to the golden files."""

    format: str
    files: str  # a glob
    target: str = ""  # empty: the same
    options: dict[str, Any] = field(default_factory=dict)
    written: dict[str, str] | None = None  # the spec of new data; None: only read
    suffix: str = ""
    checked: tuple[int, int] | None = None  # bytes of the first file that a checksum covers
    is_remote: bool = True
    is_flipped: bool = True  # False: the library trusts its pages, and may end the process


ROWS = {
    "tfrecord": Row("tfrecord", "tfrecord/raw.tfrecord", written=GENERAL, checked=(0, 516)),
    "tfrecord-examples": Row("tfrecord", "tfrecord/examples.tfrecord", written=GENERAL, checked=(0, 2786)),
    "ffrecord": Row("ffrecord", "ffrecord/base.ffr", written=GENERAL, checked=(0, 300)),
    "ofrecord": Row("ofrecord", "ofrecord/base.ofrecord", written=GENERAL),
    "syrah": Row("syrah", "syrah/base.syr", written=GENERAL),
    "granular": Row("granular", "granular/v3/resume_complete/*", "granular/v3/resume_complete", written=GENERAL),
    "parquet": Row("parquet", "parquet/types.parquet", written=GENERAL, checked=(32, 76)),
    "arrow": Row("arrow", "arrow/types.arrow", written=GENERAL),
    "csv": Row("csv", "table.csv", written={"label": "int64", "name": "utf8", "vector": "float32[3]"}, suffix=".csv"),
    "webdataset": Row("webdataset", "webdataset/train-*.tar", written=GENERAL, checked=(0, 512)),
    "json": Row("json", "json/indent.json"),
    "jsonl": Row("jsonl", "jsonl/python.jsonl", written={"label": "int64", "name": "utf8", "x": "float64[]"}),
    "text": Row("text", "lines.txt", written={"value": "utf8"}),
    "megatron": Row("megatron", "megatron/int32.*", "megatron/int32.bin", written={"tokens": "int32[]"}, suffix=".bin"),
    "tokens": Row("tokens", "tokens/fineweb_train_*.bin", options={"window": 16}),
    "npy": Row("npy", "npy/images.npy"),
    "array_record": Row("array_record", "array_record/groups.array_record.gz", written=GENERAL, checked=(104, 150)),
    "tfds": Row("tfrecord", "tfds/tfrecord/things/1.0.0/*", "tfds/tfrecord/things/1.0.0", {"split": "train"}),
    "tfds-array_record": Row(
        "array_record", "tfds/array_record/things/1.0.0/*", "tfds/array_record/things/1.0.0", {"split": "train"}
    ),
    "tfds-parquet": Row("parquet", "tfds/parquet/things/1.0.0/*", "tfds/parquet/things/1.0.0", {"split": "train"}),
    "mds": Row("mds", "mds/types/*", "mds/types", written=GENERAL),
    "litdata": Row("litdata", "litdata/types/*", "litdata/types"),
    "images": Row("images", "pets/**/*", "pets", written={"image": "png"}),
    "videos": Row("videos", "clips/**/*", "clips", written={}),
    "audio": Row("audio", "sounds/**/*", "sounds", written={}),
    "recordio": Row("recordio", "recordio/images.rec"),
    "safetensors": Row("safetensors", "safetensors/rows.safetensors"),
    "hdf5": Row("hdf5", "hdf5/contiguous.h5"),
    "lmdb": Row("lmdb", "lmdb/folder/*", "lmdb/folder", is_remote=False, is_flipped=False),
    "zarr": Row("zarr", "zarr/v3.zarr/**/*", "zarr/v3.zarr"),
    "lance": Row("lance", "lance/types.lance/**/*", "lance/types.lance", is_remote=False),
}


def test_every_format_has_a_row() -> None:
    assert {name for name in backends if backends.shipped(name)} == {row.format for row in ROWS.values()}


def _make_others(folder: Path) -> None:
    """Write files whose original program is Python, Pillow or PyAV."""
    for i in range(6):
        clip, sound = folder / "clips" / f"{i % 2}" / f"{i}.mp4", folder / "sounds" / f"{i % 2}" / f"{i}.wav"
        clip.parent.mkdir(parents=True, exist_ok=True)
        sound.parent.mkdir(parents=True, exist_ok=True)
        clip.write_bytes(MP4.encode(np.full((3, 16, 16, 3), 40 * i, np.uint8)))
        sound.write_bytes(Audio(8000).encode(np.arange(40 + i, dtype=np.int16)))
    lines = "".join(f"{i},{i / 4},name é {i}\n" for i in range(40))
    (folder / "table.csv").write_text("number,score,name\n" + lines, "utf-8")
    (folder / "lines.txt").write_text(lines, "utf-8")
    for i in range(20):
        path = folder / "pets" / ("cat", "dog")[i % 2] / f"{i:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 6), (i, 2 * i, 100)).save(path)


class Data:
    """The files of a row in a folder, opened."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.row, self.folder = name, ROWS[name], folder
        row = self.row
        _make_others(folder)
        for source in filter(Path.is_file, GOLDEN.glob(row.files)):
            is_packed = source.suffix == ".gz" and "array_record" in source.name
            path = folder / source.relative_to(GOLDEN).with_suffix("" if is_packed else source.suffix)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.decompress(source.read_bytes()) if is_packed else source.read_bytes())
        self.pattern = row.files.removesuffix(".gz")
        self.target = row.target or self.pattern
        self.paths = sorted(path for path in folder.glob(self.pattern) if path.is_file())
        self.source = self.open()
        self.records = list(self.source)

    def open(self) -> Any:
        return dataformats.open(self.folder / self.target, **self.row.options)


@pytest.fixture(scope="module", params=ROWS)
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Data:
    return Data(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3_server.S3Server]:
    pytest.importorskip("s3fs", reason="the extra s3 is not installed")
    if s3_server.why_not():
        pytest.skip(str(s3_server.why_not()))
    with s3_server.moto_server(tmp_path_factory.mktemp("moto") / "log") as server:
        yield server


def _assert_same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert is_same_value(one, other), (one, other)


def test_open_local(data: Data) -> None:
    assert data.source.format == data.row.format
    assert len(data.source) == len(data.records) >= 5
    _assert_same([data.source[i] for i in range(len(data.records))], data.records)


def test_open_s3(data: Data, s3: s3_server.S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path))
    if not data.row.is_remote:
        pytest.skip(f"{data.name} is read from the local disk alone")
    s3.reset({path.relative_to(data.folder).as_posix(): path.read_bytes() for path in data.paths})
    options = {"endpoint_url": f"http://127.0.0.1:{s3.port}", "key": "x", "secret": "y"}
    source = dataformats.open(f"s3://{s3_server.BUCKET}/{data.target}", storage_options=options, **data.row.options)
    assert dict(source.spec) == dict(data.source.spec)
    _assert_same(list(source), data.records)
    last = len(source) - 1
    _assert_same(list(source.read([last, 0])), [data.records[last], data.records[0]])


def test_random_read(data: Data) -> None:
    indices = np.random.default_rng(1).integers(len(data.records), size=100)
    _assert_same(list(data.open().read(indices)), [data.records[i] for i in indices])


def _loader(source: Any, batch_size: int, **options: Any) -> dataformats.Loader:
    order: dict[str, Any] = {"shuffle": "window", "block_records": 2, "window_blocks": 3, "seed": 5}
    return dataformats.Loader(source, batch_size, collate=lambda records: {"record": records}, **order, **options)


def _rest(loader: dataformats.Loader, data: Data) -> dict[int, int]:
    """Iterate the rest of the epoch; return position to record, after a comparison of each."""
    found: dict[int, int] = {}
    for batch in loader:
        indices = loader.locate(batch.positions).record.tolist()
        _assert_same(list(batch["record"]), [data.records[i] for i in indices])
        assert not found.keys() & set(batch.positions.tolist())
        found.update(zip(batch.positions.tolist(), indices, strict=True))
    return found


def test_window_epoch(data: Data) -> None:
    with _loader(data.open(), 3) as loader:
        order = list(_rest(loader, data).values())
    assert sorted(order) == list(range(len(data.records)))
    assert order != sorted(order)


def test_resume_on_other_ranks(data: Data) -> None:
    with _loader(data.open(), 2) as loader:
        next(iter(loader))
        state = json.loads(json.dumps(loader.state_dict()))
        rest = _rest(loader, data)
    assert list(rest) == list(range(2, len(data.records)))
    found: dict[int, int] = {}
    for rank in range(3):
        with _loader(data.open(), 1, rank=rank, world_size=3) as loader:
            loader.load_state_dict(state)
            of_rank = _rest(loader, data)
        assert not found.keys() & of_rank.keys()
        found |= of_rank
    assert found == rest


def test_view(data: Data) -> None:
    dataset = ViewedDataset(str(data.folder / data.target), **data.row.options)
    assert dataset.wait(LIMIT_S)
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    n, fields = min(len(data.records), 10), range(len(dataset.fields))
    query = f"numbers={','.join(map(str, range(n)))}&fields={','.join(map(str, fields))}".encode()
    path = "/secret/api/records"
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "root_path": ""}
    scope |= {"query_string": query, "headers": [(b"host", b"127.0.0.1:80")]}
    asyncio.run(viewer_app(dataset, "secret")(scope, receive, send))
    assert sent[0]["status"] == 200
    rows = json.loads(b"".join(part.get("body", b"") for part in sent[1:]))["rows"]
    assert [row["record"] for row in rows] == list(range(n))
    assert [cell for row in rows for cell in row["cells"] if cell is not None and cell["kind"] == "error"] == []


def test_convert_from(data: Data, tmp_path: Path) -> None:
    names = list(data.source.spec)
    fields = [name for name in names if name != "large"] if "large" in names else None  # 2**64 - 1: no Int64List
    report = dataformats.convert(data.source, tmp_path / "new.tfrecord", fields=fields)
    assert report.records == len(data.records)
    assert dataformats.verify(tmp_path / "new.tfrecord", against=data.source, fields=fields).ok
    expected = list(data.source.select(*fields)) if fields else data.records
    _assert_same(list(dataformats.open(tmp_path / "new.tfrecord")), expected)


def test_convert_to(data: Data, tmp_path: Path) -> None:
    spec = data.row.written
    if spec is None:
        with pytest.raises((dataformats.SpecError, dataformats.UnknownNameError), match=r"not written|unknown format"):
            dataformats.convert(data.source, tmp_path / "new", data.name)
        return
    if not spec:  # files of media are copied
        source = data.source.select(*data.source.spec.keys() - {"path", "label"})
        dataformats.convert(source, tmp_path / "new", data.row.format)
        _assert_same(list(dataformats.open(tmp_path / "new").select(*source.spec)), list(source))
        return
    for name in ("tfrecord", "ffrecord"):
        old, new = tmp_path / f"old-{name}", tmp_path / f"new-{name}{data.row.suffix}"
        with dataformats.create(old, name, spec=spec) as writer:
            writer.extend({key: value(kind, 2 * i + 1) for key, kind in spec.items()} for i in range(30))
        dataformats.convert(old, new, data.row.format)
        _assert_same(list(dataformats.open(new).select(*spec)), list(dataformats.open(old)))


def test_verify(data: Data) -> None:
    report = dataformats.verify(data.folder / data.target, **data.row.options)
    assert report.ok, report
    assert report.records == len(data.records)


def _is_found(data: Data) -> bool:
    """Return False if all records of a damaged dataset read without an error."""
    found = False
    with suppress(DataFormatsError):
        source = data.open()
        for i in range(len(source)):
            try:
                source[i]
            except DataFormatsError:
                found = True
        list(data.open())
        report = dataformats.verify(data.folder / data.target, **data.row.options)
        assert report.ok or not found
        return found or not report.ok
    return True


def test_damaged_file(data: Data, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DATAFORMATS_CACHE", str(tmp_path))
    for path in data.paths[:3]:
        whole = path.read_bytes()
        begin, end = data.row.checked or (0, 0)
        places = {*np.linspace(0, len(whole) - 1, 12), *np.linspace(begin, max(begin, end - 1), 8)} if whole else ()
        try:
            for place in chosen(sorted(places)):
                at = int(place)
                if data.row.is_flipped:
                    path.write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :])
                    is_found = _is_found(data)
                    assert is_found or path != data.paths[0] or not begin <= at < end, at
                path.write_bytes(whole[:at])
                _is_found(data)
        finally:
            path.write_bytes(whole)
