"""Payloads that are one map of names to features: the base of Example and OFRecord."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

from dataformats.batch import Blobs, Column
from dataformats.batch.value_slices import SplitBlobs, ValueSlice, widest_slice
from dataformats.codecs.features.encoder import RecordEncoder
from dataformats.codecs.features.fast_path import FastPath
from dataformats.codecs.features.feature import Facts, feature_value
from dataformats.codecs.features.list_kinds import Lists
from dataformats.codecs.features.located_features import find_columns
from dataformats.codecs.features.missing_field_error import MissingFieldError, with_names
from dataformats.codecs.features.protobuf_messages import parse, parse_sound
from dataformats.codecs.features.spec_columns import Target, to_column
from dataformats.codecs.features.stored_feature import FeatureColumn
from dataformats.codecs.features.validation import (
    NEEDS_SPEC,
    check_known,
    check_types,
    inferred_names,
    names_in,
    range_of,
)
from dataformats.errors import SpecError
from dataformats.interfaces import FieldCodecs, RecordCodec, RecordCoder
from dataformats.kernels.wire import Shape
from dataformats.spec import Spec

_MASKS = 32  # masks whose plans are cached; some callers ask for another part each time


class FeatureMap(RecordCodec):
    """A map of names to lists of bytes or numbers.

    Attributes:
        title: Its name in errors: `"an Example"`.
        shape: Its message type in the kernels.
        message: Its protobuf class.
        lists: The lists that its features hold.
        features: Returns the map in a message, name to `Feature`.
    """

    title: str
    shape: Shape
    message: Any
    lists: Lists
    features: attrgetter[Any]

    def encode(self, value: Any) -> bytes:
        """Raise `SpecError`: without a spec, the list of a value is unknown."""
        raise SpecError(f"{self.title} cannot be encoded without types", remedy=NEEDS_SPEC)

    def decode(self, blob: bytes) -> dict[str, Any]:
        """Return the features that have a kind: an array (n,) of numbers, or a list of bytes."""
        features = self.features(parse(self.message, blob))
        values = {name: feature_value(features[name]) for name in names_in(features)}
        return {name: value for name, value in values.items() if value is not None}

    def infer(self, blobs: Iterable[bytes]) -> Spec:
        """Return the spec that fits these records, its fields in alphabetical order."""
        facts: dict[str | bytes, Facts] = {}
        n_records = 0
        for message in parse_sound(self.message, blobs):
            features = self.features(message)
            for name in features:  # not `items`, which is Python's
                if name not in facts:
                    facts[name] = Facts()
                if isinstance(name, str):
                    facts[name].add(features[name])
            n_records += 1
        return Spec({name: facts[name].example_type(n_records) for name in inferred_names(facts)})

    def bind(self, spec: Spec, codecs: FieldCodecs, *, inferred: bool = False) -> RecordCoder:
        """Return an encoder and decoder for records of this spec."""
        check_types(spec)
        return _MapCodec(self, spec, codecs, inferred)


class _MapCodec(RecordCoder):
    def __init__(self, payload: FeatureMap, spec: Spec, codecs: FieldCodecs, inferred: bool) -> None:
        self._payload = payload
        self._codecs = codecs
        self._encode = RecordEncoder(payload.shape, payload.lists, codecs, spec, {name: (0, name) for name in spec})
        self._targets = {name: Target(name, kind) for name, kind in spec.items()}
        self._spec, self._names = spec, frozenset(spec)
        self._known = frozenset((0, name) for name in spec) if inferred else None
        self._paths = lru_cache(_MASKS)(partial(FastPath, payload.shape, codecs, spec, inferred))
        self._recent: tuple[Mapping[str, bool | range], FastPath] | None = None

    def encode(self, record: Mapping[str, Any]) -> bytes:
        """Return a message, its features in the order of the spec; a record without features has no bytes."""
        return self._encode(record)

    def decode_batch(self, blobs: Blobs, fields: Mapping[str, bool | range]) -> dict[str, Column]:
        """Return a column for each requested field; others are not decoded."""
        try:
            columns = self._fast_path(fields).columns(blobs)
            return self._columns(self._find(blobs, fields), fields) if columns is None else columns
        except MissingFieldError as error:
            raise with_names(error, self._payload, blobs, self._spec, inferred=self._known is not None) from None

    def decode_record(self, blob: bytearray, fields: Mapping[str, bool | range]) -> dict[str, Any] | None:
        """Return the values of the requested fields; `None` if `decode_batch` must decode the record."""
        return self._fast_path(fields).values(blob)

    def _fast_path(self, fields: Mapping[str, bool | range]) -> FastPath:
        recent = self._recent  # hashing a long mask takes longer than parsing a short record
        if recent is not None and recent[0] is fields:
            return recent[1]
        path = self._paths(tuple(fields.items()))
        self._recent = fields, path
        return path

    def value_slice(self, blobs: Blobs, fields: Mapping[str, bool | range]) -> ValueSlice | None:
        """Return the place of the largest value that all records have at the same place."""
        return widest_slice([stored.value_slice(blobs) for stored in self._find(blobs, fields)])

    def decode_split(self, split: SplitBlobs, fields: Mapping[str, bool | range]) -> dict[str, Column] | None:
        """Return the columns of `decode_batch`, if the value slice is the value of some field in all records."""
        return self._fast_path(fields).columns(split.blobs, split)

    def _find(self, blobs: Blobs, fields: Mapping[str, bool | range]) -> Sequence[FeatureColumn]:
        return find_columns(
            self._payload.shape,
            self._payload.message,
            blobs,
            _pairs(fields),
            known=self._known,
            check=self._check_known,
        )

    def _columns(self, columns: Sequence[FeatureColumn], fields: Mapping[str, bool | range]) -> dict[str, Column]:
        return {
            name: to_column(self._codecs, self._targets[name], stored, range_of(fields[name]))
            for (_, name), stored in zip(_pairs(fields), columns, strict=True)
        }

    def _check_known(self, message: Any, index: int) -> None:
        check_known(self._payload.features(message), self._names, index)


def _pairs(fields: Mapping[str, bool | range]) -> list[tuple[int, str]]:
    """Return part and name of the requested fields."""
    return [(0, name) for name, part in fields.items() if part is not False]
