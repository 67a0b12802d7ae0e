"""Datasets: one bag for each field, in a folder with `spec.json`.

Example:
    >>> import os, tempfile
    >>> from dataformats.compat import granular
    >>> folder = os.path.join(tempfile.mkdtemp(), "words")
    >>> with granular.DatasetWriter(folder, {"text": "utf8", "n": "int"}, granular.encoders) as writer:
    ...     [writer.append({"text": text, "n": n}) for n, text in enumerate(["a", "b", "c"])]
    [0, 1, 2]
    >>> with granular.DatasetReader(folder, granular.decoders) as reader:
    ...     reader[2], reader[0:2], reader[1, ("text",)]
    ({'n': 2, 'text': 'c'}, {'n': [0, 1], 'text': ['a', 'b']}, {'text': 'b'})
"""

from __future__ import annotations

import json
import operator
import pickle
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Self, cast

import msgpack

from dataformats.compat.granular.bag import BagReader, BagWriter, rows_of
from dataformats.compat.granular.formats import decode_all
from dataformats.compat.granular.utils import ArgumentError, Closing, path_of
from dataformats.errors import FormatError
from dataformats.storage.paths import is_local
from dataformats.storage.threads import ThreadPool

__all__ = ["DatasetReader", "DatasetWriter", "Functions"]

Functions = Mapping[str, Callable[..., Any]] | None
"""Type to encoder or decoder; `None`: values are the stored bytes."""

_REFS = "refs"
_MOST_MASKS = 256
_THREADS = ThreadPool(16, "dataformats-granular")
_FIRST_LETTER = re.compile(r"[a-z_]")


def is_sequence(kind: str) -> bool:
    """True for the types of granular 0.21 with any number of values in a row."""
    return kind.endswith("[]")


class DatasetWriter(Closing):
    """Appends rows to a dataset in place. A folder that has a dataset is continued.

    If a writer was interrupted, some fields may have more values than others: the rows that are appended next must have
    the same ones.

    Args:
        directory: The folder: a path, or a path object with `/`, `exists`, `mkdir` and `open`.
        spec: Field to type; fields and types begin with a lower-case letter or `_`.
        encoders: Type to the function from a value to bytes; `None`: values are bytes.
        version: 3; or 2 (or 1), the files of granular 0.21, which a new folder gets by itself if a type ends in `[]`.

    Raises:
        KeyError: `encoders` lacks a type.
        ArgumentError: A name is wrong, or the folder has a dataset with another spec, or one of version 2.
    """

    def __init__(
        self, directory: Any, spec: Mapping[str, str], encoders: Functions, version: int | None = None
    ) -> None:
        self._check_names((*spec, *spec.values()))
        self.directory = path_of(directory)
        self._spec = dict(sorted(spec.items()))
        self.encoders = functions_of(encoders, self._spec)
        self.version = version or (2 if any(map(is_sequence, self._spec.values())) else 3)
        self._prepare_folder()
        bags = {name: BagWriter(self.directory / f"{name}.bag", version=self.version) for name in self._spec}
        self.writers = bags
        self._refs = BagWriter(self.directory / f"{_REFS}.bag", version=self.version) if self.version < 3 else None
        self._all = (*bags.values(), *([] if self._refs is None else [self._refs]))
        least = int(self.version == 2)  # its readers mistake a bag that begins with an empty record
        encode = {name: _Encode(name, kind, self.encoders[name], least) for name, kind in self._spec.items()}
        self._encode = [(name, encode[name].all if is_sequence(self._spec[name]) else encode[name]) for name in encode]
        lengths = [len(bag) for bag in bags.values()]
        self.length = min(lengths, default=0)
        self._is_uneven = len({*lengths}) > 1

    @property
    def spec(self) -> dict[str, str]:
        """Field to type, sorted."""
        return self._spec

    @property
    def size(self) -> int:
        """Bytes of all bags."""
        return sum(bag.size for bag in self._all)

    def __len__(self) -> int:
        return self.length

    def append(self, datapoint: Mapping[str, Any], flush: bool = True) -> int:
        """Append a row and return its number. If a value does not encode, nothing is appended.

        Args:
            datapoint: The value of each field.
            flush: False leaves it in memory until the next `flush`.

        Raises:
            ArgumentError: It has other fields than the spec.
            ValueError: An interrupted writer left another value there.
        """
        if self.closed:
            raise ArgumentError("the writer is closed")
        if not isinstance(datapoint, dict) or datapoint.keys() != self._spec.keys():
            found = ", ".join(map(str, datapoint)) if isinstance(datapoint, dict) else type(datapoint).__name__
            raise ArgumentError(f"expected a dict with the fields {', '.join(self._spec)}, found {found}")
        encoded = [encode(datapoint[name]) for name, encode in self._encode]
        if self._refs is None:
            self._add(encoded)
        else:
            self._add_sequences(encoded, self._refs)
        self.length += 1
        if flush:
            self.flush()
        return self.length - 1

    def flush(self) -> None:
        """Hand all rows to the operating system."""
        for bag in self._all:
            bag.flush()

    def close(self) -> None:
        """Flush and close."""
        with ExitStack() as stack:  # closes all, whichever of them fails
            for bag in self._all:
                stack.callback(bag.close)
        super().close()

    def _check_names(self, names: Iterable[str]) -> None:
        for name in names:
            if not _FIRST_LETTER.match(name):
                raise ArgumentError(f"expected names that begin with a lower-case letter or _, found {name!r}")

    def _prepare_folder(self) -> None:
        path = self.directory / "spec.json"
        if not path.exists():
            self.directory.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.write(json.dumps(self._spec).encode())
            return
        found = read_spec(self.directory)
        is_old = (self.directory / f"{_REFS}.bag").exists()
        if found != self._spec or is_old or self.version < 3:
            what = "a dataset of version 2, which is written once" if found == self._spec else f"the spec {found}"
            raise ArgumentError(f"cannot append to {str(self.directory)!r} with the spec {self._spec}: it has {what}")

    def _add(self, encoded: Sequence[Any]) -> None:
        if self._is_uneven:
            lengths = [len(bag) for bag in self._all]
            for bag, name, value in zip(self._all, self._spec, encoded, strict=True):
                if len(bag) > self.length:
                    self._check_equal(name, value)
                else:
                    bag.add(value)
            self._is_uneven = max(lengths) > self.length + 1
            return
        for bag, value in zip(self._all, encoded, strict=True):
            bag.add(value)

    def _add_sequences(self, encoded: Sequence[Any], refs: BagWriter) -> None:
        row: list[Any] = []
        for (name, kind), value in zip(self._spec.items(), encoded, strict=True):
            bag = self.writers[name]
            values = value if is_sequence(kind) else (value,)
            row.append(([len(bag), len(values)] if values else []) if is_sequence(kind) else len(bag))
            for one in values:
                bag.add(one)
        refs.add(cast("bytes", msgpack.packb(row)))

    def _check_equal(self, name: str, value: bytes) -> None:
        with BagReader(self.directory / f"{name}.bag", cache_index=False) as reader:
            found = reader[self.length]
        if found != value:
            raise FormatError(
                f"Record mismatch in column {name!r} at index {self.length}: an interrupted writer left another value",
                path=str(self.directory),
                index=self.length,
                expected=f"the {len(found)} bytes that are there",
                found=f"{len(value)} bytes",
                remedy="Append the same rows again",
            )


