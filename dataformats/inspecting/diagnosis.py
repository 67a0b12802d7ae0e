"""Diagnose a dataset before a training run: is it sound, and what stands out in its records?"""

from __future__ import annotations

import functools
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dataformats.inspecting.finding import Finding
from dataformats.inspecting.record_profile import RecordProfile
from dataformats.inspecting.verification import Verification, VerifyReport
from dataformats.interfaces.record_source import RecordSource
from dataformats.reading.copied_records import copying_formats
from dataformats.spec import Spec
from dataformats.storage.remote.names import shown_url


def doctor(
    path: Any,
    *,
    progress: Callable[[int, int], None] | None = None,
    max_findings: int = 1000,
    **options: Any,
) -> VerifyReport:
    r"""Check a dataset before a training run: all that `verify` checks, and what stands out in sound records.

    Records are read once, and images are decoded, whatever their field is declared to be; videos and sounds are not.
    Memory is bounded. Findings about sound records, by kind:

    - `Missing`, `Empty`: few records lack a field or have no byte in it, or all lack it.
    - `DuplicateKey`, `Duplicate`: few records repeat a key (`id`, `key`, `filename`, ...), or any are equal but for it.
    - `BrokenImage`, `OddImage`: images do not decode; few have other channels, or a tenth of the usual size.
    - `TurnedImage`: EXIF says that images are turned, as phones write it; boxes may fit the turned ones.
    - `NotFinite`, `Outlier`, `Constant`: NaN and infinite numbers; a few values far from all others; one value in all.
    - `Imbalance`: a class has a hundred times as many records as another one.
    - `Timestamp`: few records do not come after the one before.
    - `ShortFile`, `MissingFile`: a file has less than a tenth of the records of the others; few numbers of files lack.
    - `Fact`: numbers are packed (`scale_factor`), chunks of Zarr are missing, a tar file has no end.

    Shares count from 100 records on; few are at most 5 %.

    Args:
        path: A path as in `open`, or a source.
        progress: Called with (records done, records in all); each counts twice if the spec is inferred.
        max_findings: The most findings, and the most groups of them, that the report holds; all are counted.
        **options: Arguments of `open`, if `path` is a path.

    Returns:
        The report, as `verify` returns it. `remedy` is a line for the shell that shows the records of a path.

    Raises:
        FileNotFoundError: There is no such file.
        SpecError: `spec=` does not parse.
        UnknownNameError: No such format, codec or field.

    Example:
        >>> import dataformats, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.jsonl"
        >>> _ = path.write_text("".join(f'{{"id": {i - i // 99}, "text": "number {i}"}}\n' for i in range(100)))
        >>> for finding in dataformats.doctor(path).findings:
        ...     print(f"{finding.kind}: {finding.message}")
        DuplicateKey: field 'id': 1 of 100 records repeat the key of another one: records 98, 99
    """
    command = functools.partial(_command, path, options)
    profile = functools.partial(RecordProfile, command=command)
    report = Verification(path, options, None, False, progress, max_findings, profile=profile).report()
    copies = report.format in copying_formats()
    to = ("repair", "sound") if copies else ("convert", "sound.tfrecord", "--on-corrupt", "omit")
    save = command(to[0], "--dry-run", after=to[1:])

    def with_line(finding: Finding) -> Finding:
        is_damage = finding.remedy is None and (finding.offset_bytes is not None or finding.index is not None)
        return replace(finding, remedy=save) if is_damage and report.records else finding

    groups = tuple(replace(group, example=with_line(group.example)) for group in report.groups)
    return replace(report, findings=tuple(map(with_line, report.findings)), groups=groups)


def _command(
    path: Any, options: Mapping[str, Any], name: str, *arguments: object, after: Sequence[str] = ()
) -> str | None:
    """Return a line for the shell about these data; `None` if they have no path, as a source."""
    paths = path if isinstance(path, list | tuple) else [path]
    if any(isinstance(one, (RecordSource, bytes, bytearray, memoryview)) for one in paths):
        return None
    words = ["dataformats", name, *map(shown_url, paths), *after, *map(str, arguments)]
    for option, value in options.items():
        if option == "spec":
            words += [f"--spec={field}={kind}" for field, kind in Spec(value).to_text().items()]
        elif option in ("format", "payload"):
            words += [f"--{option}={value}"]
        elif isinstance(value, (str, int, float)):
            words += ["--option", f"{option}={value if isinstance(value, str) else json.dumps(value)}"]
    return shlex.join(words)
