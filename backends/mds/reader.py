"""Locates the values of samples: by the table of offsets of each shard, and the sizes at the front of each sample."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.mds.index_file import Shard
from dataformats.batch.value_slices import join_blobs
from dataformats.errors import FormatError, SpecError, TruncatedError
from dataformats.fork_hooks import after_fork
from dataformats.indexing.lookup import RecordsByFile, split_by_file
from dataformats.interfaces import Extents, Located, Reader, StoredFile
from dataformats.spec import NUMBER_TYPES, Spec, Type
from dataformats.storage.native.fast_read import read
from dataformats.storage.native.file_set import FileSet, open_files
from dataformats.storage.reference_read import read_blobs
from dataformats.storage.threads import concurrent_map

_WORD = 4  # bytes of the counts, offsets and sizes, which are uint32
_READ_AS = ("bytes", "utf8")  # stored values that a declared codec may decode otherwise


class MdsReader(Reader):
    """The samples of shards with the same columns.

    A sample begins with the sizes of its values of variable size. They are read for each batch, all in one submission,
    if two columns or more have them; otherwise the table of offsets tells.

    Args:
        files: The file of each shard, decompressed.
        shards: What the index says about each.
        spec: The types of their columns.
        is_headless: True if samples have one value, without its size in front.
    """

    def __init__(
        self, files: Sequence[StoredFile], shards: Sequence[Shard], spec: Spec, *, is_headless: bool = False
    ) -> None:
        self.files: Sequence[StoredFile] = list(files)
        self.shards = shards
        columns = shards[0].columns if shards else None
        names, sizes = (columns.names, columns.sizes) if columns else ((), ())
        self.spec: Spec | None = spec
        self._counts = np.array([shard.samples for shard in shards], np.int64)
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._counts)])
        self._sizes = dict(zip(names, sizes, strict=True))
        self._variable = [name for name in names if self._sizes[name] is None]
        self._head_bytes = 0 if is_headless else _WORD * len(self._variable)
        self._fixed_bytes = sum(size or 0 for size in sizes)
        self._is_local = all(file.local is not None for file in self.files)
        self._tables: dict[int, NDArray[np.uint32] | FormatError] = {}
        self._set: FileSet | None = None
        self._unlock()
        after_fork(self, "_unlock")

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._counts

    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        where = split_by_file(self._starts, indices)
        begin, end, problems = self._samples(where)
        sizes = self._value_sizes(where.file, begin, end, problems)
        offset, found = begin + self._head_bytes, dict[str, Located]()
        for name, fixed in self._sizes.items():
            length = sizes[name] if fixed is None else np.full(len(begin), fixed, np.int64)
            if name in fields:
                found[name] = Located(Extents(where.file, offset, length, problems=problems))
            offset = offset + length
        return {name: found[name] for name in fields}

    def all_extents(self, field: str) -> Extents | None:
        """Return the extents of all samples; `None` if that takes more than the tables of the shards."""
        return super().all_extents(field) if len(self._variable) < 2 and self._is_local else None

    def digest(self, update: Callable[[bytes], None]) -> None:
        for number, shard in enumerate(self.shards):
            update(repr((shard.samples, shard.n_bytes, shard.columns)).encode())
            if self.files[number].is_compressed:  # to decompress all of them would take too long
                update(repr((shard.zip_bytes, sorted(shard.zip_hashes.items()))).encode())
                continue
            table = self._table(number)
            update(b"damaged" if isinstance(table, FormatError) else table.astype("<u4").tobytes())

    def stored_type_for(self, field: str, declared: Type) -> Type:
        assert self.spec is not None  # set in the constructor
        stored = self.spec[field]
        if declared in (stored, Type("bytes")):
            return declared
        is_plain = not stored.dims and stored.codec in _READ_AS
        if not declared.optional:
            if declared.codec in NUMBER_TYPES:
                if stored.codec == "mds" and declared.dims:
                    return stored  # the arrays know their type
                as_bool = (stored.codec, declared.codec) == ("uint8", "bool")
                if stored == Type("bytes") or stored.codec == declared.codec or as_bool:
                    return declared
            elif not declared.dims and (is_plain or (declared.codec in ("jpg", "jpeg") and stored.codec == "jpg")):
                return declared
        raise SpecError(f"stored as {str(stored)!r}, which cannot be read as {str(declared)!r}", field=field)

    def metadata(self) -> dict[str, str]:
        """Return the compression, if the shards are compressed."""
        found = sorted({file.compression for file in self.files} - {"none"})
        return {"compression": ", ".join(found)} if found else {}

    # ---- samples

    def _samples(self, where: RecordsByFile) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[int, FormatError]]:
        """Return int64[n], where each sample begins, and ends; and those that have a problem, both then 0."""
        n = len(where.local)
        begin, end = np.zeros(n, np.int64), np.zeros(n, np.int64)
        problems: dict[int, FormatError] = {}
        concurrent_map(self._table, [one for one in where.groups if one not in self._tables], local=self._is_local)
        for number, here in where.groups.items():
            table = self._table(number)
            if isinstance(table, FormatError):
                problems |= dict.fromkeys(np.arange(n)[here].tolist(), table)
                continue
            local = where.local[here]
            begin[here], end[here] = table[local], table[local + 1]
        first = _WORD * (2 + self._counts[where.file])
        size = np.zeros(n, np.int64)
        for number, here in where.groups.items():
            size[here] = self.files[number].size
        wrong = (begin < first) | (end < begin) | (end > size)
        wrong[list(problems)] = False
        for row in np.flatnonzero(wrong).tolist():
            file = self.files[where.file[row]]
            what, found = "the offsets of a sample are damaged", f"bytes {begin[row]} to {end[row]}"
            expected = f"inside bytes {first[row]} to {file.size}"
            problems[row] = FormatError(what, path=file.name, expected=expected, found=found)
        bad = list(problems)
        begin[bad] = end[bad] = 0
        return begin, end, problems

    def _value_sizes(
        self,
        file: NDArray[np.int32],
        begin: NDArray[np.int64],
        end: NDArray[np.int64],
        problems: dict[int, FormatError],
    ) -> dict[str, NDArray[np.int64]]:
        """Return int64[n], the bytes of each value, for the columns of variable size; adds problems."""
        n, n_variable = len(begin), len(self._variable)
        room = end - begin - self._head_bytes - self._fixed_bytes
        sizes = np.zeros((n, n_variable), np.int64)
        if n_variable == 1:
            sizes[:, 0] = room
        elif n_variable:
            sizes = self._heads(file, begin, np.where(room < 0, 0, self._head_bytes), problems)
        wrong = (room < 0) | (sizes.sum(axis=1) != room)
        wrong[list(problems)] = False
        for row in np.flatnonzero(wrong).tolist():
            what, found = "the sizes in a sample are damaged", f"{sizes[row].tolist()}"
            path, at = self.files[file[row]].name, int(begin[row])
            expected = f"sizes that add up to {max(0, int(room[row]))} bytes"
            problems[row] = FormatError(what, path=path, offset_bytes=at, expected=expected, found=found)
        sizes[list(problems)] = 0
        return dict(zip(self._variable, np.ascontiguousarray(sizes.T), strict=True))

    def _heads(
        self,
        file: NDArray[np.int32],
        begin: NDArray[np.int64],
        length: NDArray[np.int64],
        problems: dict[int, FormatError],
    ) -> NDArray[np.int64]:
        """Return int64[n, variable columns], the sizes at the front of each sample; adds problems."""
        length[list(problems)] = 0
        extents = Extents(file, begin, length)
        files = self._file_set()
        stored = read(files, {"": Located(extents)}, 2**31)
        blobs = join_blobs(stored[""][0]) if stored is not None else None
        if blobs is None:
            (fetched,) = read_blobs(files, [extents], max_bytes=2**31)
            blobs = fetched.blobs
            problems |= fetched.problems
        sizes = np.zeros((len(begin), len(self._variable)), np.int64)
        whole = np.asarray(blobs.lengths == self._head_bytes)
        sizes[whole] = blobs.contiguous()[0].view("<u4").reshape(-1, len(self._variable))
        return sizes

    def _file_set(self) -> FileSet:
        if self._set is None:
            self._set = open_files(self.files, "auto")
        return self._set

    def _table(self, number: int) -> NDArray[np.uint32] | FormatError:
        """Return uint32[samples + 1], where the samples of a shard begin, and the last one ends; or its problem."""
        table = self._tables.get(number)
        if table is None:
            try:
                table = _read_table(self.files[number], int(self._counts[number]))
            except FormatError as error:
                table = error
            self._tables[number] = table
        return table


def _read_table(file: StoredFile, samples: int) -> NDArray[np.uint32]:
    n_bytes = _WORD * (samples + 2)
    if file.size < n_bytes:
        what, expected = "the shard ends in its table of offsets", f"at least {n_bytes} bytes"
        raise TruncatedError(what, path=file.name, expected=expected, found=f"{file.size} bytes")
    words = np.frombuffer(file.pread(0, n_bytes), "<u4")
    if words[0] != samples:
        what = "the shard does not have as many samples as the index says"
        raise FormatError(what, path=file.name, offset_bytes=0, expected=samples, found=int(words[0]))
    return words[1:]
