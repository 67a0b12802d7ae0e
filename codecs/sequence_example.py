"""`tf.train.SequenceExample`: features of the whole (the context), and lists of features, one a step.

A record is one flat dict. A name that occurs in both parts is called `context/NAME` and `feature_lists/NAME`;
any field may be. A feature list's type begins with `[]`, the steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from dataformats.batch import Blobs, Column, Ragged, concat_columns, take_column
from dataformats.codecs.columns import Target, refuse, to_column
from dataformats.codecs.features import (
    FEATURE,
    Facts,
    encode_feature,
    feature_value,
    gather,
    number_feature,
)
from dataformats.codecs.lists import EXAMPLE_LISTS, MISSING
from dataformats.codecs.messages import SEQUENCE_MESSAGE, parse
from dataformats.codecs.payloads import (
    check_fields,
    check_known,
    check_missing,
    check_types,
    looks_like,
    parse_all,
    range_of,
)
from dataformats.codecs.wire import delimited, map_entry
from dataformats.columns import check_part, numbered, offsets_of
from dataformats.errors import SpecError
from dataformats.fields import holds_numbers
from dataformats.interfaces import FieldCodecs, RecordCodec, RecordCoder
from dataformats.spec import Spec, Type
from dataformats.values import exact

__all__ = ["SEQUENCE_EXAMPLE"]

_CONTEXT, _LISTS = "context/", "feature_lists/"


class _Place(NamedTuple):
    """Where a field lies: the part, "" where the field's name does not say, and the name in there."""

    part: str
    key: str


def _place(name: str) -> _Place:
    for part in (_CONTEXT, _LISTS):
        if name.startswith(part):
            return _Place(part, name[len(part) :])
    return _Place("", name)


class _SequenceExample(RecordCodec):
    """A context, and feature lists."""

    name = "sequence_example"

    def encode(self, value: Any) -> bytes:
        """Refuse: without a spec nothing says which list a value goes to.

        Raises:
            SpecError: Always.
        """
        raise SpecError("a SequenceExample cannot be encoded without types; pass spec={field: type}")

    def decode(self, blob: bytes) -> dict[str, Any]:
        """Return the context's features that have a kind, and the lists as lists of such values."""
        message = parse(SEQUENCE_MESSAGE, blob)
        context, lists = message.context.feature, message.feature_lists.feature_list
        values = {name: feature_value(context[name]) for name in sorted(context)}
        record = {_named(name, _CONTEXT, lists): value for name, value in values.items() if value is not None}
        for name in sorted(lists):
            record[_named(name, _LISTS, context)] = [feature_value(step) for step in lists[name].feature]
        return record

    def recognises(self, blob: bytes) -> bool:
        """Return True for a message of nothing but a context and feature lists."""
        return looks_like(SEQUENCE_MESSAGE, blob, {1, 2})

    def infer(self, blobs: Iterable[bytes]) -> Spec:
        """Return the spec that fits these records: the context, then the lists, in alphabetical order."""
        context: dict[str, Facts] = {}
        lists: dict[str, Facts] = {}
        n_records = 0
        for blob in blobs:
            message = parse(SEQUENCE_MESSAGE, blob, n_records)
            for name, feature in message.context.feature.items():
                context.setdefault(name, Facts()).add(feature)
            for name, steps in message.feature_lists.feature_list.items():
                facts = lists.setdefault(name, Facts())
                for feature in steps.feature:
                    facts.add(feature)
            n_records += 1
        types = {_named(name, _CONTEXT, lists): context[name].example_type(n_records) for name in sorted(context)}
        return Spec(types | {_named(name, _LISTS, context): lists[name].step_type() for name in sorted(lists)})

    def bind(self, spec: Spec, codecs: FieldCodecs, *, inferred: bool = False) -> RecordCoder:
        """Return what encodes and decodes SequenceExamples of this spec."""
        return _SequenceCoder(spec, codecs, inferred)


def _named(name: str, part: str, others: Mapping[str, Any]) -> str:
    """Return the field's name for a key of `part`: qualified where it could be taken for something else."""
    return part + name if name in others or _place(name).part else name


def _begins_with_steps(kind: Type) -> bool:
    return kind.dims[:1] == (None,)


