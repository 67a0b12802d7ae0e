"""Read fields by operations: the stored bytes are read as a column, and each operation makes another one of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.batch import Blobs, Column, Ragged, RecordBatch, take_column
from dataformats.columns.codec_resolver import as_bytes
from dataformats.columns.field_decoder import error_message
from dataformats.errors import CodecError, MissingExtraError, Remedy, SpecError, UnknownNameError
from dataformats.interfaces import Decode, FieldOperation
from dataformats.interfaces.declared_spec import declared_spec
from dataformats.interfaces.record_source import Fields, OnCorrupt, RecordSource
from dataformats.spec import NUMBER_TYPES, SpecLike, Type
from dataformats.storage.threads import for_each

Generators = Callable[[FieldOperation, int], "np.random.Generator"]
"""The generator of an operation for a row of a batch."""

Source = TypeVar("Source")


def with_stored_bytes(source: Source, decode: Decode) -> Source:
    """Return a source of the same records with the stored bytes of these fields; it shares files and memory.

    Records without a spec, which are results of a function, are left as they are: their values must be bytes.

    Raises:
        UnknownNameError: The source has no such field.
        SpecError: A field does not store bytes, or not one value for each record.
        TypeError: It is not a dict of operations.
    """
    if not isinstance(decode, Mapping):
        raise TypeError(f"decode: expected a dict of field to operation, found {decode!r}")
    for name, operation in decode.items():
        if not isinstance(operation, FieldOperation):
            raise TypeError(f"decode: expected an operation for {name!r}, found {operation!r}")
    if not isinstance(source, RecordSource) or (spec := declared_spec(source)) is None:
        return source
    for name in decode:
        if name not in spec:
            raise UnknownNameError("field", name=name, known=spec)
        _check_type(spec[name], name)
    if all(spec[name].codec == "bytes" for name in decode):
        return source
    return cast("Source", source.with_spec(as_bytes(spec, decode)))


class DecodingSource(RecordSource):
    """A source whose `read` takes `decode=`: `open`, `concat` and all views return one.

    An operation gets random numbers that depend on its seed and the record's index alone.

    Example:
        >>> import dataformats
        >>> from dataformats.images import CenterCrop
        >>> photos = dataformats.open("tests/golden/real/photos.tfrecord")
        >>> photos.read([0, 1], decode={"image": CenterCrop(64)})["image"].shape
        (2, 64, 64, 3)
    """

    if TYPE_CHECKING:  # the source under the other spec takes `decode=`, too

        def with_spec(self, spec: SpecLike) -> DecodingSource: ...

    @abstractmethod
    def _read_stored(self, indices: ArrayLike, fields: Fields, on_corrupt: OnCorrupt) -> RecordBatch:
        """Return the records with the values that the spec gives them: see `RecordSource.read`."""

    def read(
        self,
        indices: ArrayLike,
        fields: Fields = None,
        on_corrupt: OnCorrupt = "raise",
        decode: Decode | None = None,
    ) -> RecordBatch:
        """Return the records at `indices`, in that order, repeats included, as one batch.

        Args:
            indices: int[n], each in `[0, len)`.
            fields: Names, or one mask; `None` reads all.
            on_corrupt: See `RecordSource.read`.
            decode: Field to the operation that decodes it instead of its codec: see `dataformats.images`.

        Raises:
            IndexError: An index is out of range `[0, len)`.
            FormatError: A record is damaged: file, record, offset, expected and found.
            SpecError: A record does not fit the spec, or a field of `decode` does not store bytes.
            CodecError: A value does not decode.
        """
        if not decode:
            return self._read_stored(indices, fields, on_corrupt)
        batch = with_stored_bytes(self, decode).read(indices, fields, on_corrupt)
        numbers = batch.indices

        def generator(operation: FieldOperation, row: int) -> np.random.Generator:
            return np.random.default_rng((operation.seed, int(numbers[row])))

        return decode_fields(self, batch, decode, generator, on_corrupt)


def decode_fields(
    source: Any, batch: RecordBatch, decode: Decode, generators: Generators, on_corrupt: OnCorrupt
) -> RecordBatch:
    """Return a batch whose columns of stored bytes are decoded by operations.

    Args:
        source: Names the file of a record, by `origins`.
        batch: A batch with stored bytes: see `with_stored_bytes`.
        decode: Field to operation; fields that the batch lacks are left out.
        generators: Returns the generator of a row of this batch.
        on_corrupt: See `RecordSource.read`.

    Raises:
        CodecError: A value does not decode.
        SpecError: A field does not hold bytes.
    """
    blobs = {name: _blobs(batch.columns[name], name) for name in decode if name in batch.columns}

    def decoded(name: str, rows: NDArray[np.int64]) -> Column:
        operation = decode[name]
        return operation.decode_batch(blobs[name].take(rows), lambda row: generators(operation, int(rows[row])))

    rows = np.arange(len(batch))
    try:
        columns = {name: decoded(name, rows) for name in blobs}
        return replace(batch, columns={**batch.columns, **columns})
    except (MemoryError, MissingExtraError):
        raise  # the machine or the installation causes these, not a record
    except Exception as error:
        failed = _failures(blobs, decoded, len(rows))
        if not failed:
            raise error
    errors = {
        row: _located(source, int(batch.indices[row]), None if batch.single else name, decode[name], cause)
        for row, (name, cause) in failed.items()
    }
    if on_corrupt == "raise":
        first = min(errors)
        raise errors[first] from errors[first].__cause__
    by_index = {int(batch.indices[row]): error for row, error in errors.items()}
    kept = np.flatnonzero(~np.isin(batch.indices, list(by_index)))  # random numbers may fail for only one of equal ones
    columns = {name: take_column(column, kept) for name, column in batch.columns.items() if name not in blobs}
    columns = {name: columns[name] if name in columns else decoded(name, kept) for name in batch.columns}
    return RecordBatch(columns, batch.indices[kept], {**batch.failed, **by_index}, batch.single)


def _failures(
    names: Iterable[str], decoded: Callable[[str, NDArray[np.int64]], Column], n: int
) -> dict[int, tuple[str, Exception]]:
    """Return which of `n` rows do not decode, each with a field and its error."""
    failed: dict[int, tuple[str, Exception]] = {}

    def check(row: int) -> None:
        for name in names:
            try:
                decoded(name, np.array([row]))
            except (MemoryError, MissingExtraError):
                raise
            except Exception as error:
                failed.setdefault(row, (name, error))

    for_each(check, n)
    return dict(sorted(failed.items()))


def _located(source: Any, index: int, field: str | None, operation: FieldOperation, cause: Exception) -> CodecError:
    path, number, _ = source.origins([index])[0]
    error = CodecError(error_message(cause), codec=operation.name, field=field, index=number, path=path or None)
    error.__cause__ = cause
    return error


def _blobs(column: Any, name: str) -> Blobs:
    """Return the bytes that a column holds.

    Raises:
        SpecError: It holds something else, or a record lacks the field.
    """
    if isinstance(column, Ragged) and column.item_kind == "bytes" and isinstance(column.values, np.ndarray):
        if column.present is None or column.present.all():
            return Blobs(column.values, column.offsets[:-1], column.lengths)
    elif isinstance(column, list) and all(isinstance(value, bytes) for value in column):
        return Blobs.join(column)
    other = next((value for value in column if not isinstance(value, bytes | None)), None)
    found = "a record without it" if other is None else f"a {type(other).__name__}"
    raise SpecError(f"an operation decodes bytes, one value for each record; found {found}", field=name)


def _check_type(type_: Type, name: str) -> None:
    if type_.dims or type_.optional or type_.codec in NUMBER_TYPES:
        raise SpecError(
            f"an operation decodes bytes, one value for each record; found the type {type_}",
            field=name,
            remedy=Remedy("Pass {spec} if each record has one value of bytes there.", spec={name: "bytes"}),
        )
