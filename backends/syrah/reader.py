"""Reads Syrah files: the metadata of each file locate the arrays of its items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dataformats.backends.syrah.layout import HEADER, Header, parse_header
from dataformats.backends.syrah.metadata import ITEM_BYTES, ArrayTable, find_unsound, parse_metadata
from dataformats.errors import CorruptRecordError, FormatError, Remedy, SpecError, TruncatedError
from dataformats.fork_hooks import cached_property
from dataformats.indexing.fields_reader import FieldsReader
from dataformats.indexing.file_index import ArrayIndex, FileIndex, LazyProblems
from dataformats.interfaces.stored_file import StoredFile
from dataformats.spec import NUMBER_TYPES, Spec, Type

_MAX_SIZE = 2**31  # the largest dimension in the grammar of types


class SyrahReader(FieldsReader):
    """The items of files with the same arrays, in any order. The constructor reads all metadata.

    Args:
        files: The files.
        fixed_lengths: False: types have no length, because other files may have other lengths.

    Raises:
        FormatError: A header or metadata are broken.
    """

    def __init__(self, files: Sequence[StoredFile], *, fixed_lengths: bool = True) -> None:
        self._fixed_lengths = fixed_lengths
        super().__init__(files)

    def index_of(self, file: StoredFile) -> FileIndex:
        header, tables = _read_tables(file)
        fields = {name: _extents(name, table, file, header.offset) for name, table in tables.items()}
        dtypes = {name: table.dtype for name, table in tables.items()}
        return FileIndex(len(next(iter(fields.values()))), fields, {"version": header.version, "dtypes": dtypes})

    @cached_property
    def _dtypes(self) -> Mapping[str, str]:
        """Array name to dtype, the same in all files."""
        return self.file_indexes[0].metadata["dtypes"] if self.file_indexes else {}

    @property
    def stored_spec(self) -> Spec:
        return Spec({name: Type(dtype) for name, dtype in self._dtypes.items()})

    def type_of(self, field: str) -> Type:
        """Return the type of an array without a declared one: one-dimensional."""
        dtype = self._dtypes.get(field, "bytes")  # `open_indexed_union` reads files that differ apart
        if dtype == "str":
            return Type("utf8")
        if dtype not in ITEM_BYTES:
            return Type(dtype)
        sizes = self._columns[field].extents.distinct_lengths
        least, most = (int(sizes.min()), int(sizes.max())) if len(sizes) else (0, 0)
        length = least // ITEM_BYTES[dtype]
        is_fixed = self._fixed_lengths and least == most and 0 < length < _MAX_SIZE
        return Type(dtype, dims=(length if is_fixed else None,))

    def digest(self, update: Callable[[bytes], None]) -> None:
        for index in self.file_indexes:
            update(len(index).to_bytes(8, "little"))
            for name, dtype in self._dtypes.items():
                update(repr((name, dtype)).encode())
                update(index.arrays[name].length.astype("<i8").tobytes())

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
        return {"version": ", ".join(sorted({index.metadata["version"] for index in self.file_indexes}))}


def _read_tables(file: StoredFile) -> tuple[Header, dict[str, ArrayTable]]:
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
    return header, parse_metadata(data, file.name, header.offset)


def _extents(name: str, table: ArrayTable, file: StoredFile, end: int) -> ArrayIndex:
    """Return the stored places of the arrays of one name, and the problem of each array that cannot be read."""
    wrong = find_unsound(table, end)
    if not wrong.any():
        return ArrayIndex(table.offset, table.size)

    def problem(item: int) -> FormatError:
        error = _problem(name, table.dtype, int(table.offset[item]), int(table.size[item]), end)
        error.path = file.name
        return error

    return ArrayIndex(table.offset, table.size, problems=LazyProblems(wrong, problem))


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
