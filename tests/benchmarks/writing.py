"""Writing: from records in memory to complete files, beside the ways of the original programs."""

from __future__ import annotations

import atexit
import itertools
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from tests.benchmarks import granular
from tests.benchmarks.examples import PICTURES
from tests.benchmarks.harness import OURS, Case, Data, Side, Target, Work, peer
from tests.benchmarks.ours import columns, noise

DISTINCT = 1_000
"""So many records exist, and are written again and again: no side waits for new ones."""
KB = 1024
WIDTH = 1_000

Write = Callable[[Path, list[Any]], None]


@dataclass(frozen=True)
class Content:
    """The records of a case.

    Attributes:
        title: The first column of the table; `{n}` is the number of records.
        full: The number of records.
        records: The distinct records.
        options: Arguments of `create`.
        reading: Arguments of `open` for the results of both sides.
    """

    title: str
    full: int
    records: Callable[[], Iterator[Any]]
    options: Mapping[str, Any]
    reading: Mapping[str, Any]


def writing(data: Data, content: Content, against: str, original: Write, needs: str) -> Work:
    """Return the work of writing records to the shared memory, so that no side waits for a disk."""
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=shared if shared.is_dir() else data.folder))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    distinct = list(itertools.islice(content.records(), DISTINCT))
    n = data.count(content.full)
    records = list(itertools.islice(itertools.cycle(distinct), n))
    numbers = itertools.count()

    def ours(path: Path, records: list[Any]) -> None:
        known: dict[str, Any] = {"records": n} if content.options["format"] == "ffrecord" else {}
        with dataformats.create(path, **content.options, **known) as writer:
            writer.extend(records)

    def side(write: Write) -> Side:
        def batches() -> Iterator[Path]:
            path = folder / str(next(numbers))
            write(path, records)
            yield path

        return Side(batches, plain)

    def other() -> Side:
        peer(needs)
        return side(original)

    def plain(path: Path) -> dict[str, Any]:
        with dataformats.open(path, format=content.options["format"], **content.reading) as src:
            found = src.read([0, n // 3, n - 1])
            return {"records": len(src), **columns({name: found[name] for name in found.keys()})}  # noqa: SIM118

    def clear() -> None:
        done = list(folder.iterdir())
        if sum(path.name.isdecimal() for path in done) >= 2:  # both sides have a result
            for path in done:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    title = content.title.format(n=n)
    return Work(title, {OURS: lambda: side(ours), against: other}, clear)


# ---- Granular

GRANULAR = "granular, each record flushed"
IMAGES = Content(
    f"Write Granular, {{n:,}} × {{{{{'×'.join(map(str, granular.SHAPE))} array, int, text}}}}",
    50_000,
    lambda: ({**record, "label": record["label"] % 100} for record in granular.records(DISTINCT)),  # granular's limit
    {"format": "granular", "spec": granular.SPEC},
    {"spec": granular.SPEC},
)


def write_granular(path: Path, records: list[Any]) -> None:
    """One record after another, in the files before the next."""
    module = peer("granular")
    spec = {name: "array" if name == "image" else kind for name, kind in granular.SPEC.items()}
    with module.DatasetWriter(path, spec, module.encoders) as writer:
        for record in records:
            writer.append(record, flush=True)


# ---- TFRecord

TENSORFLOW = "tf.io.TFRecordWriter"
EXAMPLES = Content(
    f"Write TFRecord, {{n:,}} Examples {PICTURES.what.replace('{', '{{').replace('}', '}}')}",
    100_000,
    lambda: PICTURES.records(DISTINCT),
    {"format": "tfrecord", "spec": PICTURES.spec},
    {"spec": PICTURES.spec},
)


def write_examples(path: Path, records: list[Any]) -> None:
    """Python's protobuf messages, and TensorFlow's writer."""
    tf = peer("tensorflow")
    train = tf.train
    name, _ = PICTURES.floats
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            features = {
                "image": train.Feature(bytes_list=train.BytesList(value=[record["image"]])),
                "label": train.Feature(int64_list=train.Int64List(value=[record["label"]])),
                name: train.Feature(float_list=train.FloatList(value=record[name])),
            }
            writer.write(train.Example(features=train.Features(feature=features)).SerializeToString())


# ---- Syrah

SYRAH = "array by array, BSON"
DTYPES = {np.dtype(name).num: name for name in ("int64", "float64")}
ITEMS = Content(
    f"Write Syrah, {{n:,}} × {WIDTH:,} float64 and label",
    10_000,
    lambda: (
        {"x": row, "label": index} for index, row in enumerate(np.random.default_rng(0).random((DISTINCT, WIDTH)))
    ),
    {"format": "syrah", "spec": {"x": f"float64[{WIDTH}]", "label": "int64"}},
    {"spec": {"x": f"float64[{WIDTH}]", "label": "int64"}},
)


def write_syrah(path: Path, records: list[Any]) -> None:
    """The steps of the original: for each array a seek, a write, and checked entries in the lists of the metadata."""
    bson = peer("bson")
    tables: dict[str, dict[str, Any]] = {}
    end = 22
    with path.open("wb") as file:
        for record in records:
            entries = {}
            for name, value in record.items():
                array = np.asarray(value)
                dtype, blob = DTYPES[array.dtype.num], array.tobytes()
                file.seek(end)
                file.write(blob)
                entries[name] = {"offset": end, "size": len(blob), "dtype": dtype}
                end += len(blob)
            tables = tables or {name: {**entry, "offset": [], "size": []} for name, entry in entries.items()}
            if set(entries) != set(tables):
                raise KeyError("the arrays differ from those of the first item")
            for name, entry in entries.items():
                table = tables[name]
                if set(entry) != set(table) or entry["dtype"] != table["dtype"]:
                    raise ValueError("the dtype differs from that of the first item")
                table["offset"].append(entry["offset"])
                table["size"].append(entry["size"])
        metadata = {
            name: {**table, **{kind: np.array(table[kind], "<i8").tobytes() for kind in ("offset", "size")}}
            for name, table in tables.items()
        }
        text = bson.encode(metadata)
        file.seek(end)
        file.write(text)
        file.seek(0)
        file.write(b"GS" + bytes((0, 0, 2, 0)) + end.to_bytes(8, "little") + len(text).to_bytes(8, "little"))


# ---- FFRecord

LOOP = "write, zlib.crc32"
BLOBS = Content(
    "Write FFRecord, {n:,} × 1 KB",
    300_000,
    lambda: noise(DISTINCT, KB),
    {"format": "ffrecord"},
    {"payload": "bytes"},
)


def write_ffrecord(path: Path, records: list[Any]) -> None:
    """A loop, and the header at the end."""
    n = len(records)
    checksums, offsets, end = [], [], 12 + 12 * n
    with path.open("wb") as file:
        file.seek(end)
        for record in records:
            checksums.append(zlib.crc32(record))
            offsets.append(end)
            end += file.write(record)
        table = n.to_bytes(8, "little") + np.array(checksums, "<u4").tobytes() + np.array(offsets, "<i8").tobytes()
        file.seek(0)
        file.write(zlib.crc32(table).to_bytes(4, "little") + table)


def case(name: str, content: Content, against: str, original: Write, at_least: float, needs: str) -> Case:
    """Return the case of one format; `needs` names the module of the other side."""
    targets = (Target(against, at_least),)
    return Case(f"write-{name}", lambda data: writing(data, content, against, original, needs), targets)


CASES = (
    case("granular", IMAGES, GRANULAR, write_granular, 2, "granular"),
    case("examples", EXAMPLES, TENSORFLOW, write_examples, 6, "tensorflow"),
    case("syrah", ITEMS, SYRAH, write_syrah, 3, "bson"),
    case("ffrecord", BLOBS, LOOP, write_ffrecord, 2, "zlib"),
)
