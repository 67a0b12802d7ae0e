"""Writes TFRecord files of Examples and SequenceExamples."""

from __future__ import annotations

import functools
import struct
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dataformats import create
from dataformats.internals import (
    BYTES,
    BYTES_ITEM,
    EXAMPLE_LISTS,
    FLOATS,
    INTEGERS,
    KINDS,
    MESSAGE,
    NUMBERS_ITEM,
    OTHER_ITEM,
    Field,
    Shape,
    Write,
    delimited,
    map_entry,
    masked_crc32c,
    packed_integers,
    packed_numbers,
    plan_writer,
)
from dataformats_compat.tfrecord import example_pb2
from dataformats_compat.tfrecord.reader import TYPENAMES, FeatureTypeError, list_of

__all__ = ["TFRecordWriter"]

Datum = Mapping[str, tuple[Any, str]]

_LISTS: dict[int, tuple[Any, int, str, int]] = {
    BYTES: (example_pb2.BytesList, BYTES_ITEM, "b", 1),
    FLOATS: (example_pb2.FloatList, NUMBERS_ITEM, "f", 4),
    INTEGERS: (example_pb2.Int64List, NUMBERS_ITEM, "i", 8),
}
"""Kind to its message, and the values that the kernels write: see `Field` of the kernels."""


class TFRecordWriter:
    """Writes records to a file, which has its name when it is complete: at `close`, or when the writer is deleted.

    Args:
        data_path: The file; an existing one is replaced at `close`.

    Attributes:
        file: The writer of this package, which has `flush` and `partial`.

    Example:
        >>> import pathlib, tempfile
        >>> writer = TFRecordWriter(pathlib.Path(tempfile.mkdtemp()) / "data.tfrecord")
        >>> writer.write({"length": (2, "int")}, {"tokens": ([[0, 1], [1, 0, 0]], "int")})
        >>> writer.close()
    """

    def __init__(self, data_path: Any) -> None:
        self.file: Any = create(data_path, "tfrecord", payload="bytes", overwrite=True)
        self._close = weakref.finalize(self, self.file.close)

    def close(self) -> None:
        """Complete the file."""
        self._close()

    def write(self, datum: Datum, sequence_datum: Datum | None = None) -> None:
        """Append an Example; with `sequence_datum`, a SequenceExample.

        Args:
            datum: Name to value and type: `"byte"`, `"float"` or `"int"`. The value is one or a sequence of them.
            sequence_datum: Name to steps and type; each step is as a value of `datum`.

        Raises:
            FeatureTypeError: A value does not have its type.
            FeatureKeyError: There is no such type.
            ValueError: The writer is closed.
        """
        if sequence_datum is None:
            self.file.append_bytes(self.serialize_tf_example(datum))
        else:
            self.file.append_bytes(self.serialize_tf_sequence_example(datum, sequence_datum))

    @staticmethod
    def masked_crc(data: bytes) -> bytes:
        """Return the checksum of bytes as a file stores it, 4 bytes.

        Example:
            >>> TFRecordWriter.masked_crc(b"data").hex()
            '8848269e'
        """
        return struct.pack("<I", masked_crc32c(data))

    @staticmethod
    def serialize_tf_example(datum: Datum) -> bytes:
        """Return the bytes of an Example: see `write`."""
        return _serialized(Shape.EXAMPLE, datum, {})

    @staticmethod
    def serialize_tf_sequence_example(context_datum: Datum, features_datum: Datum) -> bytes:
        """Return the bytes of a SequenceExample: see `write`."""
        return _serialized(Shape.SEQUENCE_EXAMPLE, context_datum, features_datum)


class _FeatureWriter(NamedTuple):
    """How a feature is written.

    Attributes:
        part: 0 for the context, or the only map; 1 for the feature lists.
        key: Its name.
        kind: Its list.
        many: True if its value is a sequence.
    """

    part: int
    key: str
    kind: int
    many: bool

    def message(self, value: Any) -> bytes:
        """Return the map's value: a `Feature`, or in part 1 a `FeatureList`."""
        if self.part == 0:
            return self._feature(value)
        return b"".join(delimited(1, self._feature(step)) for step in value)

    def _feature(self, value: Any) -> bytes:
        array = self.array(value)
        if array is not None:
            message = packed_numbers(array) if self.kind == FLOATS else packed_integers(array)
        else:
            values = value if isinstance(value, _SEQUENCES) else [value]
            try:
                message = _LISTS[self.kind][0](value=values).SerializeToString()
            except (TypeError, ValueError) as error:
                what = f"expected values of type {_NAMES[self.kind]!r}, found {value!r:.80} ({error})"
                raise FeatureTypeError(what, field=self.key) from error
        return delimited(EXAMPLE_LISTS.numbers[self.kind], message)

    def array(self, value: Any) -> np.ndarray[Any, Any] | None:
        """Return an array of numbers with the dtype of its list; `None` for values that protobuf must check."""
        if not isinstance(value, np.ndarray) or value.ndim != 1:
            return None
        if self.kind == FLOATS and value.dtype.kind in "fiu":
            with np.errstate(over="ignore"):
                return value.astype("<f4")
        if self.kind == INTEGERS and value.dtype.kind in "iu" and value.dtype != np.uint64:
            return value.astype("<i8")
        return None


_SEQUENCES = (list, tuple, np.ndarray)
_NAMES = {BYTES: "byte", FLOATS: "float", INTEGERS: "int"}


def _serialized(shape: Shape, context: Datum, lists: Datum) -> bytes:
    items = [(part, *item) for part, datum in enumerate((context, lists)) for item in datum.items()]
    features = tuple(_feature_of(part, key, pair) for part, key, pair in items)
    values = tuple(pair[0] for _, _, pair in items)
    write = _writer(shape, features)
    if write is None:
        return _joined(features, values)

    def normalize(number: int, value: Any) -> Any:
        feature = features[number]
        array = feature.array(value) if feature.part == 0 else None
        return feature.message(value) if array is None else array

    written = write(values, normalize)
    if isinstance(written, int):
        raise FeatureTypeError("the array changed while it was written", field=features[written].key)
    return written


def _feature_of(part: int, key: str, pair: Any) -> _FeatureWriter:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise FeatureTypeError(f"expected a value and its type, found {pair!r:.80}", field=key)
    value, typename = pair
    return _FeatureWriter(part, key, KINDS[list_of(typename, TYPENAMES, key)], isinstance(value, _SEQUENCES))


@functools.lru_cache(256)
def _writer(shape: Shape, features: tuple[_FeatureWriter, ...]) -> Write | None:
    fields = []
    for part, key, kind, many in features:
        _, item, letter, width = _LISTS[kind]
        if part == 0:
            fields.append(Field(key.encode(), 0, kind, True, item, letter, width, (-1,) if many else ()))
        else:
            fields.append(Field(key.encode(), 1, MESSAGE, True, OTHER_ITEM, "b", 1, ()))
    return plan_writer(shape, fields)


def _joined(features: Sequence[_FeatureWriter], values: Sequence[Any]) -> bytes:
    """Return the record, without kernels."""
    maps: tuple[list[bytes], list[bytes]] = ([], [])
    for feature, value in zip(features, values, strict=True):
        maps[feature.part].append(map_entry(1, feature.key.encode(), feature.message(value)))
    return b"".join(delimited(part + 1, b"".join(entries)) for part, entries in enumerate(maps) if entries)
