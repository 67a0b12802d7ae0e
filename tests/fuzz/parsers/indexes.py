"""Parsers of files beside the data: sidecars, indexes, and partial data of interrupted writers."""

from __future__ import annotations

import functools
import itertools
import json
import os
import shutil
import struct
import tempfile
import types
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import dataformats
from dataformats.backends.framed import frame_index
from dataformats.backends.framed.frame_index import FrameIndexStore
from dataformats.backends.tfrecord import text_index
from dataformats.backends.tfrecord.layout import FRAMING
from dataformats.indexing import block_file, index_cache
from dataformats.indexing.index_cache import IndexCache
from dataformats.kernels import crc32
from dataformats.reading import dataset_sidecars
from dataformats.reading.dataset_schema import declared_schema
from dataformats.reading.dataset_sidecars import DatasetSidecars
from dataformats.reading.opening import OpenArguments, raise_error
from dataformats.sidecars import file_comparison, sidecar
from dataformats.staging import entries, local_area, lock
from dataformats.storage import record_journal
from tests.fuzz.parsers.engine import Files, Target
from tests.fuzz.parsers.memory_files import held
from tests.fuzz.parsers.mutation import change_bytes, change_json, changed_value

_DATA, _INDEX, _TEXT, _SIDECAR = (
    "x.tfrecord",
    "x.tfrecord.dataformats.idx",
    "x.tfrecord.index",
    "x.tfrecord.dataformats.json",
)


def _sidecar(files: Files) -> None:
    file, arguments = held({_DATA: b"", **files}, _DATA), OpenArguments(path=None)
    sidecars = DatasetSidecars([file], needed=True)
    _ = sidecars.format
    declared_schema(arguments, "tfrecord", sidecars.metadata([[file]], arguments._used, raise_error))


def _sidecar_seeds() -> list[Files]:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / _DATA
        for spec in ({"a": "int64"}, {"a": "int64", "b": "utf8[]?"}):
            with dataformats.create(path, "tfrecord", spec=spec, overwrite=True) as writer:
                writer.append({"a": 1, "b": ["x"]} if len(spec) == 2 else {"a": 1})
        data, text = path.read_bytes(), path.with_name(_SIDECAR).read_bytes()
    metadata = json.loads(text)
    changed = [metadata, {**metadata, "previous": metadata}, {"version": 1, "payload": "msgpack"}, {"version": 2}]
    return [{_DATA: content, _SIDECAR: json.dumps(one).encode()} for one in changed for content in (data, b"")]


@functools.cache
def _indexed() -> tuple[Files, tuple[str, ...]]:
    """Return a TFRecord with its index, and the identity that the index is of."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / _DATA
        with dataformats.create(path, "tfrecord", payload="bytes") as writer:
            writer.extend(bytes(size) for size in (1, 0, 7, 300, 7, 2))
        os.utime(path, ns=(10**18, 10**18))
        with dataformats.open(path, index="beside", payload="bytes") as source:
            len(source)
        data, index = path.read_bytes(), path.with_name(_INDEX).read_bytes()
    _, length, _ = struct.unpack_from("<8sII", index)
    return {_DATA: data, _INDEX: index}, tuple(json.loads(index[16 : 16 + length])["identity"])


def _index(files: Files) -> None:
    if _DATA not in files:
        return
    _, identity = _indexed()
    store, cache = FrameIndexStore(FRAMING, text_index.text_hints), IndexCache("beside")
    exact = store.load_exact(held(files, _DATA, identity), cache)
    if exact is not None:
        with suppress(block_file.BrokenBlockError):  # the reader then builds the index again
            str(exact.part(0, min(len(exact), 9)).problems)
    store.load_hinted(held(files, _DATA), cache)


def _index_seeds() -> list[Files]:
    files, _ = _indexed()
    cut = {**files, _DATA: files[_DATA][:-9]}
    return [files, cut, {**files, _DATA: b""}]


def _sealed_index(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return an index with a changed header, or changed blocks, and the right checksums."""
    try:
        magic, length, _ = struct.unpack_from("<8sII", data)
        header = json.loads(data[16 : 16 + length])
    except (ValueError, struct.error):
        return change_bytes(random, data, others)
    blocks = data[16 + length :]
    if random.random() < 0.7:
        header = changed_value(random, header)
    elif len(blocks) > 4:
        body = change_bytes(random, blocks[:-4], others)
        digest = str(header.get("digest")).encode("utf-8", "replace") if isinstance(header, dict) else b""
        blocks = body + (zlib.crc32(body) ^ zlib.crc32(digest)).to_bytes(4, "little")
    text = json.dumps(header).encode()
    return struct.pack("<8sII", magic, len(text), zlib.crc32(text)) + text + blocks


