"""Examples of many small features, and of lists: numbers, short strings, tokens, lists of floats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from dataformats.batch import Nullable, Ragged
from dataformats.codecs.features.protobuf_messages import EXAMPLE_MESSAGE
from tests.benchmarks.frames import TFRECORD_HEAD, TFRECORD_TAIL, Frames
from tests.benchmarks.harness import Case, Data, Side, Target, Work, peer
from tests.benchmarks.ours import in_order, write

BATCH = 256
ROW = 2048
VOCABULARY = 50_000
SHUFFLE_BUFFER = 10_000
PACKING_BINS = 64

TFDATA, LOADER = "tf.data + parse_example", "dataformats, Loader"
FLOATS = {f"float_{i:02}": "float32" for i in range(13)}
INTEGERS = {f"category_{i:02}": "int64" for i in range(27)}
STRINGS = {f"category_{i:02}": "bytes" for i in range(26)}
LACKING = 0.1  # the part of the records that lack an optional field


@dataclass(frozen=True)
class Content:
    """The content of the records.

    Attributes:
        name: Name of the case and the file.
        what: Description in the table.
        spec: The spec of `create`.
        full: Number of records.
    """

    name: str
    what: str
    spec: dict[str, str]
    full: int

    def records(self, n: int) -> Iterator[dict[str, Any]]:
        """Yield n records, the same ones every time."""
        rng = np.random.default_rng(n)
        for _ in range(n):
            yield {
                name: value_of(rng, i, kind.removesuffix("?"))
                for i, (name, kind) in enumerate(self.spec.items())
                if not kind.endswith("?") or rng.random() >= LACKING
            }


def value_of(rng: np.random.Generator, field: int, kind: str) -> Any:
    """Return a value: numbers of all sizes, strings of 8 letters, lists of 64 to 1,024 numbers."""
    if kind == "int64":
        return int(rng.integers(10 ** (1 + field % 7)))
    if kind == "bytes":
        return rng.bytes(4).hex().encode()
    if kind == "int64[]":
        return rng.integers(VOCABULARY, size=rng.integers(64, 1025))
    if kind == "bytes[]":
        return [rng.bytes(4).hex().encode() for _ in range(rng.integers(33))]
    return rng.random(None if kind == "float32" else rng.integers(64, 1025), np.float32)


NUMBERS = Content("numbers", "13 floats, 27 integers", FLOATS | INTEGERS, 40_000)
WORDS = Content("strings", "13 floats, 26 strings, label", FLOATS | STRINGS | {"label": "int64"}, 40_000)
TOKENS = Content("tokens", "64 to 1,024 tokens", {"tokens": "int64[]"}, 20_000)
CURVES = Content("floats", "64 to 1,024 floats", {"curve": "float32[]"}, 20_000)
TAGS = Content("lists-of-strings", "0 to 32 strings, label", {"tags": "bytes[]", "label": "int64"}, 40_000)
OPTIONAL = Content(
    "optional",
    "13 floats, 27 integers, each in 9 of 10 records",
    {name: f"{kind}?" for name, kind in (FLOATS | INTEGERS).items()},
    40_000,
)


def made(data: Data, content: Content) -> tuple[Path, int]:
    """Return a TFRecord of this content, and how many records it has."""
    n = data.count(content.full, least=2 * BATCH)
    name = f"parsing-{content.name}-{n}.tfrecord"
    return data.made(name, lambda path: write(path, content.records(n), "tfrecord", spec=content.spec)), n


# ---- batches in order


def ours(path: Path, n: int) -> Side:
    """Ranges of records."""
    source = dataformats.open(path)
    steps = in_order(n, BATCH)
    return Side(lambda: (source.read(indices).columns for indices in steps), plain_columns)


def our_loader(path: Path) -> Side:
    """The loader with its defaults; its threads begin and end with the epoch."""
    loader = dataformats.Loader(dataformats.open(path), BATCH, shuffle=False)

    def batches() -> Iterator[Any]:
        yield from loader
        loader.close()

    return Side(batches, plain_columns)


def plain_columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns as arrays, missing numbers as 0; a ragged one as a list of bytes, or as values and offsets."""
    plain: dict[str, Any] = {}
    for name, column in columns.items():
        if isinstance(column, Nullable):
            plain[name] = column.values
        elif isinstance(column, Ragged) and isinstance(column.values, Ragged):
            plain |= {f"{name} values": list(column.values), f"{name} offsets": column.offsets}
        elif isinstance(column, Ragged) and column.item_kind == "array":
            plain |= {f"{name} values": column.values, f"{name} offsets": column.offsets}
        else:
            plain[name] = list(column) if isinstance(column, Ragged) else column
    return plain


