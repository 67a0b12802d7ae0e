"""Create a dataset: where its files grow, what may have their name already, and the writer that fills them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from dataformats.errors import Remedy, TargetExistsError
from dataformats.interfaces import AppendsInPlace
from dataformats.registry import backends
from dataformats.spec import Spec, SpecLike
from dataformats.staging.area import StagingArea
from dataformats.staging.local_area import LocalArea
from dataformats.staging.paths import add_name, area_at
from dataformats.writing.dataset_writer import DatasetWriter
from dataformats.writing.encoding import Encode
from dataformats.writing.existing_data import FinishedData
from dataformats.writing.in_place_writer import InPlaceWriter
from dataformats.writing.output_schema import OutputSchema, format_of
from dataformats.writing.shard_writer import ShardWriter, is_sharded
from dataformats.writing.shared_folder_writer import SharedFolderWriter
from dataformats.writing.write_options import WriteOptions


def create(
    path: Any,
    format: str | None = None,
    *,
    spec: SpecLike | None = None,
    payload: str | None = None,
    codecs: Mapping[str, Any] | None = None,
    shard_records: int | None = None,
    shard_bytes: int | None = None,
    shard_start: int | None = None,
    shard_step: int = 1,
    append: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    workers: int = 0,
    storage_options: dict[str, Any] | None = None,
    **backend_options: Any,
) -> DatasetWriter:
    """Create a dataset and return its writer.

    The data grow in `PATH.partial` and are published by one rename at `close`. A new writer replaces the partial data
    of an interrupted one, unless `resume=True`. A name has one writer at a time. A writer that is dropped without
    `close` is aborted. Shards behind a URL are sent as soon as they are complete, and other data at `close`: see
    "Object stores" in the documentation.

    Args:
        path: A path, a URL that fsspec knows, or a path object. With `shard_*` it is a folder.
        format: `"ffrecord"`, `"tfrecord"` or another registered name; `None` takes it from the name of `path`.
        spec: Field to type; records are mappings of these fields. `None`: records are values of the payload.
        payload: The codec of whole records; `None` is `"example"` with a spec and `"bytes"` without.
        codecs: Codecs for this dataset, name to `(encode, decode)` or a `Codec`.
        shard_records: Start a new file after this many records; at least 1.
        shard_bytes: Start a new file before one exceeds this many bytes; at least 1. A longer record gets its own file.
        shard_start: The number of this writer's first shard, if several writers fill one folder independently. Each
            shard has its final name as soon as it is complete, and a reader of the folder sees the complete ones.
        shard_step: The number of these writers: this one writes shard `shard_start`, and then every `shard_step`-th.
        append: Extend the data that have the name, if there are any: a plain TFRecord or OFRecord file, a Granular
            dataset of generation 3, or a folder of shards, which gets further shards. The data stay as they are until
            `close`, and after an error or a crash; only the Granular dataset grows in place, whole row by whole row.
            Behind a URL, only folders of shards.
        resume: Continue the data of an interrupted writer; `len(writer)` is the number of records that are safe. An
            exception then keeps the partial data. Behind a URL, only shards: those that arrived are safe.
        overwrite: Replace an existing file or folder of that name, at `close`.
        workers: Threads in which `extend` encodes records; 0 encodes in the calling thread.
        storage_options: Options of the fsspec file system of a URL.
        **backend_options: Options of the format: `compression="gzip"` for TFRecord, `records=` for FFRecord.

    Returns:
        The writer. It is not thread-safe.

    Raises:
        FormatError: `resume=True`, and the partial data cannot be resumed: a journal or sidecar is damaged or missing.
        OSError: The bucket of a URL does not exist, or the credentials do not allow to write there.
        SpecError: The format cannot hold the spec; every offending field is named; or its files cannot be shards.
        StateMismatchError: `resume=True` or `append=True`, and the data there have another payload or spec.
        TargetExistsError: Something has the name, and neither `overwrite` nor `append` is given; or it cannot be
            extended; or it is a folder that holds anything but data; or something else than partial data has the name
            `PATH.partial`.
        TargetInUseError: Another writer has the name, in this process or another one. File systems without `flock`
            cannot tell.
        TypeError: The format has no such option.
        UnknownNameError: No such format or codec; or the name of `path` names no format.
        ValueError: A shard size below 1; `append=True` together with `overwrite=True`, or one of them with
            `shard_start`; `resume` or `append` of a single file that is not local, or `shard_start` with a path that is
            not local; or a name that ends as the files do that a writer makes beside its data, such as `.partial`.

    Example:
        >>> import dataformats, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "texts.ffr"
        >>> with dataformats.create(path, spec={"text": "utf8", "tokens": "int64[]"}) as writer:
        ...     writer.append({"text": "héllo", "tokens": [3, 1, 2]})
        >>> dataformats.open(path)[0]
        {'text': 'héllo', 'tokens': array([3, 1, 2])}

        Extend a file, and a folder that two writers fill:

        >>> for text in (b"one", b"two"):
        ...     with dataformats.create(path.with_name("log.tfrecord"), append=True) as writer:
        ...         writer.append(text)
        >>> list(dataformats.open(path.with_name("log.tfrecord")))
        [b'one', b'two']
        >>> for k in range(2):
        ...     with dataformats.create(path.with_name("parts"), "ffrecord", shard_start=k, shard_step=2) as writer:
        ...         writer.append(b"from writer %d" % k)
        >>> list(dataformats.open(path.with_name("parts")))
        [b'from writer 0', b'from writer 1']
    """
    if format is not None and format not in backends and str(path) in backends:
        raise TypeError(f"the path comes before the format: create({str(format)!r}, {str(path)!r})")
    schema = OutputSchema(format or format_of(path), payload, None if spec is None else Spec(spec), backend_options)
    options = WriteOptions(
        shard_records=shard_records,
        shard_bytes=shard_bytes,
        shard_start=shard_start,
        shard_step=shard_step,
        append=append,
        resume=resume,
        overwrite=overwrite,
        workers=workers,
        storage_options=storage_options,
    )
    return writer(path, schema, schema.encoder(codecs), options, codecs)


def writer(
    path: Any, schema: OutputSchema, encode: Encode, options: WriteOptions, codecs: Mapping[str, Any] | None = None
) -> DatasetWriter:
    """Return a writer whose records `encode` turns into bytes; for the other arguments see `create`."""
    shards = _shard_writer(area_at(path, options.storage_options), schema, options)
    return DatasetWriter(schema, encode, shards, resumable=options.resume, workers=options.workers, codecs=codecs)


def _shard_writer(area: StagingArea, schema: OutputSchema, options: WriteOptions) -> ShardWriter:
    """Return the writer of the files, begun."""
    if options.shard_start is not None:
        return SharedFolderWriter(area.final.resolve(), schema, options)
    if (options.append or options.resume) and isinstance(area, LocalArea):
        final = area.final.resolve()  # a link stays, and the data grow that it names
        may_grow = not (options.limits_shards or options.overwrite)
        if may_grow and isinstance(schema.backend, AppendsInPlace) and schema.backend.can_append_in_place(final):
            return InPlaceWriter(final, schema, options)
        if options.append:
            area = LocalArea(final)
    return ShardWriter(area, schema, options, begin_dataset(area, schema, options))


def begin_dataset(
    area: StagingArea, schema: OutputSchema, options: WriteOptions, *, shared: bool = False
) -> FinishedData | None:
    """Lock the name of an area until it is released, and make or resume its partial data.

    Returns:
        The data that the new ones extend; `None` if there are none.
    """
    plan = {} if options.plan is None else {"plan": options.plan}
    metadata = {"format": schema.backend.name, **(schema.sidecar() or {}), **plan}
    finished = None
    try:
        area.lock(schema.backend, overwrite=options.overwrite, resume=options.resume, shared=shared)
        extends = options.append and area.exists()
        if options.append and not options.limits_shards and not extends:
            _ = area.final
        check_free(area, options.overwrite or extends, metadata if options.resume else None)
        if extends:
            area.extend()
            finished = FinishedData.at(area, schema, options)
            metadata["extends"] = finished.digest
        try:
            area.begin(metadata, resume=options.resume, sharded=is_sharded(options, finished))
        except OSError:  # a full disk
            if not (options.resume or shared):
                with contextlib.suppress(OSError):
                    area.discard()
            raise
    except BaseException as error:
        add_name(error, area.name)
        area.release()
        raise
    return finished


def check_free(area: StagingArea, overwrite: bool, resumed: Mapping[str, Any] | None) -> None:
    """Raise `TargetExistsError` if publishing would delete something that the call did not ask to replace.

    Args:
        area: The staging area.
        overwrite: See `create`.
        resumed: Format, payload, spec and plan with `resume=True`, else `None`.
    """
    may_be_complete = resumed is not None and (not overwrite or "plan" in resumed)
    is_complete = resumed is not None and may_be_complete and area.complete(resumed) is not None
    if not overwrite or is_complete:  # a conversion would write the same again
        if not area.exists():
            return
        problem, remedy = "exists", Remedy("Pass {overwrite} to replace it", overwrite=True)
        if resumed is not None and area.partial.exists():
            problem = f"exists, and so do the partial data {str(area.partial)!r} of a writer that was to replace it"
            remedy = Remedy("Pass {overwrite} to resume that writer", overwrite=True)
        elif is_complete:
            problem = "is complete: there is nothing to resume"
            what = "Pass {overwrite} to replace it, or {append} to extend it, if its format can grow"
            remedy = Remedy(what, append=True, overwrite=True)
        elif resumed is not None:
            problem = "exists, with another format, payload or spec, or with other files than its sidecar lists"
        raise TargetExistsError(f"{area.name!r} {problem}", remedy=remedy)
    unrelated = area.unrelated_entry()
    if unrelated is not None:
        what = f"{area.name!r} is not replaced: the folder holds other files than data, such as {str(unrelated)!r}"
        raise TargetExistsError(what, remedy="Move them, or delete the folder")
