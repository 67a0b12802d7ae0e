"""Parsers of one document: BSON, MessagePack, arrays, folder structures, types and specs."""

from __future__ import annotations

import json
import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgpack
import numpy as np

from dataformats import spec as spec_module
from dataformats.backends.ffrecord import packed_tree
from dataformats.backends.syrah import document, layout, metadata
from dataformats.batch import Blobs
from dataformats.codecs import arrays, documents, granular_integers, trees
from dataformats.columns import codec_resolver, field_decoder
from dataformats.errors import CodecError
from dataformats.spec import Spec, Type
from tests.cases import GOLDEN
from tests.fuzz.parsers.engine import Files, Target
from tests.fuzz.parsers.mutation import change_bytes, change_json, change_msgpack


def _bson(files: Files) -> None:
    data = files["metadata"]
    if len(data) < 5:
        return  # the header says so before anything is parsed
    for table in metadata.parse_metadata(data, "held", 22).values():
        metadata.find_unsound(table, 1000)


def _bson_seeds() -> list[Files]:
    found: list[Files] = []
    for path in sorted((GOLDEN / "syrah").rglob("*.syr")):
        data = path.read_bytes()
        if len(data) > layout.HEADER.size:
            begin = int.from_bytes(data[6:14], "little", signed=True)
            found += [{"metadata": data[begin:]}] if 0 < begin < len(data) and len(data) - begin < 8192 else []
    return found


def _decoder(*names: str) -> Callable[[Files], None]:
    """Return a function that decodes blobs by each codec, as for a field of that type."""
    resolver = codec_resolver.CodecResolver(None, trusted=False)
    kinds = [Type.parse(name) for name in names]
    decoders = [(kind, field_decoder.FieldDecoder(resolver, kind, kind, "x")) for kind in kinds]

    def decode(files: Files) -> None:
        errors = []
        for kind, decoder in decoders:
            blobs = [files["blob"], files["other"]]
            try:
                decoder.decode(Blobs.join(blobs), np.array([1, 1]) if kind.dims else None)
            except CodecError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    return decode


_TREES: Sequence[Any] = (
    {"pose": ["_", "<f4", [2, 2], bytes(16)], "names": ["a", None, True], "n": {"x": -1, "y": 2.5, "z": b"raw"}},
    [["_", "|u1", [3], b"abc"], ["_", ">i8", [], bytes(8)], ["_", "<c16", [1], bytes(16)]],
    {"deep": [[[[[{"a": [1, 2**63, -(2**63)]}]]]]]},
    7,
    "text",
)


def _pairs(blobs: Sequence[bytes]) -> list[Files]:
    return [{"blob": blob, "other": blobs[at - 1]} for at, blob in enumerate(blobs)]


def _tree_seeds() -> list[Files]:
    return _pairs([msgpack.packb(tree) or b"" for tree in _TREES])


def _json_seeds() -> list[Files]:
    values: Sequence[Any] = ({"a": [1, None, "é", {"b": 2.5e300}]}, [[]], "text", 7, {"x": -1, "y": {"z": [True] * 9}})
    return _pairs([json.dumps(value).encode() for value in values])


_ARRAYS = (np.arange(6, dtype="<f4").reshape(2, 3), np.zeros((0, 3), ">i8"), np.array(True), np.ones(3, "<c8"))


def _array_seeds() -> list[Files]:
    return _pairs([arrays.ARRAY.encode(array) for array in _ARRAYS])


def _npy_seeds() -> list[Files]:
    fortran = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    return _pairs([arrays.NPY.encode(array) for array in (*_ARRAYS, fortran)])


def _integer_seeds() -> list[Files]:
    return _pairs([b"", b"\0", b"\xff\x7f", bytes(8), b"\xff" * 16])


def _packed(files: Files) -> None:
    packed_tree.parse_structure(files["record"], 9, path="held", offset_bytes=100)


def _packed_seeds() -> list[Files]:
    tree: Any = OrderedDict(a=0, b=OrderedDict(c=1, d=OrderedDict(), e=2), f=3)
    records = [packed_tree.MAGIC + pickle.dumps(tree, protocol) for protocol in (2, 3, 4, 5)]
    for path in sorted((GOLDEN / "ffrecord").rglob("packed*.ffr")):
        data = path.read_bytes()
        at = data.find(packed_tree.MAGIC)
        records += [data[at:]] if at >= 0 else []
    return [{"record": record} for record in records]


def _types(files: Files) -> None:
    text = files["type"].decode("utf-8", "surrogateescape")
    kind = Type.named(text)
    assert Type.named(str(kind)) == kind
    resolver = codec_resolver.CodecResolver(None, trusted=False)
    resolver.opaque({"x": kind})
    field_decoder.FieldDecoder(resolver, Type.parse(text), kind, "x")


def _type_seeds() -> list[Files]:
    texts = ("int64", "float32[28,28]", "jpg[]?", "float32[][64]?", "jpeg(90)", "array(float32,64,128)", "int(3,big)")
    return [{"type": text.encode()} for text in (*texts, "utf8[][2]", "int(unsigned)", "float128", "pickle", "feature")]


def _specs(files: Files) -> None:
    try:
        types = json.loads(files["spec.json"])
    except (ValueError, RecursionError):
        return
    if isinstance(types, Mapping):
        spec = Spec(types)
        assert Spec(spec.to_json()) == spec


def _spec_seeds() -> list[Files]:
    specs = ({"image": "uint8[8,8]", "label": "int64"}, {"a": "utf8[]?", "b": "jpeg(90)", "c": "array(int8,3)"})
    return [{"spec.json": json.dumps(spec).encode()} for spec in specs]


TARGETS: Sequence[Target] = (
    Target("bson", _bson, _bson_seeds, (document, metadata)),
    Target(
        "tree",
        _decoder("tree", "msgpack", "tree[]"),
        _tree_seeds,
        (trees,),
        {"": (change_msgpack, change_msgpack, change_bytes)},
    ),
    Target("json", _decoder("json"), _json_seeds, (documents,), {"": (change_json, change_bytes)}),
    Target(
        "array",
        _decoder("array", "array[]", "array(float32,2)"),
        _array_seeds,
        (arrays,),
        {"": (change_msgpack, change_bytes)},
    ),
    Target("npy", _decoder("npy"), _npy_seeds, (arrays,)),
    Target(
        "integer", _decoder("int", "i64", "u64", "int(unsigned)", "int(3,big)"), _integer_seeds, (granular_integers,)
    ),
    Target("packed", _packed, _packed_seeds, (packed_tree,)),
    Target("type", _types, _type_seeds, (spec_module,)),
    Target("spec", _specs, _spec_seeds, (spec_module,), {".json": (change_json, change_bytes)}),
)
