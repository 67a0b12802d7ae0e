"""Locates documents, sequences, or the token stream that windows are cut from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dataformats.backends.megatron.layout import files_of_pair, read_tables
from dataformats.backends.rows.reader import number_type_for
from dataformats.backends.rows.windows import TOKENS, TokenStream
from dataformats.errors import FormatError
from dataformats.interfaces import ArrayIndex, FieldsReader, FileIndex, LazyProblems, StoredFile
from dataformats.spec import Type


class MegatronReader(FieldsReader):
    """Documents, or with `sequences` the sequences of `.bin` files of one dtype, as records of one field.

    Raises:
        FormatError: A pair is damaged.
    """

    def __init__(self, files: Sequence[StoredFile], *, sequences: bool) -> None:
        self._sequences = sequences
        super().__init__(files)

    def type_of(self, field: str) -> Type:
        return Type(self.file_indexes[0].metadata["dtype"], dims=(None,))

    def stored_type_for(self, field: str, declared: Type) -> Type:
        return number_type_for(field, self.type_of(field), declared)

    def index_of(self, file: StoredFile) -> FileIndex:
        tables = read_tables(files_of_pair(file)[1], file)
        offset, length = tables.sequences()
        apart = np.zeros(len(offset), np.bool_)
        if not self._sequences:
            entries = tables.documents()
            offset, length, apart = joined_sequences(offset, length, entries[:-1], entries[1:])
        return index_of_tokens(file, tables.dtype, (offset, length), apart, "the sequences of a document lie apart")


def index_of_tokens(
    file: StoredFile,
    dtype: np.dtype[np.generic],
    places: tuple[NDArray[np.int64], NDArray[np.int64]],
    damaged: NDArray[np.bool_],
    cause: str,
) -> FileIndex:
    """Return the index of records at these places.

    Args:
        file: The `.bin` file.
        dtype: The dtype of the tokens.
        places: int64[n], where each record begins, and int64[n], its bytes.
        damaged: bool[n], the records that cannot be read.
        cause: Why.
    """
    offset, length = places
    room = file.size - np.clip(offset, 0, file.size)
    wrong = damaged | (offset < 0) | (length < 0) | (length > room)

    def problem(record: int) -> FormatError:
        what = cause if damaged[record] else "a record reaches outside the file"
        at, found = int(offset[record]), f"{length[record]} bytes from byte {offset[record]} on"
        return FormatError(what, path=file.name, offset_bytes=at, expected=f"<= {file.size} bytes", found=found)

    sound, problems = (np.where(wrong, 0, offset), np.where(wrong, 0, length)), LazyProblems(wrong, problem)
    tokens = ArrayIndex(*sound, problems=problems if wrong.any() else {})
    return FileIndex(len(offset), {TOKENS: tokens}, {"dtype": dtype.name})


def token_stream(file: StoredFile) -> TokenStream:
    """Return the tokens of a pair.

    Raises:
        FormatError: The sequences lie apart, so that there is no one stream.
    """
    tables = read_tables(files_of_pair(file)[1], file)
    offset, length = tables.sequences()
    gaps = np.flatnonzero(_gaps(offset, length) | (length < 0) | (offset < 0))
    if len(gaps):
        what, remedy = "windows need sequences one behind another", "Read documents: leave out window="
        found = f"sequence {gaps[0]} of {length[gaps[0]]} bytes at byte {offset[gaps[0]]}"
        raise FormatError(what, path=tables.idx.name, found=found, remedy=remedy)
    return TokenStream(tables.dtype, int(offset[:1].sum()), int(length.sum()) // tables.dtype.itemsize)


def _gaps(offset: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return bool[n], which sequences do not begin where the one before ends."""
    before = np.concatenate([offset[:1], (offset + length)[:-1]])
    return np.asarray(offset != before)


def joined_sequences(
    offset: NDArray[np.int64], length: NDArray[np.int64], first: NDArray[np.int64], behind: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return offset and length of each document, and which have sequences that lie apart.

    Args:
        offset: int64[n], where each sequence begins.
        length: int64[n], its bytes.
        first: int64[n_documents], the first sequence of each document.
        behind: int64[n_documents], the sequence behind its last one.
    """
    last = behind - 1
    n_gaps = np.cumsum(_gaps(offset, length))
    n_negative = np.append(np.cumsum(length < 0), 0)  # the last entry is for documents without sequences
    begin, stop, n_gaps = (np.append(table, 0) for table in (offset, offset + length, n_gaps))
    is_empty = last < first
    apart = (n_gaps[first] != n_gaps[last]) | (n_negative[first] != n_negative[last])
    return np.where(is_empty, 0, begin[first]), np.where(is_empty, 0, stop[last] - begin[first]), apart & ~is_empty
