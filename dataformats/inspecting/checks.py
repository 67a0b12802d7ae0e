"""Check records, and compare them with a source, in workers too."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from dataformats.converting.executors import SentOnce, results
from dataformats.inspecting.comparison import LISTED, Compared, DatasetDiff, Part, SourceIndices
from dataformats.inspecting.finding import Finding
from dataformats.inspecting.record_profile import RecordProfile
from dataformats.interfaces.record_source import RecordSource
from dataformats.reading.file_source import FileSource
from dataformats.reading.scan import steps
from dataformats.storage.one_ahead import prefetch

_TASK_PARTS = 16  # parts of a few megabytes each


@dataclass(slots=True)
class _Read:
    """Some records that were checked.

    Attributes:
        part: Their numbers.
        findings: The errors.
        found: The sound ones, to be compared; `None` if they are not.
    """

    part: range
    findings: list[Finding]
    found: Part | None


@dataclass(slots=True)
class _Checked:
    """The findings in `n` records."""

    n: int
    findings: list[Finding]
    compared: Compared


@dataclass(frozen=True, eq=False)
class Checks(SentOnce):
    """The checks of all records.

    Attributes:
        source: The records.
        comparison: Compares them with a source; `None` compares nothing.
        profile: Gets the sound records, without an executor.
    """

    source: RecordSource
    comparison: DatasetDiff | None
    profile: RecordProfile | None = None

    def run(self, executor: Executor | None, differences: Counter[str]) -> Iterator[tuple[int, list[Finding]]]:
        """Yield numbers of records that are checked, with their findings, in order.

        Args:
            executor: Runs the checks; `None` runs them here, and reads records to compare one part ahead.
            differences: Counts the records that differ, by field. The first ones of each field are findings.
        """
        listed: Counter[str] = Counter()
        for checked in self._here(listed) if executor is None else self._in_tasks(executor):
            findings = checked.findings + checked.compared.findings
            for name, finding in checked.compared.differences:
                if listed[name] < LISTED:
                    listed[name] += 1
                    findings.append(finding)
            differences.update(checked.compared.counts)
            yield checked.n, findings

    def _here(self, before: Mapping[str, int]) -> Iterator[_Checked]:
        parts = map(self.read, steps(self.source))
        for read in parts if self.comparison is None else prefetch(parts):
            numbers = SourceIndices() if self.comparison is None else self.comparison.numbers
            yield self.compare(read, numbers, before)

    def _in_tasks(self, executor: Executor) -> Iterator[_Checked]:
        parts = steps(self.source)
        groups = iter(lambda: [*itertools.islice(parts, _TASK_PARTS)], [])
        tasks = (_Task(self, group, self._numbers(group)) for group in groups)
        for found in results(_run, tasks, executor, in_order=True):
            yield from found

    def _numbers(self, group: list[range]) -> SourceIndices:
        return (
            SourceIndices() if self.comparison is None else self.comparison.numbers.part(group[0].start, group[-1].stop)
        )

    def read(self, part: range) -> _Read:
        """Check some records; return the sound ones if they are compared."""
        source = self.source  # `check` also returns misfits to the spec
        batch = source.check(part) if isinstance(source, FileSource) else source.read(part, on_corrupt="omit")
        if self.profile is not None:
            self.profile.add(batch)
        wrong = batch.failed
        findings = [Finding.of(wrong[index], index) for index in sorted(wrong)]
        if self.comparison is None:
            return _Read(part, findings, None)
        return _Read(part, findings, self.comparison.read(np.setdiff1d(np.arange(part.start, part.stop), list(wrong))))

    def compare(self, read: _Read, numbers: SourceIndices, before: Mapping[str, int]) -> _Checked:
        """Compare records that `read` returned: see `DatasetDiff.compare`."""
        if self.comparison is None or read.found is None:
            return _Checked(len(read.part), read.findings, Compared())
        return _Checked(len(read.part), read.findings, self.comparison.compare(read.found, numbers, before))


@dataclass(frozen=True, slots=True)
class _Task:
    checks: Checks
    parts: list[range]
    numbers: SourceIndices


def _run(task: _Task) -> list[_Checked]:
    before: Counter[str] = Counter()
    found = []
    for part in task.parts:
        found.append(task.checks.compare(task.checks.read(part), task.numbers, before))
        before.update(found[-1].compared.counts)
    return found
