"""What stands out in sound records: what few of them lack, repeat or hold; fields that cannot teach anything."""

from __future__ import annotations

import itertools
import pickle
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Nullable, Ragged, RecordBatch, take_column
from dataformats.display.media import media_of, open_image
from dataformats.display.value_text import as_text
from dataformats.inspecting.description import MEDIA_CODECS
from dataformats.inspecting.finding import Finding
from dataformats.interfaces.record_source import RecordSource
from dataformats.reading.file_source import FileSource
from dataformats.reading.stats import FieldStats, RunningStats
from dataformats.reading.undecoded import leave_undecoded
from dataformats.registry import codecs
from dataformats.spec import is_short_float
from dataformats.storage.threads import for_each

_ENOUGH = 100  # records, from which on shares mean something
_RARE = 0.05  # the share of records up to which something is taken for a mistake
_SHOWN = 10
_FAR = 10  # times the median
_BINS = 50  # bins of a histogram between almost all numbers and an outlier
_UNEVEN = 100  # times as many records as another class
_COMPARED = 2**22  # hashes that are kept
_RECORD_BYTES = 24  # without the key; shorter records repeat by chance
_TRIED = 64  # values without a medium, after which a field has none
_SIZES = 10_000
_MISSING = "Missing", "lack it"
_BROKEN = "hold an image that does not decode"
_ORIENTATION = 274  # the tag of EXIF: 1, or 2 to 8 for a turned image
_NAME = r"(?:^|.*[/._])"
_KEY = re.compile(r"__(?:key|url)__|(?:.*[/.])?(?:key|id|uid|uuid|guid|sample_id|url|path|file_?name|file_?path)", re.I)
_CLASS = re.compile(_NAME + r"(?:label|class|category|target)(?:_id)?", re.I)
_NUMBERED = re.compile(r"(.*?)(\d{1,9})([^\d/]*)", re.DOTALL)
_TIME = re.compile(_NAME + r"(?:timestamp|time|ts)", re.I)

_Found = tuple[Finding, Sequence[int]]
"""What stands out, and the first records in which it does; none if it is of all records."""


@dataclass(slots=True)
class _Records:
    """A number of records, and the first of them."""

    n: int = 0
    indices: list[int] = field(default_factory=list)

    def add(self, indices: NDArray[np.int64] | Sequence[int]) -> None:
        self.n += len(indices)
        self.indices += [int(index) for index in indices[: _SHOWN - len(self.indices)]]


