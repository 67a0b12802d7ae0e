"""`dataformats trace`: the records of steps of a training run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dataformats.cli import options
from dataformats.cli.output import print_json
from dataformats.cli.saved_state import read_state
from dataformats.cli.shown_records import (
    Failures,
    ShownRecords,
    number_records,
    opened_records,
    output_kind,
    print_records,
)

if TYPE_CHECKING:
    from dataformats.loaders.loader import Loader
    from dataformats.loaders.trace import TracedRecord


@options.path_argument("state", "STATE", "A file with a state_dict() of the run as JSON; - reads standard input.")
@options.option("data", "RecordSource | Any", "The data of the run. Repeat it for more.", required=True, metavar="PATH")
@options.option("step", "", "A step, or steps as FIRST:STOP. Default: the last one.", metavar="N")
@options.option("position", "int", "The step that has a position.", type=click.IntRange(0))
@options.option("last", "int", "The last N steps before the state.")
@options.fields
@options.reading
@options.checksums
@options.output
@options.option("skip_list", "Any", "Add the records to a skip list, for Loader(skip=FILE).", metavar="FILE")
def trace(
    state: str,
    data: str | list[str],
    step: str | None,
    position: int | None,
    last: int | None,
    fields: list[str] | None,
    skip_list: str | None,
    **given: Any,
) -> None:
    """Show the records of a training step.

    Each is shown with its rank, its position in the run, its file and its byte.
    The state of a Loader, from any checkpoint of the run at that step or later, gives the order. Only these records are
    read. A damaged record is reported on standard error, and the exit code is 1.
    """
    from dataformats.loaders.saved_state import loader_at

    output, failures = output_kind(given), Failures()
    with opened_records(data, given, fields) as records:
        loader = loader_at(read_state(state, "STATE"), records.source)
        steps = _steps(loader, step, position, last)
        if skip_list is not None:
            _extend(Path(skip_list), loader, steps)
        if output == "--json":
            found = [_as_json(traced, record) for traced, record in _read(loader, records, steps, failures)]
            print_json({"records": found})
        elif output == "--jsonl":
            for traced, record in _read(loader, records, steps, failures):
                print_json(_as_json(traced, record))
        else:
            numbered = ((_place(traced), record) for traced, record in _read(loader, records, steps, failures))
            print_records(records, numbered, output == "--images")
    failures.end()


def _extend(path: Path, loader: Loader, steps: range) -> None:
    """Add the records of these steps to the skip list in a file, or make it."""
    from dataformats.loaders.skip_list import SkipList

    found = loader.skip_list(one for step in steps for one in loader.trace(step))
    (SkipList.load(path) | found if path.exists() else found).save(path)


def _steps(loader: Loader, step: str | None, position: int | None, last: int | None) -> range:
    """Return the numbers of the steps that the options name."""
    if sum(option is not None for option in (step, position, last)) > 1:
        raise click.BadParameter("takes one of --step, --position and --last", param_hint="--step")
    if position is not None:
        number = loader.trace(position=position)[0].step
        return range(number, number + 1)
    if step is None:
        return range(max(0, loader.step - (last or 1)), loader.step)
    try:
        numbers = [int(number) for number in step.split(":")]
        first, stop = (numbers[0], numbers[0] + 1) if len(numbers) == 1 else numbers
    except ValueError:
        raise click.BadParameter(f"expected N or FIRST:STOP, found {step!r}", param_hint="--step") from None
    return range(first, stop)


def _read(
    loader: Loader, records: ShownRecords, steps: range, failures: Failures
) -> Iterator[tuple[TracedRecord, Any]]:
    """Yield the sound records of these steps, each with its place in the run."""
    import numpy as np

    for step in steps:
        traced = loader.trace(step)
        batches = records.read(np.array([one.index for one in traced], np.int64), failures)
        found = dict(number_records(batches))
        yield from ((one, found[one.index]) for one in traced if one.index in found)


def _place(traced: TracedRecord) -> str:
    at = "" if traced.offset_bytes < 0 else f" at byte {traced.offset_bytes}"
    where = f", {traced.path}{at}" if traced.path else ""
    return f"{traced.index} (step {traced.step}, rank {traced.rank}, position {traced.position}{where})"


def _as_json(traced: TracedRecord, record: Any) -> dict[str, Any]:
    from dataformats.display.json_values import as_json

    return traced._asdict() | {"record": as_json(record)}
