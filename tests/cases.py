"""The cases of the conformance suites: one row per format and way of writing it, and one per codec."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from itertools import accumulate
from pathlib import Path

import numpy as np

from dataformats.kernels import masked_crc32c
from dataformats.spec import NUMBER_TYPES
from dataformats.testing import CodecCase, FormatCase
from dataformats.testing.records import KINDS

GOLDEN = Path(__file__).parent / "golden"


def frames(*blobs: bytes) -> bytes:
    """A TFRecord, by the format's text alone."""
    return b"".join(_framed(struct.pack("<Q", len(blob))) + _framed(blob) for blob in blobs)


def _framed(data: bytes) -> bytes:
    return data + masked_crc32c(data).to_bytes(4, "little")


def tfrecord_ends(lengths: Sequence[int]) -> list[int]:
    return list(accumulate(12 + length + 4 for length in lengths))


def ffrecord_ends(lengths: Sequence[int]) -> list[int]:
    return list(accumulate(lengths, initial=12 + 12 * len(lengths)))[1:]


def ofrecord_ends(lengths: Sequence[int]) -> list[int]:
    return list(accumulate(8 + length for length in lengths))


def line_ends(lengths: Sequence[int]) -> list[int]:
    return [end - 1 for end in accumulate(length + 1 for length in lengths)]


BLOBS = frozenset(kind for kind in KINDS if kind.startswith(("bytes", "msgpack", "png", "jpg")))
OPTIONAL = frozenset(kind for kind in KINDS if kind.endswith("?"))
SEQUENCES = frozenset(kind for kind in KINDS if "[" in kind and kind.partition("[")[0] not in NUMBER_TYPES)
FOLDERS = ("000000", "000001", "000002")
TRAIN = tuple(f"train-{number:05d}-of-00003.tfrecord" for number in range(3))