class RecordProfile:
    """What stands out in the records of a source, which arrive batch by batch. Memory is bounded.

    Args:
        source: The source. Media in its values are decoded here.
        command: Returns the line for a command of the program, its options and the path of the data.

    Attributes:
        source: The records to read, with media as stored bytes.
    """

    def __init__(self, source: RecordSource, command: Callable[..., str | None]) -> None:
        self.source = leave_undecoded(source)
        self._command = command
        self._stats = RunningStats(list(self.source.spec))
        self._tallies: defaultdict[tuple[str, str, str], _Records] = defaultdict(_Records)
        self._keys = {name: _Copies() for name in self.source.spec if _KEY.fullmatch(name)}
        self._records = _Copies()
        self._shapes: defaultdict[str, defaultdict[tuple[int, ...], _Records]] = defaultdict(
            lambda: defaultdict(_Records)
        )
        self._n_blobs = Counter[str]()
        self._times = {name: (-np.inf, np.inf) for name in self.source.spec if _TIME.fullmatch(name)}

    def add(self, batch: RecordBatch) -> None:
        """Add the sound records of a batch."""
        if not len(batch):
            return
        self._stats.add(batch)
        hashes, sizes = np.zeros((2, len(batch)), np.int64)
        for name, column in batch.items():
            present = getattr(column, "present", None)
            rows = np.arange(len(batch)) if present is None else np.flatnonzero(present)
            if not len(rows):
                self._tally(name, *_MISSING, batch.indices)
                continue
            self._add_column(name, column, batch.indices)
            items = _items(column if len(rows) == len(batch) else take_column(column, rows))
            item_hashes = np.fromiter(map(hash, items), np.int64, len(items))
            if name in self._keys:
                self._keys[name].add(item_hashes, batch.indices[rows])
            else:
                hashes[rows] += (hash(name) | 1) * item_hashes  # only values that are there take time
                sizes[rows] += np.fromiter(map(len, items), np.int64, len(items))
        long = sizes >= _RECORD_BYTES
        self._records.add(hashes[long], batch.indices[long])

    def _add_column(self, name: str, column: Any, indices: NDArray[np.int64]) -> None:
        present = getattr(column, "present", None)
        if present is not None:
            self._tally(name, *_MISSING, indices[~present])
        if isinstance(column, Ragged) and column.item_kind != "array":
            held = column.lengths > 0
            empty = ~held if present is None else ~held & present
            self._tally(name, "Empty", "hold no byte", indices[empty])
            if column.item_kind == "bytes":
                self._add_blobs(name, [*itertools.compress(column, held.tolist())], indices[held])
        self._tally(name, "NotFinite", "hold NaN or infinite numbers", indices[_not_finite(column)])
        if name in self._times and isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "iuf":
            (last, first), times = self._times[name], column.astype(np.float64)
            first = min(first, float(times.min()))  # an episode may begin there again
            self._times[name] = float(times[-1]), first
            late = ~(np.diff(times, prepend=last) > 0) & (times > first)
            self._tally(name, "Timestamp", "do not come after the one before", indices[late])

    def _add_blobs(self, name: str, blobs: Sequence[bytes], indices: NDArray[np.int64]) -> None:
        if self._n_blobs[name] >= _TRIED and not self._shapes[name]:
            return
        self._n_blobs[name] += len(blobs)
        self._tally(name, "TurnedImage", "are turned by EXIF, which is not applied", indices[[*map(_is_turned, blobs)]])
        for row, shape in enumerate(_shapes(blobs)):
            if isinstance(shape, str):
                self._tally(name, "BrokenImage", shape, indices[row : row + 1])
            elif shape is not None and (shape in self._shapes[name] or len(self._shapes[name]) < _SIZES):
                self._shapes[name][shape].add(indices[row : row + 1])

    def _tally(self, name: str, kind: str, what: str, indices: NDArray[np.int64]) -> None:
        if len(indices):
            self._tallies[name, kind, what].add(indices)

    def findings(self) -> Iterator[Finding]:
        """Yield what stands out in all records so far, with the line that shows it."""
        for finding, indices in self._found():
            index, name = next(iter(indices), None), finding.field
            if indices and "record" not in self.source.spec:
                where = f"record in ({', '.join(map(str, indices))})"
                line = self._command("head", "-n", len(indices), "--where", where)
            elif name is None and not indices:
                line = self._command("info")
            else:
                line = self._command("stats", *(("--fields", name) if name is not None and "," not in name else ()))
            yield replace(finding, index=index, remedy=line)

    def _found(self) -> Iterator[_Found]:
        n = self._stats.records
        yield from self._odd_files()
        for name, shapes in self._shapes.items():
            for what, tally in _odd_shapes(shapes) if shapes else ():
                self._tallies[name, "OddImage", what] = tally
        for (name, kind, what), tally in self._tallies.items():
            is_few = n >= _ENOUGH and (0 < tally.n <= _RARE * n or (kind == "Missing" and tally.n == n))
            if is_few or kind in ("NotFinite", "TurnedImage") or what == _BROKEN:
                yield _of_records(kind, name, f"{tally.n} of {n} records {what}", tally)
        for key, copies in self._keys.items():
            yield from copies.findings("DuplicateKey", key, "repeat the key of another one", _RARE)
        but = " but for the key" * bool(self._keys)
        yield from self._records.findings("Duplicate", None, f"are equal to another one{but}", 1)
        if n >= _ENOUGH:
            for name, stats in self._stats.snapshot().items():
                yield from _of_stats(name, stats)

    def _odd_files(self) -> Iterator[_Found]:
        files = self.source.reader.file_summaries() if isinstance(self.source, FileSource) else []
        counts = [(n, name) for name, n, _ in files]
        counts = counts[:-1] or counts  # the last one has the rest
        median = float(np.median([n for n, _ in counts])) if counts else 0
        facts = self.source.reader.metadata() if isinstance(self.source, FileSource) else {}
        for name, text in facts.items():
            if name.startswith(("field ", "files ")):  # and not versions of programs
                yield Finding("Fact", f"{name}: {text}"), ()
        yield from _gaps([name for name, _, _ in files]) if median > 1 else ()
        for n, name in counts:
            if n * _FAR < median >= _ENOUGH:
                yield Finding("ShortFile", f"{name!r} has {n} records, others have {median:g}", path=name), ()


