"""Two programs at one URL: the first waits before one of its requests until the second has ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dataformats.staging import redo_log
from tests.deep.remote.kills.calls import (
    ADDED,
    ALIKE,
    FEWER,
    MORE,
    NEW,
    OLD,
    Call,
    Place,
    convert_in_parts,
    convert_shards,
    create_file,
    create_shards,
)
from tests.deep.remote.kills.faults import Action, Fault
from tests.deep.remote.kills.programs import Ending, Program, look
from tests.deep.remote.kills.scenarios import Dataset
from tests.deep.remote.kills.stage import Stage, Violation, reader

_PATIENCE_S = 120.0
_Finals = dict[str, Sequence[Sequence[int]]]


@dataclass(frozen=True)
class Pair:
    """Two calls, and their allowed outcomes.

    Attributes:
        name: Its name.
        first: The call that waits.
        second: The call that runs meanwhile.
        finals: Maps the programs that succeed, such as "a", "b" or "ab", to the records that may be there then.
        dataset: The name of the data.
        before: Writes the old data.
        before_fault: The fault that `before` meets.
        reads: The records that a reading call may find.
        may_fail: The reader may get an error instead.
        may_leave: Objects may be left.
    """

    name: str
    first: Call
    second: Call
    finals: Mapping[str, Sequence[Sequence[int]]]
    dataset: str = "data"
    before: Call | None = None
    before_fault: Fault | None = None
    reads: Sequence[Sequence[int]] = ()
    may_fail: bool = False
    may_leave: bool = False


@dataclass
class PairRunner:
    """Plays pairs on a stage."""

    stage: Stage
    _before: dict[str, dict[str, bytes]] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def count(self, pair: Pair) -> int:
        """Return the number of requests that the first call makes if it is alone."""
        if pair.name not in self._counts:
            self._prepare(pair)
        return self._counts[pair.name]

    def _prepare(self, pair: Pair) -> None:
        stage = self.stage
        stage.reset({})
        if pair.before is not None:
            ending = stage.run("w", stage.call(pair.before), fault=pair.before_fault)
            if pair.before_fault is None:
                stage.must_return(ending)
        self._before[pair.name] = stage.server.objects()
        for call in (pair.first, pair.second):
            stage.reset(self._before[pair.name])
            stage.must_return(stage.run("w", stage.noting_modules(stage.call(call))))
            stage.import_modules()
            if call is pair.first:
                self._counts[pair.name] = len(stage.proxy.log("w"))

    def play(self, pair: Pair, first_at: int, second_at: int | None = None) -> list[Violation]:
        """Let the first program wait at a request, and return the broken promises.

        Args:
            pair: The programs.
            first_at: The request of the first program that waits until the second one has ended.
            second_at: The request of the second program that waits until the first one has ended; `None` for none.
        """
        self.count(pair)
        redo_log._PATIENCE_S = 3.0  # the first program lives, but on a busy machine its heartbeats come late
        stage = self.stage
        stage.reset(self._before[pair.name])
        a = stage.start("a", stage.call(pair.first), hold_at=first_at)
        self._run_until_held(a)
        b = stage.start("b", stage.call(pair.second), hold_at=second_at, machine="elsewhere")
        waits = not self._run_until_held(b)
        stage.proxy.release("a")
        endings = {"a": a.wait()}
        stage.proxy.release("b")
        endings["b"] = b.wait()
        stage.proxy.settle()
        broken = [Violation("wrong", "the second program waits for the first")] if waits else []
        return [*broken, *self._wrong_endings(pair, endings), *self._wrong_final(pair, endings)]

    def _run_until_held(self, program: Program) -> bool:
        """Return True once a program is held or has ended; False if neither happens."""
        return self.stage.proxy.wait_held(program.name, program.ended, _PATIENCE_S) or program.has_ended()

    def _wrong_endings(self, pair: Pair, endings: Mapping[str, Ending]) -> Iterator[Violation]:
        for name, ending in endings.items():
            if ending.end != "returned" and not ending.is_refusal:
                yield Violation("wrong", f"{name} {ending.end}: {ending.error[:300]}")
            found = ending.facts.get("read", [])
            if isinstance(found, str) and not pair.may_fail:
                yield Violation("blocked", f"the reader got {found[:300]}")
            if found and not isinstance(found, str) and found not in [list(allowed) for allowed in pair.reads]:
                yield Violation("torn", f"the reader found {str(found)[:300]}")

    def _wrong_final(self, pair: Pair, endings: Mapping[str, Ending]) -> Iterator[Violation]:
        writers = {name: ending for name, ending in endings.items() if "read" not in ending.facts}
        succeeded = "".join(name for name, ending in writers.items() if ending.end == "returned")
        if not succeeded:
            yield Violation("refused", f"no program succeeds: {endings['b'].error[:200]}")
            return
        ending = self.stage.run("r", reader([Dataset(pair.dataset, ())], verify=True))
        found = ending.facts["found"][0] if ending.end == "returned" else ending.error
        whole = [list(allowed) for finals in pair.finals.values() for allowed in finals]
        allowed = [list(one) for one in pair.finals.get(succeeded, ())]
        what = f"{' and '.join(succeeded)} succeed, and a reader finds {str(found)[:300]}"
        if found not in whole:
            yield Violation("lost" if isinstance(found, str) else "torn", what)
        elif found not in allowed:
            yield Violation("wrong", what)
        elif not pair.may_leave:
            yield from self.stage.unlisted_objects([Dataset(pair.dataset, ())])


def _read(name: str) -> Call:
    def call(place: Place) -> None:
        place.tell(read=look(place.base, [Dataset(name, ())])[0])

    return call


def _pairs() -> Iterator[Pair]:
    one_of: _Finals = {"a": [NEW], "b": [FEWER]}
    last_of: _Finals = {**one_of, "ab": [NEW, FEWER]}
    a, b = (create_file("data.tfrecord", "tfrecord", numbers) for numbers in (NEW, FEWER))
    yield Pair("create/tfrecord/file", a, b, one_of, "data.tfrecord")
    a, b = (create_file("data.tfrecord", "tfrecord", numbers, overwrite=True) for numbers in (NEW, FEWER))
    old = create_file("data.tfrecord", "tfrecord", OLD)
    yield Pair("replace/tfrecord/file", a, b, last_of, "data.tfrecord", old)
    for format in ("tfrecord", "ffrecord"):
        a, b = (create_shards("data", format, numbers) for numbers in (OLD, ALIKE))
        yield Pair(f"create/{format}/alike", a, b, {"a": [OLD], "b": [ALIKE]})
        a, b = (create_shards("data", format, numbers, overwrite=True) for numbers in (OLD, ALIKE))
        old = create_shards("data", format, NEW)
        yield Pair(f"replace/{format}/alike", a, b, {"a": [OLD], "b": [ALIKE], "ab": [OLD, ALIKE]}, before=old)
    for format in ("tfrecord", "granular"):
        old = create_shards("data", format, OLD)
        new, fewer = (create_shards("data", format, numbers) for numbers in (NEW, FEWER))
        yield Pair(f"create/{format}/shards", new, fewer, one_of)
        new, fewer = (create_shards("data", format, numbers, overwrite=True) for numbers in (NEW, FEWER))
        yield Pair(f"replace/{format}/shards", new, fewer, last_of, before=old)
        added, more = (create_shards("data", format, numbers, append=True) for numbers in (ADDED, MORE))
        both = [[*OLD, *ADDED, *MORE], [*OLD, *MORE, *ADDED]]
        yield Pair(f"append/{format}/shards", added, more, _ended(OLD, ADDED, MORE) | {"ab": both}, before=old)
        yield Pair(
            f"append-first/{format}/shards",
            added,
            more,
            _ended((), ADDED, MORE) | {"ab": [[*ADDED, *MORE], [*MORE, *ADDED]]},
        )
        mixed: _Finals = {"a": [[*OLD, *ADDED]], "b": [FEWER], "ab": [FEWER, [*FEWER, *ADDED]]}
        yield Pair(f"append-replace/{format}/shards", added, fewer, mixed, before=old)
        resume = create_shards("data", format, NEW, resume=True)
        killed = Fault(12, Action.KILL_AFTER)
        yield Pair(
            f"resume/{format}/shards", resume, resume, {"a": [NEW], "b": [NEW]}, before=resume, before_fault=killed
        )
        yield from _with_readers(format)
    a, b = convert_shards("data", "ffrecord"), convert_shards("data", "ffrecord", "fewer.tfrecord")
    yield Pair("convert/ffrecord/shards", a, b, one_of)
    part, parts = convert_shards("data", "ffrecord", part=(0, 2)), convert_in_parts("data", "ffrecord")
    whole: _Finals = {"ab": [NEW], "b": [NEW]}  # a part may run twice; the slower one may end after the commit
    yield Pair("convert-part/ffrecord/shards", part, parts, whole, may_leave=True)


def _ended(old: Sequence[int], a: Sequence[int], b: Sequence[int]) -> _Finals:
    return {"a": [[*old, *a]], "b": [[*old, *b]]}


def _with_readers(format: str) -> Iterator[Pair]:
    """Yield readers that wait while there is a writer, and writers that wait while there is a reader."""
    old, reads, both = create_shards("data", format, OLD), _read("data"), [*OLD, *ADDED]
    added = create_shards("data", format, ADDED, append=True)
    renames = format == "tfrecord"  # the names have the number of shards, and a reader may be late for the old ones
    seen: Sequence[Sequence[int]] = (OLD, both)
    yield Pair(f"read-append/{format}/shards", reads, added, {"b": [both]}, before=old, reads=seen, may_fail=renames)
    yield Pair(f"append-read/{format}/shards", added, reads, {"a": [both]}, before=old, reads=(OLD, both))
    fewer = create_shards("data", format, FEWER, overwrite=True)
    seen = (OLD, FEWER)
    yield Pair(f"read-replace/{format}/shards", reads, fewer, {"b": [FEWER]}, before=old, reads=seen, may_fail=True)
    yield Pair(f"replace-read/{format}/shards", fewer, reads, {"a": [FEWER]}, before=old, reads=seen, may_fail=True)


PAIRS = {pair.name: pair for pair in _pairs()}
