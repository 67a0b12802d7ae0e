"""The jobs that lose power: programs that write data and are started again after a crash, with the same calls.

All of them do the same operations in every run, except `granular-3/convert-workers`, whose processes run side by side.
"""

from __future__ import annotations

import functools
import itertools
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

import dataformats
from dataformats.interfaces import SupportsRepair
from dataformats.registry import backends
from dataformats.testing import FormatCase
from dataformats.testing.records import blob, plain_record
from tests.cases import FORMATS
from tests.deep.durability.faults.scenarios import SCENARIOS, Contents, Scenario

N_OLD, N = 6, 13
N_SAFE = (3, 8, 11)  # how many records there are when `flush(sync=True)` is called
N_FLUSHED = (2, 5, 7, 10, 12)  # calls `flush()`, which writes them without a sync
SHARD_RECORDS = 4
FIRST_OTHER = 100
SPEC = {"id": "int32", "data": "bytes", "grid": "uint8[2,2]"}


@dataclass(frozen=True)
class Place:
    """The folders of a job.

    Attributes:
        data: The folder of the data that it writes.
        source: The folder of the data that it reads.
    """

    data: Path
    source: Path


@dataclass(frozen=True)
class Notes:
    """Reports of a job.

    Attributes:
        began: Is called with the number of records that a writer begins with.
        promised: Is called with the number of records that `flush(sync=True)` has synced.
    """

    began: Callable[[int], object]
    promised: Callable[[int], None]


@dataclass(frozen=True)
class Target:
    """A dataset that a job writes.

    Attributes:
        name: Its path in the folder of the data.
        new: Its records at the end.
        old: Its records before, if it exists.
        growth: The data that appear under the name before the end: `"none"`, whole `"rows"`, or whole `"shards"`.
        finished: Maps a call to the records that have been there since it returned.
        may_be_missing: True if the old data may be aside for a moment: a bag has two files.
    """

    name: str
    new: Contents
    old: Contents | None = None
    growth: Literal["none", "rows", "shards"] = "none"
    finished: Mapping[int, Sequence[int]] = field(default_factory=dict)
    may_be_missing: bool = False


Call = Callable[[Place, Notes], None]


@dataclass(frozen=True)
class Job:
    """Calls one after the other; the last one completes the data.

    Attributes:
        group: Its row of the table.
        name: Its name.
        targets: The datasets that it writes.
        prepare: Writes the old data.
        calls: Its calls. After a crash it begins again with the interrupted call.
        resumes: True if it keeps synced records after a crash.
        extends: True if it appends to the old data.
        replaces: True if it replaces any data under the name, also its own complete data.
    """

    group: str
    name: str
    targets: tuple[Target, ...]
    prepare: Callable[[Place], None]
    calls: tuple[Call, ...]
    resumes: bool = False
    extends: bool = False
    replaces: bool = False


# ---- records


def contents(case: FormatCase, n: int = N, first: int = 0) -> Contents:
    """Return records of a spec of its own; some of them fill several blocks of a disk."""
    if case.spec is not None:
        return Contents({"spec": case.spec}, lambda i: plain_record(case, i), first, n)
    if case.documents:
        return Contents({"payload": case.payload}, lambda i: plain_record(case, i), first, n)
    spec = SPEC | {"data": "utf8"} if "bytes" in case.refuses else SPEC

    def record(i: int) -> dict[str, Any]:
        data = blob(i, 40) * (150 if i % 4 == 2 else 1) or b"."
        grid = (np.arange(4) * i % 256).astype(np.uint8).reshape(2, 2)
        return {"id": i - 3, "data": data.hex() if spec["data"] == "utf8" else data, "grid": grid}

    return Contents({"spec": spec}, record, first, n)


def write(path: Path, case: FormatCase, held: Contents, **options: Any) -> None:
    """Write records as finished data."""
    with dataformats.create(path, case.format, **held.arguments, **case.create_options, **options) as writer:
        writer.extend(held.records())


# ---- jobs of the scenarios


_GROUP_OF_MODE = {
    **dict.fromkeys(("new", "new-shards", "anew", "anew-shards"), "create"),
    **dict.fromkeys(("resume", "resume-shards", "resumed", "resumed-shards"), "create resume"),
    **dict.fromkeys(("replace", "replace-shards", "replace-by-shards", "replace-shards-by-shards"), "replace"),
    "replace-resume": "replace",
    "grow": "append in place",
    "convert": "convert single",
    "convert-replace": "convert single",
    "convert-shards": "convert shards",
}


