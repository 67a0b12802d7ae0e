"""Features: the lists of bytes, floats or integers that a TFRecord payload keeps under each name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.batch import Blobs
from dataformats.codecs.messages import FEATURE_MESSAGE, parse
from dataformats.codecs.wire import delimited, packed_bytes, packed_integers, packed_numbers
from dataformats.errors import SpecError
from dataformats.fields import encode_value, holds_numbers
from dataformats.interfaces import Codec, FieldCodecs
from dataformats.spec import Type
from dataformats.values import exact

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BYTES",
    "FEATURE",
    "FLOATS",
    "INTEGERS",
    "KIND_TYPES",
    "MISSING",
    "Facts",
    "FeatureColumn",
    "encode_feature",
    "feature_value",
    "gather",
    "number_feature",
]

MISSING, BYTES, FLOATS, INTEGERS = range(4)
"""Kinds of features: none set, and the numbers of the lists in the message `Feature`."""

KIND_TYPES = {BYTES: "bytes", FLOATS: "float32", INTEGERS: "int64"}
"""The type of one value of a list."""

_KINDS = {None: MISSING, "bytes_list": BYTES, "float_list": FLOATS, "int64_list": INTEGERS}
_ONE_BY_ONE = 16  # up to so many values a record, Python lists are faster than one numpy array a record


# ---- reading


@dataclass(frozen=True, slots=True, eq=False)
class FeatureColumn:
    """The features of one name in a batch: the neutral form between messages and typed columns.

    Attributes:
        kinds: uint8[B], `MISSING`, `BYTES`, `FLOATS` or `INTEGERS`.
        counts: int64[B], values of each.
        blobs: The values of all bytes features, in order.
        floats: float32[sum], those of all float features.
        integers: int64[sum], those of all integer features.
    """

    kinds: NDArray[np.uint8]
    counts: NDArray[np.int64]
    blobs: Blobs
    floats: NDArray[np.float32]
    integers: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.kinds)

    def held(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> FeatureColumn:
        """Return the column of these rows, which must leave out nothing but missing features."""
        return FeatureColumn(self.kinds[rows], self.counts[rows], self.blobs, self.floats, self.integers)

    def values(self) -> list[Any]:
        """Return each feature's values as stored: an array, a list of bytes, or `None`."""
        lists: dict[int, Any] = {BYTES: list(self.blobs), FLOATS: self.floats, INTEGERS: self.integers}
        at = dict.fromkeys(lists, 0)
        found: list[Any] = []
        for kind, count in zip(self.kinds.tolist(), self.counts.tolist(), strict=True):
            if kind == MISSING:
                found.append(None)
                continue
            found.append(lists[kind][at[kind] : at[kind] + count])
            at[kind] += count
        return found


def gather(features: Iterable[Any]) -> FeatureColumn:
    """Return the column of these `Feature` messages; `None` is a record without one."""
    kinds: list[int] = []
    counts: list[int] = []
    lists: dict[int, list[Any]] = {BYTES: [], FLOATS: [], INTEGERS: []}
    for feature in features:
        name = None if feature is None else feature.WhichOneof("kind")
        kinds.append(_KINDS[name])
        if name is None:
            counts.append(0)
            continue
        values = getattr(feature, name).value
        counts.append(len(values))
        lists[_KINDS[name]].append(values)
    return FeatureColumn(
        np.array(kinds, np.uint8),
        np.array(counts, np.int64),
        Blobs.join([blob for values in lists[BYTES] for blob in values]),
        _joined(lists[FLOATS], np.dtype(np.float32)),
        _joined(lists[INTEGERS], np.dtype(np.int64)),
    )


