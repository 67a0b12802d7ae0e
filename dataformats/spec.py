"""The type grammar: the types of fields.

`type := codec [ "(" args ")" ] { dims } [ "?" ]`, `dims := "[" [ n { "," n } ] "]"`, outermost first.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Union

from dataformats.errors import SpecError, UnknownNameError

if TYPE_CHECKING:
    import numpy as np

NUMBER_TYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "float128"),
)
"""The codec names that are numpy dtypes; `float128` is numpy's longdouble where that has 16 bytes."""

ML_TYPES = {"bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}
"""The codec names that are dtypes of the package ml_dtypes, short floats of accelerators, with their bytes."""

VALUE = "value"
"""The one field of a source whose records are single values."""

_NUMBERS = frozenset((*NUMBER_TYPES, *ML_TYPES))
_TYPE = re.compile(r"(?P<codec>[A-Za-z_][\w.\-]*)(?:\((?P<args>[^()]*)\))?(?P<dims>(?:\[[\d,\s]*\])*)(?P<optional>\??)")
_SIZE = r"\s*(?:\d{1,10}|(?!None\b)[^\W\d][\w./ \-]*)\s*"  # a number or the name of a field
_SHAPED = re.compile(rf"(?P<codec>{'|'.join(NUMBER_TYPES)})\[(?P<sizes>{_SIZE}(?:,{_SIZE})*)\](?P<optional>\??)")
_PYTHON_TYPES = {bool: "bool", int: "int64", float: "float64", str: "utf8", bytes: "bytes"}
_MAX_DIMS = 32
MAX_ELEMENTS = 2**40  # so that no size of a batch in bytes passes 2^63
_MAX_DIGITS = 20  # Python refuses to read numbers of thousands of digits


@dataclass(frozen=True, slots=True)
class Type:
    """The type of one field: a codec or a dtype, dimensions, and `?` if records may lack the field.

    A shape may name integer fields, which hold the sizes of each record's array: `uint8[height,width,3]` is the codec
    `array` with the arguments `uint8`, `height`, `width` and `3`. It is stored as raw bytes in C order.

    Two types are equal if their values are read the same way: class names and Arrow types do not count.

    Attributes:
        codec: The name of a codec, or of a dtype in `NUMBER_TYPES`.
        args: The codec's arguments, as text.
        dims: Sizes in [0, 2^31) whose product is below 2^40, outermost first, at most 32; `None` is any length.
        optional: True if a record may lack the field.
        class_names: The names of the classes that integers number from 0 on; empty if they are unknown.
        arrow_type: The `pyarrow.DataType` of a column that is read as text, numbers or documents, such as timestamps;
            Parquet and Arrow IPC store the values with this type. `None` is the plain type.
        class_conflict: Two files that number classes differently, each with its class names; empty without such files.

    Example:
        >>> from dataformats import Type
        >>> Type.parse("float32[][64]?")
        Type('float32[][64]?')
        >>> Type.parse("float32[][64]?").dims
        (None, 64)
        >>> Type.parse("int64[3]").dtype == "int64", Type.parse("jpg").dtype
        (True, None)
        >>> Type("int64", class_names=("cat", "dog")).class_names[1]
        'dog'
        >>> Type.parse("uint8[height,width,3]").shape_fields
        ('height', 'width')
    """

    codec: str
    args: tuple[str, ...] = ()
    dims: tuple[int | None, ...] = ()
    optional: bool = False
    class_names: tuple[str, ...] = field(default=(), compare=False)
    arrow_type: Any = field(default=None, compare=False)
    class_conflict: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), compare=False)

    @classmethod
    def parse(cls, text: TypeLike) -> Type:
        """Return the type of a text such as `"float32[28,28]"` or `"jpg[]?"`; a `Type` is returned as it is.

        A dtype of NumPy or torch is its number type; Python's `int`, `float`, `bool`, `str` and `bytes` are `int64`,
        `float64`, `bool`, `utf8` and `bytes`. A dict is the result of `to_json`.

        Raises:
            SpecError: The text does not follow the grammar.
        """
        if isinstance(text, Type):
            return text
        if isinstance(text, Mapping):
            return cls._of_json(text)
        name = text if isinstance(text, str) else _name_of(text)
        match = None if name is None else _TYPE.fullmatch(name.strip())
        shaped = _SHAPED.fullmatch(name.strip()) if match is None and name is not None else None
        if shaped is not None:
            sizes = [size.strip() for size in shaped["sizes"].split(",")]
            return cls("array", (shaped["codec"], *sizes), optional=bool(shaped["optional"]))
        if match is None:
            raise SpecError(
                f"{text!r} is not a type: expected codec[(args)][dims][?], such as 'float32[28,28]', "
                "'int64[]' of any length, 'float32[][4]' of any number of rows, or 'jpg[]?'"
            )
        args = match["args"]
        return cls(
            match["codec"],
            tuple(part.strip() for part in args.split(",")) if args and args.strip() else (),
            _parse_dims(match["dims"], match[0]),
            bool(match["optional"]),
        )

    @classmethod
    def named(cls, text: str | Mapping[str, Any]) -> Type:
        """Return the type that a file names; a text that does not follow the grammar is an opaque codec name."""
        try:
            return cls.parse(text)
        except SpecError:
            if not isinstance(text, str):
                raise
            return cls(text)

    @classmethod
    def _of_json(cls, value: Mapping[str, Any]) -> Type:
        names = value.get("class_names")
        if value.keys() != {"type", "class_names"} or not isinstance(names, (list, tuple)):
            raise SpecError(f"expected {{'type': ..., 'class_names': [...]}}, found {value!r:.200}")
        kind = cls.parse(value["type"])
        is_integer = kind.dtype is not None and kind.dtype.kind in "iu"
        if not is_integer or not all(isinstance(name, str) for name in names):
            raise SpecError(f"class_names: expected texts for a type of integers, found {names!r:.200} for {kind}")
        return replace(kind, class_names=tuple(names))

    def to_json(self) -> str | dict[str, Any]:
        """Return the type as text; with class names as `{"type": ..., "class_names": [...]}`. `parse` takes both."""
        return {"type": str(self), "class_names": [*self.class_names]} if self.class_names else str(self)

    @property
    def item(self) -> Type:
        """The type of one element along the first dimension."""
        return replace(self, dims=self.dims[1:], optional=False, arrow_type=None)

    def known_in(self, types: Sequence[tuple[str, Type]]) -> Type:
        """Return the type with the class names and the Arrow type that it shares with all types, given by file."""
        others = [kind for _, kind in types]
        names = self.class_names if all(kind.class_names == self.class_names for kind in others) else ()
        arrow_type = self.arrow_type if all(kind.arrow_type == self.arrow_type for kind in others) else None
        conflict = next((kind.class_conflict for kind in others if kind.class_conflict), _conflict(types))
        return replace(self, class_names=names, arrow_type=arrow_type, class_conflict=conflict)

    def named_as(self, known: Type) -> Type:
        """Return the type with the class names of another type of the same field, if both are integers."""
        if self.class_names or self.dtype is None or self.dtype.kind not in "iu":
            return self
        return replace(self, class_names=known.class_names, class_conflict=self.class_conflict or known.class_conflict)

    @property
    def required(self) -> Type:
        """The same type for a field that no record lacks."""
        return replace(self, optional=False) if self.optional else self

    @property
    def is_blob_list(self) -> bool:
        """True if a value is a list whose elements are blobs, such as text or images."""
        return bool(self.dims) and self.dtype is None

    @property
    def element(self) -> Type:
        """The type of the innermost element: the codec alone."""
        return Type(self.codec, self.args) if self.dims or self.optional else self

    @property
    def dtype(self) -> np.dtype | None:
        """The little-endian numpy dtype; `None` if the codec is not a number type.

        Without the package ml_dtypes, each of its dtypes is void: that is enough for all but decoding.
        """
        return None if self.args or self.codec not in _NUMBERS else _little_endian(self.codec)

    @property
    def shape_fields(self) -> tuple[str, ...]:
        """The fields of a record that hold sizes of its array; empty if the shape names none."""
        sizes = self.args[1:] if self.codec == "array" else ()
        is_shape = all(re.fullmatch(_SIZE, size) for size in sizes)
        return tuple(size for size in sizes if is_shape and not size.isdecimal())

    @property
    def fixed(self) -> bool:
        """True if every dimension has a size."""
        return None not in self.dims

    def __str__(self) -> str:
        if self.shape_fields and self.args[0] in NUMBER_TYPES and not self.dims:
            return f"{self.args[0]}[{','.join(self.args[1:])}]{'?' if self.optional else ''}"
        args = f"({','.join(self.args)})" if self.args else ""
        return f"{self.codec}{args}{_show_dims(self.dims)}{'?' if self.optional else ''}"

    def __repr__(self) -> str:
        return f"Type({str(self)!r})"


