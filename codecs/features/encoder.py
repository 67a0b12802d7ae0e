"""Records to the bytes of payloads made of features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Never

from dataformats.codecs.features.feature import (
    FEATURE,
    any_feature,
    bytes_feature,
    check_listable,
    encode_blobs,
    number_feature,
    stored_as,
)
from dataformats.codecs.features.list_kinds import BYTES, Lists
from dataformats.codecs.features.validation import check_fields, check_missing, may_lack
from dataformats.codecs.features.wire import delimited, map_entry
from dataformats.codecs.text import BYTES as PLAIN_BYTES
from dataformats.codecs.text import UTF8
from dataformats.columns.codec_resolver import encode_value, holds_numbers
from dataformats.columns.exact_cast import to_exact_array
from dataformats.errors import CodecError, SpecError, UnknownNameError
from dataformats.fork_hooks import cached_property
from dataformats.interfaces import FieldCodecs
from dataformats.kernels.wire import Shape
from dataformats.kernels.wire_write import (
    BYTES_ITEM,
    MESSAGE,
    NUMBERS_ITEM,
    OTHER_ITEM,
    TEXT_ITEM,
    Field,
    Write,
    plan_writer,
)
from dataformats.spec import Spec, Type

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_WIDTH = 8  # bytes of a number in the kernel; float128 is larger


class RecordEncoder:
    """Encodes records of one spec. Thread-safe.

    Args:
        shape: The message type of the records.
        lists: The lists of the format.
        codecs: Resolves the fields' codecs.
        spec: The fields, in the order in which they are written.
        places: Field to its part of the message, and its name there.
        listed: Returns the `FeatureList` message of a field in part 1, from its name and its value.
    """

    def __init__(
        self,
        shape: Shape,
        lists: Lists,
        codecs: FieldCodecs,
        spec: Spec,
        places: Mapping[str, tuple[int, str]],
        *,
        listed: Callable[[str, Any], bytes] | None = None,
    ) -> None:
        self._shape = shape
        self._lists = lists
        self._codecs = codecs
        self._spec = spec
        self._places = places
        self._listed = listed
        self._names = frozenset(spec)
        self._order = tuple(spec)

    def __call__(self, record: Mapping[str, Any]) -> bytes:
        """Return the bytes of a record; a record without values has no bytes.

        Raises:
            SpecError: The record has fields that the spec lacks, lacks one, or a value does not fit its type.
            CodecError: A codec refuses a value, or an array changes meanwhile.
        """
        if not record.keys() <= self._names:
            check_fields(record, self._spec)
        written = self._write(tuple(map(record.get, self._order)), self._normalized)
        return written if isinstance(written, bytes) else self._refuse_changed(written)

    def _refuse_changed(self, number: int) -> Never:
        remedy = "Pass a copy of the array, or wait until no other thread or process writes to it."
        raise CodecError("the array changed while the record was encoded", field=self._order[number], remedy=remedy)

    @cached_property
    def _write(self) -> Write:
        # Not before it is needed: resolving codecs may import their dependencies.
        fields = [self._field(name, kind) for name, kind in self._spec.items()]
        return plan_writer(self._shape, fields) or self._write_without_kernels

    def _write_without_kernels(self, values: tuple[Any, ...], normalize: Callable[[int, Any], Any]) -> bytes:
        maps: dict[int, list[bytes]] = {0: [], 1: []}
        for number, (name, value) in enumerate(zip(self._order, values, strict=True)):
            kind, (part, key) = self._spec[name], self._places[name]
            if value is not None or not may_lack(kind):
                feature = self._feature(name, kind, normalize(number, value))
                maps[part].append(map_entry(1, key.encode(), feature))
        if self._shape == Shape.OFRECORD:
            return b"".join(maps[0])
        return b"".join(delimited(part + 1, b"".join(entries)) for part, entries in maps.items() if entries)

    def _feature(self, name: str, type_: Type, normalized: NDArray[Any] | list[bytes] | bytes) -> bytes:
        if isinstance(normalized, bytes):
            return normalized
        if isinstance(normalized, list):
            return bytes_feature(self._lists, normalized)
        return number_feature(self._lists, type_, normalized, name)

    def _field(self, name: str, type_: Type) -> Field:
        part, key = self._places[name]
        stored, item, letter, width = self._storage(type_) if part == 0 else (MESSAGE, OTHER_ITEM, "b", 1)
        dims = tuple(-1 if size is None else size for size in type_.dims)
        return Field(key.encode(), part, stored, not may_lack(type_), item, letter, width, dims)

    def _storage(self, type_: Type) -> tuple[int, int, str, int]:
        """Return the list for values of a type, which values need no conversion, and their dtype's kind and width."""
        try:
            dtype = type_.dtype if holds_numbers(self._codecs, type_) else None
            if dtype is not None and dtype.itemsize <= _MAX_WIDTH:
                return stored_as(self._lists, type_), NUMBERS_ITEM, dtype.kind, dtype.itemsize
            codec = self._codecs.codec(type_.element)
        except (SpecError, UnknownNameError):
            codec = None  # raised again when there is a value to encode
        if codec is FEATURE:
            return MESSAGE, OTHER_ITEM, "b", 1
        item = BYTES_ITEM if codec is PLAIN_BYTES else TEXT_ITEM if codec is UTF8 else OTHER_ITEM
        return BYTES, item, "b", 1

    def _normalized(self, number: int, value: Any) -> NDArray[Any] | list[bytes] | bytes:
        """Return a value as `kernels.wire_write.Write` takes it."""
        name = self._order[number]
        kind = self._spec[name]
        if value is None:
            check_missing(kind, name)
        if self._places[name][0] == 1 and self._listed is not None:
            return self._listed(name, value)
        if holds_numbers(self._codecs, kind):
            array = to_exact_array(kind, value, field=name)
            check_listable(self._lists, kind, array, name)
            return array if array.dtype.itemsize <= _MAX_WIDTH else encode_blobs(kind, array)
        if self._codecs.codec(kind.element) is FEATURE:
            return any_feature(self._lists, value, name)
        return encode_value(self._codecs, kind, value, field=name)
