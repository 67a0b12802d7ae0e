"""The target of a conversion: written under a partial name, read back, and published when it is complete."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from dataformats.converting.attempts import attempts_of
from dataformats.converting.committed_shards import TASKS_JOURNAL, CommittedShards
from dataformats.converting.report import ConvertReport
from dataformats.converting.run import Run, seal
from dataformats.converting.tasks import Conversion
from dataformats.errors import DataFormatsError, StateMismatchError, TargetExistsError
from dataformats.reading.source import RecordSource
from dataformats.storage.paths import is_local
from dataformats.writing.creating import writer
from dataformats.writing.dataset_writer import DatasetWriter
from dataformats.writing.destination import Destination, destination
from dataformats.writing.encoding import refuse
from dataformats.writing.partial_data import ENCODING
from dataformats.writing.remote_destination import RemoteDestination
from dataformats.writing.schema import WriteSchema

__all__ = ["Target"]

_MAX_ERRORS = 20


@dataclass(frozen=True, slots=True)
class Target:
    """Where and how a conversion writes.

    Attributes:
        path: As in `create`.
        storage_options: Likewise; not in `repr`, because a password may be there.
        shard_records: Likewise.
        shard_bytes: Likewise.
        overwrite: Likewise.
        resume: Continue the partial data of a conversion with an equal plan.
        part: `(i, n)` to write only each `n`-th shard, from number `i` on, and publish nothing; `None` for all.
        commit: Publish the shards that all parts wrote.
        arguments: What an equal plan has in common with this one, besides source, records, format, payload and spec.
    """

    path: Any
    storage_options: dict[str, Any] | None = field(repr=False)
    shard_records: int | None
    shard_bytes: int | None
    overwrite: bool
    resume: bool
    part: tuple[int, int] | None
    commit: bool
    arguments: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.part is None and not self.commit:
            return
        if self.part is not None and self.commit:
            raise ValueError("convert() takes part= or commit=True, not both")
        if self.shard_records is None or self.shard_bytes is not None:
            raise ValueError(
                "part= and commit=True need shard_records=, without shard_bytes=: parts write whole shards"
            )
        first, n = self.part or (0, 1)
        if not 0 <= first < n:
            raise ValueError(f"part must be (i, n) with 0 <= i < n, found {self.part}")

    def write(self, run: Run) -> ConvertReport:
        """Convert, or return the report of an equal conversion that is complete."""
        conversion, states = run.conversion, _file_states(run.conversion.plan.source)
        plan = self._plan(run)
        shards: list[CommittedShards] = []
        try:
            is_one = self.shard_records is None and self.shard_bytes is None
            schema = conversion.schema_of(len(run.selection)) if is_one else conversion.schema
            out = self._writer(schema, plan, shards)
            out.resumable |= bool(shards) and shards[0].attempts.survives
            if self.commit:
                out.resumable = bool(shards[0].attempts.names())
        except TargetExistsError:
            facts = self._published(conversion.schema, plan)
            if facts is None:
                raise
            return self._report(conversion, facts)
        with _kept_if_interrupted(out, self.resume):
            if self.commit:
                run.find_shards(shards[0], self.shard_records or 1)
            elif shards:
                run.write_shards(shards[0], self.shard_records or 1, self.part)
            else:
                parts = run.append_ranges(out, out.partial.with_name(out.partial.name + TASKS_JOURNAL))
                seal(out, run.conversion, parts, sharded=self.shard_bytes is not None)
            _check_unchanged(states)
            out.facts |= {"dataformats": sys.modules["dataformats"].__version__, "omitted": run.n_omitted}
            if self.part is None:
                files, _ = out.complete()
                out.close()
                if shards:
                    shards[0].discard()
            else:
                files = [shard.file for shard in shards[0].found.values()]
                out.abort()  # the shards stay
        report = self._report(conversion, {**out.facts, "files": files})
        errors = tuple(message for _, message in run.failures[:_MAX_ERRORS])
        return replace(report, resumed=run.n_resumed, errors=errors)

    def preview(self, run: Run) -> ConvertReport:
        """Return what would be written, as far as that is known."""
        report = self._report(run.conversion, {"files": []})
        return replace(report, records=len(run.selection))

    def _plan(self, run: Run) -> dict[str, Any]:
        conversion = run.conversion
        facts = {
            "source": conversion.plan.source.fingerprint,
            "records": len(run.selection),
            **run.selection.facts,
            **self.arguments,
            "copied": conversion.plan.copied,
            "spec": None if conversion.plan.spec is None else conversion.plan.spec.to_json(),
            "options": dict(conversion.options),
            "codecs": sorted(conversion.codecs or ()),
            "shard_records": self.shard_records,
            "shard_bytes": self.shard_bytes,
        }
        given = {name: fact for name, fact in facts.items() if fact is not None and fact not in ({}, [])}
        plan: dict[str, Any] = json.loads(json.dumps(given, default=str))  # as it is read from a sidecar
        return plan

    def _published(self, schema: WriteSchema, plan: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the facts of the sidecar of data that an equal conversion has published; else `None`."""
        target = destination(self.path, self.storage_options)
        if not self.resume or (target.keeps_partial and target.partial.exists()):
            return None
        facts, is_sound = target.facts_of_data()
        metadata = {"format": schema.backend.name, **(schema.sidecar() or {}), "plan": plan}
        is_equal = facts is not None and {name: facts[name] for name in ENCODING if name in facts} == metadata
        if not (is_equal and is_sound):
            return None
        if isinstance(target, RemoteDestination):
            attempts_of(target, self.resume).clear()  # left by an error after the data were published
        return facts

    def _was_being_published(self, plan: Mapping[str, Any]) -> bool:
        """Return True if an equal conversion was interrupted while its objects got their final names."""
        if not self.resume or is_local(self.path):
            return False
        facts = destination(self.path, self.storage_options).facts_of_data()[0] or {}
        return bool(facts.get("incomplete")) and facts.get("plan") == plan

    def _report(self, conversion: Conversion, facts: Mapping[str, Any]) -> ConvertReport:
        return ConvertReport(
            str(self.path),
            conversion.format,
            conversion.schema.payload,
            sum(file["records"] for file in facts["files"]),
            conversion.plan.copied,
            0.0,
            files=len(facts["files"]),
            nbytes=sum(file["bytes"] for file in facts["files"]),
            omitted=facts.get("omitted", 0),
        )

    def _writer(self, schema: WriteSchema, plan: Mapping[str, Any], shards: list[CommittedShards]) -> DatasetWriter:
        """Return the writer; if tasks write its shards, they are added to the list."""

        def committed(schema: WriteSchema, target: Destination, resume: bool) -> CommittedShards:
            attempts = attempts_of(target, resume)
            attempts.begin({"format": schema.backend.name, **(schema.sidecar() or {}), "plan": plan}, resume)
            shards.append(CommittedShards(schema, target, attempts))
            if self.part is not None:
                target.share()
            return shards[0]

        by_records = self.shard_records is not None and self.shard_bytes is None
        return writer(
            self.path,
            schema,
            refuse,
            shard_records=self.shard_records,
            shard_bytes=self.shard_bytes,
            resume=self.resume,
            overwrite=self.overwrite or self._was_being_published(plan),
            storage_options=self.storage_options,
            plan=plan,
            make_output=committed if by_records else None,
            shared=self.part is not None,
        )


@contextmanager
def _kept_if_interrupted(out: DatasetWriter, resume: bool) -> Iterator[None]:
    """Abort a writer after an error; its partial data are kept, unless the records themselves caused the error."""
    try:
        yield
    except BaseException as error:
        out.resumable = out.resumable and (resume or not isinstance(error, DataFormatsError))
        out.abort()
        raise


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
