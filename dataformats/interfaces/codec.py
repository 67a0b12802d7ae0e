"""The interface of a codec, which converts one kind of value to bytes and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dataformats.batch import Blobs, Column
from dataformats.batch.value_slices import SplitBlobs, ValueSlice
from dataformats.errors import SpecError
from dataformats.spec import Spec, Type

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Codec(ABC):
    """Converts one kind of value to bytes and back: implement `name`, `encode` and `decode`.

    Deterministic and thread-safe; never reads outside the blob.

    Attributes:
        name: The name of the codec in specs.
        safe: True if a file may name this codec: decoding runs no code from the data.
        portable: True if a blob means the same in every format, so that a conversion may copy it.
        costly: True if decoding takes far longer than reading, as of pictures: then blobs that a conversion copies are
            not decoded.
        blob_bytes: The size of every blob, if all have the same; `None` if they differ or it is unknown.
        decodes_alike: True if an item of the column of `decode_batch` is the result of `decode`. Only a codec that
            overrides `decode_batch` needs to say so.
    """

    name: str
    safe: bool = True
    portable: bool = True
    costly: bool = False
    blob_bytes: int | None = None
    decodes_alike: bool = False

    def with_args(self, args: Sequence[str]) -> Codec:
        """Return the codec with the arguments that a type gives in parentheses.

        Raises:
            SpecError: The codec takes no arguments, or not these.
        """
        if args:
            raise SpecError(f"codec {self.name!r} takes no arguments, found ({','.join(args)})")
        return self

    @abstractmethod
    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value. An exception is chained to a `CodecError`."""

    @abstractmethod
    def decode(self, blob: bytes) -> Any:
        """Return the value of these bytes. An exception is chained to a `CodecError`."""

    def decode_batch(self, blobs: Blobs) -> Column:
        """Return the values of many blobs as a column; by default, a list."""
        return [self.decode(blob) for blob in blobs]

    def encode_batch(self, values: Column) -> Blobs | None:
        """Return the bytes of the values of a column or list, as `encode` does, if one call is faster.

        Returns:
            `None`, the default, if values like these must be encoded one by one. After any exception they are, too, so
            that `encode` reports the error.
        """
        return None


class ArrayCodec(Codec):
    """A codec of arrays: it may know their declared type, and decode blobs whose data were read apart."""

    @abstractmethod
    def specialized_for(self, declared: Type) -> Codec:
        """Return the codec that may give the column of a declared type at once, without a check of each array."""

    @abstractmethod
    def value_slice(self, blobs: Blobs) -> ValueSlice | None:
        """Return a part at the same place in all blobs whose bytes `decode_split` does not need to parse."""

    @abstractmethod
    def decode_split(self, split: SplitBlobs) -> Column | None:
        """Return the column, made of `split.rows`; `None` if the blobs must be decoded whole."""


class SequenceCodec(Codec):
    """A codec of sequences, such as the frames of a video, that decodes a few of their elements in less time.

    A mask of a read may have a range for such a field: `src[5, {"video": range(32, 48)}]`.
    """

    @abstractmethod
    def decode_part(self, blob: bytes, part: range) -> Any:
        """Return the elements `part`, in that order, as `decode` gives them; fewer if the value has too few.

        No element of `part` is below 0.
        """


class FieldCodecs(Protocol):
    """Resolves types to codecs by the rules of one call: overrides first; unsafe names in files are refused."""

    def codec(self, element: Type) -> Codec:
        """Return the codec of a type's elements; dims and `?` are ignored. Numbers are little-endian bytes.

        The codec of `bytes` decodes an opaque type: one that a file names, and that no codec may decode.

        Raises:
            UnknownNameError: The call names no such codec.
        """
        ...

    def decode(
        self, type_: Type, blobs: Blobs, counts: NDArray[np.int64] | None = None, *, field: str | None = None
    ) -> Column:
        """Return the column of a field stored as blobs; `type_.optional` is left to the caller.

        Args:
            type_: The field's type. Numbers are one blob a record or, if dims start with `[]` and counts are given,
                any number of blobs of whole elements. Other codecs with dims have one blob an element.
            blobs: All blobs, record after record.
            counts: int64[n], blobs of each record; `None`: one each.
            field: The field's name, for errors.

        Returns:
            Numbers: ndarray `(n, ...)`, or a `Ragged` over `(sum, ...)`. Other codecs: the result of `decode_batch`,
            in a `Ragged` for each of the dims.

        Raises:
            CodecError: A blob does not decode, or there are too few or too many; `index` is the row of the
                record among those given.
            SpecError: The dims have `[]` elsewhere than at their beginning.
            UnknownNameError: The call names no such codec.
        """
        ...

    def encode(self, type_: Type, value: Any, *, field: str | None = None) -> list[bytes]:
        """Return the blobs of a value: one; with dims and a codec that is not a number's, one per element."""
        ...


class RecordCodec(Codec):
    """A payload whose values are records with fields. `decode` returns a record as stored, without a spec."""

    @abstractmethod
    def matches(self, blob: bytes) -> bool:
        """Return True if these bytes look like a record of this payload and parse to their end."""

    @abstractmethod
    def infer(self, blobs: Iterable[bytes]) -> Spec:
        """Return the spec that fits these records; those that do not parse are left out."""

    @abstractmethod
    def bind(self, spec: Spec, codecs: FieldCodecs, *, inferred: bool = False) -> RecordCoder:
        """Return the coder for records of this spec.

        Args:
            spec: The fields.
            codecs: Resolves the fields' types.
            inferred: The spec was inferred from samples: a field that it lacks is an error instead of being left out.

        Raises:
            SpecError: The payload cannot hold the spec; the error names every such field.
        """


class RecordCoder(ABC):
    """A payload bound to a spec. Thread-safe."""

    @abstractmethod
    def encode(self, record: Mapping[str, Any]) -> bytes:
        """Return the bytes of a record.

        Raises:
            SpecError: The record does not fit the spec.
            CodecError: A value does not encode.
        """

    def encode_columns(self, columns: Mapping[str, Column]) -> Blobs | None:
        """Return the bytes of the records of these columns, as `encode` does, if one call is faster.

        Returns:
            `None`, the default, if records like these must be encoded one by one.
        """
        return None

    @abstractmethod
    def decode_batch(self, blobs: Blobs, fields: Mapping[str, bool | range]) -> dict[str, Column]:
        """Return a column for each requested field.

        Raises:
            CorruptRecordError: A blob does not parse.
            SpecError: A record does not fit the spec.
            CodecError: A value does not decode.
        """

    def decode_record(self, blob: bytearray, fields: Mapping[str, bool | range]) -> dict[str, Any] | None:
        """Return the record that a batch of this blob has; `None`, or any error, if only `decode_batch` can tell."""
        return None

    def value_slice(self, blobs: Blobs, fields: Mapping[str, bool | range]) -> ValueSlice | None:
        """Return a part at the same place in all blobs whose bytes `decode_split` does not need to parse."""
        return None

    def decode_split(self, split: SplitBlobs, fields: Mapping[str, bool | range]) -> dict[str, Column] | None:
        """Return the result of `decode_batch`; `None` if the blobs must be decoded whole.

        Raises:
            SpecError: A record does not fit the spec.
            CodecError: A value does not decode.
        """
        return None
