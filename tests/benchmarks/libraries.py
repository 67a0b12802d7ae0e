"""Formats with an original library: batches of 256 beside direct calls, as users of the library write them.

Each pass opens the files again, so that no side keeps decoded blocks. Libraries that are not installed are left out.
"""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dataformats
from tests.benchmarks.compressed import texts
from tests.benchmarks.harness import OURS, Case, Data, Side, Target, Work, peer
from tests.benchmarks.ours import at_random, in_order, write

BATCH, SHAPE, IMAGE_BYTES, CHUNK = 256, (32, 32, 3), 3072, 100
Steps = Sequence[Any]
"""The record numbers of each batch: ranges, or arrays."""
Batches = Iterable[dict[str, Any]]
Pass = Callable[[Path, Steps], Batches]
"""Opens a file, and yields the columns of each batch."""


def images(n: int) -> NDArray[np.uint8]:
    """Return uint8[n, 32, 32, 3] that compress to about half, the same every time."""
    return np.random.default_rng(n).integers(0, 16, (n, *SHAPE), np.uint8)


# ---- HDF5


def write_hdf5(path: Path, n: int, chunk: int | None = None, compression: str | None = None) -> None:
    with peer("h5py").File(path, "w") as file:
        for name, values in (("image", images(n)), ("label", np.arange(n))):
            chunks = None if chunk is None else (min(n, chunk), *values.shape[1:])
            file.create_dataset(name, data=values, chunks=chunks, compression=compression)


def hdf5_ranges(path: Path, steps: Steps) -> Batches:
    with peer("h5py").File(path, "r") as file:
        image, label = file["image"], file["label"]
        for rows in steps:
            yield {"image": image[rows.start : rows.stop], "label": label[rows.start : rows.stop]}


def hdf5_rows(path: Path, steps: Steps) -> Batches:
    """Rows one by one: without compression, h5py reads a list of rows more slowly."""
    with peer("h5py").File(path, "r") as file:
        image, label = file["image"], file["label"]
        for rows in map(np.ndarray.tolist, steps):
            yield {"image": np.stack([image[row] for row in rows]), "label": np.stack([label[row] for row in rows])}


def hdf5_lists(path: Path, steps: Steps) -> Batches:
    """Sorted lists of rows, as h5py needs them: it decompresses each chunk once for a list."""
    with peer("h5py").File(path, "r") as file:
        image, label = file["image"], file["label"]
        for rows in steps:
            order = np.argsort(rows)
            images, labels = np.empty((len(rows), *SHAPE), np.uint8), np.empty(len(rows), np.int64)
            images[order], labels[order] = image[rows[order]], label[rows[order]]
            yield {"image": images, "label": labels}


# ---- Zarr


def write_zarr(path: Path, n: int) -> None:
    group = peer("zarr").open_group(path, mode="w")
    for name, values in (("image", images(n)), ("label", np.arange(n))):
        chunks = (min(n, CHUNK), *values.shape[1:])
        group.create_array(name, shape=values.shape, chunks=chunks, dtype=values.dtype)[:] = values


def zarr_ranges(path: Path, steps: Steps) -> Batches:
    group = peer("zarr").open_group(path, mode="r")
    arrays = {name: group[name] for name in ("image", "label")}
    return ({name: array[rows.start : rows.stop] for name, array in arrays.items()} for rows in steps)


def zarr_lists(path: Path, steps: Steps) -> Batches:
    group = peer("zarr").open_group(path, mode="r")
    arrays = {name: group[name] for name in ("image", "label")}
    return ({name: array.oindex[rows] for name, array in arrays.items()} for rows in steps)


# ---- LMDB


def write_lmdb(path: Path, n: int) -> None:
    """Write values of 1 to 7 KB, and a copy for the peer: LMDB opens a file once in a process."""
    rng = np.random.default_rng(n)
    with peer("lmdb").open(str(path), subdir=False, map_size=2**34, lock=False) as env, env.begin(write=True) as out:
        for number, size in enumerate(rng.integers(1000, 7000, n).tolist()):
            out.put(b"%08d" % number, rng.bytes(size))
    shutil.copy(path, path.with_suffix(".copy"))


