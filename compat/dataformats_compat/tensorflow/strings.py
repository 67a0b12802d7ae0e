"""`tf.strings`: operations on bytes and arrays of bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from dataformats_compat.tensorflow.dtypes import convert, numpy_dtype, string_array
from dataformats_compat.tensorflow.errors import InvalidArgumentError
from dataformats_compat.tensorflow.missing import missing_from
from dataformats_compat.tensorflow.ragged import RaggedTensor
from dataformats_compat.tensorflow.tensor import array_of, as_tensor, tensor_of

__all__ = [
    "as_string", "bytes_split", "join", "length", "lower", "regex_full_match", "regex_replace", "split", "strip",
    "substr", "to_number", "unicode_decode",
]  # fmt: skip

__getattr__: Any = missing_from(__name__)


def as_string(input: Any, name: Any = None) -> Any:
    """Return numbers as strings."""
    return _each(lambda one: (b"%f" % one) if isinstance(one, float) else str(one).lower().encode(), input)


def to_number(input: Any, out_type: Any = "float32", name: Any = None) -> Any:
    """Return strings as numbers.

    Raises:
        InvalidArgumentError: One is no number.
    """
    kind = numpy_dtype(out_type)
    try:
        return _each(float if kind.kind == "f" else int, input, kind)
    except ValueError as error:
        raise InvalidArgumentError(f"expected numbers: {error}") from error


def join(inputs: Any, separator: str = "", name: Any = None) -> Any:
    """Return strings joined, element by element."""
    parts = np.broadcast_arrays(*(np.asarray(convert(one), object) for one in inputs))
    joined = [separator.encode().join(one) for one in zip(*(part.ravel().tolist() for part in parts), strict=True)]
    return tensor_of(string_array(joined, parts[0].shape))


def length(input: Any, unit: str = "BYTE", name: Any = None) -> Any:
    """Return the length of strings, int32, in bytes or, with `unit="UTF8_CHAR"`, in characters."""
    return _each(len if unit == "BYTE" else lambda one: len(one.decode()), input, np.int32)


def lower(input: Any, encoding: str = "", name: Any = None) -> Any:
    """Return strings in lower case."""
    return _each(bytes.lower if not encoding else lambda one: one.decode().lower().encode(), input)


def strip(input: Any, name: Any = None) -> Any:
    """Return strings without white space around them."""
    return _each(bytes.strip, input)


def regex_replace(input: Any, pattern: str, rewrite: str, replace_global: bool = True, name: Any = None) -> Any:
    """Return strings with the matches of a regular expression replaced."""
    found, into = re.compile(pattern.encode()), rewrite.encode()
    return _each(lambda one: found.sub(into, one, count=0 if replace_global else 1), input)


def split(input: Any, sep: str | None = None, maxsplit: int = -1, name: Any = None) -> Any:
    """Return the parts of a string, or a `RaggedTensor` for several strings.

    Args:
        input: Bytes, or an array of bytes.
        sep: The separator; `None`: white space.
        maxsplit: The most splits; -1: all.
    """
    between = None if not sep else sep.encode()
    return _split_each(input, lambda text: text.split(between, maxsplit), string_array)


def rows(parts: list[list[bytes]]) -> RaggedTensor:
    """Return lists of strings as the rows of a tensor."""
    return _ragged(parts, string_array)


def _ragged(parts: list[list[Any]], array: Callable[[list[Any]], Any]) -> RaggedTensor:
    return RaggedTensor.from_row_lengths(array([one for row in parts for one in row]), [len(row) for row in parts])


def _split_each(input: Any, function: Callable[[bytes], list[Any]], array: Callable[[list[Any]], Any]) -> Any:
    """Return the parts of a string, or a `RaggedTensor` for several strings."""
    texts = array_of(input)
    if not texts.ndim:
        return as_tensor(array(function(texts.item())))
    return _ragged(list(map(function, texts.tolist())), array)


def bytes_split(input: Any, name: Any = None) -> Any:
    """Return the bytes of a string, or a `RaggedTensor` for several strings."""
    return _split_each(input, lambda text: [text[at : at + 1] for at in range(len(text))], string_array)


def unicode_decode(input: Any, input_encoding: str, errors: str = "replace", name: Any = None) -> Any:
    """Return the code points of a string, int32, or a `RaggedTensor` for several strings.

    Args:
        input: Bytes, or an array of bytes.
        input_encoding: `"UTF-8"`, `"UTF-16-BE"` or `"UTF-32-BE"`.
        errors: What wrong bytes become: as `bytes.decode` has it.
    """
    return _split_each(
        input,
        lambda text: list(map(ord, text.decode(input_encoding, errors))),
        lambda points: np.array(points, np.int32),
    )


def regex_full_match(input: Any, pattern: str, name: Any = None) -> Any:
    """Return bool: which strings a regular expression matches from their beginning to their end."""
    found = re.compile(pattern.encode())
    return _each(lambda one: bool(found.fullmatch(one)), input, bool)


def substr(input: Any, pos: Any, len: Any, unit: str = "BYTE", name: Any = None) -> Any:
    """Return the part of strings from a position on, in bytes or, with `unit="UTF8_CHAR"`, in characters.

    Raises:
        InvalidArgumentError: The position is outside of a string.
    """
    texts, starts, lengths = np.broadcast_arrays(array_of(input), array_of(pos), array_of(len))
    each = zip(texts.ravel().tolist(), starts.ravel().tolist(), lengths.ravel().tolist(), strict=True)
    parts = [_part(*one, unit) for one in each]
    return tensor_of(string_array(parts, texts.shape))


def _part(text: bytes, start: int, length: int, unit: str) -> bytes:
    whole: Any = text if unit == "BYTE" else text.decode()
    first = start + whole.__len__() if start < 0 else start
    if not 0 <= first <= whole.__len__():
        raise InvalidArgumentError(f"pos: expected a position in {text!r:.80}, found {start}")
    found = whole[first : first + max(length, 0)]
    return bytes(found if unit == "BYTE" else found.encode())


def _each(function: Callable[[Any], Any], values: Any, dtype: Any = object) -> Any:
    """Return `function` of each value."""
    array = array_of(values)
    found = np.empty(array.size, dtype)
    found[:] = [function(one) for one in array.ravel().tolist()]
    return tensor_of(found.reshape(array.shape))
