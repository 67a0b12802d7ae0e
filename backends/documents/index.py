"""The index of a JSON document: which of its values are records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dataformats.backends.documents.walk import Elements, Walk
from dataformats.backends.framed.frame_scanner import read_window
from dataformats.backends.lines.line_index import FoundRecords, LineTiling, RecordIndexStore, unreadable
from dataformats.backends.lines.line_scan import BOM
from dataformats.errors import FormatError, Remedy
from dataformats.interfaces.stored_file import StoredFile

_WHOLE, _ALONE = "whole", "alone"
_MAX_NAMES = 8
_EACH_LINE = Remedy("If each line is a document, pass {format}.", format="jsonl")


@dataclass(frozen=True, slots=True)
class ElementIndexStore(RecordIndexStore):
    """Indexes of JSON documents. The space around a record belongs to it.

    Attributes:
        key: The key of the list of records in the object that is the document; `""` if the object is a record, `None`
            if it is one unless it is alone and has a list of objects.
        is_alone: True if there are no other files.
        name: The format, and the kind of its indexes.
    """

    key: str | None
    is_alone: bool
    name: str = "json"

    @property
    def choice(self) -> str:
        if self.key:
            return f"key {self.key}"
        return _ALONE if self.is_alone and self.key is None else _WHOLE

    def find(self, file: StoredFile, progress: Callable[[int], None]) -> FoundRecords:
        begin = len(BOM) if read_window(file, 0, len(BOM)).tobytes() == BOM else 0
        walk = Walk(file, begin, progress)
        found = self._found(walk, file)
        damage = walk.damage or (file.damage if file.is_compressed and file.size >= 0 else None)
        rest, lacking = unreadable(damage, found.end, file, "value") or found.rest, found.end - file.size
        return replace(found, rest=rest, lacking=lacking if rest is None else max(0, lacking))

    def _found(self, walk: Walk, file: StoredFile) -> FoundRecords:
        begin, byte = walk.at, walk.next()
        if byte == b"{" and self.choice != _WHOLE:
            found = self._in_object(walk)
            if found is not None:
                return found
        elif self.key:
            raise walk.error(f"no key {self.key!r}, because the document is no object", walk.at, "{", byte)
        if byte == b"[":
            walk.at += 1
            elements = walk.elements()
            return _records(elements, elements.problem or _problem_behind(walk), [_WHOLE, _ALONE])
        return self._values(walk, begin, file.size - begin if byte not in (b"", b"{") else 0)

    def _in_object(self, walk: Walk) -> FoundRecords | None:
        """Return the elements of the list that has the records; `None` if the object is a record."""
        walk.at += 1
        lists, problem = walk.members()
        if self.key:
            if self.key not in lists:
                error = walk.error(f"the document has no list {self.key!r}", 0)
                raise _with_names(error, lists) if problem is None else problem
            return _records(lists[self.key], problem or _problem_behind(walk), [self.choice], self.key)
        objects = {key: elements for key, elements in lists.items() if elements.are_objects}
        if not objects or (problem is None and walk.next()):
            return None
        if len(objects) > 1:
            raise _with_names(walk.error("the document has several lists of objects", 0), objects)
        ((key, elements),) = objects.items()
        left_out = [*walk.skipped, *(name for name in lists if name != key)][:_MAX_NAMES]
        return _records(elements, problem, [_ALONE, f"key {key}"], key, left_out)

    def _values(self, walk: Walk, begin: int, scalar: int) -> FoundRecords:
        """Return the objects that lie one behind another, or the one value of `scalar` bytes."""
        walk.at = begin
        lengths, is_closed = (np.array([scalar], np.int64), False) if scalar else walk.values(0)
        end, stop, is_inside, rest = begin + int(lengths.sum()), walk.at, walk.is_inside, None
        walk.at = end
        if is_closed:
            rest = walk.error("the bracket closes nothing", stop - 1)
        elif byte := walk.next():
            what = ("the object has no end", walk.at, "}", b"") if is_inside else ("no object", walk.at, "{", byte)
            rest = walk.error(*what)
        elif len(lengths):
            lengths[-1] += walk.at - end
        else:
            rest = walk.error("the document has no value", end, "[ or {", b"")
        choices = [_WHOLE, _ALONE] if self.choice == _ALONE or len(lengths) > 1 else [_WHOLE]
        return FoundRecords(LineTiling(begin, 0), lengths, rest=rest, metadata={"choices": choices, "key": None})


def _records(
    elements: Elements,
    problem: FormatError | None,
    choices: Sequence[str],
    key: str | None = None,
    left_out: Sequence[str] = (),
) -> FoundRecords:
    metadata = {"choices": choices, "key": key, "left out": left_out}
    return FoundRecords(LineTiling(elements.head, 1), elements.lengths, rest=problem, metadata=metadata)


def _problem_behind(walk: Walk) -> FormatError | None:
    """Return the problem of bytes behind the document; `None` if there are none."""
    byte = walk.next()
    return replace(walk.error("more behind the document", walk.at, None, byte), remedy=_EACH_LINE) if byte else None


def _with_names(error: FormatError, lists: Mapping[str, Elements]) -> FormatError:
    """Return an error that shows the lists of a document, and names the longest."""
    names = sorted(lists, key=lambda key: -len(lists[key].lengths))
    shown = [f"{key[:40]} ({len(lists[key].lengths):,})" for key in names[:_MAX_NAMES]]
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    remedy = Remedy("Pass {key}.", key=names[0]) if names else Remedy("Leave out {key}.", key=...)
    return replace(error, found=(", ".join(shown) or "none") + more, remedy=remedy)