FORMATS = [
    FormatCase(
        "tfrecord",
        "tfrecord",
        ".tfrecord",
        saves_behind_damage=True,
        indexed=True,
        shard_names=TRAIN,
        ends=tfrecord_ends,
        flip_every=3,
    ),
    FormatCase(
        "tfrecord-gzip",
        "tfrecord",
        ".tfrecord.gz",
        create_options={"compression": "gzip"},
        indexed=True,
        shard_names=tuple(f"{name}.gz" for name in TRAIN),
        flip_every=3,
    ),
    FormatCase(
        "tfrecord-zlib",
        "tfrecord",
        ".tfrecord",
        create_options={"compression": "zlib"},
        indexed=True,
        shard_names=tuple(f"{name}.zlib" for name in TRAIN),
        flip_every=3,
    ),
    FormatCase(
        "ffrecord",
        "ffrecord",
        ".ffr",
        shard_names=("PART_00000.ffr", "PART_00001.ffr", "PART_00002.ffr"),
        ends=ffrecord_ends,
        saves_behind_damage=True,
    ),
    FormatCase(
        "ofrecord",
        "ofrecord",
        ".ofrecord",
        payload="ofrecord",
        empty_records=False,
        verifies_records=False,
        fingerprints_records=False,
        indexed=True,
        shard_names=("part-00000", "part-00001", "part-00002"),
        ends=ofrecord_ends,
        flip_every=3,
    ),
    *(
        FormatCase(
            f"jsonl{ending}",
            "jsonl",
            f".jsonl{ending}",
            create_options={"compression": compression} if ending else {},
            payload="json_object",
            empty_records=False,
            refuses=BLOBS,
            verifies_records=False,
            fingerprints_records=False,
            indexed=True,
            shard_names=tuple(f"train-{number:05d}-of-00003.jsonl{ending}" for number in range(3)),
            ends=None if ending else line_ends,
            separator=0 if ending else 1,
            cut_refused=(".zst",),  # without a whole frame
            flip_every=3,
            saves_behind_damage=not ending,
        )
        for ending, compression in (("", None), (".gz", "gzip"), (".zst", "zstd"))
    ),
    FormatCase(
        "text",
        "text",
        ".txt",
        payload="json",
        records="documents",
        verifies_records=False,
        fingerprints_records=False,
        indexed=True,
        shard_names=tuple(f"train-{number:05d}-of-00003.txt" for number in range(3)),
        ends=line_ends,
        separator=1,
        flip_every=3,
        saves_behind_damage=True,
    ),
    FormatCase(
        "syrah",
        "syrah",
        ".syr",
        payload=None,
        refuses=OPTIONAL | SEQUENCES,
        verifies_records=False,
        fingerprints_records=False,
        shard_names=tuple(f"train-{number:05d}-of-00003.syr" for number in range(3)),
        cut_refused=(".syr",),  # header and metadata are the file's two ends
        flip_every=5,
        saves_behind_damage=True,
    ),
    FormatCase(
        "granular-3",
        "granular",
        "",
        create_options={"generation": 3},
        payload=None,
        folder=True,
        refuses=OPTIONAL | SEQUENCES,
        grows=True,
        verifies_records=False,
        fingerprints_records=False,
        shard_names=FOLDERS,
        cut_refused=("spec.json",),
        read_once=(".idx",),
        flip_every=5,
        cut_every=3,
    ),
    FormatCase(
        "granular-2",
        "granular",
        "",
        create_options={"generation": 2},
        payload=None,
        folder=True,
        empty_values=False,  # a bag that begins with one reads as generation 1
        refuses=OPTIONAL,
        verifies_records=False,
        fingerprints_records=False,
        shard_names=FOLDERS,
        cut_refused=("spec.json", "refs.bag"),
        read_once=("refs.bag",),
        flip_every=7,
        cut_every=3,
    ),
    FormatCase(
        "megatron",
        "megatron",
        ".bin",
        payload=None,
        spec={"tokens": "int32[]"},
        beside=(".idx",),
        refuses=frozenset(KINDS),
        verifies_records=False,
        fingerprints_records=False,
        cut_refused=(".idx",),
        read_once=(".idx",),
        flip_every=3,
        saves_behind_damage=True,
    ),
    FormatCase(
        "webdataset",
        "webdataset",
        ".tar",
        payload=None,
        refuses=SEQUENCES,
        verifies_records=False,
        fingerprints_records=False,
        indexed=True,
        shard_names=tuple(f"train-{number:06d}.tar" for number in range(3)),
        flip_every=97,
        cut_every=41,
        saves_behind_damage=True,
    ),
    FormatCase(
        "array_record",
        "array_record",
        ".array_record",
        survives_kill=False,
        survives_fork=False,
        pending_may_be_lost=True,
        fingerprints_records=False,
        shard_names=tuple(f"train-{number:05d}-of-00003.array_record" for number in range(3)),
        cut_refused=(".array_record",),
        flip_every=4999,
        cut_every=997,
        saves_behind_damage=True,
    ),
    *(
        FormatCase(
            name,
            "mds",
            "",
            create_options=options,
            payload=None,
            folder=True,
            refuses=OPTIONAL | SEQUENCES,
            verifies_records=False,
            fingerprints_records=False,
            shard_names=FOLDERS,
            cut_refused=("index.json",),
            read_once=endings,
            flip_every=11,
            cut_every=3,
            saves_behind_damage=not options,
        )
        for name, options, endings in (("mds", {}, ()), ("mds-zstd", {"compression": "zstd"}, (".zstd",)))
    ),
]

TABLES = [
    FormatCase(
        format,
        format,
        f".{format}",
        payload=None,
        refuses=BLOBS | {"json[]"} if format == "csv" else frozenset(),
        survives_kill=False,
        pending_may_be_lost=True,
        traces_memory=False,
        verifies_records=False,
        fingerprints_records=False,
        shard_names=tuple(f"train-{number:05d}-of-00003.{format}" for number in range(3)),
        cut_refused=(f".{format}",),
        needs_sidecar=format == "csv",
        read_once=(f".{format}",),  # a decoded block is kept
        flip_every=31,
    )
    for format in ("arrow", "csv", "parquet")
]
"""Formats that a library decodes."""


# ---- codecs


