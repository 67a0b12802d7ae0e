"""Reads Syrah files: locates the arrays of any items by the metadata of each file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.syrah.layout import HEADER, Header, parse_header
from dataformats.backends.syrah.metadata import ITEM_BYTES, ArrayTable, find_unsound, parse_metadata
from dataformats.errors import CorruptRecordError, FormatError, Remedy, SpecError, TruncatedError
from dataformats.indexing.lookup import RecordsByFile, split_by_file
from dataformats.interfaces import Extents, Located, Reader
from dataformats.interfaces.stored_file import StoredFile
from dataformats.spec import NUMBER_TYPES, Spec, Type
from dataformats.storage.threads import threads_for

_MAX_SIZE = 2**31  # the largest dimension in the grammar of types


@dataclass(frozen=True, slots=True)
class _FileRows:
    """One file.

    Attributes:
        header: Its header.
        tables: Array name to the places of its items.
        unsound: Array name to bool[n], items that cannot be read; only for arrays that have some.
    """

    header: Header
    tables: Mapping[str, ArrayTable]
    unsound: Mapping[str, NDArray[np.bool_]]

    def __len__(self) -> int:
        return len(next(iter(self.tables.values())))

    @property
    def dtypes(self) -> dict[str, str]:
        return {name: table.dtype for name, table in self.tables.items()}

    def sound_sizes(self, name: str) -> NDArray[np.int64]:
        wrong, sizes = self.unsound.get(name), self.tables[name].size
        return sizes if wrong is None else sizes[~wrong]


class SyrahReader(Reader):
    """The items of files with the same arrays, in any order. The constructor reads all metadata.

    The tables stay in memory: 16 bytes an item and array.

    Raises:
        FormatError: A header or metadata are broken, or the files differ in arrays or dtypes.
    """

    def __init__(self, files: Sequence[StoredFile]) -> None:
        self.files: Sequence[StoredFile] = list(files)
        with threads_for(len(self.files), local=all(file.local is not None for file in self.files)) as threads:
            self._parts = list(threads.map(_load, self.files))
        self._check_alike()
        self._dtypes = self._parts[0].dtypes if self._parts else {}
        self._counts = np.array([len(part) for part in self._parts], np.int64)
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._counts)])
        self.spec: Spec | None = Spec({name: self._type(name, dtype) for name, dtype in self._dtypes.items()})

    @property
    def stored_spec(self) -> Spec:
        return Spec({name: Type(dtype) for name, dtype in self._dtypes.items()})

    @property
    def counts(self) -> NDArray[np.int64]:
        return self._counts

    def locate(self, indices: NDArray[np.int64], fields: Mapping[str, bool | range]) -> dict[str, Located]:
        where = split_by_file(self._starts, indices)
        return {name: Located(self._extents(name, where)) for name in fields}

    def digest(self, update: Callable[[bytes], None]) -> None:
        for part in self._parts:
            update(len(part).to_bytes(8, "little"))
            for name, dtype in self._dtypes.items():
                update(repr((name, dtype)).encode())
                update(part.tables[name].size.tobytes())

    def stored_type_for(self, field: str, declared: Type) -> Type:
        """Return `declared`, if arrays of the stored dtype can be read as that.

        Files do not store shapes: numbers may have any dims, and arrays of uint8 may be the blobs of any codec.

        Raises:
            CorruptRecordError: The format has no such dtype.
        """
        dtype = self._dtypes[field]
        if declared == Type("bytes") or (declared.codec == dtype and dtype in NUMBER_TYPES and not declared.optional):
            return declared
        if dtype not in ITEM_BYTES:
            raise CorruptRecordError(
                f"field {field!r}: Syrah has no such dtype",
                expected=", ".join(ITEM_BYTES),
                found=dtype,
                remedy=Remedy(
                    "Pass {spec} to read the stored bytes, or select the other fields.", spec={field: "bytes"}
                ),
            )
        if declared.optional:
            raise SpecError(
                f"expected {declared.required}, because every item has every array, found {declared}", field=field
            )
        if not declared.dims and _holds(dtype, declared.codec):
            return declared
        remedy = Remedy(f"Pass {{spec}} with {_choices(dtype)}.", spec=...)
        raise SpecError(f"expected {declared}, found arrays of {dtype}", field=field, remedy=remedy)

    def metadata(self) -> dict[str, str]:
        """Return the versions in the headers."""
        return {"version": ", ".join(sorted({part.header.version for part in self._parts}))}

    def _check_alike(self) -> None:
        for file, part in zip(self.files, self._parts, strict=True):
            if part.dtypes != self._parts[0].dtypes:
                raise FormatError(
                    f"the arrays differ from {self.files[0].name!r}",
                    path=file.name,
                    expected=self._parts[0].dtypes,
                    found=part.dtypes,
                    remedy="Open them apart, and join the common fields: concat([a.select(...), b.select(...)])",
                )

    def _type(self, name: str, dtype: str) -> Type:
        """Return the type of an array without a declared one: one-dimensional."""
        if dtype == "str":
            return Type("utf8")
        if dtype not in ITEM_BYTES:
            return Type(dtype)
        sizes = [sizes for part in self._parts if len(sizes := part.sound_sizes(name))]
        least, most = min((int(s.min()) for s in sizes), default=0), max((int(s.max()) for s in sizes), default=0)
        length = least // ITEM_BYTES[dtype]
        return Type(dtype, dims=(length if least == most and 0 < length < _MAX_SIZE else None,))

    def _extents(self, name: str, where: RecordsByFile) -> Extents:
        n = len(where.local)
        offset, length = np.empty(n, np.int64), np.empty(n, np.int64)
        problems: dict[int, FormatError] = {}
        for number, here in where.groups.items():
            part, items = self._parts[number], where.local[here]
            table = part.tables[name]
            offset[here], length[here] = table.offset[items], table.size[items]
            if name in part.unsound:
                for row in np.arange(n)[here][part.unsound[name][items]].tolist():
                    found = int(offset[row]), int(length[row])
                    error = _problem(name, table.dtype, *found, part.header.offset)
                    error.path = self.files[number].name
                    problems[row] = error
        return Extents(where.file, offset, length, problems=problems)


def _load(file: StoredFile) -> _FileRows:
    """Read header and metadata of one file; checks their length against the file before it allocates memory."""
    header = parse_header(file.pread(0, HEADER.size), file.size, file.name)
    data = bytearray(header.length)
    found = file.read_into(header.offset, memoryview(data))
    if found != header.length:
        raise TruncatedError(
            "the file ends inside its metadata",
            path=file.name,
            offset_bytes=header.offset + found,
            expected=f"{header.length} bytes",
            found=f"{found} bytes",
        )
    tables = parse_metadata(data, file.name, header.offset)
    wrong = {name: find_unsound(table, header.offset) for name, table in tables.items()}
    return _FileRows(header, tables, {name: mask for name, mask in wrong.items() if mask.any()})


def _holds(dtype: str, codec: str) -> bool:
    """True if arrays of a dtype can be blobs of a codec."""
    return codec == "utf8" if dtype == "str" else dtype == "uint8" and codec not in NUMBER_TYPES


def _choices(dtype: str) -> str:
    if dtype == "str":
        return "utf8 or bytes"
    return f"{dtype} and any dims, {'a codec' if dtype == 'uint8' else 'bytes'}"


def _problem(name: str, dtype: str, offset: int, size: int, end: int) -> FormatError:
    """Return the error of one array with a wrong place."""
    if not HEADER.size <= offset <= end:
        expected = f"an offset in [{HEADER.size}, {end}]"
        return FormatError(f"array {name!r} lies outside the data", expected=expected, found=offset)
    if not 0 <= size <= end - offset:
        return TruncatedError(
            f"array {name!r} reaches past the end of the data",
            offset_bytes=offset,
            expected=f"0 to {end - offset} bytes, up to the metadata",
            found=f"{size} bytes",
        )
    return FormatError(
        f"array {name!r} ends inside a number",
        offset_bytes=offset,
        expected=f"a multiple of {ITEM_BYTES[dtype]} bytes for {dtype}",
        found=f"{size} bytes",
    )
