"""Windows: records of a fixed number of tokens over the whole token stream of each file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dataformats.backends.rows.reader import FixedRows, RowsReader
from dataformats.errors import Remedy, SpecError
from dataformats.indexing.union_reader import open_union
from dataformats.integer_arguments import checked_int
from dataformats.interfaces import Reader, ReaderOptions, StoredFile
from dataformats.spec import Type

TOKENS = "tokens"
"""The field of records of tokens."""


@dataclass(frozen=True, slots=True)
class TokenStream:
    """The tokens of one file, one behind another.

    Attributes:
        dtype: The dtype of a token.
        first: The byte at which the first token begins.
        count: How many tokens the file claims to have.
    """

    dtype: np.dtype[np.generic]
    first: int
    count: int


class WindowReader(RowsReader):
    """Windows over the tokens of files: record `i` of a file has its tokens `[i * stride, i * stride + window)`.

    No window reaches into the next file, and the tokens behind the last whole window are left out.

    Args:
        streams: The tokens of each file, all of one dtype.
        window: Tokens of a record.
        stride: Tokens from the beginning of a record to the beginning of the next one; `None` is `window`.

    Raises:
        SpecError: `window` is no size of a type.
    """

    def __init__(
        self, files: Sequence[StoredFile], streams: Sequence[TokenStream], window: int, stride: int | None
    ) -> None:
        step = window if stride is None else stride
        fields = [
            {
                TOKENS: FixedRows(
                    Type.parse(f"{stream.dtype.name}[{window}]"),
                    window * stream.dtype.itemsize,
                    stream.first,
                    step * stream.dtype.itemsize,
                    max(0, (stream.count - window) // step + 1),
                )
            }
            for stream in streams
        ]
        super().__init__(files, fields)


def open_windows(
    files: Sequence[StoredFile],
    streams: Sequence[TokenStream],
    window: int,
    stride: int | None,
    options: ReaderOptions,
) -> Reader:
    """Return a reader of windows over the tokens of files that may differ in dtype: see `WindowReader`.

    Raises:
        SpecError: `window` is no size of a type, or no dtype has the tokens of all files.
    """

    def reader(run: Sequence[tuple[StoredFile, TokenStream]]) -> WindowReader:
        return WindowReader([file for file, _ in run], [stream for _, stream in run], window, stride)

    return open_union(list(zip(files, streams, strict=True)), lambda one: one[1].dtype, reader, options)


def check_windows(window: int | None, stride: int | None) -> None:
    """Check the options `window` and `stride` of `open`.

    Raises:
        SpecError: `stride` without `window`.
        ValueError: One is no whole number from 1 on.
    """
    if window is not None:
        checked_int("window", window, 1)
    if stride is not None:
        checked_int("stride", stride, 1)
        if window is None:
            raise SpecError("a stride needs a window", remedy=Remedy("Pass {window}.", window=...))
