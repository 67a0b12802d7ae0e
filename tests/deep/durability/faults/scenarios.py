"""The writers that meet faults: the folder before, the written data, and the allowed files afterwards."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

import dataformats
from dataformats.testing import FormatCase
from dataformats.testing.records import blob, is_same_value, plain_record
from dataformats.writing.dataset_writer import DatasetWriter
from tests.cases import FORMATS, TABLES

N = 10
N_SAFE = (3, 7)  # how many records are appended when `flush(sync=True)` is called
SHARD_RECORDS = 4
FIRST_OLD = 100


@dataclass(frozen=True)
class Contents:
    """Records by a formula, with the arguments of `create`. The data alone would not show any of it."""

    arguments: Mapping[str, Any]
    record: Callable[[int], Any]
    first: int = 0
    n: int = N

    def records(self) -> list[Any]:
        return [self.record(i) for i in range(self.first, self.first + self.n)]

    def is_in(self, source: dataformats.RecordSource, found: list[Any]) -> bool:
        """True if a source has these records, under their own spec and payload."""
        declared = all(self._same_argument(source, name, value) for name, value in self.arguments.items())
        return declared and is_same_value(found, self.records())

    @staticmethod
    def _same_argument(source: dataformats.RecordSource, name: str, value: Any) -> bool:
        return bool(getattr(source, name) == (dataformats.Spec(value) if name == "spec" else value))


@dataclass(frozen=True)
class Mode:
    """A way of writing.

    Attributes:
        name: Its name.
        old: The data under the name before: a file (or folder) of the format, several shards, the partial data of an
            interrupted writer, or the front of the same data, which then grow in place.
        shards: Write several shards.
        options: Arguments of `create`.
        by: The function that writes. `"retry"` is `create`, and a flush that fails is called again.
    """

    name: str
    old: Literal["nothing", "one", "shards", "partial", "front"] = "nothing"
    shards: bool = False
    options: tuple[str, ...] = ()
    by: Literal["create", "retry", "convert"] = "create"


MODES = (
    Mode("new"),
    Mode("new-shards", shards=True),
    Mode("anew", old="partial"),
    Mode("anew-shards", old="partial", shards=True),
    Mode("resume", options=("resume",)),
    Mode("resume-shards", shards=True, options=("resume",)),
    Mode("resumed", old="partial", options=("resume",)),
    Mode("resumed-shards", old="partial", shards=True, options=("resume",)),
    Mode("retry", options=("resume",), by="retry"),
    Mode("retry-shards", shards=True, options=("resume",), by="retry"),
    Mode("replace", old="one", options=("overwrite",)),
    Mode("replace-shards", old="shards", options=("overwrite",)),
    Mode("replace-by-shards", old="one", shards=True, options=("overwrite",)),
    Mode("replace-shards-by-shards", old="shards", shards=True, options=("overwrite",)),
    Mode("replace-resume", old="one", options=("overwrite", "resume")),
    Mode("grow", old="front", options=("resume",)),
    Mode("convert", by="convert"),
    Mode("convert-shards", shards=True, by="convert"),
    Mode("convert-replace", old="one", options=("overwrite",), by="convert"),
)


@dataclass(frozen=True)
class Scenario:
    """One format, written in one way.

    Attributes:
        case: The format.
        mode: The way.
        new: The records to write.
        old: The records that have the name before, if any have.
        options: Options of the format.
        kind: The kind of records, for the name.
    """

    case: FormatCase
    mode: Mode
    new: Contents
    old: Contents
    options: Mapping[str, Any]
    kind: str

    @property
    def name(self) -> str:
        return f"{self.case.name}/{self.kind}/{self.mode.name}"

    @property
    def resumes(self) -> bool:
        return "resume" in self.mode.options

    @property
    def overwrites(self) -> bool:
        return "overwrite" in self.mode.options

    @property
    def replaces_two_files(self) -> bool:
        """True for a file that is replaced with the file beside it, such as a bag of generation 3 with its index."""
        return (self.case.name == "bag-3" or bool(self.case.beside)) and self.overwrites

    @property
    def grows(self) -> bool:
        return self.mode.old == "front"

    def path(self, folder: Path) -> Path:
        """Return the final name of the data."""
        any_name = self.case.suffix != ".bag" and (self.mode.shards or self.mode.old == "shards")
        return folder / ("data" if any_name else "data" + self.case.suffix)

    def prepare(self, folder: Path) -> None:
        """Write the data that the folder has before."""
        if self.mode.by == "convert":
            self._write(self.source(folder), self.new, "ffrecord" if self.case.format != "ffrecord" else "tfrecord")
        path = self.path(folder)
        match self.mode.old:
            case "one" | "front":
                self._write(path, self.old, **self.options)
            case "shards":
                self._write(path, self.old, **self.options, shard_records=SHARD_RECORDS)
            case "partial":
                self._interrupted(path)
            case "nothing":
                pass

    def write(self, folder: Path, promise: Callable[[int], None], **options: bool) -> None:
        """Write the new records; `promise` receives how many of them a sync has confirmed."""
        path = self.path(folder)
        chosen = {**dict.fromkeys(self.mode.options, True), **options, **self.options, **self._shards()}
        if self.mode.by == "convert":
            dataformats.convert(self.source(folder), path, self.case.format, **self.new.arguments, **chosen)
            return
        with dataformats.create(path, self.case.format, **self.new.arguments, **chosen) as writer:
            promise(len(writer))
            for i, record in enumerate(self.new.records()[len(writer) :], len(writer) + 1):
                writer.append(record)
                if i in N_SAFE:
                    self._flush(writer)
                    promise(self._safe(i))

    def source(self, folder: Path) -> Path:
        """Return where a conversion reads from: beside the folder, where no fault happens."""
        return folder.with_name("source")

    def _safe(self, n: int) -> int:
        """Return how many of `n` synced records survive: a file of a table is complete, or begins anew."""
        if self.case.survives_kill:
            return n
        return n - n % SHARD_RECORDS if self.mode.shards else 0

    def _flush(self, writer: DatasetWriter) -> None:
        try:
            writer.flush(sync=True)
        except OSError:
            if self.mode.by != "retry":
                raise
            writer.flush(sync=True)

    def _shards(self) -> dict[str, int]:
        return {"shard_records": SHARD_RECORDS} if self.mode.shards else {}

    def _write(self, path: Path, contents: Contents, format: str | None = None, **options: Any) -> None:
        with dataformats.create(path, format or self.case.format, **contents.arguments, **options) as writer:
            writer.extend(contents.records())

    def _interrupted(self, path: Path) -> None:
        options = {**self.options, **self._shards(), **self.new.arguments}
        writer = dataformats.create(path, self.case.format, resume=True, **options)
        writer.extend(self.new.records()[:6])
        writer.flush(sync=True)
        writer.abort()


# ---- records


def _field_contents(case: FormatCase) -> tuple[Contents, Contents]:
    if case.spec is not None:
        fixed = Contents({"spec": case.spec}, lambda i: plain_record(case, i))
        return fixed, replace(fixed, first=FIRST_OLD)
    text = "utf8" if "bytes" in case.refuses else "bytes"
    new, old = (
        {"spec": {"id": "int32", "data": text, "grid": "uint8[2,2]"}},
        {"spec": {"id": "int64", "data": text, "grid": "uint8[4]"}},
    )

    def record(i: int, shape: tuple[int, ...]) -> dict[str, Any]:
        data = blob(i, 40) or b"."
        grid = (np.arange(4) * i % 256).astype(np.uint8).reshape(shape)
        return {"id": i - 3, "data": data.hex() if text == "utf8" else data, "grid": grid}

    return Contents(new, lambda i: record(i, (2, 2))), Contents(old, lambda i: record(i, (4,)), FIRST_OLD)


def _value_contents(case: FormatCase) -> tuple[Contents, Contents]:
    def document(i: int) -> Any:
        return {"n": i, "list": [None, "é" * (i % 4)]}

    new = "json" if "bytes" in case.refuses or case.documents else "msgpack"
    return Contents({"payload": new}, document), Contents({"payload": "json"}, document, FIRST_OLD)


# ---- all of them


BAGS = [
    FormatCase("bag-3", "granular", ".bag", create_options={"generation": 3}, payload="bytes"),
    FormatCase("bag-2", "granular", ".bag", create_options={"generation": 2}, payload="bytes"),
]
_KNOWN_COUNT = FormatCase("ffrecord-known", "ffrecord", ".ffr", create_options={"records": N})


def _scenarios() -> list[Scenario]:
    fields = [(case, "fields") for case in (*FORMATS, *TABLES, _KNOWN_COUNT) if not case.documents]
    values = [(case, "values") for case in (*FORMATS, *BAGS) if case.blobs]
    chosen = [case for case in itertools.product([*fields, *values], MODES) if _is_possible(*case)]
    return [_scenario(case, kind, mode) for (case, kind), mode in chosen]


def _is_possible(case_and_kind: tuple[FormatCase, str], mode: Mode) -> bool:
    case, kind = case_and_kind
    sharded = mode.shards or mode.old == "shards"
    if mode.old == "front":
        return case.grows
    if sharded and (case.suffix == ".bag" or case.beside or case is _KNOWN_COUNT):
        return False  # a bag is one file, as is one with another beside it, and the count covers the whole dataset
    # How values are encoded is independent of how files appear: a few ways suffice if the format has fields, too.
    return kind == "fields" or case.suffix == ".bag" or case.documents or mode.name in ("new", "resumed", "replace")


def _scenario(case: FormatCase, kind: str, mode: Mode) -> Scenario:
    new, old = _field_contents(case) if kind == "fields" else _value_contents(case)
    if mode.old == "front":
        old = Contents(new.arguments, new.record, n=6)
    return Scenario(case, mode, new, old, case.create_options, kind)


SCENARIOS = {scenario.name: scenario for scenario in _scenarios()}