def webp(chunk_name: bytes, data: bytes) -> bytes:
    body = b"WEBP" + chunk_name + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


GRAY = np.full((8, 8), 96, np.uint8)
COLORS = (np.arange(5 * 7 * 3) * 11 % 256).astype(np.uint8).reshape(5, 7, 3)
GRID = np.arange(6, dtype="<i2").reshape(2, 3)
DOCUMENTS = [{"b": [1, None, "é"], "a": 0.5}, [], "text", -7, True, None, {"inner": {"x": [1.5, [2]]}}]
NOT_NUMBERS = (True, np.bool_(True), 1.0, np.float64(1), "1", b"1", None, [1], np.array([1]))
NOT_ARRAYS = (
    *([1, 2], 1.5, None, "text", b"bytes", np.array([None]), np.array(["text"]), np.array([b"bytes"])),
    *(np.array(["2020-01-01"], "M8[D]"), np.zeros(2, [("a", "i4")]), np.ma.masked_array([1, 2], [True, False])),
)
NOT_IMAGES = (
    *(np.zeros((3, 3)), np.zeros((3, 3), bool), np.zeros((0, 3), np.uint8), np.zeros(3, np.uint8)),
    *(np.zeros((3, 3, 1), np.uint8), np.zeros((3, 3, 5), np.uint8), b"RIFF", "text", None),
)

FRAMES = np.broadcast_to(np.linspace(20, 160, 8, dtype=np.uint8)[None, None, :, None], (2, 8, 8, 3)).copy()
SAMPLES = np.linspace(-1, 0.9, 60, dtype=np.float32).reshape(30, 2)
BAD_RATES = ("0", "0/5", "30/0", "x", "-1", "1e9", "1001", "30,30", "", "0.0")

FEATURES = {"i": "int64[]", "f": "float32?", "t": "utf8[]"}
FEATURE_RECORDS = [
    {"i": np.array([1, -1, 300]), "f": 0.5, "t": ["ab", ""]},
    {"i": np.array([2**62]), "t": ["é"]},
]