def _of_records(kind: str, name: str | None, text: str, tally: _Records) -> _Found:
    numbers = ", ".join(map(str, tally.indices)) + (", ..." if tally.n > len(tally.indices) else "")
    message = f"{text}: record{'s'[: len(tally.indices) > 1]} {numbers}"
    return Finding(kind, message if name is None else f"field {name!r}: {message}", field=name), tally.indices


def _gaps(paths: Sequence[str]) -> Iterator[_Found]:
    """Yield a finding for files whose numbers lack a few of those between the first and the last."""
    numbered = defaultdict[tuple[str, str], dict[int, str]](dict)
    for match in filter(None, map(_NUMBERED.fullmatch, paths)):
        numbered[match[1], match[3]][int(match[2])] = match[2]
    for (stem, ending), numbers in numbered.items():
        lacking = sorted({*range(min(numbers), max(numbers))} - numbers.keys()) if len(numbers) > 2 else []
        if 0 < len(lacking) < len(numbers):
            name = f"{stem}{lacking[0]:0{min(map(len, numbers.values()))}}{ending}"
            what = f"{len(lacking)} of {len(numbers) + len(lacking)} numbered files are missing, such as {name!r}"
            yield Finding("MissingFile", what, path=name), ()


def _of_stats(name: str, stats: FieldStats) -> Iterator[_Found]:
    """Yield what stands out in the statistics of a field: one value, uneven classes, outliers."""
    common, histogram = stats.most_common or (), stats.histogram

    def finding(kind: str, text: str, *indices: int) -> _Found:
        return Finding(kind, f"field {name!r}: {text}", field=name), indices

    if stats.distinct == 1 or (not stats.of_lengths and stats.minimum is not None and stats.minimum == stats.maximum):
        value = as_text(common[0][0] if common else stats.minimum)
        yield finding("Constant", f"all {stats.count} records hold {value}")
    elif _CLASS.fullmatch(name) and common and stats.distinct is not None and stats.distinct <= stats.count / _FAR:
        (most, n_most), (least, n_least) = common[0], common[-1]
        if n_most > _UNEVEN * n_least:
            few = f"{n_least} {as_text(least)}" if stats.distinct == len(common) else f"few most of {stats.distinct}"
            yield finding("Imbalance", f"{n_most} of {stats.count} records hold {as_text(most)}, {few}")
    if histogram is not None and stats.largest and (stats.of_lengths or not isinstance(stats.minimum, int)):
        counts, at = histogram.counts, int(np.argmax(histogram.counts))
        n_far = sum(counts[at + _BINS :])
        if 0 < n_far <= stats.count / 1000:
            unit, one = "items or bytes" * stats.of_lengths, stats.largest[0]
            text = f"{n_far} of {stats.count} records hold far more than all others: up to {one.size:g} {unit}".rstrip()
            yield finding("Outlier", text, one.index)


class _Copies:
    """Finds equal values by their hashes, exactly for 4 million records; of more, among a share chosen by hash."""

    def __init__(self) -> None:
        self._hashes, self._indices = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._waiting: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._mask = self._n = 0

    def add(self, hashes: NDArray[np.int64], indices: NDArray[np.int64]) -> None:
        kept = hashes & self._mask == 0
        self._waiting.append((hashes[kept], indices[kept]))
        self._n += int(kept.sum())
        while self._n > _COMPARED:
            self._mask = 2 * self._mask + 1
            self._join()

    def _join(self) -> None:
        parts = [(self._hashes, self._indices), *self._waiting]
        hashes, indices = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
        kept = hashes & self._mask == 0
        self._hashes, self._indices, self._waiting = hashes[kept], indices[kept], []
        self._n = len(self._hashes)

    def findings(self, kind: str, name: str | None, what: str, most: float) -> Iterator[_Found]:
        self._join()
        order = np.argsort(self._hashes, kind="stable")
        same = np.flatnonzero(np.diff(self._hashes[order]) == 0)
        n, n_same = (self._mask + 1) * np.array([self._n, len(same)])
        if n >= _ENOUGH and 0 < n_same <= most * n:
            pairs = self._indices[order[np.stack([same, same + 1], 1).ravel()]]
            tally, about = _Records(int(n_same), pairs[:_SHOWN].tolist()), "about " * (self._mask > 0)
            yield _of_records(kind, name, f"{about}{n_same} of {n} records {what}", tally)


