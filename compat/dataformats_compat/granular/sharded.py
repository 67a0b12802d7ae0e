"""Sharded datasets: a folder of datasets `000000`, `000001`, and so on.

Example:
    >>> import tempfile
    >>> from dataformats_compat import granular
    >>> folder = tempfile.mkdtemp()
    >>> with granular.ShardedDatasetWriter(folder, {"n": "int"}, granular.encoders, shardlen=2) as writer:
    ...     [writer.append({"n": n}) for n in range(5)], writer.shards
    ([0, 1, 2, 3, 4], 3)
    >>> with granular.ShardedDatasetReader(folder, granular.decoders) as reader:
    ...     len(reader), reader[4], reader[1:4]
    (5, {'n': 4}, {'n': [1, 2, 3]})
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from dataformats.internals import concurrent_map, is_local
from dataformats_compat.granular.bag import rows_of
from dataformats_compat.granular.dataset import DatasetReader, DatasetWriter
from dataformats_compat.granular.dataset_spec import Functions
from dataformats_compat.granular.utils import ArgumentError, Closing, RandomAccess, path_of

__all__ = ["ShardedDatasetReader", "ShardedDatasetWriter"]


class ShardedDatasetWriter(Closing):
    """Appends rows to shards, one after the other. A shard that exists is continued.

    Args:
        directory: The folder; made if its parent exists.
        spec: See `DatasetWriter`.
        encoders: See `DatasetWriter`.
        shardlen: Rows of a shard; `None`: one shard.
        shardstart: The first shard to write.
        shardstep: Write every `shardstep`-th shard from there on: one of that many writers.
        version: See `DatasetWriter`.

    Raises:
        ArgumentError: `shardstart` or `shardstep` is negative, or given without `shardlen`.
    """

    def __init__(
        self,
        directory: Any,
        spec: Mapping[str, str],
        encoders: Functions,
        shardlen: int | None = None,
        shardstart: int = 0,
        shardstep: int = 1,
        version: int | None = None,
    ) -> None:
        if shardstart < 0 or shardstep < 1 or not (shardlen or (shardstart, shardstep) == (0, 1)):
            found = f"{shardstart}, {shardstep} and {shardlen}"
            raise ArgumentError(f"expected shardstart >= 0, shardstep >= 1, and with them shardlen, found {found}")
        self.directory: Any = path_of(directory)
        if not self.directory.exists():
            self.directory.mkdir()
        self.spec = spec
        self.encoders = encoders
        self.version = version
        self.shardlength = shardlen
        self.shardstart = shardstart
        self.shardnum: int = shardstart
        self.shardstep = shardstep
        self.writer: DatasetWriter | None = None
        self._before = 0, 0, 0  # shards, bytes and rows of the complete shards

    @property
    def shards(self) -> int:
        """Shards that this writer wrote to."""
        return self._before[0] + (self.writer is not None)

    @property
    def size(self) -> int:
        """Bytes of these shards."""
        return self._before[1] + (0 if self.writer is None else self.writer.size)

    def __len__(self) -> int:
        return self._before[2] + (0 if self.writer is None else len(self.writer))

    def append(self, datapoint: Mapping[str, Any], flush: bool = True) -> int:
        """Append a row and return its number among the rows of these shards."""
        if self.closed:
            raise ArgumentError("the writer is closed")
        if self.writer is None:
            self.writer = self._opened(self.directory / f"{self.shardnum:06}")
        self.writer.append(datapoint, flush=flush)
        number = len(self) - 1
        if self._is_full(self.writer):
            self._finish(self.writer)
        return number

    def _opened(self, folder: Any) -> DatasetWriter:
        return DatasetWriter(folder, self.spec, self.encoders, self.version)

    def _is_full(self, writer: DatasetWriter) -> bool:
        return bool(self.shardlength) and len(writer) >= (self.shardlength or 0)

    def _finish(self, writer: DatasetWriter) -> None:
        writer.close()
        shards, size, length = self._before
        self._before = shards + 1, size + writer.size, length + len(writer)
        self.writer = None
        self.shardnum += self.shardstep

    def flush(self) -> None:
        """Hand all rows to the operating system."""
        if self.writer is not None:
            self.writer.flush()

    def close(self) -> None:
        """Flush and close."""
        if self.writer is not None:
            self.writer.close()
        super().close()


class ShardedDatasetReader(RandomAccess):
    """The rows of all shards, one after the other; or of some of them.

    Args:
        directory: The folder.
        decoders: See `DatasetReader`.
        cache_index: See `DatasetReader`.
        cache_keys: See `DatasetReader`.
        parallel: See `DatasetReader`; also opens the shards at the same time.
        shardstart: The first shard to read.
        shardstep: Read every `shardstep`-th shard from there on.

    Raises:
        ArgumentError: A shard is missing, or none is selected.
    """

    def __init__(
        self,
        directory: Any,
        decoders: Functions,
        cache_index: bool = True,
        cache_keys: Sequence[str] = (),
        parallel: bool = False,
        shardstart: int = 0,
        shardstep: int = 1,
    ) -> None:
        directory = path_of(directory)
        folders = {folder.name: folder for folder in directory.glob("*") if folder.name.isdecimal()}
        names = sorted(folders, key=int)
        if [int(name) for name in names] != list(range(len(names))):
            raise ArgumentError(f"{str(directory)!r}: expected shards 000000, 000001, ..., found {', '.join(names)}")
        selected = [folders[name] for name in names[shardstart::shardstep]]
        if not selected:
            found = f"shardstart={shardstart}, shardstep={shardstep} and {len(names)} shards"
            raise ArgumentError(f"{str(directory)!r}: expected at least one shard to read, found {found}")

        def opened(folder: Any) -> DatasetReader:
            return DatasetReader(folder, decoders, cache_index, cache_keys, parallel)

        both = parallel and not is_local(directory)
        self.readers: list[DatasetReader] = list(
            concurrent_map(opened, selected, local=False) if both else map(opened, selected)
        )
        self.stops: list[int] = list(accumulate(map(len, self.readers)))
        self.starts: list[int] = [0, *self.stops[:-1]]
        self.length: int = self.stops[-1]

    @property
    def spec(self) -> dict[str, str]:
        """Field to type."""
        return self.readers[0].spec

    @property
    def size(self) -> int:
        """Bytes of all shards."""
        return sum(reader.size for reader in self.readers)

    @property
    def shards(self) -> int:
        """Number of shards."""
        return len(self.readers)

    def available(self, index: int) -> dict[str, bool | range]:
        """Return the fields of a row: see `DatasetReader.available`."""
        shard = self._shard(index)
        return self.readers[shard].available(index - self.starts[shard])

    def __getitem__(self, index: Any) -> dict[str, Any]:
        """Return a row, or for a slice or range a dict of lists: see `DatasetReader`.

        Raises:
            IndexError: There is no such row.
            ArgumentError: There is no such field.
            FormatError: The dataset is damaged there.
        """
        index, mask = index if isinstance(index, tuple) and len(index) == 2 else (index, None)
        mask = () if mask is None else (mask,)
        if not isinstance(index, (slice, range)):
            shard = self._shard(index)
            local = index - self.starts[shard]
            return self.readers[shard][(local, *mask) if mask else local]
        rows = rows_of(index, self.length)
        found: dict[str, Any] = {}
        for reader, start, stop in zip(self.readers, self.starts, self.stops, strict=True):
            part = range(max(rows.start, start) - start, max(min(rows.stop, stop), start) - start)
            if part or (reader is self.readers[-1] and not found):
                values = reader[(part, *mask) if mask else part]
                found = {name: found[name] + values[name] for name in values} if found else values
        return found

    def close(self) -> None:
        """Close files, and free shared memory."""
        for reader in self.readers:
            reader.close()
        super().close()

    def _shard(self, index: Any) -> int:
        return bisect.bisect_right(self.stops, self.checked(index))
