"""The spec that a class of sources declares: any mapping of field to type, or none for records without a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataformats.errors import SpecError
from dataformats.spec import VALUE, Spec

if TYPE_CHECKING:
    from dataformats.interfaces.record_source import RecordSource


class SpecAttribute:
    """The `spec` of a class of sources: the class may declare any mapping of field to type, reads give a `Spec`.

    Args:
        declared: The mapping, or a property that returns one.
    """

    def __init__(self, declared: Any) -> None:
        self._declared = declared if hasattr(declared, "__get__") else Spec(declared)

    def __get__(self, source: RecordSource | None, owner: type[RecordSource]) -> Any:
        if source is None:
            return self._declared
        spec = vars(source).get("spec", self._declared)
        if hasattr(spec, "__get__"):
            spec = spec.__get__(source, owner)
        return spec if isinstance(spec, Spec) else Spec(spec)

    def __set__(self, source: RecordSource, value: Any) -> None:
        if isinstance(self._declared, property):
            self._declared.__set__(source, value)
        else:
            vars(source)["spec"] = Spec(value)


def declared_spec(source: RecordSource) -> Spec | None:
    """Return the spec of a source; `None` if its records are results of a function."""
    try:
        return source.spec
    except SpecError:
        return None


def is_single(source: RecordSource) -> bool:
    """Return True if a record is one value, and not a dict: the batches of `read` are `single`."""
    spec = declared_spec(source)
    return spec is None or (tuple(spec) == (VALUE,) and source.read([]).single)
