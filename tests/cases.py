"""The cases of the conformance suites: one row a format and way of writing it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from dataformats.kernels import masked_crc32c
from dataformats.spec import NUMBER_TYPES
from dataformats.testing import FormatCase
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


OPTIONAL = frozenset(kind for kind in KINDS if kind.endswith("?"))
SEQUENCES = frozenset(kind for kind in KINDS if "[" in kind and kind.partition("[")[0] not in NUMBER_TYPES)
FOLDERS = ("000000", "000001", "000002")
TRAIN = tuple(f"train-{number:05d}-of-00003.tfrecord" for number in range(3))

FORMATS = [
    FormatCase("tfrecord", "tfrecord", ".tfrecord", indexed=True, shard_names=TRAIN, ends=tfrecord_ends),
    FormatCase(
        "tfrecord-gzip",
        "tfrecord",
        ".tfrecord.gz",
        create_options={"compression": "gzip"},
        indexed=True,
        shard_names=TRAIN,
        flip_every=3,
    ),
    FormatCase(
        "tfrecord-zlib",
        "tfrecord",
        ".tfrecord",
        create_options={"compression": "zlib"},
        indexed=True,
        shard_names=TRAIN,
        flip_every=3,
    ),
    FormatCase(
        "ffrecord",
        "ffrecord",
        ".ffr",
        shard_names=("PART_00000.ffr", "PART_00001.ffr", "PART_00002.ffr"),
        ends=ffrecord_ends,
    ),
    FormatCase(
        "ofrecord",
        "ofrecord",
        ".ofrecord",
        payload="ofrecord",
        empty_records=False,
        checksums=False,
        indexed=True,
        shard_names=("part-00000", "part-00001", "part-00002"),
        ends=ofrecord_ends,
        flip_every=3,
    ),
    FormatCase(
        "syrah",
        "syrah",
        ".syr",
        payload=None,
        refuses=OPTIONAL | SEQUENCES,
        checksums=False,
        shard_names=tuple(f"train-{number:05d}-of-00003.syr" for number in range(3)),
        cut_refused=(".syr",),  # header and metadata are the file's two ends
        flip_every=5,
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
        checksums=False,
        shard_names=FOLDERS,
        cut_unnoticed=(".idx",),  # what an interrupted writer leaves looks the same
        cut_refused=("spec.json",),
        read_once=(".idx",),
        flip_every=3,
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
        checksums=False,
        shard_names=FOLDERS,
        cut_refused=("spec.json", "refs.bag"),
        read_once=("refs.bag",),
        flip_every=5,
    ),
]
