"""The types under which files with Arrow's types store values."""

from __future__ import annotations

from dataclasses import replace

from dataformats.errors import SpecError
from dataformats.spec import Spec, Type

__all__ = ["stored_types"]


def stored_types(spec: Spec) -> Spec:
    """Return the types that Arrow has; the blobs of other codecs, such as images, are stored as `bytes`.

    Raises:
        SpecError: A list of values that are not numbers is optional.
    """
    wrong = [name for name, kind in spec.items() if kind.optional and kind.dims and kind.dtype is None]
    if wrong:
        remedy = "Leave out the `?`: a record that lacks the field has an empty list."
        what = "a list of values that are not numbers cannot be optional"
        raise SpecError.of(
            SpecError(f"{what}, found the type {spec[name]}", field=name, remedy=remedy) for name in wrong
        )
    return Spec({name: _stored(kind) for name, kind in spec.items()})


def _stored(kind: Type) -> Type:
    if kind.dtype is None:
        return kind if kind.codec in ("bytes", "utf8") else replace(kind, codec="bytes", args=())
    is_known = kind.dtype.kind in "biuf" and kind.dtype.itemsize <= 8 and 0 not in kind.dims
    return kind if is_known else Type("bytes", optional=kind.optional)
