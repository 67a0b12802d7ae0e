"""The plan of a conversion: which records are read under which types, and what of them is copied unread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from dataformats.columns.codec_resolver import CodecResolver, as_bytes
from dataformats.columns.shaped_fields import ShapedFields
from dataformats.errors import DataFormatsError, Remedy, SpecError, UnknownNameError
from dataformats.interfaces import Backend, BlobBackend, FieldsBackend, RecordCodec
from dataformats.interfaces.declared_spec import declared_spec, is_single
from dataformats.interfaces.record_source import RecordSource
from dataformats.reading.dataset_schema import with_types
from dataformats.reading.opening import remedies_of_source
from dataformats.reading.table_source import TableSource
from dataformats.registry import codecs as registered
from dataformats.spec import ML_TYPES, VALUE, Spec, Type

_INTEGERS = {"int": "int64", "i64": "int64", "u64": "uint64"}


@dataclass(frozen=True, slots=True)
class ConversionPlan:
    """The source and the schema of a conversion.

    Attributes:
        source: The records, read with the types that the writer receives.
        payload: The codec of the new whole records; `None` is the default of the format.
        spec: The new fields, as declared; `None` if the reader infers them, or if there are none.
        carried: The types that the writer receives: `bytes` for blobs that are copied; `None` if as declared.
        rename: Old name to new name.
        copied: True if whole payloads are copied.
        checked: The same records, to be decoded before they are copied, because a call declared their types; `None` if
            there is nothing to check. Costly values are read as bytes.
    """

    source: RecordSource
    payload: str | None
    spec: Spec | None
    carried: Spec | None
    rename: Mapping[str, str]
    copied: bool
    checked: RecordSource | None = None


def plan_of(
    source: RecordSource,
    backend: Backend,
    spec: Spec | None,
    payload: str | None,
    *,
    rename: Mapping[str, str],
    codecs: Mapping[str, Any] | None,
    inferred: bool,
) -> ConversionPlan:
    """Choose the new payload and spec, and the fields that are copied.

    Args:
        source: The records.
        backend: The new format.
        spec: The types that the call declares.
        payload: The codec of new whole records that the call names.
        rename: Old name to new name.
        codecs: See `open`.
        inferred: True if the types of other fields than `spec` names were inferred.
    """
    same = not rename and (spec is None or (not is_single(source) and spec.items() <= source.spec.items()))
    if same and _keeps_payload(backend, source, payload):
        provenance = source.spec_facts.provenance
        declared = spec if is_single(source) or provenance == "inferred" else source.spec
        means_fields = payload in (None, source.payload)  # records read as bytes have no fields
        plan = ConversionPlan(
            source, payload or source.payload, declared if means_fields else None, None, {}, copied=True
        )
        is_known = plan.spec is None or provenance == "saved"
        return plan if is_known else replace(plan, checked=_checked(source, codecs))
    check_names(source, rename)
    if is_single(source):
        return ConversionPlan(
            source, payload or (None if spec else _payload_of(source)), spec, None, rename, copied=False
        )
    old = {rename.get(name, name): name for name in source.spec}
    lacking = [name for name in spec or () if name not in old]
    if lacking:
        raise SpecError("the source has no such field", field=lacking[0])
    portable = portable_spec({name: source.spec[before] for name, before in old.items()}, backend)
    if inferred and isinstance(backend, FieldsBackend) and backend.stores_optional_fields:
        portable = Spec({name: replace(kind, optional=_may_lack(kind)) for name, kind in portable.items()})
    new = with_types(portable, spec or Spec({}))
    ShapedFields(new)  # raises if the new records lack the sizes
    chosen = source.select(*(old[name] for name in new))
    carried = {name: copied_type(chosen.spec[old[name]], kind, codecs) for name, kind in new.items()}
    if not any(carried.values()):
        return ConversionPlan(chosen, payload, new, None, rename, copied=False)
    read = Spec({old[name]: kind or chosen.spec[old[name]] for name, kind in carried.items()})
    written: Spec | None = Spec({name: kind or new[name] for name, kind in carried.items()})
    try:
        _check_holds(backend, payload, new, carried=cast("Spec", written))
        chosen = chosen.with_spec(read)
    except SpecError:  # the source stores no blobs to copy, or the new records hold none
        written = None
    return ConversionPlan(chosen, payload, new, written, rename, copied=False)


def _check_holds(backend: Backend, payload: str | None, spec: Spec, *, carried: Spec) -> None:
    """Raise `SpecError` if the payload of new records with this spec has no place for blobs: JSON has no bytes."""
    codec = registered.get(payload or backend.payload_for(spec)) if isinstance(backend, BlobBackend) else None
    if isinstance(codec, RecordCodec):
        codec.bind(carried, CodecResolver(None, trusted=True))


def _payload_of(source: RecordSource) -> str | None:
    """Return the payload of single values: as stored, or the codec of their type, `npy` for arrays of numbers."""
    if source.payload is not None or (spec := declared_spec(source)) is None:
        return source.payload
    kind = spec[VALUE]
    if kind == kind.element:
        return str(kind)
    return "npy" if kind.dtype is not None and kind.fixed else None


def portable_spec(spec: Mapping[str, Type], backend: Backend) -> Spec:
    """Return the types of these fields in another format: short floats become float32, integers of Granular numbers.

    Shaped fields become arrays that store their shape.
    """
    codecs = dict.fromkeys(ML_TYPES, "float32") | ({} if backend.keeps_field_types else _INTEGERS)
    return Spec({name: _portable_type(kind, codecs) for name, kind in spec.items()})


def _portable_type(kind: Type, codecs: Mapping[str, str]) -> Type:
    if kind.shape_fields:
        return replace(kind, args=())
    return kind if kind.args else replace(kind, codec=codecs.get(kind.codec, kind.codec))


def _may_lack(type_: Type) -> bool:
    """True if records may lack a field of an inferred type: lists that some records lack are inferred as `[]`."""
    return type_.optional or type_.dims[:1] == (None,)


def check_names(source: RecordSource, rename: Mapping[str, str]) -> None:
    """Raise an error if `rename` names an unknown field, or gives two fields one name."""
    if not rename:
        return
    known = () if is_single(source) else tuple(source.spec)
    for name in rename:
        if name not in known:
            raise UnknownNameError("field", name=name, known=known)
    if len({rename.get(name, name) for name in known}) < len(known):
        raise SpecError("two fields would have the same name", remedy=Remedy("Change {rename}.", rename=rename))


def first_record(source: RecordSource) -> Mapping[str, Any]:
    """Return the first record of a source with fields; no fields if it cannot be read."""
    try:
        return cast("Mapping[str, Any]", source[0]) if len(source) else {}
    except DataFormatsError:
        return {}


def left_out(source: RecordSource, plan: ConversionPlan) -> tuple[str, ...]:
    """Return the fields of the source that the new records lack."""
    if plan.copied or is_single(source):
        return ()
    kept = set(plan.source.spec)
    return tuple(name for name in declared_spec(source) or () if name not in kept)


def _keeps_payload(backend: Backend, source: RecordSource, payload: str | None) -> bool:
    """Return True if the new records can have the stored payloads of the source."""
    if not isinstance(backend, BlobBackend) or not stores_payloads(source) or source.payload is None:
        return False
    return backend.accepts_payload(source.payload) if payload is None else payload in ("bytes", source.payload)


def copied_type(old: Type, new: Type, codecs: Mapping[str, Any] | None) -> Type | None:
    """Return the type under which the blobs of a field are copied; `None` if its values must be decoded."""
    if old != new or old.dtype is not None:
        return None
    try:
        portable = CodecResolver(codecs, trusted=False).known_codec(old.element).portable
    except UnknownNameError:
        portable = True  # opaque, or not to be named by a file: only its blobs are needed
    return replace(old, codec="bytes", args=()) if portable and old.codec != "bytes" else None


def _checked(source: RecordSource, codecs: Mapping[str, Any] | None) -> RecordSource:
    """Return a source that decodes all values but costly ones, such as pictures."""
    resolver = CodecResolver(codecs, trusted=True)
    costly = [name for name, kind in source.spec.items() if kind.dtype is None and resolver.codec(kind.element).costly]
    try:
        return source.with_spec(as_bytes(source.spec, costly)) if costly else source
    except SpecError:  # a source of the caller's own
        return source


def stores_payloads(source: RecordSource) -> bool:
    """True if `read_bytes` returns the stored payloads of this source."""
    try:
        source.read_bytes([])
    except SpecError:
        return False
    return True


def select_fields(source: RecordSource, fields: Sequence[str], spec: Spec | None) -> RecordSource:
    """Return the source with these fields only; the source itself for all, so that payloads can be copied."""
    names = declared_spec(source) or ()
    in_order = tuple(fields) == tuple(names)
    if in_order or (spec is not None and {*fields} == {*names}):
        return source
    with remedies_of_source():
        return source.select(*fields)


def with_new_types(source: RecordSource, spec: Spec | None, rename: Mapping[str, str]) -> RecordSource:
    """Return a source whose undeclared fields have the types of the new data."""
    if spec is None or is_single(source):
        return source
    old_names = {new: old for old, new in rename.items()}
    wanted = {old_names.get(name, name): kind for name, kind in spec.items()}
    facts = source.spec_facts
    if facts.provenance == "inferred":
        kept = {name: kind for name, kind in source.spec.items() if not _is_guess(kind, wanted.get(name))}
        return source.with_spec({**source.spec, **wanted, **kept})
    undeclared = [
        name
        for name, kind in source.spec.items()
        if name in wanted
        and (
            name in facts.opaque_fields
            or kind.required == Type("bytes")  # perhaps numbers
            or (wanted[name].dtype is None and (_is_plain_bytes(kind) or _is_text_of(kind, wanted[name], source)))
        )
    ]
    return source.with_spec({name: wanted[name] for name in undeclared})


def _is_guess(inferred: Type, wanted: Type | None) -> bool:
    """True if stored values may have the wanted type as well as the inferred one: numbers convert afterwards."""
    if wanted is None:
        return False
    return inferred.dtype is None or wanted.dtype is None or inferred.dims != wanted.dims


def _is_text_of(kind: Type, wanted: Type, source: RecordSource) -> bool:
    """True if text of a table may be a document: Parquet and CSV have no other type for it."""
    return isinstance(source, TableSource) and (kind.codec, wanted.codec) == ("utf8", "json")


def _is_plain_bytes(type_: Type) -> bool:
    return type_.codec == "bytes" or (type_.codec == "uint8" and len(type_.dims) == 1)
