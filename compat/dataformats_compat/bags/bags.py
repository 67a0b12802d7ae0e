"""Bags and datasets of generation 1, whose types may have arguments and `[]`: `array(float32,2,3)`, `utf8[]`."""

from __future__ import annotations

import re
from collections import UserDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dataformats_compat.granular import bag, dataset, sharded
from dataformats_compat.granular.utils import ArgumentError, path_of

__all__ = [
    "BagReader", "BagWriter", "DatasetReader", "DatasetWriter", "ShardedDatasetReader", "ShardedDatasetWriter",
    "parse_spec",
]  # fmt: skip

_TYPE = re.compile(r"([a-z0-9-_]+)(?:\(([a-z0-9-_,.]*)\))?(\[\])?")
_SHARD_BYTES = 10 * 2**30

ParsedSpec = dict[str, tuple[bool, str, tuple[str, ...]]]


def parse_spec(spec: Mapping[str, str]) -> ParsedSpec:
    """Return field to (whether it is a sequence, name of the type, its arguments).

    Raises:
        ArgumentError: A type does not parse, or a field is called `refs`.

    Example:
        >>> from dataformats_compat.bags.bags import parse_spec
        >>> parse_spec({"boxes": "array(float32,4)[]"})
        {'boxes': (True, 'array', ('float32', '4'))}
    """
    if "refs" in spec:
        raise ArgumentError("a field cannot be called 'refs', which is a file of the format")
    return {name: _parsed(kind) for name, kind in spec.items()}


def _parsed(kind: str) -> tuple[bool, str, tuple[str, ...]]:
    match = _TYPE.fullmatch(kind)
    if match is None:
        raise ArgumentError(f"expected a type such as utf8, int(4) or array(float32,2)[], found {kind!r}")
    name, args, brackets = match.groups()
    return bool(brackets), name, () if args is None else tuple(args.split(","))


class _Functions(UserDict[str, Callable[..., Any]]):
    """Encoders or decoders by whole type: the arguments of a type follow the value."""

    def __getitem__(self, kind: str) -> Callable[..., Any]:
        _, name, args = _parsed(kind)
        function = self.data[name]
        return _Applied(function, args) if args else function

    def __contains__(self, kind: object) -> bool:
        return Mapping.__contains__(self, kind)


class _Applied:
    """A function with its last arguments."""

    def __init__(self, function: Callable[..., Any], args: tuple[str, ...]) -> None:
        self._function = function
        self._args = args

    def __call__(self, value: Any) -> Any:
        return self._function(value, *self._args)


class _OpenFile:
    """A file object in place of a path."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def exists(self) -> bool:
        return False

    def open(self, mode: str) -> Any:
        return self._file


def _path_of(file_or_path: Any) -> Any:
    is_file = hasattr(file_or_path, "read") or hasattr(file_or_path, "write")
    return _OpenFile(file_or_path) if is_file and not hasattr(file_or_path, "with_suffix") else file_or_path


class BagWriter(bag.BagWriter):
    """Writes a new bag; `close` writes the ends of its records.

    Args:
        fp: A path that does not exist, a path object, or a binary file.
    """

    def __init__(self, fp: Any) -> None:
        super().__init__(_path_of(fp), version=1)


class BagReader(bag.BagReader):
    """The records of a bag by number.

    Args:
        fp: A path, a path object, or a binary file.
        cache_index: True: hold the ends in memory.
    """

    def __init__(self, fp: Any, cache_index: bool = True) -> None:
        super().__init__(_path_of(fp), cache_index=cache_index, single_file=True)


class _HasSpec:
    """A dataset."""

    _spec: dict[str, str]

    @property
    def spec(self) -> ParsedSpec:
        """Field to (whether it is a sequence, name of the type, its arguments)."""
        return parse_spec(self._spec)


class DatasetWriter(_HasSpec, dataset.DatasetWriter):  # type: ignore[misc]  # spec: as the original has it
    """Writes a new dataset.

    Args:
        directory: A folder that has no dataset.
        spec: Field to type.
        encoders: Name of a type to the function from a value and the arguments of the type to bytes.
    """

    def __init__(self, directory: Any, spec: Mapping[str, str], encoders: Mapping[str, Callable[..., bytes]]) -> None:
        super().__init__(directory, spec, _Functions(encoders), version=1)

    def _check_names(self, names: Iterable[str]) -> None:
        """Types are checked as they are parsed."""


class DatasetReader(_HasSpec, dataset.DatasetReader):  # type: ignore[misc]  # spec: as the original has it
    """The rows of a dataset by number.

    Args:
        directory: The folder.
        decoders: Name of a type to the function from bytes and the arguments of the type to a value.
        cache_index: True: hold the ends of all records in memory.
    """

    def __init__(self, directory: Any, decoders: Mapping[str, Callable[..., Any]], cache_index: bool = True) -> None:
        super().__init__(directory, _Functions(decoders), cache_index)


class ShardedDatasetWriter(sharded.ShardedDatasetWriter):
    """Writes new shards, one after the other.

    Args:
        directory: The folder.
        spec: See `DatasetWriter`.
        encoders: See `DatasetWriter`.
        shard_size: Bytes after which a shard is full; `None`: any number.
        shard_length: Rows of a shard; `None`: any number.
        shard_start: The first shard to write.
        shard_step: Write every `shard_step`-th shard from there on: one of that many writers.
    """

    def __init__(
        self,
        directory: Any,
        spec: Mapping[str, str],
        encoders: Mapping[str, Callable[..., bytes]],
        shard_size: int | None = _SHARD_BYTES,
        shard_length: int | None = None,
        shard_start: int = 0,
        shard_step: int = 1,
    ) -> None:
        path_of(directory).mkdir(parents=True, exist_ok=True)
        super().__init__(directory, spec, encoders)
        if shard_start < 0 or shard_step < 1:
            raise ArgumentError(f"expected shard_start >= 0, shard_step >= 1, found {shard_start}, {shard_step}")
        self.shardlength = shard_length
        self.shardsize = shard_size
        self.shardstart = shard_start
        self.shardnum: int = shard_start
        self.shardstep = shard_step

    def _opened(self, folder: Any) -> DatasetWriter:
        assert self.encoders is not None  # a mapping, by the signature; for the type checker
        return DatasetWriter(folder, self.spec, self.encoders)

    def _is_full(self, writer: dataset.DatasetWriter) -> bool:
        return super()._is_full(writer) or (self.shardsize is not None and writer.size >= self.shardsize)


class ShardedDatasetReader(sharded.ShardedDatasetReader):
    """The rows of all shards, one after the other; or of some of them.

    Args:
        directory: The folder.
        decoders: See `DatasetReader`.
        cache_index: See `DatasetReader`.
        shard_start: The first shard to read.
        shard_step: Read every `shard_step`-th shard from there on.
    """

    def __init__(
        self,
        directory: Any,
        decoders: Mapping[str, Callable[..., Any]],
        cache_index: bool = True,
        shard_start: int = 0,
        shard_step: int = 1,
    ) -> None:
        super().__init__(directory, _Functions(decoders), cache_index, shardstart=shard_start, shardstep=shard_step)

    @property
    def spec(self) -> ParsedSpec:  # type: ignore[override]  # as the original has it
        """Field to (whether it is a sequence, name of the type, its arguments)."""
        return parse_spec(super().spec)
