"""Join sources record by record: the fields of several sources, as one record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.batch import RecordBatch, take_column
from dataformats.errors import Remedy, SpecError, UnknownNameError
from dataformats.interfaces.declared_spec import declared_spec, is_single
from dataformats.interfaces.record_source import Fields, OnCorrupt, RecordSource
from dataformats.interfaces.source_facts import Origin, SourceFacts, SpecFacts, common_provenance
from dataformats.reading.derived_source import DerivedSource, SourceRecords
from dataformats.reading.field_operations import DecodingSource
from dataformats.reading.key_join import MatchedView
from dataformats.reading.scan import as_indices, digest_of, scan_by_reading
from dataformats.reading.views import stored_length
from dataformats.spec import VALUE, Spec, SpecLike

_BLOCK_BYTES = 64 * 2**20


class FieldPlace(NamedTuple):
    """Where a field is read: the number of the part, and the field's name there."""

    part: int
    name: str


class JoinedSource(DerivedSource):
    """The fields of several sources of equal length. A read reads only the sources of the requested fields."""

    def __init__(self, parts: Sequence[RecordSource], places: Mapping[str, FieldPlace]) -> None:
        super().__init__(*parts)
        self._places = dict(places)
        self._single: list[bool] | None = None

    def made_from(self, indices: ArrayLike, fields: Fields = None) -> Iterator[SourceRecords]:
        numbers = as_indices(indices, len(self))
        asked = self._asked(dict.fromkeys(self._places, True) if fields is None else self.mask(fields))
        rows = np.arange(len(numbers))
        return (SourceRecords(self.sources[number], rows, numbers, mask) for number, mask in asked.items())

    @property
    def facts(self) -> SourceFacts:
        parts = [part.facts for part in self.sources]
        return SourceFacts(
            format=" & ".join(dict.fromkeys(part.format for part in parts)),
            paths=tuple(dict.fromkeys(path for part in parts for path in part.paths)),
            nbytes=sum(part.nbytes for part in parts),
            files_per_record=sum(part.files_per_record for part in parts),
            is_compressed=any(part.is_compressed for part in parts),
            decodes_blocks=any(part.decodes_blocks for part in parts),
            key_field=next((field for field, at in self._places.items() if at == (0, parts[0].key_field)), ""),
        )

    @property
    def spec_facts(self) -> SpecFacts:
        parts = [part.spec_facts for part in self.sources]
        opaque = {
            field: parts[place.part].opaque_fields[place.name]
            for field, place in self._places.items()
            if place.name in parts[place.part].opaque_fields
        }
        left_out = {name: why for part in parts for name, why in part.left_out.items()}
        return SpecFacts(None, common_provenance(parts), opaque, left_out)

    @property
    def spec(self) -> Spec:
        specs = [part.spec for part in self.sources]
        return Spec({field: specs[place.part][place.name] for field, place in self._places.items()})

    @property
    def fingerprint(self) -> str:
        return digest_of(["zip", *(part.fingerprint for part in self.sources)])

    def fingerprint_of_first(self, n: int, n_stored: int | None = None) -> str | None:
        is_whole = all(stored_length(part) == len(part) for part in self.sources)
        prints = [part.fingerprint_of_first(n) for part in self.sources] if is_whole else [None]
        known = [one for one in prints if one is not None]
        return digest_of(["zip", *known]) if len(known) == len(prints) else None

    @property
    def block_starts(self) -> NDArray[np.int64] | None:
        """The blocks of the part with the largest ones, cut where the records of other parts have too many bytes."""
        found = [(part, part.block_starts) for part in self.sources]
        starts = min((starts for _, starts in found if starts is not None), key=len, default=None)
        read_bytes = sum(part.record_bytes() for part, starts in found if starts is None)
        if starts is None or not read_bytes:
            return starts
        most = max(1, int(_BLOCK_BYTES / read_bytes))
        ends = np.append(starts[1:], len(self))
        return np.concatenate([np.arange(start, end, most) for start, end in np.stack([starts, ends], 1).tolist()])

    def __len__(self) -> int:
        return len(self.sources[0])

    def origins(self, indices: ArrayLike, *, offsets: bool = False) -> list[Origin]:
        return self.sources[0].origins(indices, offsets=offsets)

    def with_spec(self, spec: SpecLike) -> DecodingSource:
        spec = Spec(spec)
        for field in spec:
            if field not in self._places:
                raise UnknownNameError("field", name=field, known=self._places)
        parts = list(self.sources)
        for number, part in enumerate(parts):
            wanted = {place.name: spec[field] for field, place in self._places.items()
                      if place.part == number and field in spec}  # fmt: skip
            if any(part.spec[name] != kind for name, kind in wanted.items()):
                parts[number] = part.with_spec(wanted)
        return type(self)(parts, self._places)

    # ---- reading

    def _is_single(self, number: int) -> bool:
        if self._single is None:
            self._single = [is_single(part) for part in self.sources]
        return self._single[number]

    def _asked(self, mask: Mapping[str, bool | range]) -> dict[int, dict[str, bool | range]]:
        """Return the mask of each part that has one of these fields."""
        asked: dict[int, dict[str, bool | range]] = {}
        for field, part in mask.items():
            place = self._places[field]
            asked.setdefault(place.part, {})[place.name] = part
        return asked

    def _columns(self, mask: Mapping[str, Any], found: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
        places = {field: self._places[field] for field in mask}
        return {field: found[place.part][place.name] for field, place in places.items()}

    def _read_stored(self, indices: ArrayLike, fields: Fields, on_corrupt: OnCorrupt) -> RecordBatch:
        numbers, mask = as_indices(indices, len(self)), self.mask(fields)
        found = {number: self.sources[number].read(numbers, part, "omit") for number, part in self._asked(mask).items()}
        failed: dict[int, Exception] = {}
        for batch in found.values():
            failed = {**batch.failed, **failed}
        if not failed:
            columns = self._columns(mask, {number: batch.columns for number, batch in found.items()})
            return RecordBatch(columns, numbers)
        is_sound = ~np.isin(numbers, list(failed))
        if on_corrupt == "raise":
            raise failed[int(numbers[is_sound.argmin()])]
        sound = {}
        for number, batch in found.items():
            rows = np.flatnonzero(is_sound[~np.isin(numbers, list(batch.failed))])
            sound[number] = {name: take_column(column, rows) for name, column in batch.columns.items()}
        return RecordBatch(self._columns(mask, sound), numbers[is_sound], failed)

    def _read_record(self, index: int, fields: Fields = None) -> Any:
        mask = self.mask(fields)
        found: dict[int, Any] = {}
        for number, part in self._asked(mask).items():
            names = part if any(isinstance(one, range) for one in part.values()) else tuple(part)
            record = self.sources[number]._read_record(index, names)
            found[number] = {VALUE: record} if self._is_single(number) else record
        places = {field: self._places[field] for field in mask}
        return {field: found[at.part][at.name] for field, at in places.items() if at.name in found[at.part]}

    def present_fields(self, index: int) -> dict[str, bool | range]:
        found = [part.present_fields(index) for part in self.sources]
        return {field: found[at.part][at.name] for field, at in self._places.items() if at.name in found[at.part]}

    def scan(self, fields: Fields = None) -> Iterator[RecordBatch]:
        mask = self.mask(fields)
        scans = {number: self.sources[number].scan(part) for number, part in self._asked(mask).items()}
        return self._side_by_side(mask, scans) if scans else scan_by_reading(self, fields)

    def _side_by_side(
        self, mask: Mapping[str, Any], scans: Mapping[int, Iterator[RecordBatch]]
    ) -> Iterator[RecordBatch]:
        """Yield the records of several scans that go on side by side."""
        left: dict[int, RecordBatch] = {}
        first, n = 0, len(self)
        while first < n:
            for number, scan in scans.items():
                if number not in left:
                    left[number] = next(scan)
            size = min(map(len, left.values()))
            columns = {}
            for number, batch in list(left.items()):
                here, rest = _cut(batch, size)
                columns[number] = here.columns
                del left[number]
                if len(rest):
                    left[number] = rest
            yield RecordBatch(self._columns(mask, columns), np.arange(first, first + size))
            first += size


def _cut(batch: RecordBatch, size: int) -> tuple[RecordBatch, RecordBatch]:
    """Return the first `size` records of a batch, and the others."""
    if len(batch) == size:
        return batch, RecordBatch({}, batch.indices[:0])
    parts = [np.arange(size), np.arange(size, len(batch))]
    first, rest = (
        RecordBatch({name: take_column(column, rows) for name, column in batch.columns.items()}, batch.indices[rows])
        for rows in parts
    )
    return first, rest


def zip(  # noqa: A001  # the name that the contract gives it
    sources: Mapping[str, RecordSource] | Sequence[RecordSource],
    on: str | Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
) -> DecodingSource:
    """Return a source whose records have the fields of several sources. Nothing is rewritten.

    A read reads only the sources of the fields that it returns. Damage in a record of one source is damage of the
    joined record, and the error names the source's own file and record.

    Args:
        sources: Name to source, or a list: then the names are `"0"`, `"1"`, and so on. Records of single values become
            a field of the source's name.
        on: Without it, records of equal index are joined, and all sources must have equally many. A field of integers
            or text that all sources have, or name of each source to its field: records with equal keys are joined, in
            the order of the first source. Every other source must have each of its keys once; further records are left
            out. Keys are read once: which records belong together is kept in the index cache. Needs pyarrow.
        rename: `"source.field"` to a new name, for fields whose names two sources have.

    Raises:
        SpecError: Sources differ in length; two fields have one name; a source has no spec, as after `map`; or keys
            are missing, repeated, or of different kinds.
        UnknownNameError: A source has no field of the name that `on` or `rename` gives.
        TypeError: `sources` has something else than sources.
        MissingExtraError: `on` is given, and pyarrow is not installed.

    Example:
        >>> import dataformats
        >>> digits = dataformats.open("tests/golden/real/digits-*.tfrecord")
        >>> images, labels = digits.select("image"), digits.select("label")
        >>> joined = dataformats.zip({"image": images, "label": labels})
        >>> sorted(joined.spec), joined[5]["label"]
        (['image', 'label'], 5)

        Records with equal keys:

        >>> first, backwards = labels[:10], labels[:10].take(range(9, -1, -1))
        >>> pairs = dataformats.zip({"a": first, "b": backwards}, on="label", rename={"b.label": "same"})
        >>> pairs[5]
        {'label': 5, 'same': 5}
    """
    named = _named(sources)
    specs = {name: _spec_of(name, source) for name, source in named.items()}
    first, *others = named
    keys = {} if on is None else _keys(on, specs)
    parts = list(named.values())
    if on is None:
        for name in others:
            if len(named[name]) != len(named[first]):
                found = f"{first!r} has {len(named[first])} records, {name!r} has {len(named[name])}"
                remedy = Remedy("Pass {on} to join records with equal keys.", on=...)
                raise SpecError(f"zip: the sources differ in length: {found}", remedy=remedy)
    else:
        parts[1:] = [
            MatchedView(named[name], (named[first], keys[first]), (named[name], keys[name])) for name in others
        ]
    return JoinedSource(parts, _places(specs, {name: keys[name] for name in others if keys}, dict(rename or {})))


def _named(sources: Any) -> dict[str, RecordSource]:
    is_list = isinstance(sources, Sequence) and not isinstance(sources, (str, bytes, RecordSource))
    named = {str(number): source for number, source in enumerate(sources)} if is_list else sources
    if not isinstance(named, Mapping) or not named:
        raise TypeError(f"zip: expected a dict or a list of one source or more, found {sources!r:.80}")
    for name, source in named.items():
        if not isinstance(name, str) or not isinstance(source, RecordSource):
            what = "is a path: open() it first" if isinstance(source, str) else f"is a {type(source).__name__}"
            raise TypeError(f"zip: expected sources by name, but {name!r} {what}")
    return dict(named)


def _spec_of(name: str, source: RecordSource) -> Spec:
    spec = declared_spec(source)
    if spec is None:
        raise SpecError(f"zip: {name!r} has no spec, because it is the result of map()", remedy="Map the joined source")
    return spec


def _keys(on: str | Mapping[str, str], specs: Mapping[str, Spec]) -> dict[str, str]:
    """Return the key field of each source."""
    keys = dict.fromkeys(specs, on) if isinstance(on, str) else dict(on)
    for name in keys:
        if name not in specs:
            raise UnknownNameError("source of a key", name=name, known=specs)
    for name, spec in specs.items():
        if keys.get(name) not in spec:
            raise UnknownNameError(f"key field of the source {name!r}", name=str(keys.get(name, "")), known=spec)
    return keys


def _places(specs: Mapping[str, Spec], left_out: Mapping[str, str], rename: dict[str, str]) -> dict[str, FieldPlace]:
    """Return each field of the joined records; the keys that repeat the first source's are left out."""
    found: dict[str, tuple[str, FieldPlace]] = {}
    for number, (source, spec) in enumerate(specs.items()):
        for name in spec:
            old = f"{source}.{name}"
            if left_out.get(source) == name and old not in rename:
                continue
            new = rename.pop(old, source if tuple(spec) == (VALUE,) else name)
            if new in found:
                others = {f"{source}.{one}": f"{one}_{number}" for one in spec if one in found}
                example = Remedy("Pass {rename}.", rename=others)
                raise SpecError(f"zip: {found[new][0]!r} and {source!r} both have it", field=new, remedy=example)
            found[new] = source, FieldPlace(number, name)
    if rename:
        known = [f"{source}.{name}" for source, spec in specs.items() for name in spec]
        raise UnknownNameError("field", name=next(iter(rename)), known=known)
    return {field: place for field, (_, place) in found.items()}
