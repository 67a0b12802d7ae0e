"""The Megatron backend."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dataformats.backends.megatron.layout import BIN, CODES, IDX, files_of_pair, is_index, read_tables
from dataformats.backends.megatron.reader import MegatronReader, token_stream
from dataformats.backends.megatron.salvage import salvage
from dataformats.backends.megatron.writer import MegatronWriter
from dataformats.backends.rows.windows import TOKENS, check_windows, open_windows
from dataformats.errors import FormatError, SpecError
from dataformats.indexing.union_reader import open_indexed_union
from dataformats.interfaces import (
    FieldsBackend,
    FilePlace,
    Folder,
    Reader,
    ReaderOptions,
    ShardSalvage,
    SniffResult,
    StoredFile,
    SupportsRepair,
)
from dataformats.spec import Spec, Type


class MegatronBackend(FieldsBackend, SupportsRepair):
    """Indexed datasets of Megatron-LM and GPT-NeoX: pairs of files."""

    name = "megatron"
    suffixes: tuple[str, ...] = (BIN,)
    prefix_ending: str | None = IDX
    has_checked_header = True

    def sniff(self, file: StoredFile) -> SniffResult:
        """Recognize either file of a pair by the header of its `.idx` file."""
        data, idx = files_of_pair(file)
        if idx is None or not is_index(idx) or (data is None and not idx.size):
            return SniffResult("no", "no .idx file beside it with Megatron's magic number")
        try:
            read_tables(idx, file)
        except FormatError as error:
            return SniffResult("damaged", error.what)
        return SniffResult("damaged", "the .bin file is missing") if data is None else SniffResult("yes")

    def find(self, folder: Folder) -> list[StoredFile]:
        """Return the `.bin` files beside which an `.idx` file lies."""
        names = folder.names()
        known = frozenset(names)
        return folder.files(self.order([name for name in names if name.endswith(BIN) and name[:-4] + IDX in known]))

    def order(self, names: Sequence[str]) -> list[str]:
        """Return names in natural order, without each `.idx` file whose `.bin` file is among them."""
        known = frozenset(names)
        return [name for name in super().order(names) if not (name.endswith(IDX) and name[:-4] + BIN in known)]

    def open(
        self,
        files: Sequence[StoredFile],
        options: ReaderOptions,
        *,
        window: int | None = None,
        stride: int | None = None,
        sequences: bool = False,
        **_: Any,
    ) -> Reader:
        """Return a reader of documents, of sequences, or of windows over the token stream of each file.

        Args:
            files: The `.bin` or `.idx` file of each pair.
            window: The tokens of a record; `None`: a record is a document.
            stride: Tokens from the beginning of a window to the beginning of the next one; `None` is `window`.
            sequences: True if a record is a sequence, as in Megatron's `IndexedDataset`: a part of a document.

        Raises:
            FormatError: A pair is damaged or incomplete, or there is no one token stream.
            SpecError: `stride` without `window`, or `window` with `sequences`; or no dtype has the tokens of all files.
        """
        check_windows(window, stride)
        data = [_data_of(file) for file in files]
        if window is None:
            return open_indexed_union(data, partial(MegatronReader, sequences=sequences), "dtype", options)
        if sequences:
            raise SpecError("windows are cut from the token stream, not from sequences", remedy="Leave out sequences=")
        return open_windows(data, [token_stream(file) for file in data], window, stride, options)

    def stored_spec(self, spec: Spec, **_: Any) -> Spec:
        """Return the one field, `tokens`, of any length."""
        kind = spec.get(TOKENS, Type("bytes"))
        if list(spec) != [TOKENS] or kind.codec not in CODES.values() or len(kind.dims) != 1 or kind.optional:
            known = ", ".join(f"{dtype}[]" for dtype in CODES.values())
            found = {name: str(kind) for name, kind in spec.items()}
            raise SpecError(f"expected one field {TOKENS!r}, of {known}, found {found}")
        return Spec({TOKENS: Type(kind.codec, dims=(None,))})

    def create(
        self, path: Path, *, stored: Spec, resume: bool = False, place: FilePlace | None = None, **_: Any
    ) -> MegatronWriter:
        """Return a writer of one pair.

        Args:
            place: The final name of the `.bin` file, from which the `.idx` file's follows.

        Raises:
            FormatError: There are data to resume, but neither their journal nor their tables.
            SpecError: The unfinished file has another dtype, or the name does not end in `.bin`.
        """
        name = place.name if place is not None and place.name is not None else path.name
        if place is not None and place.name is not None and place.shard is None and not name.endswith(BIN):
            raise SpecError(f"the name of Megatron's data ends in {BIN}: expected {name + BIN!r}, found {name!r}")
        return MegatronWriter(path, stored[TOKENS].codec, name, resume=resume)

    def salvage(self, files: Sequence[StoredFile], payload: str) -> ShardSalvage:
        """Find the sound documents of a pair."""
        return salvage(_data_of(files[0]))


def _data_of(file: StoredFile) -> StoredFile:
    data = files_of_pair(file)[0]
    if data is None:
        raise FormatError("the .bin file is missing beside it", path=file.name)
    return data
