"""Hugging Face: records as a `datasets.Dataset`, or streamed as an `IterableDataset` that resumes exactly."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from dataformats.batch.arrow_types import MEDIA
from dataformats.errors import MissingExtraError
from dataformats.interfaces.record_source import RecordSource
from dataformats.reading.opening import open as open_source

try:
    import datasets
    import pyarrow
    from datasets import config
    from datasets.iterable_dataset import ArrowExamplesIterable
except ImportError as error:
    raise MissingExtraError("dataformats.interop.huggingface", extra="huggingface") from error

__all__ = ["features_of", "load"]

_UNDECODED: dict[str, Any] = {"mp4": datasets.Video, "webm": datasets.Video, "audio": datasets.Audio}
_JSON: Any = getattr(datasets, "Json", None)
_PART_RECORDS = 1000
_PART_BYTES = 4 * 2**20
_MAX_PARTS = 10_000
_DIVISIBLE = 48  # parts, so that 2, 3, 4, 6, 8, 12, 16, 24 and 48 ranks or workers get equally many


def load(source: RecordSource | Any, *, streaming: bool = False, **options: Any) -> Any:
    """Return the records as a dataset of Hugging Face, with the features of `features_of`.

    Without `streaming`, the records are written once to the cache of `datasets`, as an Arrow file, which is mapped: the
    next call with the same data takes it from there. With `streaming`, they are read in place. The dataset then has
    shards for workers and ranks, and `load_state_dict` continues at the exact record: it seeks, and decodes at most
    one part of the data again, of about a thousand records or four megabytes.

    Args:
        source: A source, or a path as in `open`.
        streaming: Return an `IterableDataset`.
        **options: Arguments of `open`, if `source` is a path.

    Returns:
        A `datasets.Dataset`, or with `streaming` a `datasets.IterableDataset`.

    Raises:
        SpecError: The records have no spec.

    Example:
        >>> from dataformats.interop.huggingface import load
        >>> digits = load("tests/golden/real/digits-*.tfrecord", streaming=True)
        >>> digits.features["label"], next(iter(digits))["label"]
        (Value('int64'), 0)
    """
    given = source if isinstance(source, RecordSource) else open_source(source, **options)
    features = features_of(given)
    info = datasets.DatasetInfo(features=features)
    if not streaming:
        return datasets.Dataset.from_file(str(_arrow_file(given, features)), info=info)
    parts = ArrowExamplesIterable(_tables, {"source": given, "schema": features.arrow_schema, "parts": _parts(given)})
    return datasets.IterableDataset(parts, info=info)


def features_of(source: RecordSource) -> datasets.Features:
    """Return the features of a source's records, from its Arrow schema. `Image` and `Json` are decoded.

    `ClassLabel` has the class names. JSON is text if `datasets` is too old to have `Json`. Videos and sounds have
    `decode=False`: to decode them needs another package of Hugging Face.
    """
    features = datasets.Features.from_arrow_schema(_reader(source).schema)
    for name, kind in source.spec.items():
        if kind.codec in MEDIA:
            media = _UNDECODED[kind.codec](decode=False) if kind.codec in _UNDECODED else datasets.Image()
            for _ in kind.dims:
                media = datasets.LargeList(media)
            features[name] = media
        elif kind.codec == "json" and not kind.dims and _JSON is not None:
            features[name] = _JSON()
        elif kind.class_names and not kind.dims:
            features[name] = datasets.ClassLabel(names=[*kind.class_names])
    return features


def _reader(source: RecordSource) -> Any:
    return source.to_batches(media_structs=True)


def _arrow_file(source: RecordSource, features: datasets.Features) -> Path:
    """Return the Arrow file of the records in the cache, and write it if it is not there."""
    what = f"1 {source.fingerprint} {source.spec.to_text()} {features}"
    folder = Path(config.HF_DATASETS_CACHE, "dataformats")
    path = folder / f"{hashlib.blake2b(what.encode(), digest_size=16).hexdigest()}.arrow"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(".partial", path.stem, folder)
    os.close(descriptor)
    try:
        with pyarrow.ipc.new_stream(partial, features.arrow_schema) as stream:
            for batch in _reader(source):
                stream.write_batch(batch.cast(features.arrow_schema))
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
    return path


def _parts(source: RecordSource) -> list[range]:
    """Return consecutive ranges of all records: the shards of a stream. A state is a shard and a place in it."""
    n = len(source)
    count = min(max(n // _PART_RECORDS, source.nbytes // _PART_BYTES, _DIVISIBLE), _MAX_PARTS)
    count = min(count - count % _DIVISIBLE, n) or 1
    return [range(first, stop) for first, stop in pairwise(n * part // count for part in range(count + 1))]


def _tables(source: RecordSource, schema: Any, parts: list[range]) -> Iterator[tuple[str, Any]]:
    """Yield the records of these parts as tables, each with a key."""
    for part in parts:
        for number, batch in enumerate(_reader(source[part.start : part.stop])):
            yield f"{part.start}_{number}", pyarrow.Table.from_batches([batch.cast(schema)])
