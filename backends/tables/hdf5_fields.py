"""The fields of an HDF5 file: its datasets, and their types. Refuses datasets that lead into other files."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.tables.arrays_of_rows import blob_column, bytes_of, check_names, is_in, left_out, same_length
from dataformats.backends.tables.hdf5_chunks import Chunks
from dataformats.batch import Column, Ragged
from dataformats.columns.numbers import offsets_of, type_of_dtype
from dataformats.errors import CodecError, DataFormatsError, FormatError, SpecError
from dataformats.interfaces import StoredFile
from dataformats.spec import NUMBER_TYPES, Type

_MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Hdf5Field:
    """A dataset, or a member of its compound type.

    Attributes:
        dataset: The `h5py.Dataset`.
        members: The names of the member, and of those that it is in.
        type: The type of a value.
        row_bytes: Bytes of a value in memory; 16 for one of any length.
        chunks: The chunks, if they can be read without h5py.
    """

    dataset: Any
    members: tuple[str, ...]
    type: Type
    row_bytes: int
    chunks: Chunks | None

    @property
    def is_deflated(self) -> bool:
        """True if chunks are decompressed without h5py."""
        return self.chunks is not None and self.chunks.is_deflated

    @property
    def damaged_together(self) -> int:
        """The rows that damage costs: of a chunk, or one, because HDF5 stores values of any length apart."""
        shape: tuple[int, ...] = self.dataset.chunks or self.dataset.shape
        return 1 if self.dataset.dtype.hasobject else shape[0]

    def rows(self, first: int, end: int) -> NDArray[Any]:
        """Return the rows `[first, end)` of the dataset; raises the errors of h5py, and `FormatError`."""
        found = None
        if self.chunks is not None:
            self.chunks.check_references(first, end)
            found = self.chunks.read(first, end) if self.chunks.is_deflated else None
        return self.dataset[first:end] if found is None else found

    def text_errors(self, rows: NDArray[Any], name: str) -> dict[int, CodecError]:
        """Return the errors of texts that are not UTF-8, by row."""
        failed = dict[int, CodecError]()
        for row, text in enumerate(map(bytes_of, self._values(rows)) if self.type.codec == "utf8" else ()):
            try:
                text.decode()
            except UnicodeDecodeError as error:
                failed[row] = CodecError(str(error), codec="utf8", field=name)
        return failed

    def _values(self, rows: NDArray[Any]) -> NDArray[Any]:
        for member in self.members:
            rows = rows[member]
        return rows

    def column(self, rows: NDArray[Any]) -> Column:
        """Return the column of rows that h5py read."""
        rows = self._values(rows)
        if self.type.dtype is not None and self.type.fixed:
            return np.ascontiguousarray(rows, self.type.dtype)
        if self.type.dtype is None:
            return blob_column(rows, self.type)
        values = np.concatenate([np.zeros(0, self.type.dtype), *rows]).astype(self.type.dtype, copy=False)
        return Ragged(values, offsets_of(np.array([len(row) for row in rows], np.int64)))


def fields_of(
    opened: Any, file: StoredFile, names: Sequence[str] | None
) -> tuple[dict[str, Hdf5Field], dict[str, DataFormatsError]]:
    """Return the fields of an opened file, by name, and why others are left out.

    Args:
        opened: The `h5py.File`.
        file: The stored file, for errors.
        names: The datasets, or groups of them; `None` is all. Datasets of one value are left out.

    Raises:
        FormatError: A named dataset leads into another file, or needs a filter that HDF5 does not have here.
        SpecError: There are no datasets, they have several lengths, or no field has the type of a named one.
    """
    datasets = dict(_datasets(opened, "", names, file, set()))
    check_names(names, datasets, file)
    found = {label: part for name, one in datasets.items() for label, part in _parts(name, one, file)}
    fields = {label: part for label, part in found.items() if isinstance(part, Hdf5Field)}
    why = left_out({label: part for label, part in found.items() if isinstance(part, DataFormatsError)}, names, fields)
    same_length({field.dataset.name[1:]: len(field.dataset) for field in fields.values()}, file)
    return fields, why


def _parts(name: str, dataset: Any, file: StoredFile) -> Iterator[tuple[str, Hdf5Field | DataFormatsError]]:
    """Yield the fields of a dataset, or the errors of fields that cannot be read; nothing for a single value."""
    if isinstance(dataset, DataFormatsError):
        yield name, dataset
    elif dataset.shape:
        try:
            _check_storage(dataset, file)
            leaves = list(_leaves(dataset.dtype, ()))
        except FormatError as error:
            yield name, error
            return
        except TypeError as error:  # NumPy has no such type
            yield name, SpecError(str(error), field=name)
            return
        chunks = Chunks.of(dataset, file)
        for members, dtype in leaves:
            label = "/".join((name, *members))
            try:
                kind, width = _type_of(dtype, dataset.shape[1:], label)
                yield label, Hdf5Field(dataset, members, kind, width, chunks)
            except SpecError as error:
                yield label, error


def _datasets(
    group: Any, prefix: str, names: Sequence[str] | None, file: StoredFile, seen: set[Any]
) -> Iterator[tuple[str, Any]]:
    """Yield the datasets below a group, and an error for each link to another file.

    Soft links are other names of what lies in the file, and are left out.
    """
    library = importlib.import_module("h5py")
    for key in group:
        name = f"{prefix}{key}"
        if names is not None and not any(is_in(name, one) or is_in(one, name) for one in names):
            continue
        link = group.get(key, getlink=True)
        if isinstance(link, library.ExternalLink):
            what, remedy = (
                f"{name!r} is a link to another file, {link.filename!r}",
                "Leave it out: name others with fields=",
            )
            yield name, FormatError(what, path=file.name, remedy=remedy)
        if not isinstance(link, library.HardLink):
            continue
        thing = group[key]
        address = library.h5o.get_info(thing.id).addr
        if isinstance(thing, library.Dataset):
            yield name, thing
        elif isinstance(thing, library.Group) and address not in seen and name.count("/") < _MAX_DEPTH:
            seen.add(address)
            yield from _datasets(thing, f"{name}/", names, file, seen)


def _check_storage(dataset: Any, file: StoredFile) -> None:
    library = importlib.import_module("h5py")
    if dataset.external or dataset.is_virtual:
        what = f"{dataset.name!r} has its values in other files"
        raise FormatError(what, path=file.name, remedy="Copy it into one file with h5py, or name others with fields=")
    plan = dataset.id.get_create_plist()
    for number in range(plan.get_nfilters()):
        code, _, _, label = plan.get_filter(number)
        if not library.h5z.filter_avail(code):
            what = f"{dataset.name!r} is compressed with filter {code} ({label.decode(errors='replace')})"
            remedy = "Install hdf5plugin, and import it before the file is opened"
            raise FormatError(what, path=file.name, expected="a filter that HDF5 has", remedy=remedy)


def _leaves(dtype: np.dtype[Any], members: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], np.dtype[Any]]]:
    """Yield the members of a compound type that are no compounds, or the type itself."""
    if dtype.names is None or dtype.subdtype is not None:
        yield members, dtype
        return
    for name in dtype.names:
        yield from _leaves(dtype[name], (*members, name))


def _type_of(dtype: np.dtype[Any], shape: tuple[int, ...], label: str) -> tuple[Type, int]:
    """Return the type of the values of a dataset, and the bytes of one in memory."""
    library = importlib.import_module("h5py")
    if dtype.subdtype is not None:
        dtype, inner = dtype.subdtype
        shape = (*shape, *inner)
    text, items = library.check_string_dtype(dtype), library.check_vlen_dtype(dtype)
    if text is not None and not shape:
        return Type("utf8" if text.encoding == "utf-8" else "bytes"), 16 + (text.length or 0)
    if isinstance(items, np.dtype) and items.name in NUMBER_TYPES and not shape:
        return (Type("bytes") if items == np.uint8 else Type(items.name, dims=(None,))), 16
    if dtype.kind == "V" and dtype.names is None and not shape:
        return Type("bytes"), dtype.itemsize
    if dtype.hasobject:
        remedy = "To leave it out without a warning, name other datasets with fields=."
        raise SpecError(f"no field has the type {dtype} and the shape {shape}", field=label, remedy=remedy)
    numbers: dict[str, int] = library.check_enum_dtype(dtype) or {}
    names = tuple(sorted(numbers, key=lambda name: numbers[name]))
    is_counted = [numbers[name] for name in names] == [*range(len(names))]
    kind = replace(type_of_dtype(dtype, shape), class_names=names if is_counted else ())
    return kind, dtype.itemsize * int(np.prod(shape, dtype=np.float64))