class Spec(Mapping[str, Type]):
    """A mapping of field name to `Type`, in the order of the fields. Immutable and hashable.

    Args:
        types: Field to `Type`, or to its text.

    Raises:
        SpecError: A type does not parse; the error names the field.

    Example:
        >>> from dataformats import Spec
        >>> spec = Spec({"image": "uint8[8,8]", "label": "int64"})
        >>> spec["image"].dims
        (8, 8)
        >>> spec.to_json()
        {'image': 'uint8[8,8]', 'label': 'int64'}
    """

    __slots__ = ("_types",)

    def __init__(self, types: SpecLike = ()) -> None:  # type: ignore[assignment]  # an empty tuple is an empty mapping
        if not isinstance(types, Mapping) and types != ():
            raise SpecError(f"expected a mapping of field to type, found {type(types).__name__}")
        items = dict(types)
        self._types: dict[str, Type] = {}
        for name, text in items.items():
            if not isinstance(name, str):
                raise SpecError(f"the name of a field is not text: expected str, found {name!r}")
            try:
                self._types[name] = Type.parse(text)
            except SpecError as error:
                raise SpecError(error.what, field=name) from None

    def __getitem__(self, name: str) -> Type:
        if name not in self._types:
            raise UnknownNameError("field", name=name, known=self._types)
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mapping):
            return self._types == {name: _typed(value) for name, value in other.items()}
        return NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._types.items()))

    def __repr__(self) -> str:
        return f"Spec({self.to_text()!r})"

    def to_json(self) -> dict[str, str | dict[str, Any]]:
        """Return the spec for JSON, see `Type.to_json`; `Spec` can be made of it again."""
        return {name: kind.to_json() for name, kind in self._types.items()}

    def to_text(self) -> dict[str, str]:
        """Return the types as text, without class names."""
        return {name: str(kind) for name, kind in self._types.items()}

    def select(self, names: Mapping[str, object] | list[str] | tuple[str, ...]) -> Spec:
        """Return the spec of these fields, in this order; raises `KeyError` for an unknown one."""
        return Spec({name: self._types[name] for name in names})


