"""The bytes of a pair: `NAME.bin` has the tokens, `NAME.idx` a header and the tables of sequences and documents."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import FormatError, Remedy, TruncatedError
from dataformats.interfaces import StoredFile

BIN, IDX = ".bin", ".idx"
HEADER = Struct("<9sQBQQ")  # magic, version, code of the dtype, sequences, entries of the table of documents
MAGIC = b"MMIDIDX\0\0"
CODES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16"}
"""The dtypes of tokens."""
_FLOATS = {6: ("float64", "float32"), 7: ("float32", "float64")}
"""The dtypes in Megatron and in GPT-NeoX: the sizes of sequences tell."""
_OLD_MAGIC = b"TNTIDX"
_RESTORE = Remedy(
    "Restore it, or open the .bin file as tokens without documents: pass {format}, {dtype} and {window}.",
    format="tokens",
    dtype="uint16",
    window=1024,
)


@dataclass(frozen=True, slots=True)
class TokenTables:
    """The tables of an `.idx` file that is as long as its header says: `n_entries` is one more than the documents."""

    idx: StoredFile
    dtype: np.dtype[np.generic]
    n_sequences: int
    n_entries: int

    def sequences(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return int64[n_sequences], the offset of each sequence in bytes, and int64[n_sequences], its bytes."""
        n = self.n_sequences
        sizes, pointers = self.idx.pread_many([(HEADER.size, 4 * n), (HEADER.size + 4 * n, 8 * n)])
        length = np.frombuffer(sizes, "<i4").astype(np.int64) * self.dtype.itemsize
        return np.frombuffer(pointers, "<i8").astype(np.int64, copy=False), length

    def documents(self) -> NDArray[np.int64]:
        """Return int64[n_entries], the first sequence of each document, and the number of sequences.

        Raises:
            FormatError: They do not rise from 0 to the number of sequences.
        """
        base = HEADER.size + 12 * self.n_sequences
        entries = np.frombuffer(self.idx.pread(base, 8 * self.n_entries), "<i8").astype(np.int64, copy=False)
        if [*entries[:1], *entries[-1:]] != [0, self.n_sequences] or (entries[1:] < entries[:-1]).any():
            what, remedy = "the table of documents is damaged", "Read the sequences: pass sequences=True to open"
            expected = f"numbers that rise from 0 to {self.n_sequences}"
            raise FormatError(what, path=self.idx.name, offset_bytes=base, expected=expected, remedy=remedy)
        return entries


def files_of_pair(file: StoredFile) -> tuple[StoredFile | None, StoredFile | None]:
    """Return the `.bin` and the `.idx` file of the pair that a file belongs to; `None` for a missing one."""
    stem, ending = file.basename[:-4], file.basename[-4:]
    if ending == IDX:
        return file.file_beside(stem + BIN), file
    return file, file.file_beside(stem + IDX) if ending == BIN else None


def read_tables(idx: StoredFile | None, data: StoredFile, *, is_whole: bool = True) -> TokenTables:
    """Read the header of the `.idx` file of a `.bin` file.

    Args:
        idx: The `.idx` file.
        data: The `.bin` file.
        is_whole: False if the table of documents may be longer or shorter than the header says.

    Raises:
        FormatError: It is missing or damaged, or of another version.
        TruncatedError: The file is not as long as the header says.
    """
    if idx is None:
        raise FormatError("the .idx file is missing beside it", path=data.name)
    head = idx.pread(0, HEADER.size)
    if not head.startswith(MAGIC) or len(head) < HEADER.size:
        raise _not_read(idx, head)
    _, version, code, n, n_entries = HEADER.unpack(head)
    if version != 1:
        what = "the version of the .idx file is unknown"
        raise FormatError(what, path=idx.name, offset_bytes=len(MAGIC), expected=1, found=version)
    if code not in CODES and code not in _FLOATS:
        known = ", ".join(f"{known} ({dtype})" for known, dtype in CODES.items())
        raise FormatError("no dtype of tokens", path=idx.name, offset_bytes=17, expected=known, found=code)
    size = HEADER.size + 12 * n + 8 * n_entries
    has_modes = n > 0 and idx.size == size + n
    if has_modes or (idx.size != size if is_whole else idx.size < HEADER.size + 12 * n):
        what = "modes of multimodal data are not read" if has_modes else "the file is not as long as its tables"
        raise TruncatedError(what, path=idx.name, expected=f"{size} bytes", found=f"{idx.size} bytes")
    names = (CODES[code],) if code in CODES else _FLOATS[code]
    tables = [TokenTables(idx, np.dtype(name), n, n_entries) for name in names]
    return tables[0] if code in CODES else _fitting(tables, files_of_pair(idx)[0])


def _fitting(tables: list[TokenTables], data: StoredFile | None) -> TokenTables:
    """Return the tables whose sequences fill the `.bin` file, else those whose sequences lie one behind another."""
    places = [one.sequences() for one in tables]
    fill = [data is not None and length.sum() == data.size for _, length in places]
    lie_together = [np.array_equal(offset, np.cumsum(length) - length) for offset, length in places]
    for fits in (fill, lie_together):
        if sum(fits) == 1:
            return tables[fits.index(True)]
    found = " or ".join(one.dtype.name for one in tables)
    raise FormatError("neither dtype that the code may mean fits the sequences", path=tables[0].idx.name, found=found)


def is_index(idx: StoredFile) -> bool:
    """True if an `.idx` file is of Megatron, or of an older family; or if it is empty."""
    return idx.size == 0 or idx.pread(0, len(MAGIC)).startswith((MAGIC, _OLD_MAGIC))


def _not_read(idx: StoredFile, head: bytes) -> FormatError:
    if head.startswith(_OLD_MAGIC):
        what, remedy = "an .idx file of fairseq's older family is not read", "Convert it with fairseq, to the kind mmap"
        return FormatError(what, path=idx.name, offset_bytes=0, expected=MAGIC, found=head[: len(MAGIC)], remedy=remedy)
    what = "the .idx file is empty" if not head else "the .idx file has no header"
    return FormatError(what, path=idx.name, offset_bytes=0, expected=MAGIC, found=head[: len(MAGIC)], remedy=_RESTORE)
