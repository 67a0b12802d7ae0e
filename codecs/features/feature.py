"""Features: the lists of bytes or numbers under each name of a TFRecord or OFRecord payload.

Their kinds of lists and field numbers differ: see `codecs/features/list_kinds.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dataformats.codecs.features.list_kinds import BYTES, EXAMPLE_LISTS, KIND_DTYPES, KIND_TYPES, KINDS, MISSING, Lists
from dataformats.codecs.features.protobuf_messages import FEATURE_MESSAGE, parse
from dataformats.codecs.features.wire import delimited, packed_bytes, packed_integers, packed_numbers
from dataformats.columns.codec_resolver import encode_value, holds_numbers
from dataformats.columns.exact_cast import to_exact_array
from dataformats.columns.field_decoder import error_message
from dataformats.errors import CodecError, SpecError
from dataformats.interfaces import Codec, FieldCodecs
from dataformats.spec import Type

if TYPE_CHECKING:
    from numpy.typing import NDArray

# ---- reading


def feature_value(feature: Any) -> Any:
    """Return the values of a `Feature` message as stored: an array, a list of bytes, or `None`."""
    kind = feature.WhichOneof("kind")
    if kind is None:
        return None
    values = getattr(feature, kind).value
    if KINDS[kind] == BYTES:
        return list(values)
    return np.array(values, KIND_DTYPES[KINDS[kind]])


# ---- inference


@dataclass(slots=True)
class Facts:
    """Statistics of one name over some records.

    Attributes:
        kinds: The kinds seen; `MISSING` for features that are present without a kind.
        counts: The numbers of values seen, at most two of them.
        n_records: Records, or steps, with values under the name.
    """

    kinds: set[int] = field(default_factory=set)
    counts: set[int] = field(default_factory=set)
    n_records: int = 0

    def add(self, feature: Any) -> None:
        """Add one `Feature` message."""
        name = feature.WhichOneof("kind")
        self.kinds.add(KINDS[name])
        if name is None:
            return
        self.n_records += 1
        if len(self.counts) < 2:
            self.counts.add(len(getattr(feature, name).value))

    def example_type(self, n_records: int) -> Type:
        """Return the type of a feature over `n_records` records; some of them may lack it."""
        missing = self.n_records < n_records
        kinds = self.kinds - {MISSING}
        if kinds == {BYTES}:
            codec = KIND_TYPES[BYTES]
        elif kinds and kinds <= KIND_DTYPES.keys():
            codec = np.result_type(*(KIND_DTYPES[kind] for kind in kinds)).name
        else:
            return Type(FEATURE.name, optional=missing)
        dims = self._dims()
        return Type(codec, dims=dims, optional=missing and None not in dims)

    def step_type(self) -> Type:
        """Return the type of a feature list with these steps."""
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


class _StoredFeature(Codec):
    """One feature as stored, for fields whose kind differs from record to record."""

    name = "feature"
    portable = False  # a list of numbers is not a bytes value

    def __init__(self, lists: Lists) -> None:
        self._lists = lists

    def encode(self, value: Any) -> bytes:
        """Return a `Feature` message of an integer or float array, a list of bytes, or `None`."""
        if value is None:
            return b""
        if isinstance(value, list | tuple):
            return bytes_feature(self._lists, [_checked_bytes(item) for item in value])
        dtype: Any = getattr(value, "dtype", None)
        if getattr(dtype, "kind", "") not in ("i", "u", "f"):
            raise TypeError(f"expected an integer or float array, a list of bytes or None, found {value!r:.80}")
        kind = self._lists.for_dtype(dtype.name)
        return _number_message(self._lists, kind, to_exact_array(Type(KIND_TYPES[kind], dims=(None,)), value))

    def decode(self, blob: bytes) -> Any:
        """Return an array (n,), a list of bytes, or `None` for a feature without a kind."""
        return feature_value(parse(FEATURE_MESSAGE, blob))


FEATURE = _StoredFeature(EXAMPLE_LISTS)
"""A feature of any kind. Its own bytes are a TFRecord feature."""


def _checked_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"expected a list of bytes, found {type(value).__name__} in it")
    return value


def encode_feature(lists: Lists, codecs: FieldCodecs, type_: Type, value: Any, *, name: str) -> bytes:
    """Return the `Feature` message of a value.

    Numbers go to the list that `lists` has for them; other numbers and shapes are one bytes value, little-endian in C
    order; so is a codec's blob. A sequence (`[]`) is the values of its elements, one after the other, in one list.

    Raises:
        SpecError: The value does not fit the type, or the list cannot hold it.
        CodecError: The codec refuses the value.
    """
    if holds_numbers(codecs, type_):
        return number_feature(lists, type_, to_exact_array(type_, value, field=name), name)
    if codecs.codec(type_.element) is FEATURE:
        return any_feature(lists, value, name)
    return bytes_feature(lists, encode_value(codecs, type_, value, field=name))


def any_feature(lists: Lists, value: Any, name: str) -> bytes:
    """Return the `Feature` message of a value of the codec `feature`.

    Raises:
        CodecError: The value is not a feature.
    """
    try:
        return _StoredFeature(lists).encode(value)
    except (TypeError, SpecError) as error:
        raise CodecError(error_message(error), codec=FEATURE.name, field=name) from error


def stored_as(lists: Lists, type_: Type) -> int:
    """Return the list for values of a number type."""
    of_scalars = not (type_.item if type_.dims[:1] == (None,) else type_).dims
    return lists.for_type(type_.codec, of_scalars)


def encode_blobs(type_: Type, array: NDArray[Any]) -> list[bytes]:
    """Return an array whose numbers have no list as bytes values: one, or one for each element of a sequence."""
    return [part.tobytes() for part in (array if type_.dims[:1] == (None,) else [array])]


def check_listable(lists: Lists, type_: Type, array: NDArray[Any], name: str) -> None:
    """Raise if a list of integers cannot hold an array of its type.

    Raises:
        SpecError: The array has an integer from 2^63 on.
    """
    if array.dtype.kind == "u" and array.size and stored_as(lists, type_) != BYTES and int(array.max()) >= 2**63:
        raise SpecError(f"{int(array.max())} does not fit an Int64List", field=name)


def bytes_feature(lists: Lists, values: Iterable[bytes]) -> bytes:
    """Return the `Feature` message of a list of bytes values."""
    return _message(lists, BYTES, packed_bytes(values))


def number_feature(lists: Lists, type_: Type, array: NDArray[Any], name: str) -> bytes:
    """Return the `Feature` message of an array that fits `type_` exactly."""
    stored = stored_as(lists, type_)
    if stored == BYTES:
        return bytes_feature(lists, encode_blobs(type_, array))
    check_listable(lists, type_, array, name)
    return _number_message(lists, stored, array.reshape(-1))


def _number_message(lists: Lists, kind: int, values: NDArray[Any]) -> bytes:
    """Return the message of values in a list's own dtype."""
    if KIND_DTYPES[kind].kind == "f":
        return _message(lists, kind, packed_numbers(values))
    return _message(lists, kind, packed_integers(values.astype(np.int64, copy=False)))


def _message(lists: Lists, kind: int, values: bytes) -> bytes:
    return delimited(lists.numbers[kind], values)
