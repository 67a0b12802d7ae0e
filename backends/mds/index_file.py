"""`index.json` of a dataset: its shards in order, each with its columns."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from dataformats.errors import FormatError
from dataformats.interfaces import StoredFile
from dataformats.spec import NUMBER_TYPES, Type

_MAX_BYTES = 2**28
_BYTES_OF = {"int": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "int8": 1, "int16": 2, "int32": 4, "int64": 8,
             "float16": 2, "float32": 4, "float64": 8}  # fmt: skip
_NAMED = {"bytes": "bytes", "str": "utf8", "json": "json", "jpeg": "jpg", "png": "png", "pkl": "pickle"}
_ENCODINGS = {codec: encoding for encoding, codec in _NAMED.items()} | {"jpeg": "jpeg"}


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a shard: names, encodings, and the bytes of a value, `None` if these vary."""

    names: tuple[str, ...]
    encodings: tuple[str, ...]
    sizes: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard as the index lists it.

    Attributes:
        columns: Its columns.
        samples: How many samples it has.
        name: The path of its plain file below the folder.
        n_bytes: The bytes of this file.
        hashes: Algorithm to digest of this file.
        zip_name: The path of its compressed file; `None` without one.
        zip_bytes: The bytes of this file.
        zip_hashes: Algorithm to digest of this file.
        compression: `"zstd"`, `"gz:9"` and others; `None` if there is no compressed file.
    """

    columns: Columns
    samples: int
    name: str
    n_bytes: int
    hashes: Mapping[str, str]
    zip_name: str | None
    zip_bytes: int
    zip_hashes: Mapping[str, str]
    compression: str | None


_READ: WeakKeyDictionary[StoredFile, list[Shard]] = WeakKeyDictionary()


def read_index(file: StoredFile) -> list[Shard]:
    """Return the shards of a dataset. They are kept with the file: `find`, `sniff` and `open` need them.

    Raises:
        FormatError: The index is damaged, of another version, or of shards that are not MDS.
    """
    if file not in _READ:
        _READ[file] = _shards_of(file)
    return _READ[file]


def _shards_of(file: StoredFile) -> list[Shard]:
    try:
        content = json.loads(file.read_all(_MAX_BYTES))
        if content["version"] != 2:
            raise ValueError(f"version {content['version']!r} instead of 2")
        known: dict[str, Columns] = {}
        return [_shard(entry, known) for entry in content["shards"]]
    except FormatError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        found = f"{type(error).__name__}: {error}"[:200]
        what, remedy = "the index of an MDS dataset is damaged", "Restore it: it lists the shards and their columns"
        raise FormatError(what, path=file.name, found=found, remedy=remedy) from error


def type_of_encoding(encoding: str) -> Type:
    """Return the type of the values of an encoding; `pkl` is an opaque type unless the call names it."""
    name, _, rest = encoding.partition(":")
    dtype, _, shape = rest.partition(":")
    if name == "ndarray" and shape:
        return Type(dtype, dims=tuple(map(int, shape.split(","))))
    if encoding in _BYTES_OF:
        return Type("int64" if encoding == "int" else encoding)
    return Type(_NAMED[encoding]) if encoding in _NAMED else Type("mds", args=(encoding,))


def _shard(entry: Any, known: dict[str, Columns]) -> Shard:
    if entry["format"] != "mds" or entry["version"] != 2:
        raise ValueError(f"a shard of format {entry['format']!r}, version {entry['version']!r}")
    names, encodings, sizes = entry["column_names"], entry["column_encodings"], entry["column_sizes"]
    key = repr((names, encodings, sizes))
    columns = known.get(key)
    if columns is None:
        columns = known[key] = _columns(names, encodings, sizes)
    raw, packed = entry["raw_data"], entry.get("zip_data")
    samples = _count(entry["samples"], 2**32)
    return Shard(
        columns,
        samples,
        path_below(raw["basename"]),
        _count(raw["bytes"], 2**32),
        _hashes(raw),
        path_below(packed["basename"]) if packed else None,
        _count(packed["bytes"], 2**62) if packed else 0,
        _hashes(packed) if packed else {},
        str(entry["compression"]) if packed else None,
    )


def _columns(names: Any, encodings: Any, sizes: Any) -> Columns:
    if not len(names) == len(encodings) == len(sizes) == len({*names}) or not {*map(type, (*names, *encodings))} <= {
        str
    }:
        raise ValueError(f"no columns: {names}, {encodings}, {sizes}"[:200])
    for name, encoding, size in zip(names, encodings, sizes, strict=True):
        expected = bytes_of_encoding(encoding)
        if (size is not None and (type(size) is not int or not 0 < size < 2**32)) or size != expected:
            raise ValueError(f"values of {expected} bytes in the column {name!r} of {encoding}, not of {size}")
    return Columns(tuple(names), tuple(encodings), tuple(sizes))


def encoding_of_type(kind: Type) -> str:
    """Return the encoding of values of a stored type; `bytes` if only their codec knows it."""
    if kind.codec == "mds":
        return ",".join(kind.args)
    name = "uint8" if kind.codec == "bool" else kind.codec
    if name not in _BYTES_OF or not kind.fixed:
        return _ENCODINGS.get(kind.codec, "bytes") if not kind.dims else "bytes"
    return f"ndarray:{name}:{','.join(map(str, kind.dims))}" if kind.dims else name


def bytes_of_encoding(encoding: str) -> int | None:
    """Return the bytes of each value of an encoding; `None` if they vary.

    Raises:
        ValueError: No such dtype or shape.
    """
    name, _, rest = encoding.partition(":")
    dtype, _, shape = rest.partition(":")
    if name != "ndarray" or not shape:
        return _BYTES_OF.get(encoding)
    kind = Type.parse(f"{dtype}[{shape}]")
    if dtype not in NUMBER_TYPES or kind.dtype is None or not kind.fixed:
        raise ValueError(f"unknown encoding {encoding!r}")
    return math.prod(size or 0 for size in kind.dims) * kind.dtype.itemsize


def _hashes(entry: Any) -> dict[str, str]:
    return {str(name): str(digest) for name, digest in dict(entry.get("hashes") or {}).items()}


def _count(number: Any, limit: int) -> int:
    if type(number) is not int or not 0 <= number < limit:
        raise ValueError(f"the number {number!r}")
    return number


def path_below(name: Any) -> str:
    """Return a path below the folder of the index; never one that leads out of it."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if not parts or name[0] == "/" or ".." in parts or "\\" in name or "\0" in name or "://" in name:
        raise ValueError(f"the path {name!r} leads out of the folder")
    return "/".join(parts)