CODECS = [
    CodecCase("bytes", [b"", b"some bytes"], frozen=[(b"ab", "6162")], refuses=["text", 5, [1], None]),
    CodecCase("utf8", ["", "añ€😀"], frozen=[("é", "c3a9")], refuses=[b"a", "\ud800"], damaged=[b"\xff", b"\xc3"]),
    CodecCase(
        "json",
        DOCUMENTS,
        frozen=[({"b": [1, None, "é"], "a": 0.5}, '{"b":[1,null,"é"],"a":0.5}'.encode().hex())],
        refuses=[{1: 2}, [{"a": {None: 1}}], object(), {1, 2}],
        damaged=[b"NaN", b"-Infinity", b"[1", b"{}{}", b"\xff", b"", b"9" * 5000, b"[" * 100_000, b'{"a":' * 5000],
    ),
    CodecCase(
        "json_object",
        [
            {"n": np.array([1, -2]), "x": 0.5, "t": "é", "any": {"a": [None]}},
            {"n": np.zeros(0, int), "t": "", "any": None},
        ],
        spec={"n": "int64[]", "x": "float64?", "t": "utf8", "any": "json"},
        frozen=[
            ({"n": np.array([1]), "x": 1.0, "t": "é", "any": 2}, '{"n":[1],"x":1.0,"t":"é","any":2}'.encode().hex())
        ],
        refuses=[{"n": [1.5], "t": "", "any": 1}, {"n": [2**63], "t": "", "any": 1}, {"n": [], "t": b"", "any": 1}],
        damaged=[b"", b"[1]", b"{", b'{"a":1}{}', b"\xff", b"{" * 5000, b'{"a":' + b"9" * 5000 + b"}"],
    ),
    CodecCase(
        "msgpack",
        [*DOCUMENTS, {"bytes": b"x"}],
        frozen=[({"a": b"x", "b": [1, -1]}, "82a161c40178a1629201ff")],
        refuses=[{1: 2}, [{"a": {None: 1}}], object(), {1, 2}],
        damaged=[
            *(b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xffx", b"\xdb\x7f\xff\xff\xffx"),
            *(b"\x91" * 100_000, (b"\xdd" + (90_000).to_bytes(4, "big")) * 1000 + b"\x01" * 90_000),
            *(b"\x81\x01\x02", b"\x01\x02", b"\xc1", b"\xa1\xff", b""),
        ],
        cuts=True,
    ),
    CodecCase("pickle", [*DOCUMENTS, {1: (2, 3)}]),
    CodecCase(
        "tree",
        [{"x": GRID, "n": [1, None, ["a", b"b"]]}, [np.array(1.5)], "text", ["_", 1]],
        frozen=[({"x": np.array([1, 2], "<i2")}, "81a17894a15fa33c69329102c40401000200")],
        refuses=[["_", 1, 2, 3], object(), {1: 2}, np.array([None])],
        damaged=[b"", b"\xc1", b"\x91" * 10_000, b"\x94\xa1_\xa3<i2\x91\x02\xc4\x03\x01\0\x02"],
        cuts=True,
    ),
    CodecCase(
        "array",
        [GRID, np.array(3, "u1"), np.zeros((0, 4)), np.array([1.0], ">f4"), np.array([[True, False]])],
        frozen=[
            (np.array([1, -2], "<i2"), "93a33c69329102c4040100feff"),
            (np.array(3, "u1"), "93a37c753190c40103"),
            (np.array([[True, False]]), "93a37c6231920102c4020100"),
            (np.array([1.0], ">f4"), "93a33e66349101c4043f800000"),
            (np.zeros((0, 4)), "93a33c6638920004c400"),
            (np.array([1j], "c8"), "93a33c63389101c408000000000000803f"),
        ],
        refuses=NOT_ARRAYS,
        damaged=[b"", b"\x05", b"\xdd\xff\xff\xff\xff", b"\x91" * 10_000],
        bad_args=[
            "object,2",
            "O",
            "V10",
            "S4",
            "M8[s]",
            "float32,-1",
            "float32,x:y",
            "object,x",
            "float32,99999999999",
            "2",
            "nothing",
        ],
        cuts=True,
    ),
    CodecCase("array(int16,2)", [np.array([1, 2], "i2"), np.zeros(2, "i2")], damaged=[bytes(3), bytes(5)], cuts=True),
    CodecCase("array(int16)", [1, -2], damaged=[b""], cuts=True),
    CodecCase("array(bool,2)", [np.array([True, False]), np.zeros(2, bool)], damaged=[b"\0\2"], cuts=True),
    CodecCase(
        "npy",
        [GRID, np.array(2.5), np.zeros((0, 4), "u1")],
        refuses=NOT_ARRAYS,
        damaged=[b"", b"\x93NUMPY"],
        cuts=True,
        flip_every=3,
    ),
    CodecCase(
        "tensor",
        [
            GRID,
            np.array(2.5),
            np.zeros((0, 4), "u1"),
            np.array([True, False]),
            np.array([1 + 2j]),
            [[b"a", b""]],
            b"text",
        ],
        frozen=[
            (np.array([[1, 2]], "<f4"), "0801120812020801120208022208" + "0000803f00000040"),
            (np.array(7, "<i8"), "08091200" + "22080700000000000000"),
            ([b"ab", b""], "08071204120208024202616242" + "00"),
        ],
        refuses=["text", [1, 2], None, np.array(["a"])],
        damaged=[b"", b"\x08", b"\x08\x63\x12\x00", b"\x08\x01\x12\x00\x22\x01a", b"\x08\x0a\x12\x00\x22\x01\x02"],
        flip_every=3,
    ),
    *(
        CodecCase(f"mds({encoding})", held, damaged=damaged, refuses=refused)
        for encoding, held, damaged, refused in (
            (
                "ndarray",
                [GRID, np.zeros((0, 4), "u1")],
                [b"", b"\x10\x04", b"\x10\xff", b"\x63\x04\x01"],
                [np.array(1), "x"],
            ),
            (
                "ndarray:int16",
                [GRID, np.zeros(3, "i2")],
                [b"", b"\x05\xff\xff", b"\x04\x02\0"],
                [np.zeros(2), np.array(1, "i2")],
            ),
            ("str_int", [10**30, -1], [b"", b"x", b"\xff"], [True, 1.5, "1"]),
            ("str_float", [0.5, -1e300], [b"", b"x", b"\xff"], [1, "1"]),
            ("str_decimal", [Decimal("0.125"), Decimal(10) ** 40], [b"", b"x"], [1, 0.5]),
            (
                "pil",
                [COLORS, GRAY],
                [b"", bytes(12), b"\xff" * 12 + b"L"],
                [np.zeros(3), "x", np.zeros((2, 2, 5), "u1")],
            ),
            ("list[png]", [[COLORS, GRAY], []], [b"", bytes(7), bytes(4) + b"\xff" * 4, bytes(9)], [5]),
            ("list[pil]", [[COLORS], [GRAY, GRAY]], [b"", bytes(4) + b"\xff" * 4], [5]),
        )
    ),
    *(
        CodecCase(f"litdata({layout})", [GRID, np.array(3, "u1")], damaged=[b"", bytes(7), b"\xff" * 8], refuses=["x"])
        for layout in ("numpy", "tensor")
    ),
    CodecCase(
        "int",
        [0, -1, 127, 128, -129, 2**127 - 1],
        frozen=[
            *((0, "00"), (127, "7f"), (128, "8000"), (255, "ff00"), (256, "0001"), (32767, "ff7f"), (32768, "008000")),
            *((-1, "ff"), (-128, "80"), (-129, "7fff"), (2**127 - 1, "ff" * 15 + "7f"), (-(2**127), "00" * 15 + "80")),
        ],
        refuses=[*NOT_NUMBERS, 2**127, -(2**127) - 1],
        damaged=[bytes(1025)],
        bad_args=["0", "-1", "x", "1025", "9999", "8,middle", "8,big,1", "signed", "unsigned,8", "٣"],
    ),
    CodecCase(
        "int(unsigned)",
        [0, 200, 65536],
        frozen=[(0, ""), (200, "c8"), (65536, "000001")],
        refuses=[*NOT_NUMBERS, -1, 2**128],
        damaged=[bytes(1025)],
    ),
    CodecCase("int(2)", [0, 258], frozen=[(258, "0201")], refuses=NOT_NUMBERS, damaged=[bytes(1), bytes(3)], cuts=True),
    CodecCase("int(2,little)", [0, 258], frozen=[(258, "0201")], cuts=True),
    CodecCase("int(3,big)", [0, 258], frozen=[(258, "000102")], refuses=[-1], damaged=[b""], cuts=True),
    CodecCase("int(8)", [0, 2**64 - 1], frozen=[(2**64 - 1, "ff" * 8)], cuts=True),
    CodecCase(
        "i64",
        [0, -2],
        frozen=[(-2, "fe" + "ff" * 7)],
        refuses=NOT_NUMBERS,
        damaged=[bytes(7)],
        bad_args=["8"],
        cuts=True,
    ),
    CodecCase("u64", [0, 2**63], frozen=[(2**63, "00" * 7 + "80")], refuses=NOT_NUMBERS, damaged=[bytes(9)], cuts=True),
    CodecCase(
        "decimal",
        [0, -1, 2**63 - 1, -(2**63)],
        frozen=[(7, b"7".hex()), (-12, b"-12".hex())],
        refuses=[*NOT_NUMBERS, 2**63],
        damaged=[b"", b"1.5", b"x", b"9" * 30, b"1\0", b"9" * 5000, b"\xff"],
        bad_args=["float128", "utf8", "int64,1", "99"],
    ),
    CodecCase(
        "decimal(float32)",
        [0.5, -2.5, math.inf],
        frozen=[(0.5, b"0.5".hex()), (-math.inf, b"-Infinity".hex()), (math.nan, b"NaN".hex())],
        refuses=["1", None, [1.0], True, 1e39],
        damaged=[b"", b"x", b"1\0"],
    ),
    CodecCase("decimal(bool)", [True, False], frozen=[(True, b"1".hex())], refuses=[1, None], damaged=[b"2", b""]),
    CodecCase("decimal(uint64)", [0, 2**64 - 1], refuses=[-1, 2**64], damaged=[b"-1", b"18446744073709551616"]),
    CodecCase("float32[2]", [np.array([1, 0.5], "f4"), np.zeros(2, "f4")], damaged=[bytes(7), bytes(9)], cuts=True),
    CodecCase("bool", [True, False], frozen=[(True, "01")], damaged=[b"\2", b""], cuts=True),
    CodecCase(
        "png", [COLORS, GRAY], refuses=NOT_IMAGES, damaged=[b"", b"\x89PNG"], cuts=True, flips=True, flip_every=7
    ),
    CodecCase(
        "jpg",
        [GRAY, COLORS],
        refuses=NOT_IMAGES,
        bad_args=["0", "x"],
        damaged=[b""],
        lossless=False,
        cuts=True,
        flip_every=29,
    ),
    CodecCase(
        "jpeg",
        [GRAY, COLORS],
        refuses=NOT_IMAGES,
        bad_args=["0"],
        damaged=[b""],
        lossless=False,
        cuts=True,
        flip_every=97,
    ),
    CodecCase(
        "webp(lossless)",
        [COLORS, COLORS[:, ::-1]],
        refuses=[*NOT_IMAGES, GRAY, np.zeros((3, 3, 2), np.uint8)],
        damaged=[
            *(b"", b"RIFF", webp(b"VP8L", b"\x2f\xff\xff\xff\x0f" + bytes(20)), webp(b"VP8 ", bytes(20))),
            *(webp(b"ICCP", bytes(20)), webp(b"VP8X", bytes(10))),
        ],
        bad_args=["0", "x", "90,lossless"],
        cuts=True,
        flip_every=7,
    ),
    CodecCase("webp", [COLORS, COLORS[:, ::-1]], damaged=[b""], lossless=False, cuts=True, flip_every=31),
    CodecCase("mp4", [FRAMES, FRAMES[:, ::-1]], bad_args=BAD_RATES, lossless=False, cuts=True, flip_every=211),
    CodecCase("webm", [FRAMES, FRAMES[:, ::-1]], bad_args=BAD_RATES, lossless=False, cuts=True, flip_every=211),
    CodecCase(
        "audio(16000)",
        [SAMPLES, SAMPLES[::-1, :1]],
        refuses=[SAMPLES.astype(np.float64), SAMPLES[:0], SAMPLES[None], "text", b"text"],
        bad_args=["0", "x", "-1", "16000,2", "1e4", ""],
        damaged=[b"", b"RIFF"],
        flip_every=31,
    ),
    CodecCase(
        "feature",
        [np.array([1, 300]), [b"text", b""], np.array([0.5], "f4"), None],
        refuses=[object(), "text"],
        damaged=[b"\x0a\xff"],
    ),
    CodecCase(
        "example",
        FEATURE_RECORDS,
        spec=FEATURES,
        refuses=[{"f": 1e39}, {"i": [2**63]}, {"t": [b"x"]}, {"more": 1}],
        damaged=[b"\x0a"],
    ),
    CodecCase(
        "ofrecord",
        [{"i": np.array([1, -1, 300], "i4"), "d": 0.5, "t": ["ab", ""]}, {"i": np.array([7], "i4"), "t": ["é"]}],
        spec={"i": "int32[]", "d": "float64?", "t": "utf8[]"},
        refuses=[{"i": [2**31]}, {"t": [b"x"]}, {"more": 1}],
        damaged=[b"\x0a"],
    ),
    CodecCase(
        "sequence_example",
        [{"id": 1, "n": np.array([1, 300]), "t": [["ab"], ["", "é"]]}, {"id": -2, "n": np.array([5]), "t": []}],
        spec={"id": "int64", "n": "int64[]", "t": "utf8[][]"},
        refuses=[{"id": None}, {"id": 1, "n": 5}, {"id": 1, "t": "text"}],
        damaged=[b"\x0a"],
    ),
]
