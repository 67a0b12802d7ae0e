"""Converter: gives the tasks of a conversion to workers, commits their shards, and publishes the data."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from dataformats.converting.executors import results
from dataformats.converting.report import ConvertReport
from dataformats.converting.selection import Selection
from dataformats.converting.tasks import Conversion, Failure, Task, encode_task, write_shard
from dataformats.errors import DataFormatsError, SpecError, StateMismatchError, TargetExistsError, TargetInUseError
from dataformats.interfaces.record_source import RecordSource
from dataformats.staging.area import Publication, StagingArea
from dataformats.staging.entries import ShardEntry
from dataformats.staging.paths import add_name, area_at
from dataformats.storage.one_ahead import prefetch
from dataformats.storage.remote.names import shown_url
from dataformats.storage.threads import concurrent_map
from dataformats.writing.creating import begin_dataset
from dataformats.writing.shard_writer import ShardWriter, publication_of, stem_of
from dataformats.writing.write_options import WriteOptions

_LOG = logging.getLogger("dataformats")
_RANGE_BYTES = 8 * 2**20
_RANGE_RECORDS = 8192
_CHECKPOINT_S = 10.0
_MAX_NAMES = 20
_MAX_ERRORS = 20


@dataclass
class Converter:
    """One run of a conversion.

    Attributes:
        conversion: The plan and options that all tasks share.
        selection: The records.
        progress: Called with (records done, records in all).
        arguments: Further arguments that an equal conversion shares, besides source, records, format, payload and spec.
        path: See `create`.
        options: How the data are written.
        part: `(i, n)` to write only each `n`-th shard, from number `i` on, and publish nothing; `None` for all.
        publish_parts: Publish the shards that all parts wrote.
        executor: Runs the tasks; `None` runs them here.
        total: How many records this run has to convert.
        done: How many of them are converted or left out.
        n_omitted: How many of these were left out.
        failures: Those that this run left out.
        n_resumed: How many records an interrupted run had written.
    """

    conversion: Conversion
    selection: Selection
    progress: Callable[[int, int], None] | None
    arguments: Mapping[str, Any]
    path: Any
    options: WriteOptions
    part: tuple[int, int] | None
    publish_parts: bool
    executor: Executor | None = None
    total: int = field(init=False)
    done: int = 0
    n_omitted: int = 0
    failures: list[Failure] = field(default_factory=list)
    n_resumed: int = 0

    def __post_init__(self) -> None:
        self.total = len(self.selection)
        if self.part is None and not self.publish_parts:
            return
        if self.part is not None and self.publish_parts:
            raise ValueError("convert() takes part= or publish_parts=True, not both")
        if not self._has_tasks:
            raise ValueError(
                "part= and publish_parts=True need shard_records=, without shard_bytes=: parts write whole shards"
            )
        first, n = self.part or (0, 1)
        if not 0 <= first < n:
            raise ValueError(f"part must be (i, n) with 0 <= i < n, found {self.part}")

    @property
    def _has_tasks(self) -> bool:
        """True if tasks write shards of some records in any order; else records are appended in order."""
        return self.options.shard_records is not None and self.options.shard_bytes is None

    def write(self) -> ConvertReport:
        """Convert, or return the report of an equal conversion that is complete."""
        states, is_single = _file_states(self.conversion.plan.source), not self.options.limits_shards
        schema = self.conversion.schema_of(len(self.selection)) if is_single else self.conversion.schema
        area, options = area_at(self.path, self.options.storage_options), replace(self.options, plan=self._plan())
        metadata = {"format": schema.backend.name, **(schema.sidecar() or {}), "plan": options.plan}
        try:
            begin_dataset(area, schema, options, shared=self.part is not None)
        except TargetExistsError:
            published = area.complete(metadata) if self.options.resume else None
            if published is None:
                raise
            return self._report(published)
        out = None if self._has_tasks else ShardWriter(area, schema, options)
        try:
            new = self._add_shards(area) if out is None else self._append_records(out)
            _check_unchanged(states)
            about = {"dataformats": sys.modules["dataformats"].__version__, "omitted": self.n_omitted}
            metadata = {**metadata, **about, "files": new.metadata["files"]}
            if self.part is None:
                area.check_owned()
                area.publish(replace(new, metadata=metadata, keep=True))
        except BaseException as error:
            add_name(error, area.name)
            is_kept = self._is_kept(area, error)
            if out is not None:
                out.abort(keep=is_kept)
            elif is_kept or not area.is_owned:
                area.suspend()
            else:
                area.discard()
            raise
        finally:
            area.release()
        errors = tuple(message for _, message in self.failures[:_MAX_ERRORS])
        return replace(self._report(metadata), resumed=self.n_resumed, errors=errors)

    def preview(self) -> ConvertReport:
        """Return the report of a dry run, as far as it is known."""
        return replace(self._report({"files": []}), records=len(self.selection))

    # ---- a single file, or shards of some bytes: records are appended in order

    def _append_records(self, out: ShardWriter) -> Publication:
        """Append the records that an interrupted run has not appended, and return the data."""
        self.n_resumed, self.n_omitted, first = out.n_records, out.n_omitted, out.n_taken
        self._advance(first)
        saved_s = time.monotonic()
        # Copied payloads cost less to read than to receive from a worker.
        executor = None if self.conversion.plan.copied else self.executor
        found = results(encode_task, self._ranges(first), executor, in_order=True)
        for encoded in prefetch(found) if executor is None else found:
            for records, failures in encoded:
                try:
                    out.append_stored(records)
                except SpecError as error:
                    error.index = out.n_records if error.index is None else error.index
                    raise
                out.n_omitted += len(failures)
                self._note(failures)
            self._advance(out.n_taken - self.done)
            if time.monotonic() > saved_s + _CHECKPOINT_S:
                out.write_checkpoint()
                saved_s = time.monotonic()
        return out.finish()

    def _ranges(self, first: int) -> Iterator[Task]:
        mean = self.conversion.plan.source.record_bytes()
        size = max(1, min(_RANGE_RECORDS, int(_RANGE_BYTES / max(1.0, mean))))
        for number, start in enumerate(range(first, len(self.selection), size)):
            yield self._task(number, start, start + size)

    # ---- shards of some records: tasks write them in any order

    def _add_shards(self, area: StagingArea) -> Publication:
        """Add the shards that no interrupted run and no other part has committed, and return all."""
        size, (first, step) = self.options.shard_records or 1, self.part or (0, 1)
        starts = range(0, max(1, len(self.selection)), size)
        numbers = range(first, len(starts), step)
        self.total = sum(min(size, len(self.selection) - starts[number]) for number in numbers)
        entries = self._sound(area, numbers) if self.options.resume else {}
        if self.publish_parts and len(entries) < len(numbers):
            raise _incomplete(area, entries, len(numbers))
        if self.options.resume and self.part is None:
            area.keep_only(entries)
        n_found = sum(entry.n_records for entry in entries.values())
        self.n_resumed = 0 if self.publish_parts else n_found
        self.n_omitted = sum(entry.facts["omitted"] for entry in entries.values())
        self._advance(n_found + self.n_omitted)
        tasks = (self._task(n, starts[n], starts[n] + size) for n in numbers if n not in entries)
        here = self.executor is None
        verify, advance = self.options.verify, self._advance if here else None
        write = partial(write_shard, area=area, sends=not here, verify=verify, advance=advance)
        done = self.done
        for shard in results(write, tasks, self.executor, in_order=False):
            area.check_owned()
            entry = replace(shard.entry, facts={**shard.entry.facts, "parts": step})
            if here:
                area.add(shard.number, entry, area.folder / entry.shard)
                area.settle(1)
            else:
                area.write_entry(shard.number, entry)
            entries[shard.number] = entry
            self._note(shard.failures)
            done += entry.n_records + len(shard.failures)
            self._advance(done - self.done)
        area.settle()
        shards = [entries[number] for number in sorted(entries)]
        shards = [entry for entry in shards if entry.n_records] or shards[:1]
        return publication_of(self.conversion.schema, stem_of(area), shards)

    def _sound(self, area: StagingArea, numbers: Iterable[int]) -> dict[int, ShardEntry]:
        """Return the entries of these numbers whose shards are as they list them."""
        found, checksums = area.entries(numbers), not self.publish_parts
        sound = concurrent_map(lambda entry: area.is_sound(entry, checksums=checksums), [*found.values()], local=False)
        for number, is_sound in zip(list(found), sound, strict=True):
            if not is_sound:
                text = "the shard %d, %s beside %s, is not as it was written: it must be converted again"
                _LOG.warning(text, number, found.pop(number).shard, area.name)
        return found

    # ---- both

    def _task(self, number: int, first: int, stop: int) -> Task:
        return Task(self.conversion, number, self.selection.records(first, min(stop, len(self.selection))))

    def _note(self, failures: list[Failure]) -> None:
        self.n_omitted += len(failures)
        self.failures += failures

    def _advance(self, n: int) -> None:
        self.done += n
        if self.progress is not None and n:
            self.progress(self.done, self.total)

    def _is_kept(self, area: StagingArea, error: BaseException) -> bool:
        """Return True if the partial data stay after an error: unless the records themselves caused it."""
        if self.publish_parts:
            return bool(area.entries())
        return self.options.resume or isinstance(error, TargetInUseError) or not isinstance(error, DataFormatsError)

    def _plan(self) -> dict[str, Any]:
        conversion = self.conversion
        metadata = {
            "source": conversion.plan.source.fingerprint,
            "records": len(self.selection),
            **self.selection.facts,
            **self.arguments,
            "copied": conversion.plan.copied,
            "spec": None if conversion.plan.spec is None else conversion.plan.spec.to_json(),
            "options": dict(conversion.options),
            "codecs": sorted(conversion.codecs or ()),
            "shard_records": self.options.shard_records,
            "shard_bytes": self.options.shard_bytes,
        }
        given = {name: fact for name, fact in metadata.items() if fact is not None and fact not in ({}, [])}
        plan: dict[str, Any] = json.loads(json.dumps(given, default=str))  # equals a plan that is read from a sidecar
        return plan

    def _report(self, metadata: Mapping[str, Any]) -> ConvertReport:
        return ConvertReport(
            shown_url(self.path),
            self.conversion.format,
            self.conversion.schema.payload,
            sum(file["records"] for file in metadata["files"]),
            self.conversion.plan.copied,
            0.0,
            files=len(metadata["files"]),
            nbytes=sum(file["bytes"] for file in metadata["files"]),
            omitted=metadata.get("omitted", 0),
        )


def _incomplete(area: StagingArea, entries: Mapping[int, ShardEntry], expected: int) -> StateMismatchError:
    """Return the error that shards are missing; it names the parts that did not write them."""
    missing = [number for number in range(expected) if number not in entries]
    counts = {entry.facts["parts"] for entry in entries.values()}
    n_parts = counts.pop() if len(counts) == 1 else 1
    names = [f"{number}/{n_parts}" for number in sorted({number % n_parts for number in missing})]
    which = f"the parts {_listed(names)}" if n_parts > 1 else f"the parts that write the shards {_listed(missing)}"
    return StateMismatchError(
        f"the number of complete shards of {area.name!r}",
        expected=expected,
        found=len(entries),
        remedy=f"Run {which} again with the same arguments, then publish the parts.",
    )


def _listed(names: Sequence[object]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _MAX_NAMES
    return ", ".join(map(str, names[:_MAX_NAMES])) + (f" and {more} more" if more > 0 else "")


def _file_states(source: RecordSource) -> dict[str, tuple[int, int]]:
    """Return size and time of the local files of a source."""
    found = {path: os.stat(path) for path in source.paths if os.path.isfile(path)}
    return {path: (info.st_size, info.st_mtime_ns) for path, info in found.items()}


def _check_unchanged(states: Mapping[str, tuple[int, int]]) -> None:
    for path, before in states.items():
        info = os.stat(path) if os.path.isfile(path) else None
        now = None if info is None else (info.st_size, info.st_mtime_ns)
        if now != before:
            raise StateMismatchError(
                f"size and time of {path!r}, a file of the source",
                expected=before,
                found=now,
                remedy="It changed while it was converted: convert again.",
            )