def lmdb_cursor(path: Path, steps: Steps) -> Batches:
    with _lmdb(path) as env, env.begin() as transaction:
        items = iter(transaction.cursor())
        for rows in steps:
            keys, values = zip(*islice(items, len(rows)), strict=True)
            yield {"key": keys, "value": values}


def lmdb_get(path: Path, steps: Steps) -> Batches:
    with _lmdb(path) as env, env.begin() as transaction:
        for rows in steps:
            keys = [b"%08d" % row for row in rows.tolist()]
            yield {"key": keys, "value": [transaction.get(key) for key in keys]}


def _lmdb(path: Path) -> Any:
    return peer("lmdb").open(str(path.with_suffix(".copy")), subdir=False, readonly=True, lock=False, readahead=False)


# ---- Lance


def write_lance(path: Path, n: int) -> None:
    arrow = peer("pyarrow")
    image = arrow.FixedSizeListArray.from_arrays(images(n).reshape(-1), IMAGE_BYTES)
    fields = [arrow.field("image", image.type, nullable=False), arrow.field("label", arrow.int64(), nullable=False)]
    table = arrow.Table.from_arrays([image, np.arange(n)], schema=arrow.schema(fields))
    peer("lance").write_dataset(table, path)


def lance_batches(path: Path, steps: Steps) -> Batches:
    return map(_arrays, peer("lance").dataset(path).to_batches(batch_size=BATCH))


def lance_take(path: Path, steps: Steps) -> Batches:
    dataset = peer("lance").dataset(path)
    return (_arrays(dataset.take(rows.tolist()).combine_chunks().to_batches()[0]) for rows in steps)


def _arrays(batch: Any) -> dict[str, Any]:
    image = batch["image"].flatten().to_numpy().reshape(batch.num_rows, IMAGE_BYTES)
    return {"image": image, "label": batch["label"].to_numpy()}


# ---- Megatron, litdata


def write_megatron(path: Path, n: int) -> None:
    lengths = np.random.default_rng(n).integers(100, 1500, n).tolist()
    write(path, ({"tokens": np.arange(length) % 50_000} for length in lengths), "megatron", spec={"tokens": "uint16[]"})


def megatron_get(path: Path, steps: Steps) -> Batches:
    """Documents as `IndexedDataset` of megatron-core 0.16 gets them: `frombuffer` on maps of both files."""
    index = np.memmap(path.with_suffix(".idx"), mode="r")
    n = int(np.frombuffer(index, "<u8", 1, 18)[0])
    lengths = np.frombuffer(index, np.int32, n, 34)
    pointers = np.frombuffer(index, np.int64, n, 34 + lengths.nbytes)
    tokens = np.memmap(path, mode="r").data
    for rows in steps:
        yield {"tokens": [np.frombuffer(tokens, np.uint16, lengths[row], pointers[row]).copy() for row in rows]}


def write_litdata(path: Path, n: int) -> None:
    writer = peer("litdata.streaming.writer").BinaryWriter(str(path), chunk_bytes=2**24)
    for number, image in enumerate(images(n)):
        writer[number] = {"image": image, "label": number}
    writer.done()
    writer.merge()


def litdata_iteration(path: Path, steps: Steps) -> Batches:
    items = (item for item in peer("litdata").StreamingDataset(str(path)))  # `iter` of the dataset begins anew
    return (_stacked(list(islice(items, len(rows)))) for rows in steps)


def litdata_items(path: Path, steps: Steps) -> Batches:
    dataset = peer("litdata").StreamingDataset(str(path))
    return (_stacked([dataset[row] for row in rows.tolist()]) for rows in steps)


def _stacked(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"image": np.stack([item["image"] for item in items]), "label": np.array([item["label"] for item in items])}


# ---- MDS


def write_mds(path: Path, n: int, compression: str | None = None) -> None:
    columns = {"image": "bytes", "label": "int"}
    with peer("streaming").MDSWriter(out=str(path), columns=columns, compression=compression, size_limit=2**24) as out:
        for label, image in enumerate(images(n)):
            out.write({"image": image.tobytes(), "label": label})


