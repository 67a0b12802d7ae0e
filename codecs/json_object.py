"""Records that are JSON objects: each key is a field."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dataformats.batch import Blobs, Column
from dataformats.codecs.documents import (
    MAX_DEPTH,
    check_document,
    check_nesting,
    check_size,
    is_deep,
    parse_with_msgspec,
)
from dataformats.codecs.json_columns import FieldColumn, check_spec, encodable, plain_values
from dataformats.codecs.json_inference import JsonSamples
from dataformats.codecs.json_scalars import ScalarColumns
from dataformats.errors import CodecError, CorruptRecordError, Remedy, SpecError
from dataformats.interfaces import FieldCodecs, RecordCodec, RecordCoder
from dataformats.spec import Spec

_SCAN: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # the C function behind `raw_decode`
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_NEEDS_SPEC = Remedy("Pass {spec} with a type for each field.", spec=...)
_SPACE = " \t\r\n"
_SPARSE = 8  # times as many cells as values: only the values are looked at


class _JsonObject(RecordCodec):
    """A JSON object in UTF-8; as in Python's json module, the last of duplicate keys counts, and NaN is a number."""

    name = "json_object"

    def encode(self, value: Any) -> bytes:
        """Raise `SpecError`: without a spec, the types of fields are unknown."""
        raise SpecError("an object of JSON cannot be encoded without types", remedy=_NEEDS_SPEC)

    def decode(self, blob: bytes) -> dict[str, Any]:
        """Return the object."""
        return _parse(bytes(blob))

    def matches(self, blob: bytes) -> bool:
        """Return True for an object."""
        try:
            _parse(bytes(blob))
        except CorruptRecordError:
            return False
        return True

    def infer(self, blobs: Iterable[bytes]) -> Spec:
        """Return the spec that fits these records, its fields in the order in which they occur."""
        facts: dict[str, JsonSamples] = {}
        n_records = 0
        for blob in blobs:
            try:
                record = _parse(blob)
            except CorruptRecordError:
                continue
            for name, value in record.items():
                facts.setdefault(name, JsonSamples()).add(value)
            n_records += 1
        return Spec({name: found.type_of(n_records) for name, found in facts.items()})

    def bind(self, spec: Spec, codecs: FieldCodecs, *, inferred: bool = False) -> RecordCoder:
        """Return an encoder and decoder for records of this spec.

        Raises:
            SpecError: JSON cannot hold a field: bytes, an image.
        """
        check_spec(spec, codecs)
        return _ObjectCoder(spec, codecs, inferred)


