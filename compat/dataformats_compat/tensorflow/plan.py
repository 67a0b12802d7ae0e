"""The plan of a configuration: how each of its features becomes a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from dataformats.batch import Blobs
from dataformats.internals import (
    EXAMPLE_MESSAGE,
    JOINED,
    RAGGED,
    FeatureColumn,
    ReadValues,
    Shape,
    Value,
    ValueForm,
    find_columns,
    plan_columns,
)
from dataformats_compat.tensorflow.columns import Dense, Padded, ParsedFeature
from dataformats_compat.tensorflow.features import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
)
from dataformats_compat.tensorflow.ragged_columns import Rows
from dataformats_compat.tensorflow.sparse_columns import Indexed, Sparse
from dataformats_compat.tensorflow.tensor import as_tensor

__all__ = ["ParsePlan", "plan_of"]

_PLANS = 64  # configurations whose plans are kept


class ParsePlan:
    """The features of one configuration.

    Attributes:
        fields: One for each feature, in the order of the result.
    """

    def __init__(self, features: Mapping[str, Any], *, in_steps: bool) -> None:
        make = _field_of_steps if in_steps else _field_of
        self.fields: list[ParsedFeature] = sorted(
            [make(name, features[name]) for name in sorted(features)], key=lambda field: field.group
        )
        self.keys: list[str] = list(dict.fromkeys(key for field in self.fields for key in field.keys))
        self._read = None if in_steps else _reader(self.fields)

    def find(self, blobs: Blobs) -> dict[str, FeatureColumn]:
        """Return the features of Examples, by key."""
        found = find_columns(Shape.EXAMPLE, EXAMPLE_MESSAGE, blobs, [(0, key) for key in self.keys])
        return dict(zip(self.keys, found, strict=True))

    def batch(self, found: Mapping[str, FeatureColumn]) -> dict[str, Any]:
        """Return the values of all records."""
        return {field.name: as_tensor(field.batch(found)) for field in self.fields}

    def one(self, found: Mapping[str, FeatureColumn]) -> dict[str, Any]:
        """Return the values of the only record."""
        return {field.name: as_tensor(field.one(found)) for field in self.fields}

    def read(self, serialized: Any) -> dict[str, Any] | None:
        """Return the values of one record by the fast path; `None` if `one` must return them, or raise."""
        stored = self._read(serialized) if self._read is not None and isinstance(serialized, bytes) else None
        if stored is None:
            return None
        values = {}
        for field in self.fields:
            value = field.one_of_values(stored.get(field.keys[0]))
            if value is None:
                return None
            values[field.name] = as_tensor(value)
        return values


def _field_of_steps(name: str, feature: Any) -> ParsedFeature:
    if isinstance(feature, FixedLenSequenceFeature):
        return Padded(name, feature, in_steps=True)
    field = _field_of(name, feature)
    if isinstance(field, Dense) or len(field.keys) > 1:
        raise ValueError(
            f"feature {name!r}: expected FixedLenSequenceFeature, VarLenFeature or RaggedFeature without partitions "
            f"in sequence_features, found {feature!r:.80}"
        )
    return field


def _reader(fields: Sequence[ParsedFeature]) -> ReadValues | None:
    """Return a function from one record to its stored values by key; `None` if a field needs columns."""
    planned = [(field.keys[0], field.output()) for field in fields]
    outputs = [output for _, output in planned if output is not None]
    if len(outputs) < len(planned) or len({key for key, _ in planned}) < len(planned):
        return None
    forms = {JOINED: ValueForm.BYTES, RAGGED: ValueForm.ELEMENTS}
    values = [Value(forms[output.output], True, key) for (key, _), output in zip(planned, outputs, strict=True)]
    return plan_columns(Shape.EXAMPLE, [(0, key) for key, _ in planned], outputs, values)[1]


def plan_of(features: Mapping[str, Any], *, in_steps: bool = False) -> ParsePlan:
    """Return the plan of a configuration.

    Args:
        features: Name to `FixedLenFeature` and so on.
        in_steps: True if they are feature lists.

    Raises:
        ValueError: The configuration is not valid.
    """
    if not isinstance(features, Mapping):
        raise ValueError(f"expected a dict of features, found {type(features).__name__}")
    try:
        # Tuples of different types may be equal.
        return _kept_plan(tuple(features.items()), tuple(map(type, features.values())), in_steps)
    except TypeError:  # a default value that is a list or an array
        return ParsePlan(features, in_steps=in_steps)


@lru_cache(_PLANS)
def _kept_plan(features: tuple[tuple[str, Any], ...], types: tuple[type, ...], in_steps: bool) -> ParsePlan:
    return ParsePlan(dict(features), in_steps=in_steps)


_FIELDS: dict[type, Callable[[str, Any], ParsedFeature]] = {
    FixedLenFeature: Dense,
    FixedLenSequenceFeature: Padded,
    VarLenFeature: Sparse,
    RaggedFeature: Rows,
    SparseFeature: Indexed,
}


def _field_of(name: str, feature: Any) -> ParsedFeature:
    """Return the field of a configuration.

    Raises:
        ValueError: The configuration is not valid.
    """
    field = _FIELDS.get(type(feature))
    if field is not None:
        return field(name, feature)
    known = ", ".join(kind.__name__ for kind in _FIELDS)
    raise ValueError(f"feature {name!r}: expected {known}, found {feature!r:.80}")
