"""Open files as a source, and reopen them in another process."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any

from dataformats.batch import RecordBatch
from dataformats.batch.jax_trees import register_with_jax
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.errors import DataFormatsError, FormatError, Remedy, SpecError, StateMismatchError
from dataformats.indexing.index_cache import check_place
from dataformats.integer_arguments import checked_int
from dataformats.interfaces import Backend, ReaderOptions, checked_options
from dataformats.interfaces.backend import MAX_RECORD_BYTES, FieldsBackend
from dataformats.interfaces.record_source import RecordSource
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.interfaces.table import Table
from dataformats.reading.blob_source import BlobSource
from dataformats.reading.copied_records import refused_copy
from dataformats.reading.dataset_schema import declared_schema, spec_applies, spec_of_json
from dataformats.reading.dataset_sidecars import DatasetSidecars
from dataformats.reading.detection import check_one_format, choose_files
from dataformats.reading.field_operations import DecodingSource
from dataformats.reading.file_source import FileSource
from dataformats.reading.incomplete_data import IncompleteDataError, lacking_parts, missing_shards
from dataformats.reading.other_formats import refuse_tables
from dataformats.reading.partitions import PartitionedSource, partition_files, partition_values, with_partitions
from dataformats.reading.pickled_source import PickledSource, known_files
from dataformats.reading.splits import choose_split
from dataformats.reading.table_source import TableSource
from dataformats.registry import backends
from dataformats.sidecars.tfds import tfds_split
from dataformats.spec import Spec, SpecLike, Type
from dataformats.storage.given_files import to_picklable, to_reopenable
from dataformats.storage.paths import resolve
from dataformats.storage.remote.files import keep_on_disk

_DISK = "disk:"


def open(  # the name that the contract gives it
    path: Any,
    *,
    format: str | None = None,
    payload: str | None = None,
    spec: SpecLike | None = None,
    codecs: Mapping[str, Any] | None = None,
    verify_checksums: bool = True,
    cache: str | Sequence[str] | None = None,
    cache_bytes: int = 2**34,
    index: str = "cache",
    io: str = "auto",
    storage_options: dict[str, Any] | None = None,
    max_record_bytes: int = MAX_RECORD_BYTES,
    progress: Callable[[int, int], None] | None = None,
    split: str | None = None,
    follow_links: bool = False,
    **backend_options: Any,
) -> DecodingSource:
    """Return the records of files as a sequence.

    Lists files, recognizes their format and reads headers. The first `len`, `[i]` or `read` builds an index.

    Args:
        path: A str or PathLike, a sequence of them, a glob, a folder, a URL that fsspec knows, a `fsspec.OpenFile`, a
            `UPath`, or an object with `open`, `/`, `exists`, `glob`. A folder or glob is read in the format's own
            order; a list keeps its order. Folders called `year=2020`, below a folder or the first star of a glob, are
            a field `year`, with the types that pyarrow gives it. Also the bytes of a file, or a binary file object that
            can seek: see "Bytes and open files" in the documentation.
        format: The format, if the data do not show it: `"ffrecord"`, `"tfrecord"` or a registered name. `None` takes
            the format of the sidecar, else detects it from names, and from the content of the first file that is not
            empty.
        payload: The codec of whole records, such as `"bytes"`, `"example"` or `"msgpack"`; `None` takes the payload of
            the sidecar file, else infers it from the format and the records.
        spec: Types of fields, if the data do not say them: `{"image": "uint8[8,8]", "label": "int64"}`. Other fields
            keep the types of the files, or inferred ones; `select` leaves them out.
        codecs: Codecs for this source, name to `(encode, decode)` or a `Codec`; they override registered ones. A
            codec that is not safe, such as `pickle`, must be named by `payload=`, `spec=` or here.
        verify_checksums: Verify checksums, beside lengths and offsets, which are always checked; that costs a pass over
            the data.
        cache: `"memory"` holds the files in anonymous shared memory, read whole at their first use; field names
            hold the files of these fields alone. `"disk:PATH"` keeps blocks of files behind URLs in a folder of the
            local disk, which processes may share.
        cache_bytes: The most bytes that `cache="disk:PATH"` keeps, at least 1 MiB; see docs/object-stores.md.
        index: Where indexes are kept: `"cache"` (the user's cache folder, or `DATAFORMATS_CACHE`), `"beside"` the
            data, or a folder: one that exists, or a path with a separator.
        io: How files are read: `"auto"` copies what the operating system has in memory and reads the rest many
            at a time; `"uring"`, `"libaio"` and `"threads"` ask for one engine; `"mmap"` maps local files, which must
            not change meanwhile: truncating one ends the process.
        storage_options: Options of the fsspec file system of a URL.
        max_record_bytes: A longer record is refused before anything is allocated for it. So is a record longer than an
            eighth of this if it lies in a compressed file that is 100 times smaller than the record.
        progress: Called with (bytes done, total bytes) while an index is built.
        split: The split of a folder, such as `"train"`, by the names of its files or folders, also in a folder `data`
            in it, or as tensorflow_datasets wrote it; `None` takes the only one.
        follow_links: Follow symbolic links that lead out of the folder. `path`, or a file of a list, may always be one.
        **backend_options: Options of the format, such as `compression="gzip"` for TFRecord.

    Raises:
        FileNotFoundError: There is no such file.
        FormatError: The content is of no known format, or not of the named one, a header is broken, or a link leads out
            of the folder.
        SpecError: The spec does not parse, a codec does not take its arguments, `payload` is given and the format
            stores each field separately, or the folder has several splits and `split` names none.
        UnknownNameError: No such format, payload, codec, split, or place of indexes.
        ValueError: No such `io` or `cache`, or the files cannot be mapped or, with `"disk:PATH"`, are not behind URLs.

    Example:
        >>> import dataformats
        >>> src = dataformats.open("tests/golden/real/digits-*.tfrecord")
        >>> src[0]["label"], len(src[0]["image"])
        (0, 64)
    """
    register_with_jax(RecordBatch)
    return arguments_of(
        path,
        format=format,
        payload=payload,
        spec=spec,
        codecs=codecs,
        verify_checksums=verify_checksums,
        cache=cache,
        cache_bytes=cache_bytes,
        index=index,
        io=io,
        storage_options=storage_options,
        max_record_bytes=max_record_bytes,
        progress=progress,
        split=split,
        follow_links=follow_links,
        **backend_options,
    ).open_with_partitions()


def open_for_copying(path: Any, options: Mapping[str, Any]) -> FileSource | PartitionedSource:
    """Open the source of a call that takes the arguments of `open` as `source_options`."""
    with remedies_of_source():
        return arguments_of(path, **options).open_with_partitions()


@contextmanager
def remedies_of_source() -> Iterator[None]:
    """Let the remedies of errors name `source_options` instead of arguments of `open`."""
    try:
        yield
    except DataFormatsError as error:
        remedy = getattr(error, "remedy", None)
        if isinstance(remedy, Remedy):
            error.remedy = remedy.for_source()  # type: ignore[attr-defined]  # it has one
        raise


def blobs_of(source: RecordSource) -> BlobSource:
    """Return the source if its records are ranges of bytes.

    Raises:
        SpecError: A library decodes the format.
    """
    if not isinstance(source, BlobSource):
        raise refused_copy(source.format, Remedy("Use convert."))
    return source


def register_backend(backend: Backend, *, replace: bool = False) -> None:
    """Register a format under `backend.name`.

    Args:
        backend: Recognizes, reads and writes the format.
        replace: Replace the backend that has the name.

    Raises:
        ValueError: The name is taken.

    Example:
        >>> import dataformats
        >>> from dataformats.backends.ffrecord import BACKEND
        >>> dataformats.register_backend(BACKEND)
    """
    backends.register(backend.name, backend, replace=replace)


def arguments_of(path: Any, *, spec: SpecLike | None = None, **options: Any) -> OpenArguments:
    """Return the arguments of a call of `open`.

    Raises:
        SpecError: The spec does not parse, or a codec does not take its arguments.
        UnknownNameError: The spec or the payload names no codec.
    """
    spec = None if spec is None else Spec(spec)
    _check_codecs(spec or {}, options.get("payload"), options.get("codecs"))
    names = {one.name for one in fields(OpenArguments)} - {"backend_options", "counts", "saved"}
    known = {name: options.pop(name) for name in names & options.keys()}
    if "max_record_bytes" in known:
        known["max_record_bytes"] = checked_int("max_record_bytes", known["max_record_bytes"], 0)
    if isinstance(path, RecordSource):
        raise TypeError("expected files to open, found a source, which is open: use it as it is")
    path = to_reopenable(path)
    return OpenArguments(path=path, spec=spec, backend_options=options, **known)


def _check_codecs(spec: Mapping[str, Type], payload: str | None, codecs: Mapping[str, Any] | None) -> None:
    resolver = CodecResolver(codecs, trusted=True)
    if payload is not None:
        resolver.codec(Type.parse(payload))
    for name, kind in spec.items():
        try:
            resolver.codec(kind.element)
        except SpecError as error:
            raise SpecError(error.what, field=name, remedy=error.remedy) from None


def raise_error(error: FormatError) -> None:
    """Raise the error, or warn if data are incomplete and the rest can be read."""
    if not isinstance(error, IncompleteDataError):
        raise error
    warnings.warn(str(error), UserWarning, stacklevel=5)  # the line that calls `open`


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenArguments(ReaderOptions):
    """The arguments of one call of `open`: kept by its source, and pickled by it.

    A pickle holds only what differs from the defaults, and not `progress`.

    Attributes: see `open`.
    """

    path: Any
    format: str | None = None
    payload: str | None = None
    codecs: Mapping[str, Any] | None = None
    cache: str | Sequence[str] | None = None
    cache_bytes: int = 2**34
    io: str = "auto"
    storage_options: dict[str, Any] | None = field(default=None, repr=False)  # may hold a password
    split: str | None = None
    follow_links: bool = False
    backend_options: dict[str, Any] = field(default_factory=dict)

    def open_with_partitions(
        self, report: Callable[[FormatError], None] = raise_error
    ) -> FileSource | PartitionedSource:
        """Open the files, with the fields that the names of their folders tell: see `open`."""
        source = self.open(report)
        named = Spec({name: kind for name, kind in (self.spec or {}).items() if name in source.partitions})
        return with_partitions(source, named)

    def open(self, report: Callable[[FormatError], None] = raise_error) -> FileSource:
        """Open the files.

        Args:
            report: Called with the error of each file that is not as its sidecar says, instead of raising the first,
                and of missing shards and fields, instead of a warning.
        """
        check_place(self.index)
        entries: Sequence[StoredFile | Folder] = resolve(
            self.path, self.storage_options, self._is_folder, follow_links=self.follow_links
        )
        refuse_tables(entries)
        tfds = tfds_split(entries, self.split)
        if tfds is None:
            entries = partition_files(choose_split(entries, self.split))
        known = {} if tfds is None else tfds.metadata
        sidecars = DatasetSidecars(entries if tfds is None else [tfds.files], needed=not self._is_declared)
        format = self.format or sidecars.format or known.get("format")
        backend, files = choose_files(sidecars.current_entries(), format)
        if self.format is None:
            check_one_format(backend, list(chain.from_iterable(files)))
        typed = tuple(self.spec or ()) if isinstance(backend, FieldsBackend) else None
        metadata = known | sidecars.metadata(files, self._used, report, typed)
        for error in missing_shards(entries, files):
            report(error)
        folders = partition_values(entries, list(chain.from_iterable(files)))
        spec = None if self.spec is None else Spec({name: k for name, k in self.spec.items() if name not in folders})
        arguments = replace(self, format=backend.name, spec=spec or None)  # nothing is detected when opened again
        if isinstance(self.cache, str) and self.cache.startswith(_DISK):
            if self.cache_bytes < 2**20 or self.cache == _DISK:
                raise ValueError(
                    f"expected {_DISK}PATH and at least 1 MiB, found {self.cache!r} and {self.cache_bytes}"
                )
            keep_on_disk(chain.from_iterable(files), self.cache.removeprefix(_DISK), self.cache_bytes)
        backend_options = checked_options(backend, "open", self.backend_options)
        declared = declared_schema(arguments, backend.name, metadata)
        reader = backend.open(
            list(chain.from_iterable(files)), replace(arguments, saved=declared.saved), **backend_options
        )
        if self.payload is not None and reader.spec is not None:
            remedy = Remedy("Leave out {payload}; name the types of fields in {spec}.", payload=self.payload, spec=...)
            raise SpecError(f"{backend.name} stores each field separately", remedy=remedy)
        for lacking in lacking_parts(reader, declared.spec or {}):
            report(lacking)
        source: FileSource
        if isinstance(reader, Table):
            source = TableSource(arguments, backend, reader, declared)
        else:
            source = BlobSource(arguments, backend, reader, declared)
        source.partitions = partition_values(entries, reader.files) if folders else {}
        return source

    def _is_folder(self, name: str) -> bool:
        """True if `format` stores datasets as folders and `name` is no name of one of its files."""
        backend = None if self.format is None else backends.get(self.format)
        return backend is not None and backend.in_folders and not backend.matches_name(name)

    @property
    def _is_declared(self) -> bool:
        """True if the call gives payload and spec, or the spec of a format that has no payload."""
        named = None if self.format is None else backends.get(self.format)
        return self.spec is not None and (self.payload is not None or isinstance(named, FieldsBackend))

    def _used(self, metadata: Mapping[str, Any]) -> set[str]:
        """Return the names of the metadata of a sidecar that the call does not replace by its own."""
        used = set() if self.payload is not None or metadata.get("payload") is None else {"payload"}
        has_types = spec_applies(self.payload, metadata) and not metadata["spec"].keys() <= (self.spec or {}).keys()
        return used | ({"spec"} if has_types else set())

    def reopen(self, pickled: PickledSource) -> FileSource:
        """Open the files of a pickled source.

        Raises:
            StateMismatchError: The data have another fingerprint.
        """
        known = self._open_known(pickled)
        source = known or self.open(lambda _: None)  # that source accepted its sidecars
        if pickled.is_declared:
            source = source.with_whole_spec(pickled.spec)
        source.adopt_memory(pickled.memory)
        is_same = known is not None or source.versions == pickled.versions is not None
        source.adopt(pickled.payload, pickled.spec, pickled.fingerprint if is_same else None)
        _check_same(source, pickled.fingerprint)
        return source

    def open_blobs(self, report: Callable[[FormatError], None] = raise_error) -> BlobSource:
        """Open files whose records are ranges of bytes: see `open`.

        Raises:
            SpecError: A library decodes the format.
        """
        return blobs_of(self.open(report))

    def _open_known(self, pickled: PickledSource) -> FileSource | None:
        """Open files as they were pickled; `None` if they must be listed, opened and compared."""
        found = None if pickled.files is None else known_files(pickled.files)
        if found is None or self.format is None:
            return None
        files, counts = found
        backend = backends.get(self.format)
        reader = backend.open(files, replace(self, counts=counts), **self.backend_options)
        assert not isinstance(reader, Table)  # it was packed by its source
        return BlobSource(self, backend, reader, declared_schema(self, self.format, pickled.declared))

    def __reduce__(self) -> tuple[Any, ...]:
        defaults = OpenArguments(path=None)
        names = [one.name for one in fields(self) if one.name not in ("spec", "progress", "counts", "saved")]
        changed = {name: getattr(self, name) for name in names if getattr(self, name) != getattr(defaults, name)}
        changed["path"] = to_picklable(self.path)
        return _arguments, (changed | ({} if self.spec is None else {"spec": self.spec.to_json()}),)


def _check_same(source: RecordSource, fingerprint: str) -> None:
    if source.fingerprint != fingerprint:
        raise StateMismatchError(
            f"the data at {source.paths[0]!r}",
            expected=fingerprint,
            found=source.fingerprint,
            remedy="they changed since this source was pickled: open them again",
        )


def _arguments(changed: dict[str, Any]) -> OpenArguments:
    return OpenArguments(spec=spec_of_json(changed.pop("spec", None)), **changed)
