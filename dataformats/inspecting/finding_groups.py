"""Collect findings in bounded memory: all are counted, the first ones are kept, and equal ones are one group."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dataformats.inspecting.finding import Finding

if TYPE_CHECKING:
    from dataformats.inspecting.verification import VerifyReport

__all__ = ["FindingGroup"]

_PLACES = 10
_COMPARED_CHARACTERS = 500
_QUOTED = r"(?<!\w)b?(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_NUMBER = r"0x[0-9a-f]+|(?<![A-Za-z0-9_])\d+(?:\.\d+)?"
_VARYING = re.compile(f"{_QUOTED}|{_NUMBER}")

_Key = tuple[str, str | None, str]


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings of one kind and field whose messages differ only in places, numbers and quoted text.

    Attributes:
        kind: The name of the error class.
        field: The field; `None` if the findings are not of one.
        count: The number of findings.
        indices: The first ten records, in the order of the findings.
        paths: The first ten files.
        example: The first finding.

    Example:
        >>> import dataformats
        >>> report = dataformats.verify("tests/golden/real/photos.tfrecord", spec={"width": "utf8"})
        >>> [(group.kind, group.field, group.count, group.indices[:3]) for group in report.groups]
        [('SpecError', 'width', 12, (0, 1, 2))]
    """

    kind: str
    field: str | None
    count: int
    indices: tuple[int, ...]
    paths: tuple[str, ...]
    example: Finding

    def joined(self, other: FindingGroup) -> FindingGroup:
        """Return this group with the findings of another one."""
        return replace(
            self,
            count=self.count + other.count,
            indices=(self.indices + other.indices)[:_PLACES],
            paths=tuple(dict.fromkeys(self.paths + other.paths))[:_PLACES],
        )


class Findings:
    """Findings as they are found.

    Args:
        limit: The most findings, and the most groups, that are kept.

    Attributes:
        n_findings: The number of all findings.
        findings: The first ones.

    Raises:
        ValueError: The limit is not positive.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"expected max_findings of at least 1, found {limit}")
        self.n_findings: int = 0
        self.findings: list[Finding] = []
        self._limit = limit
        self._groups: dict[_Key, FindingGroup] = {}

    @property
    def groups(self) -> tuple[FindingGroup, ...]:
        """The groups, in the order of their first findings."""
        return tuple(self._groups.values())

    def add(self, findings: Iterable[Finding]) -> None:
        """Count these findings, and keep what is within the limit."""
        for finding in findings:
            self.findings += [finding] if len(self.findings) < self._limit else []
            self.n_findings += 1
            self._join(_group_of(finding))

    def add_all(self, other: Findings | VerifyReport) -> None:
        """Count findings that were collected elsewhere."""
        self.n_findings += other.n_findings
        self.findings = [*self.findings, *other.findings][: self._limit]
        for group in other.groups:
            self._join(group)

    def _join(self, group: FindingGroup) -> None:
        key = _key(group.example)
        if key in self._groups:
            self._groups[key] = self._groups[key].joined(group)
        elif len(self._groups) < self._limit:
            self._groups[key] = group


def _group_of(finding: Finding) -> FindingGroup:
    indices = () if finding.index is None else (finding.index,)
    paths = () if finding.path is None else (finding.path,)
    return FindingGroup(finding.kind, finding.field, 1, indices, paths, finding)


def _key(finding: Finding) -> _Key:
    message = finding.message[:_COMPARED_CHARACTERS]
    if finding.kind == "Difference":  # few are listed, each with its values
        return finding.kind, finding.field, message
    return finding.kind, finding.field, _VARYING.sub("*", message)
