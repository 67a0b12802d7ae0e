"""Recognizes the files of Granular: bags by their table of limits, `.idx` files by their bag, `spec.json` as JSON."""

from __future__ import annotations

from dataformats.backends.granular.bag_limits import BAG, IDX, index_of, layout_of
from dataformats.backends.granular.folder import SPEC
from dataformats.backends.granular.layout import BagLayout, parse_limits
from dataformats.errors import FormatError
from dataformats.interfaces import SniffResult
from dataformats.interfaces.stored_file import StoredFile

_WINDOW_BYTES = 4096
_CHECKED_ENTRIES = 4096


def sniff_file(file: StoredFile) -> SniffResult:
    """Recognize a non-empty file by its content and the file beside it."""
    if file.basename == SPEC:
        is_object = file.pread(0, _WINDOW_BYTES).lstrip()[:1] == b"{"
        return SniffResult("yes") if is_object else SniffResult("damaged", "spec.json is not a JSON object")
    if file.basename.endswith(IDX):
        bag = file.file_beside(file.basename.removesuffix(IDX) + BAG)
        return SniffResult("no", "an .idx without its .bag") if bag is None else SniffResult("yes")
    return _sniff_bag(file)


def _sniff_bag(bag: StoredFile) -> SniffResult:
    has_name = bag.basename.endswith(BAG)
    try:
        layout = layout_of(bag, index_of(bag))
        reason = "" if has_name else _misfit(bag, layout)
    except FormatError as error:
        reason = error.what
    finally:
        bag.release()
    if not reason:
        return SniffResult("yes")
    return SniffResult("damaged" if has_name else "no", reason)


def _misfit(bag: StoredFile, layout: BagLayout) -> str:
    """Return the evidence against a bag whose name is no evidence, or `""`."""
    if layout.data_bytes == 0:
        return "no table of limits at the end, or one of empty records alone"
    n = min(layout.n_records, _CHECKED_ENTRIES)
    head = BagLayout(layout.generation, n, layout.data_bytes, layout.table_offset, layout.table_path)
    try:
        parse_limits(bag.pread(head.table_offset, head.table_bytes), head)
    except FormatError:
        return "the last 8 bytes lead to no table of limits"
    return ""
