"""The backend of flat token files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from dataformats.backends.rows.windows import TokenStream, check_windows, open_windows
from dataformats.errors import FormatError, Remedy, SpecError, TruncatedError
from dataformats.interfaces import Backend, Folder, Reader, ReaderOptions, SniffResult, StoredFile

_HEADER = Struct("<3i")  # magic, version, number of tokens
_HEADER_BYTES = 1024
_DTYPES = {(20240520, 1): "uint16", (20240801, 7): "uint32"}
_MAGICS = frozenset(magic for magic, _ in _DTYPES)
_OTHER_KINDS = {20240522: "examples of an evaluation", 20240326: "weights of a model"}
_NO_HEADER = "no header of llm.c"
_PLAIN = Remedy(
    "To read it as tokens, as of nanoGPT, pass {format}, {dtype} and {window}.",
    format="tokens",
    dtype="uint16",
    window=1024,
)
_PLAIN_OPTIONS = Remedy("Pass {dtype} for files of nanoGPT, and {window}.", dtype="uint16", window=1024)
_IN_PYTHON = "Read it in Python: numpy.fromfile(path, dtype, offset=1024)"
_PLAIN_NAMES = (".bin", ".npy")  # dolma writes tokens without a header as .npy
_NAMES = re.compile(r"(?:.*_)?(?:train|val|test)(?:_\d+)?\.bin")  # such as fineweb_train_000001.bin


class TokensBackend(Backend):
    """Files of tokens one behind another, of llm.c and nanoGPT."""

    name = "tokens"
    suffixes: tuple[str, ...] = ("train.bin", "val.bin", "test.bin")
    has_checked_header = True

    def matches_name(self, name: str) -> bool:
        """True for the names that llm.c and nanoGPT give their files."""
        return _NAMES.fullmatch(name) is not None

    def find(self, folder: Folder) -> list[StoredFile]:
        """Return the files with such names; a file with an `.idx` file beside it is Megatron's."""
        names = frozenset(folder.names())
        found = [name for name in names if self.matches_name(name) and name[:-4] + ".idx" not in names]
        return folder.files(self.order(found))

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize a file by llm.c's header; a file without one may be nanoGPT's, if the name is."""
        magic, version, count = _head(file)
        dtype = _DTYPES.get((magic, version))
        if dtype is not None:
            expected = _HEADER_BYTES + count * np.dtype(dtype).itemsize
            return SniffResult("yes") if file.size == expected else SniffResult("damaged", _not_as_long(expected))
        if magic in _OTHER_KINDS:
            return SniffResult("damaged", f"it holds {_OTHER_KINDS[magic]} of llm.c")
        if magic in _MAGICS:
            return SniffResult("damaged", f"version {version} of its header is unknown")
        is_named = self.matches_name(file.basename) and file.file_beside(file.basename[:-4] + ".idx") is None
        remedy = _PLAIN if file.basename.endswith(_PLAIN_NAMES) and file.size % 2 == 0 else None
        return SniffResult("damaged" if is_named else "no", _NO_HEADER, remedy)

    def open(
        self,
        files: Sequence[StoredFile],
        options: ReaderOptions,
        *,
        dtype: DTypeLike | None = None,
        window: int | None = None,
        stride: int | None = None,
        **_: Any,
    ) -> Reader:
        """Return a reader of windows over the tokens of each file.

        Args:
            dtype: The dtype of the tokens, which only llm.c's header tells: `"uint16"` in nanoGPT.
            window: The tokens of a record.
            stride: Tokens from the beginning of a window to the beginning of the next one; `None` is `window`.

        Raises:
            FormatError: A header is damaged, a file is not as long as its header says.
            SpecError: `window` is missing; or `dtype` is, or it is not the header's.
        """
        check_windows(window, stride)
        given = None if dtype is None else _token_dtype(dtype)
        if window is None and given is None and files and _head(files[0])[0] not in _MAGICS | _OTHER_KINDS.keys():
            raise SpecError(f"{files[0].name!r} has no header with the dtype of its tokens", remedy=_PLAIN_OPTIONS)
        streams = [_stream(file, given) for file in files]
        if window is None:
            what = "the files have tokens one behind another, and no documents"
            raise SpecError(what, remedy=Remedy("Pass {window}, or another number of tokens of a record.", window=1024))
        return open_windows(files, streams, window, stride, options)


def _head(file: StoredFile) -> tuple[int, int, int]:
    head = file.pread(0, _HEADER.size)
    magic, version, count = _HEADER.unpack(head) if len(head) == _HEADER.size else (0, 0, 0)
    return magic, version, count


def _stream(file: StoredFile, given: np.dtype[Any] | None) -> TokenStream:
    magic, version, count = _head(file)
    if magic in _OTHER_KINDS:
        what, remedy = f"the file holds {_OTHER_KINDS[magic]} of llm.c, not tokens one behind another", _IN_PYTHON
        raise FormatError(what, path=file.name, offset_bytes=0, found=magic, remedy=remedy)
    if magic not in _MAGICS:
        return _plain_stream(file, given)
    name = _DTYPES.get((magic, version))
    if name is None:
        raise FormatError("unknown version of the header", path=file.name, offset_bytes=4, found=version)
    if given is not None and given != name:
        what = f"the header of {file.name!r} says {name}, found dtype={given.name!r}"
        raise SpecError(what, remedy=Remedy("Leave out {dtype}.", dtype=...))
    expected = _HEADER_BYTES + count * np.dtype(name).itemsize
    if count < 0 or file.size > expected:
        raise FormatError(_not_as_long(expected), path=file.name, offset_bytes=8, found=f"{file.size} bytes")
    return TokenStream(np.dtype(name), _HEADER_BYTES, count)


def _plain_stream(file: StoredFile, dtype: np.dtype[Any] | None) -> TokenStream:
    if dtype is None:
        what = f"{file.name!r} has no header with the dtype of its tokens"
        raise SpecError(what, remedy=Remedy("Pass {dtype} for files of nanoGPT.", dtype="uint16"))
    if file.size % dtype.itemsize:
        what = f"the file does not have a whole number of {dtype.name} tokens"
        raise TruncatedError(what, path=file.name, found=f"{file.size} bytes")
    return TokenStream(dtype, 0, file.size // dtype.itemsize)


def _not_as_long(expected: int) -> str:
    return f"the file is not as long as its header says: expected {expected} bytes"


def _token_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        raise SpecError(f"dtype: expected an integer dtype, found {dtype!r}") from error
    if found.kind not in "iu" or found != found.newbyteorder("<"):
        raise SpecError(f"dtype: expected a little-endian integer dtype, found {dtype!r}")
    return found
