"""`index.json` of litdata: the chunks, and the leaves of the tree that each item is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dataformats.backends.mds.index_file import Columns, Shard, path_below
from dataformats.errors import FormatError
from dataformats.interfaces import StoredFile
from dataformats.spec import VALUE, Spec, Type

_MAX_BYTES = 2**28
_TYPES = {"int": "int64", "float": "float64", "bool": "bool", "str": "utf8", "text": "utf8",
          "jpeg": "jpg", "pil": "mds(pil)", "jpeg_array": "mds(jpegarray)", "numpy": "litdata(numpy)",
          "tensor": "litdata(tensor)", "pickle": "pickle"}  # fmt: skip
_IMAGES = {"jpg": "jpg", "jpeg": "jpg", "png": "png", "webp": "webp"}
_NUMPY = {0: "int8", 1: "int16", 2: "int32", 3: "int64", 4: "uint8", 5: "uint16", 6: "uint32", 7: "uint64",
          8: "float16", 9: "float32", 10: "float64", 13: "bool"}  # fmt: skip
_TORCH = {0: "float32", 1: "float32", 2: "float64", 3: "float64", 8: "float16", 9: "float16", 11: "uint8", 12: "int8",
          13: "int16", 14: "int16", 15: "int32", 16: "int32", 17: "int64", 18: "int64", 19: "bool",
          20: "uint16"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LitdataIndex:
    """A dataset.

    Attributes:
        spec: The leaves by their paths in the tree, such as `image` or `meta.label`; the only one is `value`.
        chunks: The chunks in order, as shards of MDS, which have the same layout.
        is_tokens: True if each item is a run of tokens.
    """

    spec: Spec
    chunks: list[Shard]
    is_tokens: bool


def read_index(file: StoredFile) -> LitdataIndex:
    """Return what an index says.

    Raises:
        FormatError: It is damaged, or of chunks that are not read: encrypted, or compressed otherwise than as a whole.
    """
    try:
        content = json.loads(file.read_all(_MAX_BYTES))
        config = content["config"]
        _check_readable(file, config)
        formats = [str(name) for name in config["data_format"]]
        paths = list(_paths(json.loads(config["data_spec"])[1], "")) if config["data_spec"] else [VALUE]
        if not len(paths) == len(formats) == len({*paths}):
            raise ValueError(f"{len(formats)} formats for the leaves {paths}"[:200])
        spec = Spec({path: _type_of(name) for path, name in zip(paths, formats, strict=True)})
        columns = Columns(tuple(paths), tuple(formats), (None,) * len(paths))
        compression = config["compression"] and str(config["compression"])
        chunks = [_chunk(entry, columns, compression) for entry in content["chunks"]]
    except FormatError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        found = f"{type(error).__name__}: {error}"[:200]
        raise FormatError("the index of a litdata dataset is damaged", path=file.name, found=found) from error
    # Before August 2024, the index had no loader, and counted the elements of items that are one flat tensor.
    counted = any(entry.get("dim") is not None for entry in content["chunks"])
    is_tokens = config.get("item_loader", "TokensLoader" if counted else None) == "TokensLoader"
    return LitdataIndex(spec, chunks, is_tokens and len(paths) == 1)


def _check_readable(file: StoredFile, config: Mapping[str, Any]) -> None:
    if config.get("encryption"):
        raise FormatError("encrypted chunks are not read", path=file.name, remedy="Write them without encryption")
    if config["compression"] and config.get("compression_level") not in (None, "chunk"):
        what, found = "the compression is not read", f"compression_level={config['compression_level']!r}"
        remedy = "Write with compression_level='chunk', or without compression"
        raise FormatError(what, path=file.name, expected="whole chunks", found=found, remedy=remedy)


def _paths(tree: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Yield the path of each leaf of a tree in the JSON of torch's `pytree`."""
    children = tree["children_spec"]
    if tree["type"] is None:
        yield prefix or VALUE
        return
    context = json.loads(tree["context"]) if "dict" in tree["type"].lower() else None
    for at, child in enumerate(children):
        name = str(at) if context is None else str(context[at])
        yield from _paths(child, f"{prefix}.{name}" if prefix else name)


def _type_of(name: str) -> Type:
    kind, _, rest = name.partition(":")
    if kind == "image":
        return Type(_IMAGES.get(rest, "bytes"))
    if kind in ("no_header_numpy", "no_header_tensor"):
        dtype = (_NUMPY if kind == "no_header_numpy" else _TORCH).get(int(rest))
        return Type(dtype, dims=(None,)) if dtype else Type("bytes")
    return Type.parse(_TYPES.get(kind, "bytes"))


def _chunk(entry: Any, columns: Columns, compression: str | None) -> Shard:
    name, n_bytes, count = path_below(entry["filename"]), entry["chunk_bytes"], entry["chunk_size"]
    if type(n_bytes) is not int or type(count) is not int or not (0 <= n_bytes < 2**40 and 0 <= count < 2**32):
        raise ValueError(f"a chunk of {count!r} items in {n_bytes!r} bytes")
    if not compression:
        return Shard(columns, count, name, n_bytes, {}, None, n_bytes, {}, None)
    plain = name.replace(f".{compression}", "")  # litdata's readers decompress a local chunk in place
    return Shard(columns, count, plain, n_bytes, {}, name, n_bytes, {}, compression)