class _SequenceCoder(RecordCoder):
    def __init__(self, spec: Spec, codecs: FieldCodecs, inferred: bool) -> None:
        self._spec = spec
        self._codecs = codecs
        self._inferred = inferred
        self._places = {name: _place(name) for name in spec}
        self._listed = frozenset(
            name
            for name, (part, _) in self._places.items()
            if part == _LISTS or (not part and _begins_with_steps(spec[name]))
        )
        for name in self._listed:
            if not _begins_with_steps(spec[name]):
                raise SpecError(f"a feature list's type begins with [], found {spec[name]}", field=name)
        check_types(spec, in_steps=self._listed)

    # ---- writing

    def encode(self, record: Mapping[str, Any]) -> bytes:
        """Return a SequenceExample: `[]` fields are feature lists unless they are called `context/NAME`."""
        check_fields(record, self._spec)
        context, lists = [], []
        for name, kind in self._spec.items():
            value = record.get(name)
            if value is None:
                check_missing(kind, name)
                continue
            key = self._places[name].key.encode()
            if name in self._listed:
                lists.append(map_entry(1, key, self._steps(name, kind, value)))
            else:
                context.append(map_entry(1, key, encode_feature(EXAMPLE_LISTS, self._codecs, kind, value, name=name)))
        parts = [delimited(1, b"".join(context))] if context else []
        return b"".join([*parts, delimited(2, b"".join(lists))] if lists else parts)

    def _steps(self, name: str, kind: Type, value: Any) -> bytes:
        item = kind.item
        if None not in item.dims and holds_numbers(self._codecs, kind):
            features = [number_feature(EXAMPLE_LISTS, item, step, name) for step in exact(kind, value, field=name)]
        else:
            if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
                raise SpecError(f"expected the steps of {kind}, found {type(value).__name__}", field=name)
            features = [encode_feature(EXAMPLE_LISTS, self._codecs, item, step, name=name) for step in value]
        return b"".join([delimited(1, feature) for feature in features])

    # ---- reading

    def decode_batch(self, blobs: Blobs, fields: Mapping[str, bool | range]) -> dict[str, Column]:
        """Return a column for each field asked for; a list of lists is a `Ragged` of `Ragged`."""
        messages = parse_all(SEQUENCE_MESSAGE, blobs)
        contexts = [message.context.feature for message in messages]
        lists = [message.feature_lists.feature_list for message in messages]
        if self._inferred:
            self._check_known(contexts, lists)
        return {
            name: self._column(name, contexts, lists, range_of(part))
            for name, part in fields.items()
            if part is not False
        }

    def _check_known(self, contexts: list[Any], lists: list[Any]) -> None:
        in_context = {key for part, key in self._places.values() if part != _LISTS}
        in_lists = {key for part, key in self._places.values() if part != _CONTEXT}
        bare = [key for part, key in self._places.values() if not part]
        for index, (context, features) in enumerate(zip(contexts, lists, strict=True)):
            check_known(context, in_context, index, _CONTEXT)
            check_known(features, in_lists, index, _LISTS)
            for key in bare:
                if key in context and key in features:
                    raise SpecError(
                        "the record has it in the context and in the feature lists; "
                        f"pass a spec with {_CONTEXT + key!r} and {_LISTS + key!r}",
                        field=key,
                        index=index,
                    )

    def _column(self, name: str, contexts: list[Any], lists: list[Any], part: range | None) -> Column:
        where, key = self._places[name]
        if name not in self._listed:
            if not where:
                self._check_not_listed(name, contexts, lists)
            return self._context_column(name, [context.get(key) for context in contexts], part)
        if where:
            return self._list_column(name, [steps.get(key) for steps in lists], part)
        return self._column_of_either(name, contexts, lists, part)

    def _check_not_listed(self, name: str, contexts: list[Any], lists: list[Any]) -> None:
        for index, (context, features) in enumerate(zip(contexts, lists, strict=True)):
            if name in features and name not in context:
                target = Target(name, Type(FEATURE.name, dims=(None,)))
                raise SpecError(
                    f"expected {self._spec[name]} in the context, found a feature list; a list's type begins "
                    f"with []: pass spec={{**src.spec, {name!r}: '{target.kind}'}}",
                    field=name,
                    index=index,
                )

    def _column_of_either(self, name: str, contexts: list[Any], lists: list[Any], part: range | None) -> Column:
        """Return the column of a bare `[]` field, which may be a feature list or a list in the context."""
        found = [name not in steps and name in context for context, steps in zip(contexts, lists, strict=True)]
        inside = np.flatnonzero(found)
        if not len(inside):
            return self._list_column(name, [steps.get(name) for steps in lists], part)
        outside = np.flatnonzero(~np.array(found))
        with numbered(inside):
            self._check_context_type(name)
            column = self._context_column(name, [contexts[index][name] for index in inside], part)
        if not len(outside):
            return column
        with numbered(outside):
            others = self._list_column(name, [lists[index].get(name) for index in outside], part)
        order = np.argsort(np.concatenate([inside, outside]))
        both: Column = take_column(concat_columns([column, others]), order)
        return both

    def _check_context_type(self, name: str) -> None:
        kind = self._spec[name]
        if None in kind.dims[1:] or kind.codec == FEATURE.name:
            raise SpecError(f"expected the feature list of {kind}, found it in the context", field=name, index=0)

    def _context_column(self, name: str, features: list[Any], part: range | None) -> Column:
        return to_column(self._codecs, Target(name, self._spec[name]), gather(features), part)

    def _list_column(self, name: str, lists: list[Any], part: range | None) -> Column:
        present = np.array([steps is not None for steps in lists], np.bool_)
        all_steps = [() if steps is None else steps.feature for steps in lists]
        if part is not None:
            check_part(part, np.array([len(steps) for steps in all_steps], np.int64), name)
            all_steps = [[steps[at] for at in part] for steps in all_steps]
        counts = np.array([len(steps) for steps in all_steps], np.int64)
        with numbered(np.repeat(np.arange(len(lists)), counts)):
            values: Any = self._step_column(name, list(chain.from_iterable(all_steps)))
        return Ragged(values, offsets_of(counts), present=None if present.all() else present)

    def _step_column(self, name: str, steps: list[Any]) -> Column:
        target = Target(name, self._spec[name].item, in_steps=True)
        stored = gather(steps)
        if self._codecs.codec(target.kind.element) is FEATURE:
            return stored.values()
        for row in np.flatnonzero(stored.kinds == MISSING).tolist():
            refuse(target, row, "a step without a kind", FEATURE.name, "")
        return to_column(self._codecs, target, stored)


SEQUENCE_EXAMPLE = _SequenceExample()
"""`tf.train.SequenceExample`."""
