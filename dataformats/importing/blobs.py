"""Records whose fields are whole files, or members of an archive."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs, Column, Ragged
from dataformats.columns.masks import insert_missing
from dataformats.errors import CodecError
from dataformats.importing.source import ImportedSource
from dataformats.interfaces import Extents
from dataformats.interfaces.stored_file import StoredFile
from dataformats.kernels import crc32
from dataformats.reading.scan import digest_of
from dataformats.spec import Spec, Type
from dataformats.storage.reference_read import read_blobs

__all__ = ["BLOB_TYPES", "BlobSource", "Places", "type_of_name"]

_SAMPLES = 64
BLOB_TYPES = {
    **dict.fromkeys(("jpg", "jpeg"), "jpg"),
    **{name: name for name in ("json", "mp4", "msgpack", "npy", "png", "webm", "webp")},
    **dict.fromkeys(("txt", "text"), "utf8"),
    **dict.fromkeys(("cls", "cls2", "index"), "int64"),  # WebDataset writes them in digits
}
"""The types of files, by the ends of their names."""


def type_of_name(name: str) -> Type:
    """Return the type of a file, by the end of its name; `bytes` if it names none."""
    return Type(BLOB_TYPES.get(name.rpartition(".")[2].lower(), "bytes"))


@dataclass(slots=True)
class Places:
    """Where the values of a field lie.

    Attributes:
        file: int64[n], the number of the file; -1 for a record that lacks the field.
        offset: int64[n], the first byte in it.
        length: int64[n], the bytes.
    """

    file: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]


class BlobSource(ImportedSource):
    """Records whose fields lie in files; other fields are computed from names.

    Args:
        places: Field to the places of its values.
        kinds: Field to the type of its values. Integers are in digits.
        names: Field to its column: text or numbers that the names of files give.
    """

    def __init__(self, places: Mapping[str, Places], kinds: Mapping[str, Type], names: Mapping[str, Column]) -> None:
        self._places = places
        self._names = names
        stored = {
            name: Type("bytes" if kinds[name].dtype is None else "int64", optional=bool((place.file < 0).any()))
            for name, place in places.items()
        }
        more = {name: Type("utf8" if isinstance(column, list) else "int64") for name, column in names.items()}
        read = {name: Type(kinds[name].codec, optional=kind.optional) for name, kind in stored.items()}
        super().__init__(Spec({**stored, **more}), Spec({**read, **more}))

    @abstractmethod
    def _file(self, number: int) -> StoredFile:
        """Return a file by its number."""

    @property
    def nbytes(self) -> int:
        return sum(int(place.length.sum()) for place in self._places.values())

    def __len__(self) -> int:
        return len(next(iter(self._places.values())).file)

    @property
    def fingerprint(self) -> str:
        n = len(self)
        samples = np.unique(np.linspace(0, n - 1, min(n, _SAMPLES)).astype(np.int64)).tolist() if n else []
        names = sorted(self._places)
        checksums = [f"{crc32(blob):08x}" for name in names for blob in self._blobs(name, np.array(samples, np.int64))]
        lengths = b"".join(self._places[name].length.astype("<i8").tobytes() for name in names)
        labels = [str(value) for name in self._names for value in self._names[name]]
        return digest_of([self.format, *names, *checksums, *labels], lengths)

    def _stored_columns(self, indices: NDArray[np.int64], names: Sequence[str]) -> Mapping[str, Column]:
        return {name: self._column(name, indices) for name in names}

    def _column(self, name: str, indices: NDArray[np.int64]) -> Column:
        if name in self._names:
            column = self._names[name]
            if isinstance(column, np.ndarray):
                return column[indices]
            return _joined([column[i] for i in indices.tolist()], name)
        present = self._places[name].file[indices] >= 0
        blobs = self._blobs(name, indices[present])
        if self._stored[name].codec == "bytes":
            column = Ragged(*blobs.contiguous(), "bytes")
        else:
            column = np.array([_number(bytes(blob), name, row) for row, blob in enumerate(blobs)], np.int64)
        return insert_missing(column, present, optional=self._stored[name].optional)

    def _blobs(self, name: str, indices: NDArray[np.int64]) -> Blobs:
        """Return the bytes of the records that have the field, read at once."""
        place = self._places[name]
        chosen = indices[place.file[indices] >= 0]
        used, file = np.unique(place.file[chosen], return_inverse=True)
        extents = Extents(file.astype(np.int32), place.offset[chosen], place.length[chosen])
        (fetched,) = read_blobs([self._file(number) for number in used.tolist()], [extents], max_bytes=2**62)
        for row, problem in fetched.problems.items():
            problem.index = int(chosen[row])
            raise problem
        return fetched.blobs


def _joined(texts: list[str], name: str) -> Ragged:
    try:
        return Ragged(*Blobs.join([text.encode() for text in texts]).contiguous(), "utf8")
    except UnicodeEncodeError as error:
        raise CodecError(f"the name of a file is not UTF-8: {error.object!r}", codec="utf8", field=name) from error


def _number(blob: bytes, name: str, row: int) -> int:
    try:
        return int(np.int64(int(blob)))
    except (ValueError, OverflowError) as error:
        what = f"expected an integer of 64 bits in digits, found {blob[:32]!r}"
        raise CodecError(what, codec="int64", field=name, index=row) from error