class DatasetReader(Closing):
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
        has_refs = (directory / f"{_REFS}.bag").exists()
        if not isinstance(cache_keys, (tuple, list)) or not {*cache_keys} <= {_REFS, *self._spec}:
            raise ArgumentError(f"expected cache_keys to be a list of {', '.join(self._spec)}, found {cache_keys!r}")
        self.decoders = functions_of(decoders, self._spec)
        self._sequences = frozenset(name for name, kind in self._spec.items() if has_refs and is_sequence(kind))
        self._every_field = dict.fromkeys(self._spec, True)
        self._masks: dict[tuple[str, ...], Mapping[str, Any]] = {}
        self._is_parallel = parallel and not is_local(directory)
        self.readers = {
            name: BagReader(
                directory / f"{name}.bag", cache_index=cache_index, cache_data=name in cache_keys, single_file=has_refs
            )
            for name in (*self._spec, *([_REFS] if has_refs else []))
        }
        self._refs = self.readers.get(_REFS)
        lengths = {name: len(bag) for name, bag in self.readers.items() if self._refs in (None, bag)}
        self.length = min(lengths.values(), default=0)
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

    def __len__(self) -> int:
        return self.length

    def available(self, index: int) -> dict[str, bool | range]:
        """Return the fields of a row: True, or the range of a sequence's elements; without reading a value."""
        row = self._row(_checked(index, self.length))
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
        index = _checked(index, self.length)
        if self._refs is None:
            wanted = dict.fromkeys(mask, index)
        else:
            row = self._row(index)
            wanted = {name: _part(row[name], mask[name]) for name in mask}
        return self._read(wanted)

    def copy(self) -> Self:
        """Return another reader of the same dataset."""
        copied: Self = pickle.loads(pickle.dumps(self))
        return copied

    def close(self) -> None:
        """Close files, and free shared memory."""
        for bag in self.readers.values():
            bag.close()
        super().close()

    def _read(self, wanted: Mapping[str, int | range]) -> dict[str, Any]:
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
        if self._refs is None or not rows:
            wanted = dict.fromkeys(mask, rows)
        elif self._sequences.intersection(mask):
            points = [self[index, mask] for index in rows]
            return {name: [point[name] for point in points] for name in mask}
        else:
            first, last = self._row(rows[0]), self._row(rows[-1])
            wanted = {name: range(first[name], last[name] + 1) for name in mask}
        return self._read(wanted)

    def _checked_mask(self, mask: Any) -> Mapping[str, Any]:
        if not isinstance(mask, (tuple, list, dict)) or not {*mask} <= self._spec.keys():
            raise ArgumentError(f"expected a list or dict of {', '.join(self._spec)}, found {mask!r}")
        if not isinstance(mask, dict):
            found = dict.fromkeys(mask, True)
            if isinstance(mask, tuple) and len(self._masks) < _MOST_MASKS:
                self._masks[mask] = found
            return found
        for name, part in mask.items():
            if not isinstance(part, (bool, slice, range) if name in self._sequences else bool):
                raise MaskError(f"expected True, False or, for a sequence, a range of {name!r}, found {part!r}")
        return {name: part for name, part in mask.items() if part is not False}

    def _row(self, index: int) -> dict[str, Any]:
        """Return the number of the record of each field in a row, or the range of a sequence's."""
        if self._refs is None:
            return dict.fromkeys(self._spec, index)
        stored = msgpack.unpackb(self._refs[index])
        if isinstance(stored, list) and len(stored) == len(self._spec):
            row = {name: self._numbers(name, ref) for name, ref in zip(self._spec, stored, strict=True)}
            if None not in row.values():
                return row
        raise FormatError(
            "a row of refs.bag does not parse",
            index=index,
            expected=f"a number, or [first, count] of a sequence, for each of {', '.join(self._spec)}",
            found=repr(stored)[:80],
        )

    def _numbers(self, name: str, ref: Any) -> int | range | None:
        if name not in self._sequences:
            return ref if type(ref) is int else None
        if ref == []:
            return range(0)
        fits = isinstance(ref, list) and len(ref) == 2 and all(type(part) is int and part >= 0 for part in ref)
        return range(ref[0], min(ref[0] + ref[1], len(self.readers[name]))) if fits else None