def feature_of(tf: Any, kind: str) -> Any:
    """Return TensorFlow's description of a field."""
    dtype = {"int64": tf.int64, "float32": tf.float32, "bytes": tf.string}[kind.removesuffix("?").removesuffix("[]")]
    if "[]" in kind:
        return tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64)
    return tf.io.FixedLenFeature([], dtype, 0 if "?" in kind else None)


def tensorflow(path: Path, content: Content) -> Side:
    """Batches parsed together, on as many threads as TensorFlow likes."""
    tf = peer("tensorflow")
    features = {name: feature_of(tf, kind) for name, kind in content.spec.items()}
    batches = tf.data.TFRecordDataset(str(path)).batch(BATCH)
    batches = batches.map(lambda records: tf.io.parse_example(records, features), num_parallel_calls=tf.data.AUTOTUNE)
    batches = batches.prefetch(tf.data.AUTOTUNE)

    def plain(batch: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, tensor in batch.items():
            if isinstance(tensor, tf.RaggedTensor):
                values = tensor.values.numpy()
                values = values.tolist() if values.dtype == object else values
                found |= {f"{name} values": values, f"{name} offsets": tensor.row_splits.numpy()}
            else:
                array = tensor.numpy()
                found[name] = array.tolist() if array.dtype == object else array
        return found

    return Side(lambda: iter(batches), plain)


def parsing(data: Data, content: Content) -> Work:
    """Return the work of parsing batches in order."""
    path, n = made(data, content)
    return Work(
        f"TFRecord, {n:,} Examples {{{content.what}}}, in order, batches of {BATCH}",
        {
            "dataformats": lambda: ours(path, n),
            LOADER: lambda: our_loader(path),
            TFDATA: lambda: tensorflow(path, content),
        },
    )


# ---- one record after the other


def our_records(path: Path) -> Side:
    """The records of an iteration, in lists to compare."""
    source = dataformats.open(path)
    return Side(lambda: grouped(iter(source)), stacked)


def python_records(path: Path, content: Content) -> Side:
    """`os.pread`, CRC32C, protobuf's message, a dict."""
    crc32c = peer("google_crc32c").value
    frames = Frames(path, TFRECORD_HEAD, TFRECORD_TAIL)
    lists = {name: "float_list" if kind == "float32" else "int64_list" for name, kind in content.spec.items()}

    def records() -> Iterator[dict[str, Any]]:
        for number in range(len(frames.starts)):
            (blob,) = frames.read_checked(range(number, number + 1), crc32c)
            features = EXAMPLE_MESSAGE.FromString(blob).features.feature
            yield {name: getattr(features[name], kind).value[0] for name, kind in lists.items()}

    return Side(lambda: grouped(records()), stacked)


def grouped(records: Iterator[Any]) -> Iterator[list[Any]]:
    """Yield lists of 1,024 records."""
    while group := list(islice(records, 4 * BATCH)):
        yield group


def stacked(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the values of each field."""
    return {name: [record[name] for record in records] for name in sorted(records[0])}


def iterating(data: Data) -> Work:
    """Return the work of a loop over the records."""
    path, n = made(data, NUMBERS)
    return Work(
        f"TFRecord, {n:,} Examples {{{NUMBERS.what}}}, one record after the other",
        {"dataformats": lambda: our_records(path), "Python": lambda: python_records(path, NUMBERS)},
    )


# ---- shuffled, in arrays of one shape


def epoch_side(batches: Callable[[], Iterator[Any]], facts: Callable[[Any], Mapping[str, int]]) -> Side:
    """Return a side whose only step is an epoch; the sums of the facts are taken when sides are compared."""
    sums: dict[str, int] = {}

    def epoch() -> Iterator[dict[str, int]]:
        if not sums:
            for batch in batches():
                for name, value in facts(batch).items():
                    sums[name] = sums.get(name, 0) + int(value)
        else:
            held = None
            for batch in batches():
                held = batch  # kept until the next batch arrives
            del held
        yield sums

    return Side(epoch, dict)


def our_epochs(path: Path, collate: Any, facts: Callable[[Any], Mapping[str, int]]) -> Side:
    """Shuffled epochs of the loader, with its defaults."""
    loader = dataformats.Loader(dataformats.open(path), BATCH, collate=collate)

    def batches() -> Iterator[Any]:
        yield from loader
        loader.close()

    return epoch_side(batches, facts)


def padded_facts(tokens: Any) -> dict[str, int]:
    """Return the documents and the sum of the tokens of a padded batch."""
    return {"documents": len(tokens), "sum": np.asarray(tokens).sum()}


def packed_facts(tokens: Any, segment_ids: Any) -> dict[str, int]:
    """Return the documents, the tokens and their sum in packed rows."""
    segments = np.asarray(segment_ids)
    return {"documents": segments.max(axis=-1).sum(), "tokens": (segments > 0).sum(), "sum": np.asarray(tokens).sum()}


def tensorflow_padded(path: Path) -> Side:
    """Records shuffled in a buffer, parsed one by one, padded to the longest of a batch."""
    tf = peer("tensorflow")
    features = {"tokens": tf.io.RaggedFeature(tf.int64)}
    records = tf.data.TFRecordDataset(str(path)).shuffle(SHUFFLE_BUFFER)
    tokens = records.map(
        lambda record: tf.io.parse_single_example(record, features)["tokens"], num_parallel_calls=tf.data.AUTOTUNE
    )
    batches = tokens.padded_batch(BATCH).prefetch(tf.data.AUTOTUNE)
    return epoch_side(lambda: iter(batches), padded_facts)


def grain_packed(n: int) -> Side:
    """Documents that are in memory as arrays, shuffled and packed first-fit."""
    grain = peer("grain")
    documents = [record["tokens"] for record in TOKENS.records(n)]
    source = grain.MapDataset.source(documents).shuffle(seed=1).map(lambda tokens: {"tokens": tokens})
    packed = grain.experimental.FirstFitPackIterDataset(
        source.to_iter_dataset(), length_struct={"tokens": ROW}, num_packing_bins=PACKING_BINS
    ).batch(PACKING_BINS)
    return epoch_side(lambda: iter(packed), lambda batch: packed_facts(batch["tokens"], batch["tokens_segment_ids"]))


def shuffled(data: Data, *, packed: bool) -> Work:
    """Return the work of a shuffled epoch in arrays of one shape."""
    path, n = made(data, TOKENS)
    title = f"Loader, {n:,} Examples {{{TOKENS.what}}}, a shuffled epoch"
    if packed:
        collate = dataformats.pack("tokens", length=ROW)
        sides = {
            "dataformats": lambda: our_epochs(
                path, collate, lambda batch: packed_facts(batch["tokens"], batch["segment_ids"])
            ),
            "grain, documents in memory": lambda: grain_packed(n),
        }
        return Work(f"{title}, packed into rows of {ROW:,}", sides)
    sides = {
        "dataformats": lambda: our_epochs(path, dataformats.pad("tokens"), lambda batch: padded_facts(batch["tokens"])),
        "tf.data, padded_batch": lambda: tensorflow_padded(path),
    }
    return Work(f"{title} padded, batches of {BATCH}", sides)


def _case(content: Content, target: float) -> Case:
    rows = (Target(TFDATA, target), Target(TFDATA, target, LOADER))
    return Case(f"parsing-{content.name}", lambda data: parsing(data, content), rows)


CASES = (
    _case(NUMBERS, 5),
    _case(WORDS, 5),
    _case(TOKENS, 4),
    _case(CURVES, 4),
    _case(TAGS, 4),
    _case(OPTIONAL, 5),
    Case("parsing-records", iterating, (Target("Python", 5),)),
    Case("tokens-padded", lambda data: shuffled(data, packed=False), (Target("tf.data, padded_batch", 4),)),
    Case("tokens-packed", lambda data: shuffled(data, packed=True), (Target("grain, documents in memory", 4),)),
)
