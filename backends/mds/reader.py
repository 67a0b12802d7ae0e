"""Locates the values of samples: by the table of offsets of each shard, and the sizes at the front of each sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.mds.index_file import Shard
from dataformats.batch.value_slices import join_blobs
from dataformats.errors import FormatError, SpecError, TruncatedError
from dataformats.fork_hooks import cached_property
from dataformats.indexing.file_index import ArrayIndex, FileIndex, LazyProblems
from dataformats.indexing.files_reader import FilesReader
from dataformats.indexing.memory_budget import INDEX_MEMORY
from dataformats.interfaces import Extents, Located, StoredFile
from dataformats.spec import NUMBER_TYPES, VALUE, Spec, Type
from dataformats.storage.native.fast_read import read
from dataformats.storage.native.file_set import FileSet, open_files
from dataformats.storage.reference_read import read_blobs

_WORD = 4  # bytes of the counts, offsets and sizes, which are uint32
_READ_AS = ("bytes", "utf8")  # stored values that a declared codec may decode otherwise


class MdsReader(FilesReader):
    """The samples of shards with the same columns.

    A sample begins with the sizes of its values of variable size. If two columns or more have them, they are read when
    a sample is first located, for a batch in one submission, and kept; otherwise the table of offsets tells. To
    read all of a shard at its first use would take 0.3 us a sample, and a request for each behind a URL.

    Args:
        files: The file of each shard, decompressed.
        shards: What the index says about each.
        spec: The types of their columns.
        is_headless: True if samples have one value, without its size in front.
        checks_sizes: True if the size in front of a single value of variable size is read, too, and compared.
    """

    def __init__(
        self,
        files: Sequence[StoredFile],
        shards: Sequence[Shard],
        spec: Spec,
        *,
        is_headless: bool = False,
        checks_sizes: bool = False,
    ) -> None:
        super().__init__(files, counts=np.array([shard.samples for shard in shards], np.int64))
        self.shards = shards
        columns = shards[0].columns if shards else None
        names, sizes = (columns.names, columns.sizes) if columns else ((), ())
        self.spec: Spec | None = spec
        self._samples = {file: shard.samples for file, shard in zip(self.files, shards, strict=True)}
        self._sizes = dict(zip(names, sizes, strict=True))
        self._variable = [name for name in names if self._sizes[name] is None]
        self._checks_sizes = checks_sizes
        self._head_bytes = 0 if is_headless else _WORD * len(self._variable)
        self._fixed_bytes = sum(size or 0 for size in sizes)

    def index_of(self, file: StoredFile) -> FileIndex:
        """Return where the samples of a shard lie; if its table cannot be read, that is the problem of each."""
        n = self._samples[file]
        try:
            table = read_table(file, n)
        except FormatError as error:
            damage, nothing = error, np.zeros(n, np.int64)
            return FileIndex.of_blobs(ArrayIndex(nothing, nothing, None, LazyProblems(nothing == 0, lambda _: damage)))
        begin, end = table[:-1].astype(np.int64), table[1:].astype(np.int64)
        first = _WORD * (n + 2)
        wrong = (begin < first) | (end < begin) | (end > file.size)

        def problem(sample: int) -> FormatError:
            what, found = "the offsets of a sample are damaged", f"bytes {begin[sample]} to {end[sample]}"
            return FormatError(what, path=file.name, expected=f"inside bytes {first} to {file.size}", found=found)

        samples = ArrayIndex(begin, end - begin, None, LazyProblems(wrong, problem) if wrong.any() else {})
        return FileIndex(n, {VALUE: samples.compact()}, {"end": int(table[-1])})

    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        samples = super().locate(indices, {VALUE: True})[VALUE].extents
        problems = dict(samples.problems)
        samples.offset[list(problems)] = samples.length[list(problems)] = 0
        sizes = self._value_sizes(indices, samples, problems)
        offset, found = samples.offset + self._head_bytes, dict[str, Located]()
        for name, fixed in self._sizes.items():
            length = sizes[name] if fixed is None else np.full(len(offset), fixed, np.int64)
            if name in fields:
                found[name] = Located(Extents(samples.file, offset, length, problems=problems))
            offset = offset + length
        return {name: found[name] for name in fields}

    def all_extents(self, field: str) -> Extents | None:
        """Return the extents of all samples; `None` if that takes more than the tables of the shards."""
        known = self._known_heads if len(self._variable) > 1 else None
        is_known = len(self._variable) < 2 or (known is not None and bool(known.any(axis=1).all()))
        return super().all_extents(field) if is_known and self._is_local else None

    def digest(self, update: Callable[[bytes], None]) -> None:
        for number, shard in enumerate(self.shards):
            update(repr((shard.samples, shard.n_bytes, shard.columns)).encode())
            if self.files[number].is_compressed:  # to decompress all of them would take too long
                update(repr((shard.zip_bytes, sorted(shard.zip_hashes.items()))).encode())
                continue
            index = self.indexes[number]
            end = index.metadata.get("end")
            begin = index.arrays[VALUE].offset
            update(b"damaged" if end is None else np.append(begin, end).astype("<u4").tobytes())

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

    def checksums(self) -> Iterator[tuple[StoredFile, Mapping[str, str]]]:
        """Yield the files of the shards with the hashes that the index lists."""
        for file, shard in zip(self.files, self.shards, strict=True):
            yield file.stored, shard.zip_hashes if file.is_compressed else shard.hashes

    # ---- the sizes of values

    def _value_sizes(
        self, indices: NDArray[np.int64], samples: Extents, problems: dict[int, FormatError]
    ) -> dict[str, NDArray[np.int64]]:
        """Return int64[n], the bytes of each value, for the columns of variable size; adds problems."""
        room = samples.length - self._head_bytes - self._fixed_bytes
        sizes = np.zeros((len(room), len(self._variable)), np.int64)
        if len(self._variable) == 1 and not self._checks_sizes:
            sizes[:, 0] = room
        elif self._variable:
            sizes = self._heads(indices, samples, room >= 0, problems)
        wrong = (room < 0) | (sizes.sum(axis=1) != room)
        wrong[list(problems)] = False
        for row in np.flatnonzero(wrong).tolist():
            what, found = "the sizes in a sample are damaged", f"{sizes[row].tolist()}"
            path, at = self.files[samples.file[row]].name, int(samples.offset[row])
            expected = f"sizes that add up to {max(0, int(room[row]))} bytes"
            problems[row] = FormatError(what, path=path, offset_bytes=at, expected=expected, found=found)
        sizes[list(problems)] = 0
        if len(self._variable) > 1 and self._known_heads is not None:
            self._known_heads[indices] = sizes
        return dict(zip(self._variable, np.ascontiguousarray(sizes.T), strict=True))

    def _heads(
        self,
        indices: NDArray[np.int64],
        samples: Extents,
        has_head: NDArray[np.bool_],
        problems: dict[int, FormatError],
    ) -> NDArray[np.int64]:
        """Return int64[n, variable columns], the sizes at the front of each sample; adds problems."""
        known = self._known_heads
        sizes = (
            np.zeros((len(indices), len(self._variable)), np.int64) if known is None else known[indices].astype("i8")
        )
        has_head[list(problems)] = False
        rows = np.flatnonzero(has_head & ~sizes.any(axis=1))
        if not len(rows):
            return sizes
        extents = Extents(samples.file[rows], samples.offset[rows], np.full(len(rows), self._head_bytes, np.int64))
        stored = read(self._file_set, {"": Located(extents)}, 2**31)
        blobs = join_blobs(stored[""][0]) if stored is not None else None
        if blobs is None:
            (fetched,) = read_blobs(self._file_set, [extents], max_bytes=2**31)
            blobs = fetched.blobs
            problems |= {int(rows[row]): error for row, error in fetched.problems.items()}
        whole = rows[blobs.lengths == self._head_bytes]
        sizes[whole] = blobs.contiguous()[0].view("<u4").reshape(-1, len(self._variable))
        return sizes

    @cached_property
    def _known_heads(self) -> NDArray[np.uint32] | None:
        """uint32[n, variable columns], the sizes in samples; 0 until they are read. `None` if they take too much."""
        shape = int(self.counts.sum()), len(self._variable)
        return np.zeros(shape, np.uint32) if INDEX_MEMORY.take(self, _WORD * shape[0] * shape[1]) else None

    @cached_property
    def _file_set(self) -> FileSet:
        return open_files(self.files, "auto")


def read_table(file: StoredFile, samples: int) -> NDArray[np.uint32]:
    """Return uint32[samples + 1], where each sample of a shard begins, and where the last one ends.

    Raises:
        FormatError: The shard ends in the table, or has another number of samples.
    """
    n_bytes = _WORD * (samples + 2)
    if file.size < n_bytes:
        what, expected = "the shard ends in its table of offsets", f"at least {n_bytes} bytes"
        raise TruncatedError(what, path=file.name, expected=expected, found=f"{file.size} bytes")
    words = np.frombuffer(file.pread(0, n_bytes), "<u4")
    if words[0] != samples:
        what = "the shard does not have as many samples as the index says"
        raise FormatError(what, path=file.name, offset_bytes=0, expected=samples, found=int(words[0]))
    return words[1:]
