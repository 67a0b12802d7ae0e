"""Datasets: one bag for each field, in a folder with `spec.json`.

Example:
    >>> import os, tempfile
    >>> from dataformats_compat import granular
    >>> folder = os.path.join(tempfile.mkdtemp(), "words")
    >>> with granular.DatasetWriter(folder, {"text": "utf8", "n": "int"}, granular.encoders) as writer:
    ...     [writer.append({"text": text, "n": n}) for n, text in enumerate(["a", "b", "c"])]
    [0, 1, 2]
    >>> with granular.DatasetReader(folder, granular.decoders) as reader:
    ...     reader[2], reader[0:2], reader[1, ("text",)]
    ({'n': 2, 'text': 'c'}, {'n': [0, 1], 'text': ['a', 'b']}, {'text': 'b'})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgpack

from dataformats.errors import FormatError
from dataformats.internals import ThreadPool, is_local
from dataformats_compat.granular.bag import BagReader, rows_of
from dataformats_compat.granular.dataset_spec import REFS, Functions, functions_of, has_refs, is_sequence, read_spec
from dataformats_compat.granular.dataset_writer import DatasetWriter
from dataformats_compat.granular.formats import decode_all
from dataformats_compat.granular.utils import ArgumentError, RandomAccess, path_of

__all__ = ["DatasetReader", "DatasetWriter"]

_MAX_MASKS = 256
_THREADS = ThreadPool(16, "dataformats-granular")


class DatasetReader(RandomAccess):
    """The rows of a dataset by number. It has the rows that the dataset had as it was opened; the files may grow.

    Args:
        directory: The folder: a path, or a path object with `/`, `exists` and `open`.
        decoders: Type to the function from bytes to a value; `None`: values are bytes.
        cache_index: True: hold the ends of all records in shared memory.
        cache_keys: Fields to hold in shared memory.
        parallel: True: read the fields of path objects at the same time. Local files are read faster without threads.
        pool_name: Ignored: all readers share threads.

    Raises:
        KeyError: `decoders` lacks a type.
        ArgumentError: There is no such key.
        FormatError: `spec.json` is not a spec, or the fields have different numbers of values.
    """

    def __init__(
        self,
        directory: Any,
        decoders: Functions,
        cache_index: bool = True,
        cache_keys: Sequence[str] = (),
        parallel: bool = False,
        pool_name: str | None = None,
    ) -> None:
        directory = path_of(directory)
        self._spec = read_spec(directory)
        self._folder = str(directory)  # messages name it
        is_old = has_refs(directory, self._spec)
        if not isinstance(cache_keys, (tuple, list)) or not {*cache_keys} <= {REFS, *self._spec}:
            raise ArgumentError(f"expected cache_keys to be a list of {', '.join(self._spec)}, found {cache_keys!r}")
        self.decoders: Any = functions_of(decoders, self._spec)
        self._sequences = frozenset(name for name, kind in self._spec.items() if is_old and is_sequence(kind))
        self._every_field = dict.fromkeys(self._spec, True)
        self._masks: dict[tuple[str, ...], Mapping[str, Any]] = {}
        self._is_parallel = parallel and not is_local(directory)
        self.readers: dict[str, BagReader] = {
            name: BagReader(
                directory / f"{name}.bag", cache_index=cache_index, cache_data=name in cache_keys, single_file=is_old
            )
            for name in (*self._spec, *([REFS] if is_old else []))
        }
        self._refs = self.readers[REFS] if is_old else None
        lengths = {name: len(bag) for name, bag in self.readers.items() if self._refs in (None, bag)}
        self.length: int = min(lengths.values(), default=0)
        if len({*lengths.values()}) > 1:
            self.close()
            remedy = "Append the missing values with DatasetWriter, or open it by dataformats.open"
            problem = "the fields have different numbers of values: a writer is open, or was interrupted"
            raise InconsistentError(problem, path=str(directory), expected="equal ones", found=lengths, remedy=remedy)

    @property
    def spec(self) -> dict[str, str]:
        """Field to type."""
        return self._spec

    @property
    def size(self) -> int:
        """Bytes of all bags."""
        return sum(bag.size for bag in self.readers.values())

    def available(self, index: int) -> dict[str, bool | range]:
        """Return the fields of a row: True, or the range of a sequence's elements; without reading a value."""
        row = self._row(self.checked(index))
        return {name: range(len(rows)) if isinstance(rows, range) else True for name, rows in row.items()}

    def __getitem__(self, index: Any) -> dict[str, Any]:
        """Return a row, or for a slice or range a dict of lists, which is cut at the end.

        Args:
            index: A number or a slice; or a tuple of one and of field names, or of one and of a dict of field to True,
                or to the range of a sequence's elements that is wanted.

        Raises:
            IndexError: There is no such row.
            ArgumentError: There is no such field.
            FormatError: The dataset is damaged there.
        """
        mask: Mapping[str, Any] = self._every_field
        if isinstance(index, tuple):
            index, fields = index
            known = self._masks.get(fields) if type(fields) is tuple else None
            mask = self._checked_mask(fields) if known is None else known
        if isinstance(index, (slice, range)):
            return self._slice(rows_of(index, self.length), mask)
        index = self.checked(index)
        if self._refs is None:
            return self._read(dict.fromkeys(mask, index))
        row = self._row(index)
        return self._read({name: _part(row[name], part) for name, part in mask.items()})

    def close(self) -> None:
        """Close files, and free shared memory."""
        for bag in self.readers.values():
            bag.close()
        super().close()

    def _read(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        if self._is_parallel:
            return dict(zip(wanted, _THREADS.executor().map(self._values, wanted, wanted.values()), strict=True))
        return {name: self._values(name, numbers) for name, numbers in wanted.items()}

    def _values(self, name: str, numbers: int | range) -> Any:
        """Return the decoded value of a record of a field, or the list of several."""
        decode = self.decoders[name]
        if decode is None:
            return self.readers[name][numbers]
        try:
            if isinstance(numbers, int):
                return decode(self.readers[name][numbers])
            return decode_all(decode, *self.readers[name].read(numbers))
        except Exception as error:
            error.add_note(f"while decoding field {name!r} of type {self._spec[name]!r}, {numbers}")
            raise

    def _slice(self, rows: range, mask: Mapping[str, Any]) -> dict[str, Any]:
        wanted: Mapping[str, Any]
        if self._refs is None or not rows:
            wanted = dict.fromkeys(mask, rows)
        else:
            points = [self._row(index) for index in rows]
            wanted = {}
            for name in mask:
                numbers = [point[name] for point in points]
                if name in self._sequences or numbers != list(range(numbers[0], numbers[0] + len(rows))):
                    found = [self[index, mask] for index in rows]  # they lie apart in their bags, or have sequences
                    return {name: [row[name] for row in found] for name in mask}
                wanted[name] = range(numbers[0], numbers[0] + len(rows))
        return self._read(wanted)

    def _checked_mask(self, mask: Any) -> Mapping[str, Any]:
        if not isinstance(mask, (tuple, list, dict)) or not {*mask} <= self._spec.keys():
            raise ArgumentError(f"expected a list or dict of {', '.join(self._spec)}, found {mask!r}")
        if not isinstance(mask, dict):
            found = dict.fromkeys(mask, True)
            if isinstance(mask, tuple) and len(self._masks) < _MAX_MASKS:
                self._masks[mask] = found
            return found
        for name, part in mask.items():
            if not isinstance(part, (bool, slice, range) if name in self._sequences else bool):
                raise MaskError(f"expected True, False or, for a sequence, a range of {name!r}, found {part!r}")
        return {name: mask[name] for name in self._spec if mask.get(name, False) is not False}

    def _row(self, index: int) -> dict[str, Any]:
        """Return the number of the record of each field in a row, or the range of a sequence's."""
        if self._refs is None:
            return dict.fromkeys(self._spec, index)
        blob = self._refs[index]
        try:
            stored = msgpack.unpackb(blob)
        except ValueError as error:  # msgpack raises it
            stored = error
        if isinstance(stored, list) and len(stored) == len(self._spec):
            row = {name: self._numbers(name, ref) for name, ref in zip(self._spec, stored, strict=True)}
            if None not in row.values():
                return row
        raise FormatError(
            "a row of refs.bag does not parse",
            path=f"{self._folder}/{REFS}.bag",
            index=index,
            expected=f"a number, or [first, count] of a sequence, for each of {', '.join(self._spec)}",
            found=repr(stored)[:80],
        )

    def _numbers(self, name: str, ref: Any) -> int | range | None:
        if type(ref) is int:
            return ref if name not in self._sequences and 0 <= ref < self.readers[name].length else None
        if name not in self._sequences or type(ref) is not list or (ref and list(map(type, ref)) != [int, int]):
            return None
        first, count = ref or (0, 0)
        return range(first, first + count) if 0 <= first <= first + count <= self.readers[name].length else None


class MaskError(ArgumentError, TypeError):
    """A mask has a value other than True, False or the range of a sequence."""


class InconsistentError(FormatError, AssertionError):
    """The fields of a dataset have different numbers of values. The original asserts."""


def _part(numbers: int | range, wanted: Any) -> int | range:
    """Return the wanted part of the records of a sequence."""
    if wanted is True or isinstance(numbers, int):
        return numbers
    part = rows_of(wanted, len(numbers))
    return numbers[part.start : part.stop]
