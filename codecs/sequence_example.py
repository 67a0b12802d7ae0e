"""`tf.train.SequenceExample`: features of the whole record (the context), and lists of features, one a step.

A record is one flat dict. A name that occurs in both parts becomes `context/NAME` and `feature_lists/NAME`; any field
may be named so. A feature list's type begins with `[]`, the steps.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dataformats.batch import Blobs, Column, Ragged, concat_columns, take_column
from dataformats.codecs.features.encoder import RecordEncoder
from dataformats.codecs.features.feature import (
    FEATURE,
    Facts,
    encode_feature,
    feature_value,
    number_feature,
)
from dataformats.codecs.features.list_kinds import EXAMPLE_LISTS, MISSING
from dataformats.codecs.features.located_features import find_columns
from dataformats.codecs.features.missing_field_error import MissingFieldError, with_names
from dataformats.codecs.features.protobuf_messages import SEQUENCE_MESSAGE, parse, parse_sound
from dataformats.codecs.features.spec_columns import Target, raise_misfit, to_column
from dataformats.codecs.features.stored_feature import FeatureColumn
from dataformats.codecs.features.validation import (
    NEEDS_SPEC,
    check_known,
    check_types,
    inferred_names,
    looks_like,
    names_in,
    range_of,
)
from dataformats.codecs.features.wire import delimited
from dataformats.columns.codec_resolver import holds_numbers
from dataformats.columns.exact_cast import to_exact_array
from dataformats.columns.field_decoder import renumber_errors
from dataformats.columns.masks import check_part
from dataformats.columns.numbers import offsets_of
from dataformats.errors import Remedy, SpecError
from dataformats.interfaces import FieldCodecs, RecordCodec, RecordCoder
from dataformats.kernels.wire import ABSENT, Shape
from dataformats.spec import Spec, Type

_CONTEXT, _LISTS = "context/", "feature_lists/"
_PARTS = {_CONTEXT: (0,), _LISTS: (1,), "": (0, 1)}
"""Prefix of a field's name to the parts of the message to search: 0 is the context, 1 the feature lists."""


class _Place(NamedTuple):
    """The place of a field: its part, "" if the name has no prefix, and its key in that part."""

    part: str
    key: str


def _place(name: str) -> _Place:
    for part in (_CONTEXT, _LISTS):
        if name.startswith(part):
            return _Place(part, name[len(part) :])
    return _Place("", name)


class _SequenceExample(RecordCodec):
    """The codec of `tf.train.SequenceExample`: a context of features, and lists of features."""

    name = "sequence_example"

    def encode(self, value: Any) -> bytes:
        """Raise `SpecError`: without a spec, the list of a value is unknown."""
        raise SpecError("a SequenceExample cannot be encoded without types", remedy=NEEDS_SPEC)

    def decode(self, blob: bytes) -> dict[str, Any]:
        """Return the context's features that have a kind, and the lists as lists of such values."""
        message = parse(SEQUENCE_MESSAGE, blob)
        context, lists = message.context.feature, message.feature_lists.feature_list
        values = {name: feature_value(context[name]) for name in names_in(context)}
        record = {_named(name, _CONTEXT, lists): value for name, value in values.items() if value is not None}
        for name in names_in(lists):
            record[_named(name, _LISTS, context)] = [feature_value(step) for step in lists[name].feature]
        return record

    def matches(self, blob: bytes) -> bool:
        """Return True for a message of nothing but a context and feature lists."""
        return looks_like(SEQUENCE_MESSAGE, blob)

    def infer(self, blobs: Iterable[bytes]) -> Spec:
        """Return the spec that fits these records: the context, then the lists, in alphabetical order."""
        context: dict[str | bytes, Facts] = {}
        lists: dict[str | bytes, Facts] = {}
        n_records = 0
        for message in parse_sound(SEQUENCE_MESSAGE, blobs):
            in_context, in_lists = message.context.feature, message.feature_lists.feature_list
            for name in in_context:
                facts = context.setdefault(name, Facts())
                if isinstance(name, str):
                    facts.add(in_context[name])
            for name in in_lists:
                facts = lists.setdefault(name, Facts())
                for feature in in_lists[name].feature if isinstance(name, str) else ():
                    facts.add(feature)
            n_records += 1
        types = {
            _named(name, _CONTEXT, lists): context[name].example_type(n_records) for name in inferred_names(context)
        }
        return Spec(types | {_named(name, _LISTS, context): lists[name].step_type() for name in inferred_names(lists)})

    def bind(self, spec: Spec, codecs: FieldCodecs, *, inferred: bool = False) -> RecordCoder:
        """Return an encoder and decoder for SequenceExamples of this spec."""
        return _SequenceCoder(spec, codecs, inferred)