TypeLike = Union[str, Type, type, "np.dtype[Any]", Mapping[str, Any]]  # `|` takes no text

SpecLike = Spec | Mapping[str, TypeLike]


def is_short_float(dtype: np.dtype) -> bool:
    """Return True for the dtypes of `ML_TYPES`: for NumPy, most of them are void."""
    return dtype.isbuiltin == 2 and dtype.name in ML_TYPES  # `name` takes microseconds


@functools.cache
def _little_endian(name: str) -> np.dtype:
    import numpy as np

    if name in ML_TYPES:
        try:
            import ml_dtypes
        except ImportError:
            return np.dtype(f"V{ML_TYPES[name]}")
        short: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return short
    if name == "float128" and not hasattr(np, "float128"):
        raise SpecError("this platform has no float128: numpy's longdouble has fewer than 16 bytes")
    return np.dtype(name).newbyteorder("<")


def _conflict(types: Sequence[tuple[str, Type]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return two files that number classes differently: see `Type`. Names that continue other names agree with them."""
    paths = {kind.class_names: path for path, kind in types}
    longest = max(paths, key=len)
    other = next((names for names in paths if names != longest[: len(names)]), None)
    return () if other is None else ((paths[longest], longest), (paths[other], other))


def _name_of(kind: Any) -> str | None:
    """Return the type that a type of Python, or a dtype of NumPy or torch, stands for; `None` for anything else."""
    if isinstance(kind, type) and kind in _PYTHON_TYPES:
        return _PYTHON_TYPES[kind]
    if type(kind).__module__ == "torch":
        return str(kind).removeprefix("torch.")
    import numpy as np

    try:
        name = np.dtype(kind).name if isinstance(kind, (type, np.dtype)) else None
    except TypeError:
        return None
    return name if name in _NUMBERS else None


def _typed(value: Any) -> Type | None:
    try:
        return Type.parse(value)
    except SpecError:
        return None


def _parse_dims(text: str, whole: str) -> tuple[int | None, ...]:
    dims: list[int | None] = []
    for group in re.findall(r"\[([^\]]*)\]", text):
        if not group.strip():
            dims.append(None)
            continue
        for part in group.split(","):
            if not part.strip().isdigit() or len(part) > _MAX_DIGITS:
                raise SpecError(
                    f"{whole!r:.99} is not a type: expected sizes as in [28,28], or nothing, found [{group:.20}]"
                )
            dims.append(int(part.strip()))
    if len(dims) > _MAX_DIMS or any(size is not None and size >= 2**31 for size in dims):
        raise SpecError(f"{whole!r} is not a type: expected at most {_MAX_DIMS} dimensions, and sizes below 2^31")
    # Zeros do not count: numpy multiplies the other sizes all the same.
    if math.prod(size for size in dims if size) >= MAX_ELEMENTS:
        raise SpecError(f"{whole!r:.99} is not a type: expected sizes whose product is below 2^40")
    return tuple(dims)


def _show_dims(dims: tuple[int | None, ...]) -> str:
    text = ""
    for size in dims:
        if size is None:
            text += "[]"
        elif text.endswith("]") and not text.endswith("[]"):
            text = f"{text[:-1]},{size}]"
        else:
            text += f"[{size}]"
    return text
