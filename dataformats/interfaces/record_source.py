"""The contract of a source: a finite, random-access sequence of records."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from dataformats.batch import Ragged, RecordBatch
from dataformats.errors import Remedy, SpecError, UnknownNameError
from dataformats.foreign_names import SOURCE, no_attribute
from dataformats.integer_arguments import as_int, checked_int
from dataformats.interfaces.codec import SequenceCodec
from dataformats.interfaces.declared_spec import SpecAttribute, declared_spec, is_single
from dataformats.interfaces.source_facts import Origin, SourceFacts, SpecFacts
from dataformats.registry import codecs as registered
from dataformats.spec import VALUE, Spec, SpecLike, Type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from dataformats.display.record_table import NotebookTable
    from dataformats.reading.conditions import Where
    from dataformats.reading.field_operations import DecodingSource
    from dataformats.reading.stats import FieldStats

OnCorrupt = Literal["raise", "omit"]
"""How a read treats a damaged record: raise its error, or leave it out and note it in `batch.failed`."""

Fields = Sequence[str] | Mapping[str, "bool | range"] | None
"""Field names, or one mask for all records (`{"frames": range(32, 42), "title": True}`); `None` is every field.

A range is of the elements of a sequence, the frames of a video, or the samples of a sound.
"""

_AS_EXAMPLES = Remedy("If the records are tf.train.Examples, pass {payload}.", payload="example")


class RecordSource(ABC):
    """A finite, random-access sequence of records, whatever file format they lie in.

    Records are dicts of fields, or single values if the payload has no fields. A source may be used from many
    threads, after `fork`, and pickled to other processes; it is a `collections.abc.Sequence`, a Grain
    `RandomAccessDataSource`, and has PyTorch's `__getitems__`.

    To make a source of your own, implement `__len__`, `read`, `spec` and `fingerprint`, and override `facts`,
    `record_bytes` and `scan` if there is something to say. `concat`, `mix`, `convert`, `info`, `verify` and
    `Loader` then accept it.

    Example:
        >>> import dataformats
        >>> spec = {"image": "uint8[8,8]", "label": "int64"}
        >>> src = dataformats.open("tests/golden/real/digits-*.tfrecord", spec=spec)
        >>> len(src)
        1797
        >>> src[-1]["label"]
        8
        >>> src[:100].read([5, 3])["image"].shape
        (2, 8, 8)

        A source that computes its records:

        >>> import numpy as np
        >>> class Squares(dataformats.RecordSource):
        ...     spec = dataformats.Spec({"n": "int64", "square": "int64"})
        ...     fingerprint = "squares-10"
        ...     def __len__(self):
        ...         return 10
        ...     def read(self, indices, fields=None, on_corrupt="raise"):
        ...         n = np.asarray(indices, np.int64)
        ...         columns = {"n": n, "square": n * n}
        ...         return dataformats.RecordBatch({name: columns[name] for name in self.mask(fields)}, n)
        >>> Squares()[3]
        {'n': 3, 'square': 9}
        >>> len(dataformats.concat([Squares(), Squares().where(lambda record: record["square"] > 50)]))
        12
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        declared = inspect.getattr_static(cls, "spec")
        is_abstract = declared is None or getattr(declared, "__isabstractmethod__", False)
        if not isinstance(declared, SpecAttribute) and not is_abstract:
            cls.spec = SpecAttribute(declared)  # type: ignore[method-assign, assignment]  # it gives a Spec

    # ---- what a source implements

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of records; the first call may build an index.

        In a damaged file: the records found, plus one for a rest that cannot be read.
        """

    @abstractmethod
    def read(
        self,
        indices: ArrayLike,
        fields: Fields = None,
        on_corrupt: OnCorrupt = "raise",
    ) -> RecordBatch:
        """Return the records at `indices`, in that order, repeats included, as one batch.

        Args:
            indices: int[n], each in `[0, len)`.
            fields: Names, or one mask; `None` reads all. `mask(fields)` resolves them.
            on_corrupt: `"raise"` the error of the first damaged record, or `"omit"` it and note it in `batch.failed`.

        Raises:
            IndexError: An index is out of range `[0, len)`.
            FormatError: A record is damaged: file, record, offset, expected and found.
            SpecError: A record does not fit the spec.
        """

    @property
    @abstractmethod
    def spec(self) -> Spec:
        """Field to type; single values have the one field `"value"`. A class may declare a plain mapping."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A digest (hex) that identifies the records, for states that are checked when loaded.

        Equal records have equal fingerprints on every machine. For files it covers format, counts, sizes, all record
        lengths and stored checksums, and the bytes of 64 records at fixed places, never paths, times or specs. If a
        field has more than 1 MiB in a record, it covers the first and the last 64 KiB: it costs no full read.
        """

    # ---- what a source may describe

    def fingerprint_of_first(self, n: int, n_stored: int | None = None) -> str | None:
        """Return the fingerprint that the source had when its data ended with its first `n` records.

        A training run whose data grow compares it. Sources of files know it of whole shards, of TFRecord and OFRecord
        files, of lines, and of Granular datasets of generation 3.

        Args:
            n: Number of records, in `[0, len]`.
            n_stored: Number of records that its data had then, if this is a view of some of them; `None` is `n`.

        Returns:
            The fingerprint; `None` if it is unknown.
        """
        return self.fingerprint if n == len(self) else None

    @property
    def facts(self) -> SourceFacts:
        """The files of the source; by default none, and the format is the name of the class."""
        return SourceFacts(type(self).__name__)

    @property
    def spec_facts(self) -> SpecFacts:
        """The payload, where the spec comes from, and opaque fields; may read some records."""
        return SpecFacts()

    @property
    def format(self) -> str:
        """The name of the file format; by default, the name of the class."""
        return self.facts.format

    @property
    def payload(self) -> str | None:
        """The codec of whole records; `None` if fields are stored apart, or nothing is stored."""
        return self.spec_facts.payload

    @property
    def nbytes(self) -> int:
        """Bytes of all files; 0 if there are none."""
        return self.facts.nbytes

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, in reading order."""
        return self.facts.paths

    def record_bytes(self, indices: ArrayLike | None = None) -> float:
        """Return the average stored bytes of these records, or of all; reads none.

        Reads in order, conversions and loaders size their steps and caches by it.

        Args:
            indices: int[n], each in `[0, len)`; `None` estimates the average of all records from sizes of files.
        """
        return self.nbytes / max(1, len(self))

    # ---- what sources of files know better

    @property
    def block_starts(self) -> NDArray[np.int64] | None:
        """The first record of each block that is decoded at once: int64[n_blocks], from 0 on; `None` without blocks.

        A window order permutes these blocks.
        """
        return None

    def field_lengths(self, indices: ArrayLike, field: str) -> NDArray[np.int64]:
        """Return how many items a field of sequences has in each of these records; 0 if a record lacks it.

        By default the field is read; sources of files whose indexes have the lengths read nothing.

        Args:
            indices: int[n], each in `[0, len)`.
            field: A field whose type has dims.

        Raises:
            FormatError: A record is damaged.
            SpecError: A record does not fit the spec.
        """
        import numpy as np

        column = self.read(indices, [field]).columns[field]
        items = [] if isinstance(column, Ragged) else [0 if item is None else len(item) for item in column]
        return column.lengths if isinstance(column, Ragged) else np.array(items, np.int64)

    def origins(self, indices: ArrayLike, *, offsets: bool = False) -> list[Origin]:
        """Return file and index of each of these records, as errors name them; reads none.

        Args:
            indices: int[n], each in `[0, len)`.
            offsets: Locate the records, too, for `offset_bytes`: then `path` is the file of that byte.
        """
        from dataformats.reading.scan import as_numbers

        return [Origin("", index) for index in as_numbers(indices).tolist()]

    def present_fields(self, index: int) -> dict[str, bool | range]:
        """Return the fields of record `index`: field to True, or to the range of a sequence's elements."""
        batch = self.read([range(len(self))[index]])
        fields: dict[str, bool | range] = {}
        for name, column in batch.columns.items():
            present = getattr(column, "present", None)
            if present is None or present[0]:
                sequence = isinstance(column, Ragged) and column.item_kind == "array"
                fields[name] = range(len(column[0])) if sequence else True
        return fields

    # ---- reading

    def scan(self, fields: Fields = None) -> Iterator[RecordBatch]:
        """Yield all records in order as batches of any size, reading ahead.

        The first record that `read` refuses raises the error of `read`, after all records before it.
        """
        from dataformats.reading.scan import scan_by_reading

        return scan_by_reading(self, fields)

    def _read_record(self, index: int, fields: Fields = None) -> Any:
        """Return one record, its index in `[0, len)`, as `self[index]` does; a source may know a shorter path to it."""
        return self.read([index], fields)[0]

    def read_bytes(self, indices: ArrayLike) -> list[bytes]:
        """Return the stored payloads of these records, decompressed and verified.

        Raises:
            SpecError: A record has no stored bytes: fields are stored apart, or records are computed.
        """
        raise SpecError(f"records of {self.format!r} have no stored bytes: use read()")

    def mask(self, fields: Fields) -> dict[str, bool | range]:
        """Resolve `fields`: each field whole (`True`) or a range of a sequence's elements.

        Raises:
            UnknownNameError: The spec has no such field.
            SpecError: A range of a field that is no sequence: it has no `[]`, and is no video and no sound.
        """
        if fields is None:
            return dict.fromkeys(self.spec, True)
        if isinstance(fields, str):
            raise TypeError(f"expected a list of field names, found the string {fields!r}: pass [{fields!r}]")
        for name in fields:
            if not isinstance(name, str):
                raise TypeError(f"expected names of fields, found {name!r}")
        wanted = dict(fields) if isinstance(fields, Mapping) else dict.fromkeys(fields, True)
        for name, part in wanted.items():
            if name not in self.spec:
                remedy = _AS_EXAMPLES if self.payload == "bytes" else None
                raise UnknownNameError("field", name=name, known=self.spec, remedy=remedy)
            if isinstance(part, range) and not self.spec[name].dims and not _is_sequence(self.spec[name]):
                raise SpecError(f"a range needs a sequence, found {self.spec[name]}", field=name)
        return {name: part for name, part in wanted.items() if part is not False}

    if not TYPE_CHECKING:  # type checkers report unknown attributes

        def __getattr__(self, name: str) -> Any:
            if not hasattr(type(self), name):
                raise no_attribute(self, name, SOURCE)
            return object.__getattribute__(self, name)  # raises again

    def __getitem__(self, key: Any) -> Any:
        """Return one record (`src[5]`, `src[-1]`), a part of one (`src[5, mask]`), or a view (`src[2:10]`)."""
        if isinstance(key, slice):
            return self.take(range(len(self))[key])
        number, fields = (key, None) if type(key) is int else self._index_and_fields(key)
        n = len(self)
        if not -n <= number < n:
            raise IndexError(f"index {number} is out of range for {n} records")
        return self._read_record(number if number >= 0 else number + n, fields)

    def _index_and_fields(self, key: Any) -> tuple[int, Fields]:
        """Return the index and the fields of `src[key]`."""
        index, fields = key if isinstance(key, tuple) and len(key) == 2 else (key, None)
        try:
            return as_int(index), fields
        except TypeError:
            known = declared_spec(self) if isinstance(key, str) else None
            if known is not None and key not in known:
                raise UnknownNameError("field", name=str(key), known=known) from None
            raise TypeError(f"expected an index or a slice, found {key!r:.80}: {_instead_of_key(key)}") from None

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Return the records at `indices`, read at once, as PyTorch's DataLoader asks."""
        return list(self.read(indices))

    _getitems = __getitems__  # the name that Grain reads batches by

    def __iter__(self) -> Iterator[Any]:
        """Yield the records in order, reading ahead; the first one that `self[i]` refuses raises. Needs no index."""
        for batch in self.scan():
            yield from batch

    # ---- views

    def select(self, *fields: str | Sequence[str]) -> DecodingSource:
        """Return a view with these fields, in this order; the others are not decoded. A list of names is accepted."""
        from dataformats.reading import views

        names = _listed(fields)
        if any(not isinstance(name, str) for name in names):
            raise TypeError(f"select takes names of fields, found {names!r:.80}: take(indices) selects records")
        return views.SelectView(self, tuple(self.mask(names)))

    def map(self, function: Callable[[Any], Any]) -> DecodingSource:
        """Return a view whose records are `function(record)`, computed at each read."""
        from dataformats.reading import views

        return views.MapView(self, function)

    def take(self, indices: ArrayLike | range) -> DecodingSource:
        """Return a view of these records, in this order, repeats allowed.

        Raises:
            IndexError: An index is out of range `[0, len)`.
        """
        from dataformats.reading import views

        return views.take(self, indices)

    def where(self, condition: Where) -> DecodingSource:
        """Return a view of the records for which a condition is true.

        Args:
            condition: An expression in SQL, such as `"label = 3 and width > 100"`, which needs the extra `duckdb`; or a
                function of a record, called once for each, now, in parallel; or bool[len].

        Raises:
            MissingExtraError: It is SQL, and DuckDB is not installed.
            SpecError: The SQL does not parse or does not fit the fields, the function returns an array, or a mask has
                another length or dtype.
            UnknownNameError: There is no field of a name in the SQL.
        """
        from dataformats.reading import views

        return views.where(self, condition)

    @overload
    def find(  # type: ignore[overload-overlap]  # one key is `ArrayLike`, too
        self, keys: int | str | bytes, on: str | None = None
    ) -> int: ...

    @overload
    def find(self, keys: ArrayLike, on: str | None = None) -> NDArray[np.int64]: ...

    def find(self, keys: ArrayLike, on: str | None = None) -> int | NDArray[np.int64]:
        """Return the index of the record with a key, or the indices int64[n] of records with n keys.

        The first call reads the keys of all records, and keeps an index of them in the cache of indexes, as `zip(on=)`
        does. A later call reads only records that have the hash of a key.

        Args:
            keys: A key, or a list or array of keys: integers, or text, for which bytes stand as well.
            on: The field of the keys. `None` is the field of formats that have keys: `id` of RecordIO, `key` of LMDB,
                `__key__` of WebDataset.

        Raises:
            MissingExtraError: The index is made, and pyarrow is not installed.
            SpecError: Two records have one key, or the keys are no integers or text.
            UnknownNameError: No record has a key; it is a `KeyError`.

        Example:
            >>> import dataformats
            >>> src = dataformats.open("tests/golden/webdataset/train-*.tar")
            >>> src.find("train/0003"), src.find(["train/0009", "train/0001"])
            (3, array([9, 1]))
        """
        from dataformats.reading import key_lookup

        return key_lookup.find(self, keys, on)

    def split(self, *fractions: float | Sequence[float], seed: int = 0) -> tuple[DecodingSource, ...]:
        """Return disjoint views of these shares, and one of the rest if they leave one; records keep their order.

        The partition depends on `len`, the fractions and the seed alone, on every machine and version.

        Args:
            fractions: Shares in (0, 1), together at most 1; or one list of them.
            seed: Another seed, another partition.
        """
        from dataformats.reading import views

        return views.split(self, _listed(fractions), seed)

    def shard(self, number: int, count: int) -> DecodingSource:
        """Return part `number` of `count` contiguous parts whose lengths differ by at most one."""
        if not 0 <= checked_int("number", number, 0) < checked_int("count", count, 1):
            raise ValueError(f"expected 0 <= number < count, found number {number} and count {count}")
        n = len(self)
        return self.take(range(number * n // count, (number + 1) * n // count))

    def with_spec(self, spec: SpecLike) -> RecordSource:
        """Return the same records with other types of some fields; the other fields keep theirs.

        Raises:
            SpecError: The records are computed, not stored, or a stored value cannot be of the type.
        """
        raise SpecError(f"records of {self.format!r} are not stored under a spec")

    # ---- Arrow

    def to_arrow(self, *, media_structs: bool = False) -> Any:
        """Return all records as a `pyarrow.Table`: `to_batches` has the types.

        Raises:
            MissingExtraError: pyarrow is not installed.

        Example:
            >>> import dataformats
            >>> digits = dataformats.open("tests/golden/real/digits-*.tfrecord")
            >>> digits.select("label").to_arrow().group_by("label").aggregate([("label", "count")]).num_rows
            10
        """
        return self.to_batches(media_structs=media_structs).read_all()

    def to_batches(
        self, batch_size: int | None = None, fields: Sequence[str] | None = None, *, media_structs: bool = False
    ) -> Any:
        """Return a lazy `pyarrow.RecordBatchReader` of all records, in order.

        The schema follows from the spec alone. Fixed shapes are fixed-size lists, `[]` is a large list, a `?` gives
        nulls. Images, videos and values of other codecs stay as they are stored, as binary; `json` is its text;
        `array` and `npy` are structs of dtype, shape and data; `int` is int64.

        Args:
            batch_size: Records of a batch; `None` is about a thousand, fewer if they are large.
            fields: The fields to read; `None` reads all.
            media_structs: Images, videos and sounds are Hugging Face's structs `{bytes, path}` instead of binary.

        Raises:
            MissingExtraError: pyarrow is not installed.
            SpecError: The records have no spec, as after `map`; an `int` does not fit in 64 bits.
        """
        from dataformats.reading.arrow_stream import arrow_reader

        return arrow_reader(self, batch_size, fields, media_structs)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return a stream of all records for any program that reads Arrow: DuckDB, Polars, pandas, pyarrow."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    # ---- statistics, life

    @overload
    def stats(self, field: str) -> FieldStats: ...

    @overload
    def stats(self, field: None = None) -> FieldStats | dict[str, FieldStats]: ...

    def stats(self, field: str | None = None) -> FieldStats | dict[str, FieldStats]:
        """Return the statistics of a field, or of all in one scan: field to `FieldStats`.

        Single values have one `FieldStats`, without a name. Damaged records are left out and counted in `failed`.
        Memory is bounded.

        Raises:
            SpecError: A record does not fit the spec.

        Example:
            >>> import dataformats
            >>> stats = dataformats.open("tests/golden/real/photos.tfrecord").stats()
            >>> stats["width"].mean, stats["image"].largest[0].text
            (315.5833333333333, 'JPEG image, 320 x 320, RGB')
        """
        from dataformats.reading.stats import scan_stats

        name = VALUE if field is None and is_single(self) else field
        [running] = deque(scan_stats(self, None if name is None else [name]), maxlen=1)
        found = running.snapshot()
        return found if name is None else found[name]

    def view(self, n: int = 20) -> NotebookTable:
        """Return the first `n` records as a table for notebooks, with pictures; damaged records show their errors.

        Views choose other records and fields: `source[1000:1020].select("image").view()`. Only these records are read.
        A table has at most 50 fields, and some 5 MB.

        Raises:
            FormatError: The records cannot be counted.

        Example:
            >>> import dataformats
            >>> dataformats.open("tests/golden/real/digits-*.tfrecord")[100:200].select("label").view(10)
            <NotebookTable of SelectView: tfrecord, 100 records, from 3 files of 203,061 bytes; payload: example>
        """
        from dataformats.display.record_table import VIEW
        from dataformats.reading.source_repr import table_of

        return table_of(self, max(0, n), VIEW)

    def close(self) -> None:  # noqa: B027  # most sources hold nothing
        """Release files; using the source again opens them again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        from dataformats.reading.source_repr import text_of

        return text_of(self)

    def _repr_html_(self) -> str:
        """Return a table of the first records for notebooks, with pictures; damaged records show their errors."""
        from dataformats.reading.source_repr import html_of

        return html_of(self)


Sequence.register(RecordSource)  # type: ignore[type-abstract]  # its children are sequences


def _is_sequence(type_: Type) -> bool:
    """Return True if elements of one value can be decoded without the others, as the frames of a video."""
    return registered.shipped(type_.codec) and isinstance(registered.get(type_.codec), SequenceCodec)


def _listed(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments, or the items of a list that is the only one."""
    return tuple(arguments[0]) if len(arguments) == 1 and isinstance(arguments[0], (list, tuple)) else arguments


def _instead_of_key(key: Any) -> str:
    if isinstance(key, str):
        return f"source.select({key!r}) is a view, source.read(range(len(source)), [{key!r}])[{key!r}] the column"
    return "source.read(indices) is a batch, source.take(indices) a view, source.where(mask) too"