def _jobs_of_scenarios() -> Iterator[Job]:
    for scenario in SCENARIOS.values():
        if scenario.mode.name in _GROUP_OF_MODE:
            yield _job_of(scenario)


def _job_of(scenario: Scenario) -> Job:
    def call(place: Place, notes: Notes) -> None:
        begins = True

        def promise(n: int) -> None:
            nonlocal begins
            notes.began(n) if begins else notes.promised(n)
            begins = False

        scenario.write(place.data, promise)

    has_old = scenario.mode.old in ("one", "shards", "front")
    target = Target(
        str(scenario.path(Path())),
        scenario.new,
        scenario.old if has_old else None,
        "rows" if scenario.grows else "none",
        may_be_missing=scenario.replaces_two_files,
    )
    group = _GROUP_OF_MODE[scenario.mode.name]
    return Job(
        group,
        scenario.name.replace("/fields/", "/"),
        (target,),
        lambda place: scenario.prepare(place.data),
        (call,),
        scenario.resumes,
        scenario.grows,
        scenario.overwrites,
    )


# ---- append, and several writers of one folder


def _appends(case: FormatCase) -> Iterator[Job]:
    shards = {"shard_records": SHARD_RECORDS}
    is_file = case.name in ("tfrecord", "ofrecord")
    for resume, n_old in itertools.product((False, True), (0, N_OLD)):
        if is_file or case.grows:
            yield _append(case, "append file" if is_file else "append in place", resume, n_old, {})
        yield _append(case, "append shards", resume, n_old, shards)


def _append(case: FormatCase, group: str, resume: bool, n_old: int, shards: Mapping[str, int]) -> Job:
    old, new = contents(case, n_old) if n_old else None, contents(case)
    name = "data" if shards else f"data{case.suffix}"

    def prepare(place: Place) -> None:
        if old is not None:
            write(place.data / name, case, old, **shards)

    def call(place: Place, notes: Notes) -> None:
        options = {**new.arguments, **case.create_options, **shards}
        with dataformats.create(place.data / name, case.format, append=True, resume=resume, **options) as writer:
            fill(writer, new.records(), notes, case)

    grows = group == "append in place" and old is not None
    return Job(
        group,
        f"{case.name}/append{'-first' * (not n_old)}{'-resume' * resume}{'-shards' * bool(shards)}",
        (Target(name, new, old, "rows" if grows else "none"),),
        prepare,
        (call,),
        resume or grows,
        extends=True,
    )


def fill(writer: dataformats.RecordWriter | Any, records: Sequence[Any], notes: Notes, case: FormatCase) -> None:
    """Append the records that a writer lacks; a format that does not survive a kill promises none of them."""
    notes.began(len(writer))
    for i, record in enumerate(records[len(writer) :], len(writer) + 1):
        writer.append(record)
        if i in N_SAFE:
            writer.flush(sync=True)
            notes.promised(i if case.survives_kill else 0)
        elif i in N_FLUSHED:
            writer.flush()


