"""Run a conversion: give tasks to workers, and commit their results in this process alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dataformats.converting.committed_shards import CommittedShards
from dataformats.converting.executors import results
from dataformats.converting.read_back import Content, check_written
from dataformats.converting.selection import Selection
from dataformats.converting.tasks import Conversion, Failure, Result, Task, encode_task, write_shard
from dataformats.errors import StateMismatchError
from dataformats.indexing.sidecar import list_file
from dataformats.storage.prefetch import prefetch
from dataformats.writing.dataset_writer import DatasetWriter
from dataformats.writing.shard_journal import ShardJournal

__all__ = ["Run", "seal"]

_RANGE_BYTES = 8 * 2**20
_RANGE_RECORDS = 8192
_JOURNAL_S = 10.0
_MOST_NAMES = 20


@dataclass
class Run:
    """One run of a conversion.

    Attributes:
        conversion: What the tasks have in common.
        selection: The records.
        executor: Runs the tasks; `None` runs them here.
        progress: Called with (records done, records in all).
        resume: Continue what an interrupted run left.
        total: How many records this run has to convert.
        done: How many of them are converted or left out.
        n_omitted: How many of these were left out.
        failures: Those that this run left out.
        n_resumed: How many records an interrupted run had written.
    """

    conversion: Conversion
    selection: Selection
    executor: Executor | None
    progress: Callable[[int, int], None] | None
    resume: bool
    total: int = field(init=False)
    done: int = 0
    n_omitted: int = 0
    failures: list[Failure] = field(default_factory=list)
    n_resumed: int = 0

    def __post_init__(self) -> None:
        self.total = len(self.selection)

    def write_shards(self, shards: CommittedShards, size: int, part: tuple[int, int] | None = None) -> None:
        """Write shards of `size` records that are not committed yet, in any order.

        Args:
            shards: The shards.
            size: Records of each, but the last.
            part: `(i, n)` for the shards with the numbers `i`, `i + n`, ... alone: others may write the rest now.
        """
        begin, step = part or (0, 1)
        starts = self._starts(size)
        numbers = range(begin, len(starts), step)
        self.total = sum(min(size, len(self.selection) - starts[number]) for number in numbers)
        shards.find(numbers)
        if part is None:
            shards.remove_others()
        self.n_resumed, self.n_omitted = shards.n_records, shards.n_omitted
        self._advance(self.n_resumed + self.n_omitted)
        tasks = (self._task(n, starts[n], starts[n] + size) for n in numbers if n not in shards.found)
        advance = self._advance if self.executor is None else None
        write = partial(write_shard, attempts=shards.attempts, advance=advance)
        done = self.done
        for result in results(write, tasks, self.executor, in_order=False):
            shards.commit(result, step)
            self._note(result)
            done += result.n_records + len(result.failures)
            self._advance(done - self.done)

    def find_shards(self, shards: CommittedShards, size: int) -> None:
        """Find the shards of `size` records that all parts have committed.

        Raises:
            StateMismatchError: Some are missing.
        """
        n = len(self._starts(size))
        shards.find(range(n), checksums=False)
        if len(shards.found) < n:
            raise _incomplete(shards, n)
        self.n_omitted = shards.n_omitted
        self._advance(self.total)

    def _starts(self, size: int) -> range:
        return range(0, max(1, len(self.selection)), size)

    def append_ranges(self, out: DatasetWriter, journal: Path) -> list[tuple[int, Content]]:
        """Append all records in order; return how many were written at a time, and what must be read back of them.

        Args:
            out: The writer; it may hold the first records already.
            journal: Keeps these facts beside partial data. It may lack the last ones: then records are encoded again
                to find out what must be read back, and not appended.
        """
        kept = self._kept(out, journal)
        log = _RangeLog(out, ShardJournal(journal, kept), len(kept))
        self.n_resumed, skipped = len(out), len(out) - sum(entry["records"] for entry in kept)
        self.n_omitted = sum(entry["omitted"] for entry in kept)
        first = kept[-1]["stop"] if kept else 0
        self._advance(first)
        # Copied payloads cost less to read than to receive from a worker.
        executor = None if self.conversion.plan.copied else self.executor
        found = results(encode_task, self._ranges(first), executor, in_order=True)
        for result in prefetch(found) if executor is None else found:
            n_read = result.n_records + len(result.failures)
            for part in result.encoded:
                out.append_stored(part[skipped:] if skipped else part)
                skipped = max(0, skipped - len(part))
            self._note(result)
            self._advance(n_read)
            log.add(result, self.done)
        if skipped:
            raise _too_many(len(out), skipped)
        return [*((entry["records"], entry["content"]) for entry in kept), *log.parts]

    def _kept(self, out: DatasetWriter, journal: Path) -> list[dict[str, Any]]:
        """Return the entries of the ranges that the partial data hold whole."""
        kept, n = [], 0
        for entry in ShardJournal.load(journal, in_order=False) if self.resume else ():
            n += entry["records"]
            if n > len(out) or (entry["content"] is None and self.conversion.verify):
                break
            kept.append(entry)
        return kept

    def _ranges(self, first: int) -> Iterator[Task]:
        mean = self.conversion.plan.source._mean_bytes
        size = max(1, min(_RANGE_RECORDS, int(_RANGE_BYTES / max(1.0, mean))))
        for n, begin in enumerate(range(first, len(self.selection), size)):
            yield self._task(n, begin, begin + size)

    def _task(self, number: int, first: int, stop: int) -> Task:
        return Task(self.conversion, number, self.selection.records(first, min(stop, len(self.selection))))

    def _note(self, result: Result) -> None:
        self.n_omitted += len(result.failures)
        self.failures += result.failures

    def _advance(self, n: int) -> None:
        self.done += n
        if self.progress is not None and n:
            self.progress(self.done, self.total)


class _RangeLog:
    """Journals what was appended, with a sync of the data now and then.

    Compressed files are not flushed, because their bytes would depend on the time. Their frames have checksums, so that
    a resume finds which of them a crash of the machine left.
    """

    def __init__(self, out: DatasetWriter, journal: ShardJournal, number: int) -> None:
        self._out = out
        self._journal = journal
        self._number = number
        self._pending: list[dict[str, Any]] = []
        self._journaled_s = time.monotonic()
        self.parts: list[tuple[int, Content]] = []

    def add(self, result: Result, stop: int) -> None:
        facts = {"records": result.n_records, "omitted": len(result.failures), "content": result.content, "stop": stop}
        self._pending.append({"name": f"{self._number:05d}", **facts})
        self._number += 1
        self.parts.append((result.n_records, result.content or {}))
        if time.monotonic() > self._journaled_s + _JOURNAL_S:
            if not self._out.flush_adds_bytes:
                self._out.flush(sync=True)
            self._journal.append(*self._pending)
            self._pending.clear()
            self._journaled_s = time.monotonic()


def seal(out: DatasetWriter, conversion: Conversion, parts: list[tuple[int, Content]], *, sharded: bool) -> None:
    """Complete the files of a writer, read them back, and list their checksums."""
    entries, present = out.complete()
    (_, path), *beside = present.items()
    with ThreadPoolExecutor(1) as thread:  # the files are read twice, at the same time
        check = thread.submit(check_written, conversion.schema.backend, present, parts) if conversion.verify else None
        for entry in entries:
            now = path / entry["name"] if sharded else path
            entry |= list_file(entry["name"], entry["records"], now, dict(beside), checksums=True)
        if check is not None:
            check.result()


def _incomplete(shards: CommittedShards, expected: int) -> StateMismatchError:
    """Return the error that shards are missing; it names the parts that did not write them."""
    missing = [number for number in range(expected) if number not in shards.found]
    counts = {shard.parts for shard in shards.found.values()}
    n_parts = counts.pop() if len(counts) == 1 else 1
    names = [f"{number}/{n_parts}" for number in sorted({number % n_parts for number in missing})]
    which = f"the parts {_listed(names)}" if n_parts > 1 else f"the parts that write the shards {_listed(missing)}"
    return StateMismatchError(
        f"the number of complete shards in {shards.attempts.name!r}",
        expected=expected,
        found=len(shards.found),
        remedy=f"Run {which} again with the same arguments, then commit.",
    )


def _listed(names: Sequence[object]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _MOST_NAMES
    return ", ".join(map(str, names[:_MOST_NAMES])) + (f" and {more} more" if more > 0 else "")


def _too_many(found: int, excess: int) -> StateMismatchError:
    return StateMismatchError(
        "the number of records in the partial data",
        expected=f"at most {found - excess}",
        found=found,
        remedy="Start again without resume=True.",
    )
