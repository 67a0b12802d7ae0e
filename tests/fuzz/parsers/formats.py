"""Parsers of whole files and folders: each format is recognized, opened and read, in memory."""

from __future__ import annotations

import contextlib
import functools
import gzip
import importlib
import itertools
import json
import tempfile
import types
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import dataformats
from dataformats.backends.array_record.library import BLOCK_BYTES
from dataformats.backends.ffrecord import layout as ffrecord_layout
from dataformats.backends.ffrecord import table_index
from dataformats.backends.granular import row_index
from dataformats.backends.granular.folder import dataset_files
from dataformats.backends.syrah import reader as syrah_reader
from dataformats.backends.webdataset import members as tar
from dataformats.codecs.features import spec_columns
from dataformats.errors import FormatError
from dataformats.interfaces import Reader
from dataformats.reading import detection
from dataformats.reading.blob_source import BlobSource
from dataformats.reading.dataset_schema import declared_schema
from dataformats.reading.opening import OpenArguments
from dataformats.storage.compressed import decompressor, seekable_gzip
from tests.cases import GOLDEN
from tests.fuzz.parsers.engine import Files, Target
from tests.fuzz.parsers.memory_files import HeldFolder, held
from tests.fuzz.parsers.mutation import change_bytes, change_json, change_msgpack

_MAX_RECORDS = 16  # records that are read


def _read_source(source: BlobSource, iterate: bool) -> None:
    """Read a few records, and iterate if wanted: that starts threads, and only some formats then parse another way."""
    n = len(source)
    _ = source.spec, source.spec_facts, source.fingerprint
    indices = [*range(min(n, _MAX_RECORDS)), *range(max(n - 2, 0), n)]
    batch = source.read(indices, on_corrupt="omit")
    for error in batch.failed.values():
        str(error)
    for _ in itertools.islice(iter(source), _MAX_RECORDS if iterate else 0):
        pass


def _opened(format: str, files: Files, **options: Any) -> BlobSource:
    arguments = OpenArguments(path=None, format=format, index="beside", **options)
    backend, (entries,) = detection.choose_files([HeldFolder(files)], format)
    reader = backend.open(entries, arguments, **arguments.backend_options)
    assert isinstance(reader, Reader)
    return BlobSource(arguments, backend, reader, declared_schema(arguments, format, {}))


def _reader(format: str, **options: Any) -> Callable[[Files], None]:
    def read(files: Files) -> None:
        with _opened(format, files, **options) as source:
            _read_source(source, format in ("tfrecord", "ofrecord"))

    return read


def _golden(format: str, suffix: str, most: int = 4096) -> list[Files]:
    paths = [path for path in sorted((GOLDEN / format).rglob(f"*{suffix}")) if path.stat().st_size <= most]
    return [{path.name: path.read_bytes()} for path in paths]


def _json(files: Files) -> None:
    """Read a document alone, and by keys that it may have."""
    for key in (None, "images", ""):
        with contextlib.suppress(FormatError), _opened("json", files, backend_options={"key": key}) as source:
            _read_source(source, iterate=False)


def _renamed(name: str, seeds: Callable[[], Sequence[Files]]) -> Callable[[], Sequence[Files]]:
    """Return seeds of one file each, all called `name`: pieces of one fit into another."""
    return lambda: [{name: content} for files in seeds() for content in files.values()]


def _array_record(files: Files) -> None:
    """Read a file of two blocks: the last one begins with the postscript, and zeros fill the gaps."""
    front, back = (files[part].ljust(BLOCK_BYTES, b"\0") for part in ("front", "back"))
    _reader("array_record")({"x.array_record": front + back})


def _array_record_seeds() -> list[Files]:
    contents = [gzip.decompress(path.read_bytes()) for path in sorted((GOLDEN / "array_record").glob("*.gz"))]
    return [{"front": one[:BLOCK_BYTES].rstrip(b"\0"), "back": one[BLOCK_BYTES:].rstrip(b"\0")} for one in contents]


def _megatron_seeds() -> list[Files]:
    paths = [path for path in sorted((GOLDEN / "megatron").glob("*.bin")) if path.stem != "modes"]
    return [{"x.bin": path.read_bytes(), "x.idx": path.with_suffix(".idx").read_bytes()} for path in paths]


def _mds_seeds() -> list[Files]:
    folders = [GOLDEN / "mds" / name for name in ("types", "plain", "one_variable", "zstd", "gz")]
    return [{path.name: path.read_bytes() for path in sorted(folder.iterdir())} for folder in folders]