def _rows_by_name(documents: Sequence[dict[str, Any]]) -> dict[str, list[int]]:
    """Return the rows of the documents that have each name."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, document in enumerate(documents):
        for name in document:
            rows[name].append(row)
    return rows


class _ObjectCoder(RecordCoder):
    def __init__(self, spec: Spec, codecs: FieldCodecs, inferred: bool) -> None:
        self._spec = spec
        self._known = frozenset(spec) if inferred else None
        self._scalars = ScalarColumns(spec, is_closed=inferred)
        self._columns = {name: FieldColumn(name, kind, codecs) for name, kind in spec.items()}

    def encode_columns(self, columns: Mapping[str, Column]) -> Blobs | None:
        values = [plain_values(columns[name], kind) for name, kind in self._spec.items() if name in columns]
        if columns.keys() != self._spec.keys() or None in values:
            return None
        absent = {name for name in self._spec if getattr(columns[name], "present", None) is not None}
        records: Iterable[dict[str, Any]] = (
            dict(zip(self._spec, row, strict=True)) for row in zip(*values, strict=True)
        )
        if absent:
            records = (
                {name: value for name, value in record.items() if value is not None or name not in absent}
                for record in records
            )
        try:
            return Blobs.join([check_size(_ENCODER.encode(record).encode()) for record in records])
        except ValueError:  # a record is too large, which `encode` reports
            return None

    def encode(self, record: Mapping[str, Any]) -> bytes:
        """Return compact UTF-8, the keys in the order of the spec; a missing value has no key."""
        for name in record:
            if name not in self._spec:
                what = f"the spec has no such field; it has {', '.join(self._spec) or 'none'}"
                raise SpecError(what, field=str(name))
        values = {}
        for name, kind in self._spec.items():
            value = record.get(name)
            if value is None and kind.optional:
                continue
            if name not in record:
                raise SpecError(f"expected {kind}, found nothing. Give a value, or declare '{kind}?'.", field=name)
            values[name] = encodable(kind, value, name)
        return _dumped(values)

    def decode_batch(self, blobs: Blobs, fields: Mapping[str, bool | range]) -> dict[str, Column]:
        """Return a column for each requested field."""
        scalars = self._scalars.columns(blobs, fields)
        if scalars is not None:
            return scalars
        may_be_deep = _has_many_brackets(blobs)
        documents = [_parse(blob, row, may_be_deep) for row, blob in enumerate(blobs)]
        if self._known is not None:
            self._check_known(documents, self._known)
        is_sparse = _SPARSE * sum(map(len, documents)) < len(documents) * len(fields)
        held = _rows_by_name(documents) if is_sparse else None
        columns: dict[str, Column] = {}
        for name, part in fields.items():
            if part is False:
                continue
            rows = held.get(name, []) if held is not None else None
            if rows is not None and len(rows) == len(documents):
                rows = None
            columns[name] = self._columns[name].column(documents, blobs, part, rows)
        return columns

    def _check_known(self, documents: list[dict[str, Any]], known: frozenset[str]) -> None:
        for row, document in enumerate(documents):
            if not document.keys() <= known:
                name = next(name for name in document if name not in known)
                kind = JsonSamples.of(document[name]).type_of(2)
                raise SpecError(
                    "the inferred spec lacks this field, which the sampled records did not have",
                    field=name,
                    index=row,
                    remedy=Remedy("Pass {spec}, or the spec of the fields that you want.", spec={name: str(kind)}),
                )


def _has_many_brackets(blobs: Blobs) -> bool:
    """Return True if a document has so many brackets and braces that it may be nested too deep."""
    if blobs.lengths.max(initial=0) <= MAX_DEPTH:
        return False
    data, offsets = blobs.contiguous()
    places = np.flatnonzero((data == ord("[")) | (data == ord("{")))
    return bool(np.diff(np.searchsorted(places, offsets)).max() > MAX_DEPTH)


def _parse(blob: bytes, index: int = 0, may_be_deep: bool = True) -> dict[str, Any]:
    """Return the object in a blob.

    Raises:
        CorruptRecordError: It holds something else; `index` is its row.
    """
    try:
        check_size(blob)
        try:
            value = parse_with_msgspec(blob)
        except ValueError:
            value = _parse_text(blob.decode())
        else:
            if may_be_deep and is_deep(value):
                check_nesting(blob.decode())  # raises
    except StopIteration:
        head = bytes(blob[:40])
        raise CorruptRecordError("the record is no JSON", index=index, expected="an object", found=head) from None
    except (ValueError, RecursionError) as error:
        raise CorruptRecordError("the record is no JSON", index=index, found=str(error)) from error
    if type(value) is not dict:
        remedy = Remedy("Pass {payload} for documents of any kind.", payload="json")
        found = type(value).__name__
        raise CorruptRecordError("the record is no JSON object", index=index, found=found, remedy=remedy)
    return value


def _parse_text(text: str) -> Any:
    check_nesting(text)
    start = 0 if text[:1] == "{" else len(text) - len(text.lstrip(_SPACE))
    value, end = _SCAN(text, start)
    if end != len(text) and text[end:].strip(_SPACE):
        raise ValueError(f"expected one document, found more behind character {end}")
    return value


def _dumped(values: dict[str, Any]) -> bytes:
    try:
        blob = check_size(_ENCODER.encode(values).encode())
        check_document(values, str)
    except (TypeError, ValueError, RecursionError) as error:
        name = next((name for name, value in values.items() if not _is_document(value)), None)
        raise CodecError(str(error), codec="json_object", field=name) from error
    return blob


def _is_document(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
        check_document(value, str)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


JSON_OBJECT = _JsonObject()
"""A JSON object, whose keys are fields."""