def _text_seeds() -> list[Files]:
    files, _ = _indexed()
    ends = list(itertools.accumulate((size + 16 for size in (1, 0, 7, 300, 7, 2)), initial=0))
    lines = [f"{start} {stop - start}\n" for start, stop in itertools.pairwise(ends)]
    return [{_DATA: files[_DATA], _TEXT: "".join(lines[:most]).encode()} for most in (6, 3, 0)]


def _text_index(files: Files) -> None:
    if _DATA in files:
        FrameIndexStore(FRAMING, text_index.text_hints).load_hinted(held(files, _DATA), IndexCache("beside"))


_RESUMED: dict[str, tuple[dict[str, Any], Any]] = {
    "tfrecord": ({"payload": "bytes"}, b"abc"),
    "ofrecord": ({"payload": "bytes"}, b"abc"),
    "ffrecord": ({"payload": "bytes"}, b"abc"),
    "syrah": ({"spec": {"x": "float32[]", "t": "utf8"}}, {"x": [1, 2], "t": "é"}),
    "granular": ({"spec": {"x": "float32[2]", "t": "utf8[]"}}, {"x": [1, 2], "t": ["a"]}),
}


def _left_over(format: str, **options: Any) -> Files:
    """Return the files of a writer that was interrupted after a few records, by path."""
    arguments, record = _RESUMED[format]
    with tempfile.TemporaryDirectory() as place:
        writer = dataformats.create(Path(place) / "x", format, resume=True, **arguments, **options)
        writer.extend([record] * 5)
        writer.flush()
        writer.abort()
        paths = [path for path in sorted(Path(place).rglob("*")) if path.is_file()]
        return {str(path.relative_to(place)): path.read_bytes() for path in paths}


def _resumer(format: str, **options: Any) -> Callable[[Files], None]:
    arguments, _ = _RESUMED[format]

    def resume(files: Files) -> None:
        place = Path(tempfile.gettempdir()) / "resumed"
        try:
            for name, content in files.items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(content)
            dataformats.create(place / "x", format, resume=True, **arguments, **options).abort()
        finally:
            shutil.rmtree(place, ignore_errors=True)

    return resume


def _journal(files: Files) -> None:
    path = Path(tempfile.gettempdir()) / "x.journal"
    path.write_bytes(files["x.journal"])
    stored = record_journal.StoredJournal.find(path)
    if stored is not None:
        _ = stored.load().lengths


def _journal_seeds() -> list[Files]:
    found: list[Files] = []
    for n_sizes in (1, 3):
        path = Path(tempfile.gettempdir()) / "x.journal"
        sizes = np.arange(4 * n_sizes, dtype=np.int64).reshape(4, n_sizes)
        journal = record_journal.RecordJournal(path, [path], n_sizes=n_sizes, metadata={"names": ["a", "b"]})
        journal.begin([0])
        journal.unlisted = [record_journal.Entries(sizes, np.arange(4, dtype=np.uint32)[:, None])]
        journal.append()
        journal.close()
        found.append({"x.journal": path.read_bytes()})
    return found


def _sealed_journal(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return a journal whose head, after a change, has the right checksum."""
    try:
        magic, length = struct.unpack_from("<8sI", data)
        facts = changed_value(random, json.loads(data[12 : 12 + length]))
    except (ValueError, struct.error):
        return change_bytes(random, data, others)
    text = json.dumps(facts).encode()
    head = struct.pack("<8sI", magic, len(text)) + text
    return head + crc32(head).to_bytes(4, "little") + data[16 + length :]


_CHANGES = {".json": (change_json, change_bytes), ".journal": (change_bytes, _sealed_journal, change_json)}


def _resume_target(name: str, modules: Sequence[types.ModuleType], format: str, **options: Any) -> Target:
    """Return a target that resumes the partial data of an interrupted writer."""
    resume = _resumer(format, **options)
    return Target(name, resume, lambda: [_left_over(format, **options)], modules, _CHANGES, may_lack_files=True)


TARGETS: Sequence[Target] = (
    Target(
        "sidecar",
        _sidecar,
        _sidecar_seeds,
        (sidecar, dataset_sidecars, file_comparison),
        {".json": (change_json, change_bytes)},
    ),
    Target(
        "index",
        _index,
        _index_seeds,
        (index_cache, block_file, frame_index),
        {".idx": (_sealed_index, _sealed_index, change_bytes)},
    ),
    Target("text_index", _text_index, _text_seeds, (text_index,)),
    Target("journal", _journal, _journal_seeds, (record_journal,), _CHANGES),
    *(_resume_target(f"resume_{format}", (record_journal,), format) for format in _RESUMED),
    _resume_target("resume_shards", (entries, local_area, lock), "tfrecord", shard_records=2),
)