def _joined(parts: list[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    if not parts:
        return np.zeros(0, dtype)
    if sum(map(len, parts)) > _ONE_BY_ONE * len(parts):
        return np.concatenate([np.asarray(part, dtype) for part in parts])
    values: list[Any] = []
    for part in parts:
        values.extend(part)
    return np.array(values, dtype)


def feature_value(feature: Any) -> Any:
    """Return the values of a `Feature` message as stored: an array, a list of bytes, or `None`."""
    kind = feature.WhichOneof("kind")
    if kind is None:
        return None
    values = getattr(feature, kind).value
    if kind == "bytes_list":
        return list(values)
    return np.array(values, np.float32 if kind == "float_list" else np.int64)


# ---- inference


@dataclass(slots=True)
class Facts:
    """What is known of one name after some records.

    Attributes:
        kinds: The kinds seen, `MISSING` only of features that are there and have none.
        counts: The numbers of values seen, two at most.
        n_records: Records, or steps, that have values under the name.
    """

    kinds: set[int] = field(default_factory=set)
    counts: set[int] = field(default_factory=set)
    n_records: int = 0

    def add(self, feature: Any) -> None:
        """Take in one `Feature` message."""
        name = feature.WhichOneof("kind")
        self.kinds.add(_KINDS[name])
        if name is None:
            return
        self.n_records += 1
        if len(self.counts) < 2:
            self.counts.add(len(getattr(feature, name).value))

    def example_type(self, n_records: int) -> Type:
        """Return the type of a feature that was looked for in `n_records` records."""
        missing = self.n_records < n_records
        kinds = self.kinds - {MISSING}
        if len(kinds) != 1:
            return Type(FEATURE.name, optional=missing)
        dims = self._dims()
        return Type(KIND_TYPES[kinds.pop()], dims=dims, optional=missing and None not in dims)

    def step_type(self) -> Type:
        """Return the type of a feature list whose steps these were."""
        if len(self.kinds) != 1 or MISSING in self.kinds:
            return Type(FEATURE.name, dims=(None,))
        return Type(KIND_TYPES[next(iter(self.kinds))], dims=(None, *self._dims()))

    def _dims(self) -> tuple[int | None, ...]:
        """Return () for one value everywhere, (L,) for the same number L > 1, (None,) for anything else."""
        if self.counts == {1}:
            return ()
        size = next(iter(self.counts))
        return (size,) if len(self.counts) == 1 and size > 1 else (None,)


# ---- writing


class _Feature(Codec):
    """One feature as stored, for fields whose kind differs from record to record."""

    name = "feature"
    copyable = False  # a list of numbers is no bytes value

    def encode(self, value: Any) -> bytes:
        """Return a `Feature` message of an integer or float array, a list of bytes, or `None`."""
        if value is None:
            return b""
        if isinstance(value, list | tuple):
            return delimited(BYTES, packed_bytes([_checked_bytes(item) for item in value]))
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        if kind not in ("i", "u", "f"):
            raise TypeError(f"expected an integer or float array, a list of bytes or None, found {value!r:.80}")
        if kind == "f":
            return delimited(FLOATS, packed_numbers(exact(_FLOATS, value)))
        return delimited(INTEGERS, packed_integers(exact(_INTEGERS, value)))

    def decode(self, blob: bytes) -> Any:
        """Return int64 or float32 (n,), a list of bytes, or `None` for a feature without a kind."""
        return feature_value(parse(FEATURE_MESSAGE, blob))


_FLOATS, _INTEGERS = Type("float32", dims=(None,)), Type("int64", dims=(None,))

FEATURE = _Feature()
"""A feature of any kind."""


def _checked_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"expected a list of bytes, found {type(value).__name__} in it")
    return value


def encode_feature(codecs: FieldCodecs, kind: Type, value: Any, *, name: str) -> bytes:
    """Return the `Feature` message of a value, by DESIGN's table for TFRecord.

    Scalar integers and bools, and int64 of any shape, are an Int64List; float32 of any shape is a FloatList;
    other numbers and shapes are one bytes value, little-endian in C order; so is a codec's blob. A sequence
    (`[]`) is the values of its elements, one after the other, in one list.

    Raises:
        SpecError: The value does not fit the type, or the list cannot hold it.
        CodecError: The codec refuses the value.
    """
    if not holds_numbers(codecs, kind):
        blobs = encode_value(codecs, kind, value, field=name)
        if codecs.codec(kind.element) is FEATURE:
            return blobs[0]
        return delimited(BYTES, packed_bytes(blobs))
    return number_feature(kind, exact(kind, value, field=name), name)


def number_feature(kind: Type, array: NDArray[Any], name: str) -> bytes:
    """Return the `Feature` message of an array that fits `kind` exactly."""
    if kind.codec == "float32":
        return delimited(FLOATS, packed_numbers(array.reshape(-1)))
    sequence = kind.dims[:1] == (None,)
    of_scalars = not (kind.item if sequence else kind).dims
    if kind.codec == "int64" or (array.dtype.kind in "biu" and of_scalars):
        return delimited(INTEGERS, packed_integers(_as_int64(array.reshape(-1), name)))
    return delimited(BYTES, packed_bytes([part.tobytes() for part in (array if sequence else [array])]))


def _as_int64(array: NDArray[Any], name: str) -> NDArray[np.int64]:
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
        raise SpecError(f"{int(array.max())} does not fit an Int64List", field=name)
    return array.astype(np.int64, copy=False)