def _sealed_tar(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return a changed tar file in which headers have the right checksum."""
    found = bytearray(change_bytes(random, data, others))
    for at in range(0, len(found) - tar.BLOCK + 1, tar.BLOCK):
        head = found[at : at + tar.BLOCK]
        if head[257:262] == b"ustar" or random.random() < 0.05:
            found[at + 148 : at + 156] = b"%06o\0 " % tar.checksum(bytes(head))
    return bytes(found)


def _sealed_header(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return a changed FFRecord file whose header has the right checksum."""
    found = bytearray(change_bytes(random, data, others))
    if len(found) >= 12:
        n = int.from_bytes(found[4:12], "little", signed=True)
        end = 12 + 12 * n
        if n >= 0 and end <= len(found):
            found[:4] = zlib.crc32(found[4:end]).to_bytes(4, "little")
    return bytes(found)


def _granular_folder(generation: int) -> Files:
    spec: dict[str, str] = {"x": "float32[2]", "n": "int", "t": "utf8", "m": "msgpack"}
    record: dict[str, Any] = {"x": [1, 2], "n": 7, "t": "é", "m": {"a": 1}}
    if generation == 2:
        spec["s"], record["s"] = "utf8[]", ["a", "b"]
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "x"
        with dataformats.create(path, "granular", spec=spec, generation=generation) as writer:
            writer.extend([record] * 4)
        return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def _granular_seeds() -> list[Files]:
    folders = [path.parent for path in sorted((GOLDEN / "granular").rglob("spec.json"))]
    found: list[Files] = [_granular_folder(2), _granular_folder(3)]
    for folder in folders:
        files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
        found += [files] if sum(map(len, files.values())) <= 8192 else []
    return found


def _granular(files: Files) -> None:
    chosen = {name: content for name, content in files.items() if name.endswith((".bag", ".idx", ".json"))}
    _reader("granular")(chosen)


def _rows(files: Files) -> None:
    """Parse the tables of a dataset without reading values."""
    folder = HeldFolder(files)
    rows = row_index.RowIndex(dataset_files({name: folder.file(name) for name in folder.names()}))
    n = rows.n_rows
    wanted = np.arange(min(n, _MAX_RECORDS))
    for field in rows.files.spec:
        found = rows.records(field, wanted)
        for row in np.flatnonzero(found.wrong)[:2].tolist():
            str(rows.problem(field, row))
        limits = rows.limits(field)
        if isinstance(limits, FormatError):
            continue
        _, _, wrong = limits.extents(np.arange(min(len(limits), _MAX_RECORDS)))
        for record in np.flatnonzero(wrong)[:2].tolist():
            str(limits.problem(record))


def _granular_spec(files: Files) -> None:
    folder = HeldFolder(files)
    dataset_files({name: folder.file(name) for name in folder.names()})


def _table(files: Files) -> None:
    """Parse the header of an FFRecord file, with its checksum and without."""
    file = held(files, "x.ffr")
    for verify in (True, False):
        try:
            table = table_index.TableIndex(file, verify=verify)
            part = table.part(0, min(len(table), _MAX_RECORDS))
            for position in itertools.islice(part.problems, 2):
                str(part.problems[position])
        except FormatError:
            pass


def _syrah_file(files: Files) -> None:
    """Parse the header and metadata of a Syrah file, and the types that they give."""
    syrah_reader.SyrahReader([held(files, "x.syr")])


def _granular_spec_seeds() -> list[Files]:
    return [
        {"spec.json": json.dumps(spec).encode(), "refs.bag": b"", "x.bag": b"", "y.bag": b""}
        for spec in ({"x": "array", "y": "utf8[]"}, {"y": "int(3,big)"}, {"x": "jpeg(90)", "y": "no codec"})
    ]


def _sniffed(files: Files) -> None:
    folder = HeldFolder(files)
    for name in folder.names():
        detection.choose_files([held(files, name)], None)


def _sniff_seeds() -> list[Files]:
    found = [*_golden("tfrecord", ".tfrecord", 512), *_golden("ofrecord", "", 512), *_golden("ffrecord", ".ffr", 512)]
    found += [*_golden("syrah", ".syr", 1024), *_golden("granular", ".bag", 512)]
    return [{name: content for name, content in files.items() if content} for files in found if any(files.values())]


def _modules(*names: str) -> tuple[types.ModuleType, ...]:
    return tuple(importlib.import_module(f"dataformats.backends.{name}") for name in names)


_ofrecord_seeds = _renamed("part-0", lambda: [*_golden("ofrecord", "", 1024), *_golden("ofrecord", "part-0", 1024)])


@functools.cache
def _features() -> list[Files]:
    """Return OFRecord frames, which have no checksums, of payloads with features."""
    with tempfile.TemporaryDirectory() as place:
        spec = {"a": "int64", "b": "float32[2]", "c": "bytes[]", "d": "utf8?", "e": "uint8[3]"}
        record = {"a": 1, "b": [1, 2], "c": [b"x", b"y"], "d": "é", "e": [1, 2, 3]}
        path = Path(place) / "x.ofrecord"
        with dataformats.create(path, "ofrecord", spec=spec) as writer:
            writer.extend([record, record | {"d": None}, record])
        return [{"part-0": path.read_bytes()}]


_SYRAH = _modules("syrah.reader", "syrah.layout", "syrah.metadata", "syrah.document", "syrah.dtypes")
_GRANULAR = _modules(
    "granular.reader",
    "granular.folder",
    "granular.row_index",
    "granular.refs",
    "granular.layout",
    "granular.bag_limits",
)
_JSON: Mapping[str, Any] = {".json": (change_json, change_bytes)}

_FFRECORD = (ffrecord_layout, table_index)
_ffrecord_seeds = _renamed("x.ffr", lambda: _golden("ffrecord", ".ffr"))
_syrah_seeds = _renamed("x.syr", lambda: _golden("syrah", ".syr"))
_tfrecord_seeds = _renamed("x.tfrecord", lambda: _golden("tfrecord", ".tfrecord"))
_gzip_seeds = _renamed("x.tfrecord.gz", lambda: [*_golden("tfrecord", ".gz"), *_golden("tfrecord", ".zlib")])
_bag_seeds = _renamed("x.bag", lambda: _golden("granular", ".bag"))
_SEALED: Mapping[str, Any] = {"": (change_bytes, _sealed_header)}
_ROWS: Mapping[str, Any] = {"refs.bag": (change_bytes, change_msgpack), **_JSON}

TARGETS: Sequence[Target] = (
    Target("ffrecord_table", _table, _ffrecord_seeds, _FFRECORD, _SEALED),
    Target("syrah_metadata", _syrah_file, _syrah_seeds, _modules("syrah.layout", "syrah.metadata", "syrah.document")),
    Target("granular_spec", _granular_spec, _granular_spec_seeds, _modules("granular.folder"), _JSON),
    Target(
        "granular_rows",
        _rows,
        _granular_seeds,
        _modules("granular.refs", "granular.row_index", "granular.layout", "granular.bag_limits"),
        _ROWS,
    ),
    Target(
        "sniff",
        _sniffed,
        _sniff_seeds,
        (detection, *_modules("ffrecord.sniff", "tfrecord.sniff", "ofrecord.sniff", "granular.sniff")),
    ),
    Target("open_ffrecord", _reader("ffrecord"), _ffrecord_seeds, _FFRECORD, _SEALED),
    Target("open_unverified", _reader("ffrecord", verify_checksums=False), _ffrecord_seeds, _FFRECORD),
    Target("open_syrah", _reader("syrah"), _syrah_seeds, _SYRAH),
    Target("open_granular", _granular, _granular_seeds, _GRANULAR, _ROWS, may_lack_files=True),
    Target("open_bag", _reader("granular"), _bag_seeds, _modules("granular.bag_reader", "granular.bag_limits")),
    Target("open_tfrecord", _reader("tfrecord"), _tfrecord_seeds, _modules("framed.frame_scanner", "framed.reader")),
    Target(
        "open_gzip", _reader("tfrecord"), _gzip_seeds, (decompressor, seekable_gzip, *_modules("tfrecord.compression"))
    ),
    Target("open_ofrecord", _reader("ofrecord"), _ofrecord_seeds, _modules("framed.frame_scanner", "ofrecord.layout")),
    Target(
        "open_webdataset",
        _reader("webdataset"),
        _renamed("x.tar", lambda: _golden("webdataset", ".tar", 2**15)),
        _modules("webdataset.members", "webdataset.samples", "webdataset.reader"),
        {"": (change_bytes, _sealed_tar)},
    ),
    Target(
        "open_mds",
        _reader("mds"),
        _mds_seeds,
        _modules("mds.index_file", "mds.files", "mds.reader", "mds.backend"),
        _JSON,
        may_lack_files=True,
    ),
    Target(
        "open_megatron",
        _reader("megatron"),
        _megatron_seeds,
        _modules("megatron.layout", "megatron.reader"),
        may_lack_files=True,
    ),
    Target(
        "open_array_record", _array_record, _array_record_seeds, _modules("array_record.reader", "array_record.library")
    ),
    Target(
        "open_json",
        _json,
        _renamed("x.json", lambda: _golden("json", ".json")),
        _modules("documents.walk", "documents.index"),
    ),
    Target("open_features", _reader("ofrecord", payload="ofrecord"), _features, (spec_columns,)),
)
