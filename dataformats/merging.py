"""Merge datasets into one, and split one into several: records are copied as they are stored, and not decoded.

Tables are divided by two conversions, because their records are no ranges of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import StoredRecords
from dataformats.converting import convert
from dataformats.errors import DataFormatsError, FormatError, Remedy, SpecError
from dataformats.interfaces.declared_spec import is_single
from dataformats.interfaces.record_source import RecordSource
from dataformats.reading.blob_source import BlobSource
from dataformats.reading.concat import check_alike
from dataformats.reading.conditions import Where
from dataformats.reading.copied_records import refused_copy
from dataformats.reading.file_source import FileSource
from dataformats.reading.opening import open as open_source
from dataformats.reading.opening import open_for_copying
from dataformats.reading.partitions import PartitionedSource
from dataformats.reading.views import evaluate, random_parts
from dataformats.registry import backends
from dataformats.staging.paths import area_at
from dataformats.storage.remote.names import shown_url
from dataformats.writing.creating import check_free, writer
from dataformats.writing.encoding import refuse_record
from dataformats.writing.output_schema import OutputSchema, check_copy_name
from dataformats.writing.write_options import WriteOptions

_REMEDY = "Convert one of them first"
_MERGED = Remedy("Write them with convert, which takes several sources.")
_SPLIT = Remedy(
    "Use convert: it writes shards with {shard_records}, and chosen records with {where}.",
    shard_records=...,
    where=...,
)
_Progress = Callable[[int, int], None] | None


def merge(
    sources: Sequence[Any] | Any,
    path: Any,
    *,
    shards: int | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
    source_options: Mapping[str, Any] | None = None,
    storage_options: dict[str, Any] | None = None,
) -> dict[str, int]:
    """Copy the records of several datasets of one format into a new one, one source after the other.

    No record is decoded or encoded. All lengths and checksums are verified, and checksums are copied with their
    records: whole frames of TFRecord and OFRecord, the CRC-32 of each FFRecord sample. The first damaged record stops
    the merge and leaves nothing behind. Payload and spec go into the sidecar.

    Args:
        sources: Paths as in `open`, or datasets that `open` returned; one or more.
        path: The new file, or for Granular datasets the new folder; with `shards` a folder of shards. A TFRecord is
            compressed if the name ends in `.gz` or `.zlib`, and shards if the sources are.
        shards: The number of shards, whose sizes differ by one record at most; 1 to the number of records.
        overwrite: Replace an existing file or folder of that name, at the end.
        progress: Called with (records done, records in all).
        source_options: Arguments of `open`, if the sources are paths.
        storage_options: Options of the fsspec file system of a URL at `path`.

    Returns:
        Path to number of records, of the new file or folder, or of each shard.

    Raises:
        FormatError: A record is damaged.
        SpecError: The sources differ in format, payload, spec, or in the options of the format; or `path` is a name of
            another format; or there are fewer records than `shards`.
        TargetExistsError: Something has the name of `path`, and `overwrite` is not given.
        TypeError: A source has no files: it is a view, or computed. Use `convert`.

    Example:
        >>> import dataformats, tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> merged = dataformats.merge("tests/golden/real/digits-*.tfrecord", folder / "digits.tfrecord")
        >>> list(merged.values())
        [1797]
        >>> files = dataformats.merge(["tests/golden/real/digits-*.tfrecord"], folder / "digits", shards=2)
        >>> {pathlib.Path(path).name: records for path, records in files.items()}
        {'digits-00000-of-00002.tfrecord': 898, 'digits-00001-of-00002.tfrecord': 899}
    """
    options = WriteOptions(overwrite=overwrite, storage_options=storage_options)
    with _opened(sources, source_options, _MERGED) as opened:
        return _copy(opened, path, shards, None, progress=progress, options=options)


def split(
    source: Any,
    path: Any,
    *,
    shards: int | None = None,
    shard_records: int | None = None,
    where: Where | None = None,
    fraction: float | None = None,
    seed: int = 0,
    rest_path: Any = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
    source_options: Mapping[str, Any] | None = None,
    storage_options: dict[str, Any] | None = None,
) -> dict[str, int]:
    """Copy the records of a dataset into shards of one size, or into two datasets: by a condition, or at random.

    Records keep their order, and are verified and copied as `merge` does. Shards are the files (or folders) of one new
    dataset, and each of them is a dataset by itself. Pass `shards`, `shard_records`, or `rest_path` with `where` or
    `fraction`. A table, such as Parquet or CSV, is divided by `convert`.

    Args:
        source: A path as in `open`, or a dataset that `open` returned.
        path: The new folder of shards; with `where` the dataset of the records for which it is true, with `fraction`
            the dataset of that share.
        shards: The number of shards: see `merge`.
        shard_records: The records of each shard; the last one may have fewer.
        where: A condition on records: see `RecordSource.where`. SQL and a function make records be decoded, before
            anything is written.
        fraction: A random share of the records, in (0, 1): the first view of `RecordSource.split` has the same ones.
        seed: Another seed, another share.
        rest_path: The dataset of all other records, if `where` or `fraction` is given. The two datasets are published
            one after the other.
        overwrite: Replace existing files or folders of these names, at the end.
        progress: See `merge`.
        source_options: See `merge`.
        storage_options: Options of the fsspec file systems of URLs at `path` and `rest_path`.

    Returns:
        Path to number of records, of each shard, or of `path` and `rest_path`.

    Raises:
        FormatError: A record is damaged.
        SpecError: `path` or `rest_path` is a name of another format, or there are fewer records than `shards`.
        TargetExistsError: See `merge`.
        TypeError: See `merge`; or the call has not exactly one of `shards`, `shard_records`, `where` and `fraction`; or
            one of the last two without `rest_path`.
        ValueError: The fraction is out of range.

    Example:
        >>> import dataformats, tempfile, pathlib
        >>> folder, digits = pathlib.Path(tempfile.mkdtemp()), dataformats.open("tests/golden/real/digits-*.tfrecord")
        >>> files = dataformats.split(digits, folder / "shards", shard_records=1000)
        >>> list(files.values()), len(dataformats.open(folder / "shards"))
        ([1000, 797], 1797)
        >>> eights, others = folder / "eights.tfrecord", folder / "others.tfrecord"
        >>> two = dataformats.split(digits, eights, where=lambda record: record["label"] == 8, rest_path=others)
        >>> list(two.values()), dataformats.open(eights)[0]["label"]
        ([174, 1623], 8)
    """
    given = sum(one is not None for one in (shards, shard_records, where, fraction))
    if given != 1 or (where is None and fraction is None) != (rest_path is None):
        raise TypeError("expected one of shards=, shard_records=, or where= or fraction= with rest_path=")
    options = WriteOptions(overwrite=overwrite, storage_options=storage_options)
    if rest_path is not None:
        chosen = partial(_chosen, where=where, fraction=fraction, seed=seed)
        with _opened_files(source, source_options) as files:
            if len(files) == 1 and not _is_copied(files[0]):
                return _convert_parts(files[0], chosen(files[0]), (path, rest_path), progress, options)
            blobs = [_copied(one, _SPLIT) for one in files]
            return _divide(blobs, chosen, path, rest_path, progress=progress, options=options)
    with _opened(source, source_options, _SPLIT) as opened:
        return _copy(opened, path, shards, shard_records, progress=progress, options=options)


def _copy(
    sources: Sequence[BlobSource],
    path: Any,
    shards: int | None,
    shard_records: int | None,
    *,
    progress: _Progress,
    options: WriteOptions,
) -> dict[str, int]:
    """Copy all records to one file, or to shards by number or size; return path to records."""
    ends: list[int] = []  # where all shards but the last one end
    if shards is not None:
        n = sum(map(len, sources))
        if not 1 <= shards <= max(1, n):
            raise SpecError(f"expected 1 to {max(1, n)} shards, one for each record, found {shards}")
        ends = [shard * n // shards for shard in range(shards - 1, 0, -1)]
        shard_records = max(1, -(-n // shards))
    done, schema = 0, _schema(sources, named=shard_records is None)
    check_copy_name(path, schema.backend.name)
    with writer(path, schema, refuse_record, replace(options, shard_records=shard_records)) as out:
        for stored in _stored(sources, progress):
            left, done = stored, done + len(stored)
            while ends and ends[-1] < done:
                here = len(left) - (done - ends.pop())
                out.append_stored(left[:here])
                out.next_shard()
                left = left[here:]
            out.append_stored(left)
        files = out.complete()
    if shard_records is None:
        return {shown_url(path): done}
    return {f"{shown_url(path)}/{file['name']}": file["records"] for file in files}


def _divide(
    sources: Sequence[BlobSource],
    choose: Callable[[BlobSource], NDArray[np.bool_]],
    path: Any,
    rest_path: Any,
    *,
    progress: _Progress,
    options: WriteOptions,
) -> dict[str, int]:
    """Copy the chosen records to one dataset, and all others to another."""
    (source,) = sources
    schema, first = _schema(sources, named=True), 0
    for destination in (path, rest_path):
        check_copy_name(destination, schema.backend.name)
    # A split that was killed between its two renames is done again.
    rest_name = shown_url(rest_path)
    announced = area_at(path, options.storage_options).announced().get(rest_name)
    is_ours = announced is not None and area_at(rest_path, options.storage_options).holds(announced)
    with (
        writer(path, schema, refuse_record, options) as out,
        writer(rest_path, schema, refuse_record, replace(options, overwrite=options.overwrite or is_ours)) as others,
    ):
        mask = choose(source)  # which may take long: not before both names are known to be free
        for records in _stored(sources, progress):
            chosen = mask[first : first + len(records)]
            out.append_stored(records[chosen])
            others.append_stored(records[~chosen])
            first += len(records)
        out.announce({rest_name: others.complete()})
    return {shown_url(path): len(out), rest_name: len(others)}


def _convert_parts(
    source: RecordSource, mask: NDArray[np.bool_], paths: tuple[Any, Any], progress: _Progress, options: WriteOptions
) -> dict[str, int]:
    """Convert the chosen records of a table to one dataset, and all others to another."""
    parts = [(path, source.take(np.flatnonzero(rows))) for path, rows in zip(paths, (mask, ~mask), strict=True)]
    given: dict[str, Any] = {"overwrite": options.overwrite, "storage_options": options.storage_options}
    for path, records in parts:  # before one of both is written
        check_free(area_at(path, options.storage_options), options.overwrite, None)
        convert(records, path, dry_run=True, **given)
    return {shown_url(path): convert(records, path, progress=progress, **given).records for path, records in parts}


def _chosen(source: RecordSource, where: Where | None, fraction: float | None, seed: int) -> NDArray[np.bool_]:
    """Return bool[n]: the records for which the condition is true, or a random share."""
    if where is not None:
        return evaluate(source, where)
    mask = np.zeros(len(source), np.bool_)
    mask[random_parts(len(source), [fraction or 0], seed)[0]] = True
    return mask


def _stored(sources: Sequence[BlobSource], progress: _Progress) -> Iterator[StoredRecords]:
    """Yield the records of all sources."""
    done, n = 0, 0 if progress is None else sum(map(len, sources))
    for source in sources:
        for records in source.scan_stored():
            yield records
            done += len(records)
            if progress is not None:
                progress(done, n)


@contextmanager
def _opened(given: Any, options: Mapping[str, Any] | None, remedy: Remedy) -> Iterator[list[BlobSource]]:
    """Yield opened sources whose records are copied: see `_opened_files`.

    Args:
        given: The sources, or their paths.
        options: The arguments of `open` for paths.
        remedy: What to do if the records cannot be copied.

    Raises:
        SpecError: Records of the format cannot be copied as they are stored.
    """
    with _opened_files(given, options) as sources:
        yield [_copied(source, remedy) for source in sources]


@contextmanager
def _opened_files(given: Any, options: Mapping[str, Any] | None) -> Iterator[list[RecordSource]]:
    """Yield opened sources: the given ones, or one of all paths.

    Raises:
        SpecError: The paths hold several formats, which an error about damage hides.
        TypeError: A source has no files.
    """
    sources = list(given) if isinstance(given, (list, tuple)) else [given]
    if any(isinstance(source, RecordSource) for source in sources):
        for source in sources:
            if not isinstance(source, FileSource):
                kind = type(source).__name__.strip("_")
                raise TypeError(f"expected paths, or datasets that open() returned, found {kind}: use convert()")
        yield sources
        return
    try:
        with open_for_copying(sources[0] if len(sources) == 1 else sources, options or {}) as source:
            yield [source]
    except FormatError as error:
        formats = [_format_of(path, options or {}) for path in (sources[0], error.path)]
        if None in formats or formats[0] == formats[1]:
            raise
        what = f"{error.path!r} is {formats[1]}, and {str(sources[0])!r} is {formats[0]}"
        raise SpecError(what, remedy=_REMEDY) from error


def _copied(source: RecordSource, remedy: Remedy) -> BlobSource:
    """Return the source if its records can be copied as they are stored."""
    if isinstance(source, PartitionedSource):
        raise SpecError("names of folders are fields of these records, so files alone do not hold them", remedy=remedy)
    if not isinstance(source, BlobSource) or not _is_copied(source):
        raise refused_copy(source.format, remedy)
    return source


def _is_copied(source: RecordSource) -> bool:
    return isinstance(source, BlobSource) and backends.get(source.format).copies_records


def _format_of(path: Any, options: Mapping[str, Any]) -> str | None:
    try:
        with open_source(path, storage_options=options.get("storage_options")) as source:
            return source.format
    except (DataFormatsError, OSError, TypeError):
        return None


def _schema(sources: Sequence[BlobSource], *, named: bool) -> OutputSchema:
    """Return the schema that all sources have.

    Raises:
        SpecError: They differ.
    """
    first = sources[0]
    facts = _facts(first, named)
    for other in sources[1:]:
        for name, found in _facts(other, named).items():
            if found != facts[name]:
                what = f"the {name} of {other.paths[0]!r} is {found}, but {first.paths[0]!r} has {facts[name]}"
                raise SpecError(what, remedy=_REMEDY)
    spec = facts["spec"] and check_alike({source.paths[0]: source.spec for source in sources})
    return OutputSchema(first.format, first.payload, spec, facts["options"], facts["stored types"])


def _facts(source: BlobSource, named: bool) -> dict[str, Any]:
    _check_payloads(source)
    try:
        options = source.backend.options_like(source.reader, named=named)
    except SpecError as error:
        error.remedy = _REMEDY
        raise
    return {
        "format": source.format,
        "payload": source.payload,
        "spec": None if is_single(source) or source.spec_facts.provenance == "inferred" else source.spec,
        "stored types": source.reader.stored_spec,
        "options": options,
    }


def _check_payloads(source: BlobSource) -> None:
    """Raise an error if samples of the files have several payloads, and none is declared."""
    files = {payload: path for path, payload in source.guessed_payloads()}
    if len(files) > 1:
        (one, first), (other, second) = list(files.items())[:2]
        remedy = Remedy(f"{_REMEDY}, or pass {{from_payload}} that all records have.", from_payload=...)
        raise SpecError(f"the payload of {second!r} is {other}, but {first!r} has {one}", remedy=remedy)