def _named(name: str, part: str, others: Container[str | bytes]) -> str:
    """Return the field's name for a key of `part`: qualified if it is ambiguous."""
    return part + name if name in others or _place(name).part else name


def _begins_with_steps(type_: Type) -> bool:
    return type_.dims[:1] == (None,)


class _SequenceCoder(RecordCoder):
    def __init__(self, spec: Spec, codecs: FieldCodecs, inferred: bool) -> None:
        self._spec = spec
        self._codecs = codecs
        self._places = {name: _place(name) for name in spec}
        self._wanted = {name: [(part, key) for part in _PARTS[where]] for name, (where, key) in self._places.items()}
        self._listed = frozenset(
            name
            for name, (part, _) in self._places.items()
            if part == _LISTS or (not part and _begins_with_steps(spec[name]))
        )
        for name in self._listed:
            if not _begins_with_steps(spec[name]):
                raise SpecError(f"a feature list's type begins with [], found {spec[name]}", field=name)
        check_types(spec, in_steps=self._listed)
        self._targets = {name: Target(name, kind) for name, kind in spec.items()}
        self._step_targets = {name: Target(name, spec[name].item, in_steps=True) for name in self._listed}
        places = {name: (int(name in self._listed), key) for name, (_, key) in self._places.items()}
        self._encode = RecordEncoder(Shape.SEQUENCE_EXAMPLE, EXAMPLE_LISTS, codecs, spec, places, listed=self._steps)
        self._known = frozenset(place for places in self._wanted.values() for place in places) if inferred else None

    # ---- writing

    def encode(self, record: Mapping[str, Any]) -> bytes:
        """Return a SequenceExample. `[]` fields are feature lists unless they are named `context/NAME`."""
        return self._encode(record)

    def _steps(self, name: str, value: Any) -> bytes:
        """Return a FeatureList."""
        kind = self._spec[name]
        item = kind.item
        if None not in item.dims and holds_numbers(self._codecs, kind):
            features = [
                number_feature(EXAMPLE_LISTS, item, step, name) for step in to_exact_array(kind, value, field=name)
            ]
        else:
            if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
                raise SpecError(f"expected the steps of {kind}, found {type(value).__name__}", field=name)
            features = [encode_feature(EXAMPLE_LISTS, self._codecs, item, step, name=name) for step in value]
        return b"".join([delimited(1, feature) for feature in features])

    # ---- reading

    def decode_batch(self, blobs: Blobs, fields: Mapping[str, bool | range]) -> dict[str, Column]:
        """Return a column for each requested field; a list of lists is a `Ragged` of `Ragged`."""
        names = [name for name, part in fields.items() if part is not False]
        asked = names if self._known is None else self._spec
        wanted = list(dict.fromkeys(place for name in asked for place in self._wanted[name]))
        found = find_columns(
            Shape.SEQUENCE_EXAMPLE, SEQUENCE_MESSAGE, blobs, wanted, known=self._known, check=self._check_known
        )
        stored = dict(zip(wanted, found, strict=True))
        if self._known is not None:
            self._check_either(stored)
        try:
            return {name: self._column(name, stored, range_of(fields[name])) for name in names}
        except MissingFieldError as error:
            raise with_names(error, SEQUENCE_EXAMPLE, blobs, self._spec, inferred=self._known is not None) from None

    def _check_known(self, message: Any, index: int) -> None:
        """Raise if a record has names that an inferred spec lacks."""
        context, features = message.context.feature, message.feature_lists.feature_list
        check_known(context, self._keys(_CONTEXT), index, _CONTEXT)
        check_known(features, self._keys(_LISTS), index, _LISTS)

    def _keys(self, part: str) -> frozenset[str]:
        return frozenset(key for where, key in self._places.values() if where in ("", part))

    def _check_either(self, stored: Mapping[tuple[int, str], FeatureColumn]) -> None:
        """Raise if a bare name of an inferred spec occurs in both parts of a record."""
        for part, key in self._places.values():
            if part or not (stored[0, key].occurs and stored[1, key].occurs):
                continue
            for index in np.flatnonzero((stored[0, key].kinds > ABSENT) & (stored[1, key].kinds > ABSENT)).tolist():
                raise SpecError(
                    "expected one value, found one in the context and one in the feature lists. "
                    f"Pass a spec with {_CONTEXT + key!r} and {_LISTS + key!r}.",
                    field=key,
                    index=index,
                )

    def _column(self, name: str, stored: Mapping[tuple[int, str], FeatureColumn], part: range | None) -> Column:
        where, key = self._places[name]
        if where:
            column = self._list_column if name in self._listed else self._context_column
            return column(name, stored[_PARTS[where][0], key], part)
        if name in self._listed:
            return self._column_of_either(name, stored[0, key], stored[1, key], part)
        self._check_not_listed(name, stored[0, key], stored[1, key])
        return self._context_column(name, stored[0, key], part)

    def _check_not_listed(self, name: str, context: FeatureColumn, lists: FeatureColumn) -> None:
        if not lists.occurs:
            return
        for index in np.flatnonzero((lists.kinds > ABSENT) & (context.kinds == ABSENT)).tolist():
            raise SpecError(
                f"expected {self._spec[name]} in the context, found a feature list, whose type begins with []",
                field=name,
                index=index,
                remedy=Remedy("Pass {spec}.", spec={name: f"{FEATURE.name}[]"}),
            )

    def _column_of_either(self, name: str, context: FeatureColumn, lists: FeatureColumn, part: range | None) -> Column:
        """Return the column of a bare `[]` field, a feature list or a list in the context."""
        if not context.occurs:
            return self._list_column(name, lists, part)
        found = (lists.kinds == ABSENT) & (context.kinds > ABSENT)
        inside, outside = np.flatnonzero(found), np.flatnonzero(~found)
        if not len(inside):
            return self._list_column(name, lists, part)
        with renumber_errors(inside):
            self._check_context_type(name)
            column = self._context_column(name, context.take(inside), part)
        if not len(outside):
            return column
        with renumber_errors(outside):
            others = self._list_column(name, lists.take(outside), part)
        order = np.argsort(np.concatenate([inside, outside]))
        both: Column = take_column(concat_columns([column, others]), order)
        return both

    def _check_context_type(self, name: str) -> None:
        kind = self._spec[name]
        if None in kind.dims[1:] or kind.codec == FEATURE.name:
            raise SpecError(f"expected the feature list of {kind}, found it in the context", field=name, index=0)

    def _context_column(self, name: str, stored: FeatureColumn, part: range | None) -> Column:
        return to_column(self._codecs, self._targets[name], stored, part)

    def _list_column(self, name: str, lists: FeatureColumn, part: range | None) -> Column:
        present, counts, steps = lists.kinds > ABSENT, lists.counts, lists.steps()
        if part is not None:
            check_part(part, counts, name)
            picked = offsets_of(counts)[:-1, None] + np.asarray(part, np.int64)
            counts, steps = np.full(len(lists), len(part)), steps.take(picked.reshape(-1))
        with renumber_errors(np.repeat(np.arange(len(lists)), counts)):
            values: Any = self._step_column(name, steps)
        return Ragged(values, offsets_of(counts), present=None if present.all() else present)

    def _step_column(self, name: str, steps: FeatureColumn) -> Column:
        target = self._step_targets[name]
        if self._codecs.codec(target.kind.element) is FEATURE:
            return steps.values()
        if not steps.complete:
            raise_misfit(target, int((steps.kinds == MISSING).argmax()), "a step without a kind", FEATURE.name, "")
        return to_column(self._codecs, target, steps)


SEQUENCE_EXAMPLE = _SequenceExample()
"""`tf.train.SequenceExample`."""