def _shared_folder(case: FormatCase) -> Job:
    """Two writers fill a folder, then it is completed."""
    new = contents(case)
    own = [[i for i in range(N) if i // SHARD_RECORDS % 2 == number] for number in range(2)]

    def one(number: int, place: Place, notes: Notes) -> None:
        options = {**new.arguments, **case.create_options, "shard_records": SHARD_RECORDS, "resume": True}
        with dataformats.create(
            place.data / "data", case.format, shard_start=number, shard_step=2, **options
        ) as writer:
            fill(writer, [new.record(i) for i in own[number]], notes, case)

    def complete(place: Place, notes: Notes) -> None:
        options = {**new.arguments, **case.create_options}
        dataformats.create(place.data / "data", case.format, append=True, **options).close()

    target = Target("data", new, None, "shards", {0: own[0], 1: range(N)})
    calls = (functools.partial(one, 0), functools.partial(one, 1), complete)
    return Job("shard_start", f"{case.name}/shard_start", (target,), _nothing, calls, resumes=True)


def _nothing(place: Place) -> None:
    pass


# ---- conversions


class ForkExecutor(Executor):
    """Runs each task in a fork of this process, one after the other: so its operations have an order."""

    _max_workers = 2

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                answer = pickle.dumps((function(*arguments, **options), None))
            except BaseException as error:
                answer = pickle.dumps((None, error))
            with open(writing, "wb") as file:
                file.write(answer)
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as file:
            answer = file.read()
        os.waitpid(child, 0)
        future: Future[Any] = Future()
        result, failure = pickle.loads(answer)
        future.set_exception(failure) if failure is not None else future.set_result(result)
        return future


def _conversions(case: FormatCase) -> Iterator[Job]:
    shards: dict[str, Any] = {"shard_records": SHARD_RECORDS}
    for resume in (False, True):
        ending = "-resume" * resume
        if resume:
            yield _conversion(case, "convert single", f"convert{ending}", {"resume": True})
            yield _conversion(case, "convert shards", f"convert-shards{ending}", shards | {"resume": True})
        yield _conversion(case, "convert shards", f"convert-bytes{ending}", {"shard_bytes": 700, "resume": resume})
        executor = {"executor": ForkExecutor()}
        yield _conversion(case, "convert workers", f"convert-executor{ending}", shards | executor | {"resume": resume})
    yield _conversion(
        case, "convert shards", "convert-replace-shards", shards | {"overwrite": True}, contents(case, 5, FIRST_OTHER)
    )
    if case.grows:  # one is enough: it starts an interpreter in each case, and no two runs are the same
        yield _conversion(case, "convert workers", "convert-workers", shards | {"workers": 2, "resume": True})


def _conversion(
    case: FormatCase, group: str, name: str, options: Mapping[str, Any], old: Contents | None = None
) -> Job:
    new = contents(case)
    target = Target("data" if _is_sharded(options) else f"data{case.suffix}", new, old)
    prepare = _before(case, target, old) if old is not None else _source_alone(case)

    def call(place: Place, notes: Notes) -> None:
        _convert(place, case, target, **options)

    return Job(group, f"{case.name}/{name}", (target,), prepare, (call,), bool(options.get("resume")))


def _is_sharded(options: Mapping[str, Any]) -> bool:
    return any(name in options for name in ("shard_records", "shard_bytes", "shards"))


def _convert(place: Place, case: FormatCase, target: Target, **options: Any) -> None:
    source, given = place.source / "source", {**target.new.arguments, **case.create_options, **options}
    dataformats.convert(source, place.data / target.name, case.format, **given)


def _source_alone(case: FormatCase) -> Callable[[Place], None]:
    other = _BY_NAME["tfrecord" if case.format == "ffrecord" else "ffrecord"]

    def prepare(place: Place) -> None:
        write(place.source / "source", other, contents(case))

    return prepare


def _before(case: FormatCase, target: Target, old: Contents) -> Callable[[Place], None]:
    def prepare(place: Place) -> None:
        _source_alone(case)(place)
        write(place.data / target.name, case, old, **({} if target.name != "data" else {"shard_records": 3}))

    return prepare


def _parts(case: FormatCase) -> Job:
    """Two parts of a conversion, then their commit."""
    target = Target("data", contents(case))

    def one(options: Mapping[str, Any], place: Place, notes: Notes) -> None:
        _convert(place, case, target, shard_records=3, **options)

    steps: list[dict[str, Any]] = [{"part": (0, 2)}, {"part": (1, 2)}, {"publish_parts": True}]
    calls = tuple(functools.partial(one, options) for options in steps)
    return Job("parts", f"{case.name}/parts", (target,), _source_alone(case), calls, resumes=True)


# ---- copies


def _merges(case: FormatCase) -> Iterator[Job]:
    new, shards = contents(case), {"shards": 3}
    names = [f"a{case.suffix}", f"b{case.suffix}"]

    def prepare(place: Place, name: str, old: Contents | None) -> None:
        for part, at, n in zip(names, (0, 7), (7, N - 7), strict=True):
            write(place.source / part, case, contents(case, n, at))
        if old is not None:
            write(place.data / name, case, old, **({"shard_records": 3} if name == "data" else {}))

    def call(name: str, options: Mapping[str, Any], place: Place, notes: Notes) -> None:
        dataformats.merge([place.source / part for part in names], place.data / name, **options)

    for ending, options in (("", {}), ("-shards", shards)):
        for old in (None, contents(case, 5, FIRST_OTHER)):
            given = {**options, **({} if old is None else {"overwrite": True})}
            name = "data" if options else f"data{case.suffix}"
            yield Job(
                "merge",
                f"{case.name}/merge{ending}{'-replace' * (old is not None)}",
                (Target(name, new, old),),
                functools.partial(prepare, name=name, old=old),
                (functools.partial(call, name, given),),
            )


def _splits(case: FormatCase) -> Iterator[Job]:
    new = contents(case)
    source = f"source{case.suffix}"

    def prepare(place: Place) -> None:
        write(place.source / source, case, new)

    def shards(options: Mapping[str, Any], place: Place, notes: Notes) -> None:
        dataformats.split(place.source / source, place.data / "data", **options)

    def divide(place: Place, notes: Notes) -> None:
        paths = [place.data / name for name in both]
        dataformats.split(place.source / source, paths[0], where=[i % 3 == 0 for i in range(N)], rest_path=paths[1])

    for name, options in (("split-shards", {"shards": 3}), ("split-shard-records", {"shard_records": 5})):
        yield Job(
            "split", f"{case.name}/{name}", (Target("data", new),), prepare, (functools.partial(shards, options),)
        )
    both = [f"data{case.suffix}", f"rest{case.suffix}"]
    kept = [[i for i in range(N) if (i % 3 == 0) == is_true] for is_true in (True, False)]
    targets = tuple(Target(name, _chosen(new, found)) for name, found in zip(both, kept, strict=True))
    yield Job("split", f"{case.name}/split-where", targets, prepare, (divide,))


def _repairs(case: FormatCase) -> Iterator[Job]:
    for name, options in (("repair", {}), ("repair-shards", {"shard_records": SHARD_RECORDS})):
        for old in (None, contents(case, 5, FIRST_OTHER)):
            yield _repair(case, name, options, old)


def _repair(case: FormatCase, name: str, options: Mapping[str, Any], old: Contents | None) -> Job:
    """Repair a copy: it loses the changed record of a TFRecord, and nothing of other formats."""
    loses = case.name == "tfrecord" and not options
    new = contents(case, N - 1 if loses else N)
    where = "data" if options else f"data{case.suffix}"
    source = "source" if options else f"source{case.suffix}"

    def prepare(place: Place) -> None:
        write(place.source / source, case, contents(case), **options)
        if loses:
            damaged = bytearray((place.source / source).read_bytes())
            damaged[-1] ^= 1
            (place.source / source).write_bytes(damaged)
        if old is not None:
            write(place.data / where, case, old, **options)

    def call(place: Place, notes: Notes) -> None:
        dataformats.repair(place.source / source, place.data / where, overwrite=old is not None)

    ending = "-replace" * (old is not None)
    return Job("repair", f"{case.name}/{name}{ending}", (Target(where, new, old),), prepare, (call,))


def _chosen(held: Contents, numbers: Sequence[int]) -> Contents:
    return replace(held, record=lambda i: held.record(numbers[i]), n=len(numbers))


# ---- all of them


_BY_NAME = {case.name: case for case in FORMATS}
_CASES = [case for case in FORMATS if case.name != "tfrecord-zlib"]


def _jobs() -> Iterator[Job]:
    yield from _jobs_of_scenarios()
    for case in _CASES:
        jobs = itertools.chain(
            _appends(case),
            [_shared_folder(case), _parts(case)],
            _conversions(case),
            _merges(case),
            _splits(case),
            _repairs(case) if isinstance(backends.get(case.format), SupportsRepair) else (),
        )
        yield from jobs if not case.beside else filter(None, map(_of_pair, jobs))


def _of_pair(job: Job) -> Job | None:
    """Return the job of a format whose files have another one beside them; `None` if it writes shards.

    The two are renamed one after the other: if they replace a pair, a crash in between leaves none that fits.
    """
    if any(target.name == "data" for target in job.targets):
        return None
    return replace(job, targets=tuple(replace(one, may_be_missing=one.old is not None) for one in job.targets))


JOBS = {job.name: job for job in _jobs()}
GROUPS = (
    *("create", "create resume", "replace", "append shards", "append file", "append in place", "shard_start"),
    *("convert single", "convert shards", "convert workers", "parts", "merge", "split", "repair"),
)
