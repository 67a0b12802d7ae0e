"""The data before, the call that meets the fault, and the data that must be there afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.deep.remote.kills.calls import (
    ADDED,
    ALIKE,
    FEWER,
    LOST,
    MORE,
    NEW,
    OLD,
    SHARD_RECORDS,
    Call,
    convert_file,
    convert_in_parts,
    convert_in_pool,
    convert_shards,
    create_file,
    create_shards,
    is_even,
    merge,
    repair,
    split,
)

FORMATS = {"tfrecord": ".tfrecord", "ffrecord": ".ffr", "ofrecord": ".ofrecord", "syrah": ".syr", "granular": ""}


@dataclass(frozen=True)
class Dataset:
    """A dataset that a call writes.

    Attributes:
        name: Its name.
        new: The numbers of its records.
        old: The numbers before the call; `None` if there is no data.
        more: The numbers that another call adds after the fault.
    """

    name: str
    new: Sequence[int]
    old: Sequence[int] | None = None
    more: Sequence[int] | None = None

    def label(self, found: Sequence[int] | str) -> str:
        """Return "old", "new", "other" (the other call added), "twice" (both did), "nothing", "error", or "torn"."""
        if isinstance(found, str):
            return "nothing" if found == "nothing" else "error"
        old, new = list(self.old or ()), list(self.new)
        more = new[len(old) :] if self.more is None else list(self.more)
        known = {"new": new, "other": old + more, "twice": new + more}
        if self.old is not None:
            known = {"old": old} | known
        return next((label for label, value in known.items() if value == list(found)), "torn")


@dataclass(frozen=True)
class Scenario:
    """A call, and its promises.

    Attributes:
        name: Its name.
        call: The call.
        datasets: The datasets that it writes.
        before: Writes the old data.
        again: Runs after the fault; `None`: the same call.
        grows: The old data are readable at every moment, and each call adds records.
        adds: A second call adds the records a second time.
        resumes: The call begins with the records that arrived.
    """

    name: str
    call: Call
    datasets: tuple[Dataset, ...]
    before: Call | None = None
    again: Call | None = None
    grows: bool = False
    adds: bool = False
    resumes: bool = False

    @property
    def replaces_other(self) -> bool:
        """True if the first call writes the old data, and the second one the new."""
        return self.again is not None and not self.adds


def _scenarios() -> Iterator[Scenario]:
    yield from _created()
    yield from _appended()
    yield from _converted()
    yield from _copied()


def _created() -> Iterator[Scenario]:
    new = (Dataset("data", NEW),)
    for format in ("tfrecord", "syrah", "granular"):
        file = "data" + FORMATS[format]
        yield Scenario(f"create/{format}/file", create_file(file, format, NEW), (Dataset(file, NEW),))
    for format in FORMATS:
        yield Scenario(f"create/{format}/shards", create_shards("data", format, NEW), new)
        resumed = create_shards("data", format, NEW, resume=True)
        yield Scenario(f"create-resume/{format}/shards", resumed, new, resumes=True)
    for format, numbers in (("tfrecord", FEWER), ("granular", FEWER), ("tfrecord", ALIKE)):
        name = f"{format}/{'alike' if numbers is ALIKE else 'shards'}"
        first, other = create_shards("data", format, OLD), create_shards("data", format, numbers)
        data = (Dataset("data", numbers, OLD),)
        yield Scenario(f"create-after-other/{name}", first, data, again=other)
        replace = create_shards("data", format, numbers, overwrite=True)
        yield Scenario(f"replace/{name}", replace, data, first)
        replace = create_shards("data", format, numbers, overwrite=True, resume=True)
        yield Scenario(f"replace-resume/{name}", replace, data, first, resumes=True)
    replaced = (Dataset("data.tfrecord", FEWER, OLD),)
    replace = create_file("data.tfrecord", "tfrecord", FEWER, overwrite=True)
    old = create_file("data.tfrecord", "tfrecord", OLD)
    yield Scenario("replace/tfrecord/file", replace, replaced, old)
    retried = create_file("data.tfrecord", "tfrecord", NEW, retries=True)
    yield Scenario("close-twice/tfrecord/file", retried, (Dataset("data.tfrecord", NEW),))
    yield Scenario("close-twice/granular/shards", create_shards("data", "granular", NEW, retries=True), new)


def _appended() -> Iterator[Scenario]:
    both = [*OLD, *ADDED]
    data = (Dataset("data", both, OLD),)
    for format in FORMATS:
        old, call = create_shards("data", format, OLD), create_shards("data", format, ADDED, append=True)
        yield Scenario(f"append/{format}/shards", call, data, old, grows=True, adds=True)
    for format in ("tfrecord", "granular"):
        old, added = create_shards("data", format, OLD), create_shards("data", format, ADDED, append=True)
        call = create_shards("data", format, both, append=True, resume=True)
        yield Scenario(f"append-resume/{format}/shards", call, data, old, grows=True, resumes=True)
        other = create_shards("data", format, MORE, append=True)
        after = (Dataset("data", both, OLD, MORE),)
        yield Scenario(f"append-after-other/{format}/shards", added, after, old, again=other, grows=True, adds=True)
        first = create_shards("data", format, ADDED, append=True)
        yield Scenario(f"append-first/{format}/shards", first, (Dataset("data", ADDED),), adds=True)


def _converted() -> Iterator[Scenario]:
    new = (Dataset("data", NEW),)
    yield Scenario("convert/ffrecord/file", convert_file("data.ffr", "ffrecord"), (Dataset("data.ffr", NEW),))
    for format in ("ffrecord", "granular"):
        yield Scenario(f"convert/{format}/shards", convert_shards("data", format), new)
        yield Scenario(f"convert-resume/{format}/shards", convert_shards("data", format, resume=True), new)
        yield Scenario(f"convert-pool/{format}/shards", convert_in_pool("data", format, resume=True), new)
        yield Scenario(f"convert-parts/{format}/shards", convert_in_parts("data", format), new)
    yield Scenario("convert-workers/ffrecord/shards", convert_shards("data", "ffrecord", workers=2, resume=True), new)
    replaced, old = (Dataset("data", NEW, OLD),), create_shards("data", "ffrecord", OLD)
    call = convert_shards("data", "ffrecord", overwrite=True, resume=True)
    yield Scenario("convert-replace/ffrecord/shards", call, replaced, old)


def _copied() -> Iterator[Scenario]:
    new, file = (Dataset("data", NEW),), (Dataset("data.tfrecord", NEW),)
    kept = [n for n in NEW if n != LOST]
    yield Scenario("merge/tfrecord/file", merge("data.tfrecord"), file)
    yield Scenario("merge/tfrecord/shards", merge("data", shards=4), new)
    yield Scenario("split/tfrecord/shards", split("data", shard_records=SHARD_RECORDS), new)
    where = split("even.tfrecord", where=is_even, rest_path="odd.tfrecord", overwrite=True)
    two = (Dataset("even.tfrecord", NEW[::2]), Dataset("odd.tfrecord", NEW[1::2]))
    yield Scenario("split/tfrecord/two", where, two)
    yield Scenario(
        "repair/tfrecord/file", repair("data.tfrecord", "damaged.tfrecord"), (Dataset("data.tfrecord", kept),)
    )
    yield Scenario("repair/tfrecord/shards", repair("data", "damaged"), (Dataset("data", kept),))


SCENARIOS = {scenario.name: scenario for scenario in _scenarios()}