def _odd_shapes(tallies: Mapping[tuple[int, ...], _Records]) -> Iterator[tuple[str, _Records]]:
    """Yield what few images differ in from most, given the images of each shape."""
    sides = np.repeat([min(shape[:2]) for shape in tallies], [tally.n for tally in tallies.values()])
    channels = Counter[int]()
    for shape, tally in tallies.items():
        channels[(*shape, 1)[2]] += tally.n
    median, usual = float(np.median(sides)), channels.most_common(1)[0][0]
    far = [shape for shape in tallies if not median / _FAR <= min(shape[:2]) <= median * _FAR]
    other = [shape for shape in tallies if (*shape, 1)[2] != usual]
    for shapes, what in ((far, f"have a side far from {median:g} pixels"), (other, f"do not have {usual} channels")):
        indices = sorted(index for shape in shapes for index in tallies[shape].indices)[:_SHOWN]
        yield what, _Records(sum(tallies[shape].n for shape in shapes), indices)


def _is_turned(blob: bytes) -> bool:
    """True if EXIF turns an image; in TIFF, the decoder applies it."""
    try:
        _, image = open_image(blob)
        return "exif" in image.info and image.getexif().get(_ORIENTATION, 1) in range(2, 9)
    except Exception:  # Pillow raises errors of many types for damaged images
        return False


def _shapes(blobs: Sequence[bytes]) -> list[tuple[int, ...] | str | None]:
    """Return the shape of each image, the complaint about one that is broken, and `None` for sounds and videos."""
    found: list[tuple[int, ...] | str | None] = [None] * len(blobs)

    def decode(row: int) -> None:
        media = media_of(blobs[row])
        if media is None:
            found[row] = "are no image, as others are"
        elif media.kind == "image" and media.name in MEDIA_CODECS:
            try:
                found[row] = codecs.get(MEDIA_CODECS[media.name]).decode(blobs[row]).shape
            except Exception:  # decoders raise errors of many types
                found[row] = _BROKEN

    for_each(decode, len(blobs))
    return found


def _items(column: Any) -> list[bytes | str]:
    """Return each item of a column without missing values as bytes or text, equal ones for equal items."""
    if isinstance(column, Nullable):
        column = column.values
    if isinstance(column, np.ndarray) and column.size and column.dtype.kind != "O":
        raw, n = column.tobytes(), column.nbytes // len(column)
        return [raw[start : start + n] for start in range(0, len(raw), n)]
    return [one if isinstance(one, (bytes, str)) else _as_bytes(one) for one in column]


def _as_bytes(value: Any) -> bytes:
    is_plain = isinstance(value, np.ndarray) and value.dtype.kind != "O"
    return value.tobytes() if is_plain else pickle.dumps(value)


def _not_finite(column: Any) -> NDArray[np.int64]:
    """Return the rows of a column of floats that hold NaN or infinite numbers."""
    values = column.values if isinstance(column, Ragged | Nullable) else column
    if not isinstance(values, np.ndarray) or not (values.dtype.kind == "f" or is_short_float(values.dtype)):
        return np.zeros(0, np.int64)
    bad = ~np.isfinite(values.astype(np.float32) if values.dtype.kind != "f" else values)
    bad = bad.reshape(len(values), -1).any(1) if values.size else np.zeros(len(values), np.bool_)
    if isinstance(column, Nullable):
        bad &= column.present
    rows = np.flatnonzero(bad)
    return np.unique(np.searchsorted(column.offsets, rows, "right") - 1) if isinstance(column, Ragged) else rows
