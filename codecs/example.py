"""`tf.train.Example`, and the choice between the payloads of TFRecord files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dataformats.batch import Blobs, Column
from dataformats.codecs.columns import Target, to_column
from dataformats.codecs.features import Facts, encode_feature, feature_value, gather
from dataformats.codecs.messages import EXAMPLE_MESSAGE, parse
from dataformats.codecs.payloads import (
    check_fields,
    check_known,
    check_missing,
    check_types,
    looks_like,
    parse_all,
    range_of,
)
from dataformats.codecs.sequence_example import SEQUENCE_EXAMPLE
from dataformats.codecs.wire import delimited, map_entry
from dataformats.errors import SpecError
from dataformats.interfaces import FieldCodecs, RecordCodec, RecordCoder
from dataformats.spec import Spec

__all__ = ["EXAMPLE", "SEQUENCE_EXAMPLE", "guess"]


class _Example(RecordCodec):
    """A map of names to lists of bytes, floats or integers."""

    name = "example"

    def encode(self, value: Any) -> bytes:
        """Refuse: without a spec nothing says which list a value goes to.

        Raises:
            SpecError: Always.
        """
        raise SpecError("an Example cannot be encoded without types; pass spec={field: type}")

    def decode(self, blob: bytes) -> dict[str, Any]:
        """Return the features that have a kind: int64 or float32 (n,), or a list of bytes."""
        features = parse(EXAMPLE_MESSAGE, blob).features.feature
        values = {name: feature_value(features[name]) for name in sorted(features)}
        return {name: value for name, value in values.items() if value is not None}

    def recognises(self, blob: bytes) -> bool:
        """Return True for a message of nothing but features."""
        return looks_like(EXAMPLE_MESSAGE, blob, {1})

    def infer(self, blobs: Iterable[bytes]) -> Spec:
        """Return the spec that fits these records, its fields in alphabetical order."""
        facts: dict[str, Facts] = {}
        n_records = 0
        for blob in blobs:
            for name, feature in parse(EXAMPLE_MESSAGE, blob, n_records).features.feature.items():
                facts.setdefault(name, Facts()).add(feature)
            n_records += 1
        return Spec({name: facts[name].example_type(n_records) for name in sorted(facts)})

    def bind(self, spec: Spec, codecs: FieldCodecs, *, inferred: bool = False) -> RecordCoder:
        """Return what encodes and decodes Examples of this spec."""
        check_types(spec)
        return _ExampleCoder(spec, codecs, inferred)


class _ExampleCoder(RecordCoder):
    def __init__(self, spec: Spec, codecs: FieldCodecs, inferred: bool) -> None:
        self._spec = spec
        self._codecs = codecs
        self._inferred = inferred
        self._names = frozenset(spec)

    def encode(self, record: Mapping[str, Any]) -> bytes:
        """Return an Example, its features in the spec's order; without any, no bytes at all."""
        check_fields(record, self._spec)
        entries = []
        for name, kind in self._spec.items():
            value = record.get(name)
            if value is None:
                check_missing(kind, name)
            else:
                entries.append(map_entry(1, name.encode(), encode_feature(self._codecs, kind, value, name=name)))
        return delimited(1, b"".join(entries)) if entries else b""

    def decode_batch(self, blobs: Blobs, fields: Mapping[str, bool | range]) -> dict[str, Column]:
        """Return a column for each field asked for; others are not looked at."""
        records = [message.features.feature for message in parse_all(EXAMPLE_MESSAGE, blobs)]
        if self._inferred:
            for index, features in enumerate(records):
                check_known(features, self._names, index)
        return {
            name: to_column(
                self._codecs,
                Target(name, self._spec[name]),
                gather([features.get(name) for features in records]),
                range_of(part),
            )
            for name, part in fields.items()
            if part is not False
        }


EXAMPLE = _Example()
"""`tf.train.Example`."""


def guess(samples: Sequence[bytes]) -> str:
    """Return which payload TFRecords have, judged by some of them; empty records say nothing.

    Returns:
        `"example"` where each holds only features and parses to its end; `"sequence_example"` where one has
        feature lists as well (which an Example's parser would skip as unknown); else `"bytes"`.
    """
    filled = [blob for blob in samples if blob]
    for codec in (EXAMPLE, SEQUENCE_EXAMPLE) if filled else ():
        if all(codec.recognises(blob) for blob in filled):
            return codec.name
    return "bytes"
