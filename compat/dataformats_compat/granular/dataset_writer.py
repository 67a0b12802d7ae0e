"""Appends rows to datasets in place."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, cast

import msgpack

from dataformats.errors import FormatError
from dataformats_compat.granular.bag import BagReader, BagWriter
from dataformats_compat.granular.dataset_spec import REFS, Functions, functions_of, has_refs, is_sequence, read_spec
from dataformats_compat.granular.utils import ArgumentError, Closing, path_of

__all__ = ["DatasetWriter"]

_NAME = re.compile(r"[a-z_][^/\\\0]*")


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
        if not spec:
            raise ArgumentError("a dataset needs at least one field")
        self._check_names((*spec, *spec.values()))
        self.directory: Any = path_of(directory)
        self._spec = dict(sorted(spec.items()))
        self.encoders: Any = functions_of(encoders, self._spec)
        self.version: int = version or (2 if any(map(is_sequence, self._spec.values())) else 3)
        self._prepare_folder()
        bags = {name: BagWriter(self.directory / f"{name}.bag", version=self.version) for name in self._spec}
        self.writers = bags
        self._refs = BagWriter(self.directory / f"{REFS}.bag", version=self.version) if self.version < 3 else None
        self._all = (*bags.values(), *([] if self._refs is None else [self._refs]))
        least = int(self.version == 2)  # its readers mistake a bag that begins with an empty record
        self._encode = [(name, _encoder(name, kind, self.encoders[name], least)) for name, kind in self._spec.items()]
        lengths = [len(bag) for bag in bags.values()]
        self.length: int = min(lengths, default=0)
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
            if not _NAME.fullmatch(name):
                raise ArgumentError(
                    f"expected names that begin with a lower-case letter or _, without slashes, found {name!r}"
                )

    def _prepare_folder(self) -> None:
        path = self.directory / "spec.json"
        if not path.exists():
            self.directory.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.write(json.dumps(self._spec).encode())
            return
        found = read_spec(self.directory)
        is_old = has_refs(self.directory, found)
        if found != self._spec or is_old or self.version < 3:
            what = "a dataset of version 2, which is written once" if found == self._spec else f"the spec {found}"
            raise ArgumentError(f"cannot append to {str(self.directory)!r} with the spec {self._spec}: it has {what}")

    def _add(self, encoded: Sequence[Any]) -> None:
        bags = self._all
        if self._is_uneven:
            ahead = [bag for bag in bags if len(bag) > self.length]
            for bag, name, value in zip(bags, self._spec, encoded, strict=True):
                if bag in ahead:
                    self._check_equal(name, value)
            for bag, value in zip(bags, encoded, strict=True):
                if bag not in ahead:
                    bag.add(value)
            self._is_uneven = max(map(len, ahead), default=0) > self.length + 1
            return
        for bag, value in zip(bags, encoded, strict=True):
            bag.add(value)

    def _add_sequences(self, encoded: Sequence[Any], refs: BagWriter) -> None:
        row: list[Any] = []
        for bag, value in zip(self._all, encoded, strict=False):
            if isinstance(value, bytes):
                row.append(bag.length)
                bag.add(value)
            else:
                row.append([bag.length, len(value)] if value else [])
                for one in value:
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


def _encoder(name: str, kind: str, function: Callable[..., Any] | None, least: int) -> Callable[[Any], Any]:
    """Return the function from a field's value to bytes, or of a sequence to a list of them. Its errors name the field.

    Args:
        name: The field.
        kind: Its type.
        function: Converts a value to bytes; `None`: values are bytes.
        least: The least bytes of a value.
    """

    def encode(value: Any) -> bytes:
        try:
            blob = value if function is None else function(value)
            if not isinstance(blob, bytes) or len(blob) < least:
                raise ArgumentError(f"expected bytes{', not empty' if least else ''}, found {blob!r:.40}")
        except Exception as error:
            error.add_note(f"while encoding field {name!r} of type {kind!r}")
            raise
        return blob

    return (lambda values: list(map(encode, values))) if is_sequence(kind) else encode