class MaskError(ArgumentError, TypeError):
    """A mask has something else than True, False or the range of a sequence."""


class InconsistentError(FormatError, AssertionError):
    """The fields of a dataset have different numbers of values. The original asserts."""


class _Encode:
    """Encodes the values of a field. An error has a note that names it.

    Args:
        name: The field.
        kind: Its type.
        function: From a value to bytes; `None`: values are bytes.
        least: The least bytes of a value.
    """

    def __init__(self, name: str, kind: str, function: Callable[..., Any] | None, least: int) -> None:
        self._note = f"while encoding field {name!r} of type {kind!r}"
        self._function = function
        self._least = least

    def __call__(self, value: Any) -> bytes:
        try:
            blob = value if self._function is None else self._function(value)
            if not isinstance(blob, bytes) or len(blob) < self._least:
                raise ArgumentError(f"expected bytes{', not empty' if self._least else ''}, found {blob!r:.40}")
        except Exception as error:
            error.add_note(self._note)
            raise
        return blob

    def all(self, values: Iterable[Any]) -> list[bytes]:
        """Return the bytes of all values of a sequence."""
        return list(map(self, values))


def functions_of(functions: Functions, spec: Mapping[str, str]) -> dict[str, Callable[..., Any] | None]:
    """Return the function of each field.

    Raises:
        KeyError: There is none for a type.
    """
    if functions is None:
        return dict.fromkeys(spec)
    return {name: functions[kind.removesuffix("[]")] for name, kind in spec.items()}


def read_spec(directory: Any) -> dict[str, str]:
    """Return the spec in `spec.json`.

    Raises:
        FormatError: It is not an object of field to type, or a name leads out of the folder.
    """
    path = directory / "spec.json"
    with path.open("rb") as file:
        text = file.read()
    try:
        spec: Any = json.loads(text)
    except ValueError as error:
        raise FormatError(f"spec.json does not parse: {error}", path=str(path)) from None
    if not isinstance(spec, dict) or not all(isinstance(kind, str) for kind in spec.values()):
        raise FormatError("spec.json is not a spec", path=str(path), expected="an object of field to type", found=spec)
    wrong = [name for name in spec if not name or re.search(r"[/\\\0]", name)]
    if wrong:
        raise FormatError("a field is not the name of a file in the folder", path=str(path), found=wrong[0])
    return spec


def _checked(index: Any, length: int) -> int:
    number = operator.index(index)
    if not 0 <= number < length:
        raise IndexError(f"row {number} is out of range for {length} rows")
    return number


def _part(numbers: int | range, wanted: Any) -> int | range:
    """Return the wanted part of the records of a sequence."""
    if wanted is True or isinstance(numbers, int):
        return numbers
    part = rows_of(wanted, len(numbers))
    return numbers[part.start : part.stop]