def mds_iteration(path: Path, steps: Steps) -> Batches:
    with _mds(path) as dataset:
        items = iter(dataset)
        for rows in steps:
            yield _listed(list(islice(items, len(rows))))


def mds_items(path: Path, steps: Steps) -> Batches:
    with _mds(path) as dataset:
        for rows in steps:
            yield _listed([dataset[row] for row in rows.tolist()])


@contextmanager
def _mds(path: Path) -> Iterator[Any]:
    """A dataset of `streaming`, which copies and decompresses shards to a folder as it needs them."""
    peer("streaming.base.util").clean_stale_shared_memory()
    with tempfile.TemporaryDirectory() as folder:
        yield peer("streaming").StreamingDataset(remote=str(path), local=folder, batch_size=BATCH, shuffle=False)


def _listed(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"image": [item["image"] for item in items], "label": np.array([item["label"] for item in items])}


# ---- JSONL


@cache
def _line_ends(path: Path) -> list[int]:
    return list(accumulate(map(len, path.read_bytes().splitlines(keepends=True)), initial=0))


def json_lines(path: Path, steps: Steps) -> Batches:
    """Lines at known offsets."""
    ends = _line_ends(path)
    with path.open("rb") as file:
        for rows in map(np.ndarray.tolist, steps):
            yield _rows_as_columns([_json_at(file, ends[row]) for row in rows])


def _json_at(file: Any, offset: int) -> dict[str, Any]:
    file.seek(offset)
    found: dict[str, Any] = json.loads(file.readline())
    return found


def _rows_as_columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"text": [row["text"] for row in rows], "label": np.array([row["label"] for row in rows])}


def write_chats(path: Path, n: int) -> None:
    """Write conversations of six messages, 1.5 KB."""
    words = [text.decode().split() for text in texts(n)]
    rows = (
        {
            "messages": [{"role": role, "content": " ".join(part[:40])} for role in ("user", "assistant") * 3],
            "label": at,
        }
        for at, part in enumerate(words)
    )
    write(path, rows, "jsonl", spec={"messages": "json", "label": "int64"})


def json_chats(path: Path, steps: Steps) -> Batches:
    with path.open("rb") as file:
        for rows in steps:
            found = [json.loads(line) for line in islice(file, len(rows))]
            yield {"messages": [row["messages"] for row in found], "label": np.array([row["label"] for row in found])}


def datasets_lines(path: Path, steps: Steps) -> Batches:
    stream = peer("datasets").load_dataset("json", data_files=str(path), split="train", streaming=True)
    return ({**batch, "label": np.array(batch["label"])} for batch in stream.iter(batch_size=BATCH))


# ---- shuffled epochs by the Loader: Parquet, compressed JSONL and tar files


