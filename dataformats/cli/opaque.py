"""Fields whose type names no codec that a file may use: shown and checked as bytes, and called opaque."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from dataformats.errors import DataFormatsError
from dataformats.registry import codecs
from dataformats.spec import Type

if TYPE_CHECKING:
    from dataformats.reading.source import RecordSource

__all__ = ["opaque_fields", "opaque_in", "said_of"]


def opaque_fields(kinds: Mapping[str, Type], declared: Collection[str] = ()) -> dict[str, Type]:
    """Return the fields that nothing decodes.

    Args:
        kinds: Field to type.
        declared: Fields whose types the command line gave: a codec that is unknown there is an error.
    """
    from dataformats.columns.codec_resolver import CodecResolver

    return CodecResolver(None, trusted=False).opaque(
        {name: kind for name, kind in kinds.items() if name not in declared}
    )


def opaque_in(path: str | list[str], options: Mapping[str, Any]) -> tuple[dict[str, Type], dict[str, Any]]:
    """Return the opaque fields of a data set, and the options under which all of it can be read."""
    from dataformats.columns.codec_resolver import as_bytes
    from dataformats.reading.opening import open as open_source

    try:
        with open_source(path, **options) as source:
            kinds = _fields_of(source)
    except (DataFormatsError, OSError):
        return {}, dict(options)  # whoever opens it next says so
    found = opaque_fields(kinds, options.get("spec", ()))
    return found, {**options, "spec": as_bytes(kinds, found).to_json()} if found else dict(options)


def said_of(kind: Type) -> str:
    """Return why a type is opaque."""
    name = str(kind.element)
    if kind.codec in codecs:
        return f"opaque: a file may not name {name!r}, only --spec may"
    return f"opaque: no codec {name!r}"


def _fields_of(source: RecordSource) -> Mapping[str, Type]:
    from dataformats.reading.file_source import FileSource

    told = isinstance(source, FileSource) and not source.single and not source.spec_is_inferred
    return source.spec if told else {}