def write_parquet(path: Path, n: int) -> None:
    """Write two files of images as bytes, with the label in front, as Hugging Face stores images."""
    arrow, folder = peer("pyarrow"), path.with_suffix(".part")
    blobs = [label.to_bytes(8, "little") + image.tobytes() for label, image in enumerate(images(n))]
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(in_order(n, -(-n // 2))):
        table = arrow.table({"image": blobs[rows.start : rows.stop], "label": list(rows)})
        peer("pyarrow.parquet").write_table(table, folder / f"{number}.parquet", row_group_size=1000)
    folder.rename(path)


def write_lines(path: Path, n: int) -> None:
    """Write text of 1 KB, which begins with the label."""
    rows = ({"text": f"{label} {text.decode()}", "label": label} for label, text in enumerate(texts(n)))
    write(path, rows, "jsonl", spec={"text": "utf8", "label": "int64"})


def write_samples(path: Path, n: int) -> None:
    """Write one compressed tar file of text of 1 KB and its label."""
    with tarfile.open(path, "w:gz", compresslevel=6) as out:
        for label, text in enumerate(texts(n)):
            for suffix, data in (("txt", b"%d %s" % (label, text)), ("cls", b"%d" % label)):
                member = tarfile.TarInfo(f"{label:07}.{suffix}")
                member.size = len(data)
                out.addfile(member, io.BytesIO(data))


def loader_epoch(path: Path, fields: tuple[str, str]) -> Batches:
    """An epoch with the defaults: such files are shuffled in windows."""
    with dataformats.Loader(dataformats.open(path), BATCH, seed=1) as loader:
        yield from ({name: batch[name] for name in fields} for batch in loader)


def datasets_epoch(path: Path, fields: tuple[str, str], kind: str) -> Batches:
    """An epoch as the documentation of `datasets` shows it, with the buffer's size that is the default.

    It sleeps for 5 s at the end of an epoch of Parquet, until its threads have ended: that is left out here.
    """
    peer("datasets").config.SLEEP_TIME_ON_THREADS_SHUTDOWN = 0
    files = {"train": [str(file) for file in (sorted(path.iterdir()) if path.is_dir() else [path])]}
    stream = peer("datasets").load_dataset(kind, data_files=files, split="train", streaming=True)
    yield from stream.shuffle(seed=1).iter(batch_size=BATCH)


def webdataset_epoch(path: Path, fields: tuple[str, str]) -> Batches:
    """An epoch as the documentation of `webdataset` shows it, with the buffer of its examples."""
    wds = peer("webdataset")
    samples = wds.WebDataset(str(path), shardshuffle=False).shuffle(1000).decode().to_tuple(*fields)
    for rows in samples.batched(BATCH, collation_fn=None):
        yield dict(zip(fields, zip(*rows, strict=True), strict=True))


def _checked(fields: tuple[str, str], batch: dict[str, Any]) -> dict[str, Any]:
    def number(value: Any) -> int:
        return int.from_bytes(value[:8], "little") if isinstance(value, bytes) else int(value.partition(" ")[0])

    values, labels = (list(batch[name]) for name in fields)
    return {"records": len(labels), "right": list(map(number, values)) == labels}


def _plain(batch: dict[str, Any]) -> dict[str, Any]:
    def listed(column: Any) -> list[Any]:
        return [item.tolist() if isinstance(item, np.ndarray) else item for item in column]

    return {name: column if isinstance(column, np.ndarray) else listed(column) for name, column in batch.items()}


def epoch(
    title: str,
    name: str,
    full: int,
    make: Callable[[Path, int], None],
    fields: tuple[str, str],
    rival: str,
    direct: Callable[[Path, tuple[str, str]], Batches],
    data: Data,
) -> Work:
    """Return the work of a shuffled epoch by the Loader."""
    n = data.count(full, least=2 * BATCH)

    def opened(pass_: Callable[[Path, tuple[str, str]], Batches]) -> Side:
        peer(rival)
        path = data.made(name.format(n), lambda path: make(path, n))
        assert len(dataformats.open(path))  # builds the index
        return Side(lambda: pass_(path, fields), partial(_checked, fields))

    sides = {OURS: partial(opened, loader_epoch), rival: partial(opened, direct)}
    return Work(f"{title}, {n:,} records, an epoch of shuffled windows, batches of {BATCH}", sides)


# ---- cases


def reading(
    name: str,
    title: str,
    make: Callable[[Path, int], None],
    rival: str,
    direct: Pass,
    fields: Sequence[str] | None,
    data: Data,
) -> Work:
    """Return the work of reading batches, at random or in order."""
    n = data.count(20_000, least=2 * BATCH)
    is_random = title.endswith("random")
    steps: Steps = at_random(n, BATCH, data.count(40)) if is_random else in_order(n, BATCH)
    kept = []  # an index, such as the keys of LMDB, is built once

    def opened(is_ours: bool) -> Side:
        peer(rival)
        path = data.made(name.format(n), lambda path: make(path, n))
        if not is_ours:
            return Side(lambda: direct(path, steps), _plain)
        kept.append(dataformats.open(path))
        assert len(kept[0].read(steps[0]))
        return Side(lambda: ours(path, steps), _plain)

    def ours(path: Path, steps: Steps) -> Batches:
        source = dataformats.open(path)
        batches = (source.read(rows, fields) for rows in steps)
        return ({field: batch[field] for field in batch.keys()} for batch in batches)  # noqa: SIM118

    sides = {OURS: partial(opened, True), rival: partial(opened, False)}
    return Work(f"{title}, {n:,} records, batches of {BATCH}", sides)


def _cases(
    name: str,
    file: str,
    make: Callable[[Path, int], None],
    rival: str,
    passes: tuple[Pass, Pass],
    at_least: float = 0.9,
    fields: Sequence[str] | None = None,
) -> Iterator[Case]:
    """Yield two cases: random batches, and batches in order."""
    for order, direct in zip(("random", "in order"), passes, strict=True):
        yield _case(name, order, file, make, rival, direct, at_least, fields)


def _case(
    name: str,
    order: str,
    file: str,
    make: Callable[[Path, int], None],
    rival: str,
    direct: Pass,
    at_least: float,
    fields: Sequence[str] | None = None,
) -> Case:
    build = partial(reading, file, f"{name}, {order}", make, rival, direct, fields)
    key = f"library-{name}-{order}".lower().replace(" ", "-").replace(",", "")
    return Case(key, build, (Target(rival, at_least),), one_thread=True)


_EPOCHS: tuple[tuple[Any, ...], ...] = (
    (
        *("parquet", "Parquet", "images-{}-parquet", 20_000, write_parquet, ("image", "label")),
        *("datasets", partial(datasets_epoch, kind="parquet")),
    ),
    (
        *("jsonl", "JSONL, gzip", "lines-{}.jsonl.gz", 50_000, write_lines, ("text", "label")),
        *("datasets", partial(datasets_epoch, kind="json")),
    ),
    (
        *("tar", "WebDataset, gzip", "samples-{}.tar.gz", 50_000, write_samples, ("txt", "cls")),
        *("webdataset", webdataset_epoch),
    ),
)
_GZIP = partial(write_hdf5, chunk=CHUNK, compression="gzip")
CASES = (
    *_cases("HDF5 contiguous", "rows-{}.h5", write_hdf5, "h5py", (hdf5_rows, hdf5_ranges)),
    *_cases("HDF5 chunked", "chunks-{}.h5", partial(write_hdf5, chunk=CHUNK), "h5py", (hdf5_rows, hdf5_ranges)),
    *_cases("HDF5 gzip", "gzip-{}.h5", _GZIP, "h5py", (hdf5_lists, hdf5_ranges)),
    *_cases("Zarr", "chunks-{}.zarr", write_zarr, "zarr", (zarr_lists, zarr_ranges)),
    *_cases("LMDB", "values-{}.lmdb", write_lmdb, "lmdb", (lmdb_get, lmdb_cursor)),
    *_cases("Lance", "images-{}.lance", write_lance, "lance", (lance_take, lance_batches)),
    *_cases("Megatron", "documents-{}.bin", write_megatron, "numpy", (megatron_get, megatron_get), 1),
    *_cases("litdata", "images-{}-litdata", write_litdata, "litdata", (litdata_items, litdata_iteration), 1),
    *_cases("MDS", "images-{}-mds", write_mds, "streaming", (mds_items, mds_iteration), 2),
    *_cases(
        "MDS zstd", "zstd-{}-mds", partial(write_mds, compression="zstd"), "streaming", (mds_items, mds_iteration), 2
    ),
    _case("JSONL", "random", "lines-{}.jsonl", write_lines, "json", json_lines, 1),
    _case("JSONL", "in order", "lines-{}.jsonl", write_lines, "datasets", datasets_lines, 3),
    _case("JSONL chats", "in order", "chats-{}.jsonl", write_chats, "datasets", datasets_lines, 1.2),
    _case("JSONL chats", "in order by lines", "chats-{}.jsonl", write_chats, "json", json_chats, 1),
    *(
        Case(f"library-{key}-loader", partial(epoch, *arguments), (Target(arguments[5], 2),))
        for key, *arguments in _EPOCHS
    ),
)
