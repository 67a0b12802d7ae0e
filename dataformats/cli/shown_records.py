"""The records that a command shows: selected, read in batches, and printed."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from dataformats.cli.exit_codes import FINDING, in_lines
from dataformats.cli.functions import matches, report_failures_of
from dataformats.cli.options import arguments
from dataformats.cli.output import can_print, print_fact, print_json, why_opaque
from dataformats.display.text import escape_text, with_class_name
from dataformats.errors import DataFormatsError
from dataformats.spec import Type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dataformats.batch import RecordBatch
    from dataformats.interfaces.record_source import RecordSource
    from dataformats.reading.conditions import Condition

_TURNS, _CHARACTERS = 8, 300  # messages of a chat, and characters of each

Failed = Callable[[int, Exception], object] | None


class Failures:
    """Prints the error of each record that cannot be read."""

    def __init__(self) -> None:
        self._any = False

    def __call__(self, index: int, error: Exception) -> None:
        self._any = True
        place = "" if getattr(error, "index", None) is not None else f"record {index}: "
        print(f"dataformats: {place}{in_lines(error)}", file=sys.stderr)

    def end(self) -> None:
        """End the command with its exit code, if there was an error."""
        if self._any:
            raise SystemExit(FINDING)


@dataclass(frozen=True, slots=True)
class ShownRecords:
    """The records of a dataset, to be shown.

    Attributes:
        source: All fields, for conditions.
        shown: The fields to show; images and videos are bytes.
        opaque: The fields that no codec decodes, with their types.
    """

    source: RecordSource
    shown: RecordSource
    opaque: Mapping[str, Type]

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields to show; empty if records are single values."""
        from dataformats.interfaces.declared_spec import is_single

        return () if is_single(self.shown) else tuple(self.shown.spec)

    def batches(self, where: Callable[[Any], Any] | Condition | None, failed: Failed = None) -> Iterator[RecordBatch]:
        """Yield the records for which a condition is true. Without a condition and damage, no index is needed.

        Args:
            where: The condition; `None` takes all records.
            failed: Called with index and error of each record that cannot be read; `None` raises its error.
        """
        from dataformats.reading.scan import scan_sound

        if where is not None:
            for indices in matches(self.source, where, failed):
                yield from self.read(indices, failed)
            return
        yield from scan_sound(self.shown, None, None, failed)

    def with_keys(
        self, keys: Sequence[str], on: str | None, where: object, failed: Failed = None
    ) -> Iterator[RecordBatch]:
        """Yield the records with these keys: see `RecordSource.find`.

        Raises:
            click.BadParameter: There is a condition, too, or a key is no number as the others are.
        """
        from dataformats.reading.key_lookup import key_field

        if where is not None:
            raise click.BadParameter("expected one of them, found both", param_hint="--key, --where")
        name = key_field(self.source, on)
        first = list(self.source.read(range(min(1, len(self.source))), [name])[name])
        if not first or isinstance(first[0], (str, bytes)):
            return self.read(self.source.find(keys, name), failed)
        try:
            numbers = [*map(int, keys)]
        except ValueError:
            raise click.BadParameter(f"keys in {name!r} are integers, found {keys}", param_hint="--key") from None
        return self.read(self.source.find(numbers, name), failed)

    def read(self, indices: range | NDArray[np.int64], failed: Failed = None) -> Iterator[RecordBatch]:
        """Yield these records, a few megabytes at a time."""
        from dataformats.reading.scan import scan_sound, split_by_bytes

        yield from scan_sound(self.shown, split_by_bytes(self.shown, indices), None, failed)


@contextmanager
def opened_records(
    path: str | list[str], reading: Mapping[str, Any], fields: list[str] | None, where: Any = None
) -> Iterator[ShownRecords]:
    """Open a dataset.

    Args:
        path: Its path, or its files.
        reading: The options of `options.reading` and `options.checksums`.
        fields: The fields to show; `None` shows all.
        where: The condition whose errors name --where.
    """
    from dataformats.reading.opening import open as open_source
    from dataformats.reading.undecoded import leave_undecoded

    with open_source(path, **arguments(reading)) as source, report_failures_of(where=where):
        shown = leave_undecoded(source)  # the headers of images and videos say enough
        yield ShownRecords(source, shown if fields is None else shown.select(*fields), source.spec_facts.opaque_fields)


def number_records(batches: Iterable[RecordBatch]) -> Iterator[tuple[int, Any]]:
    """Yield the index of each record, and the record."""
    for batch in batches:
        yield from zip(batch.indices.tolist(), batch, strict=True)


def output_kind(given: dict[str, Any]) -> str:
    """Remove the options of `options.output` from a command's options; return the one that is given, or `""`.

    Raises:
        click.BadParameter: Several are given.
    """
    flags = {"--json": "as_json", "--jsonl": "json_lines", "--images": "images"}
    names = [flag for flag, name in flags.items() if given.pop(name)]
    if len(names) > 1:
        raise click.BadParameter(f"expected one of them, found {len(names)}", param_hint=", ".join(names))
    return "".join(names)


def print_batches(records: ShownRecords, batches: Iterator[RecordBatch], n: int, output: str) -> None:
    """Print the first `n` of these records."""
    if output == "--jsonl":
        print_records_as_lines(batches, n)
        return
    numbered = itertools.islice(number_records(batches), min(n, sys.maxsize))
    if output == "--json":
        _print_records_as_json(records, numbered)
    else:
        print_records(records, numbered, output == "--images")


def print_records_as_lines(batches: Iterator[RecordBatch], n: int | None) -> None:
    """Print the first `n` of these records, or all for `None`, as JSON documents, one in a line."""
    from dataformats.display.json_values import batch_as_json

    found = itertools.chain.from_iterable(map(batch_as_json, batches))
    for record in itertools.islice(found, None if n is None else min(n, sys.maxsize)):
        print_json(record)


def print_records(records: ShownRecords, numbered: Iterable[tuple[object, Any]], images: bool) -> None:
    """Print records for people: a line for each field.

    Args:
        records: Their dataset.
        numbered: What each record is called, such as its index, and the record.
        images: Show images as pictures, in a terminal.
    """
    from dataformats.display.terminal_pictures import BLOCK, terminal_pictures

    in_terminal = can_print(BLOCK) and sys.stdout.isatty()
    picture = terminal_pictures(os.environ if images and in_terminal else {})
    for index, record in numbered:
        if not records.fields:
            print_fact(f"record {index}", _summary(record))
            _print_turns(record, "  ")
            _print_lines(picture(record))
            continue
        print(f"record {index}")
        for name in records.fields:
            text = _summary(record[name]) if name in record else "missing"
            text = with_class_name(text, record.get(name), records.shown.spec[name].class_names)
            if name in records.opaque:
                text = f"{why_opaque(records.opaque[name])}; {text}"
            print(f"  {escape_text(name)}: {escape_text(text)}")
            _print_turns(record.get(name), "    ")
            _print_lines(picture(record.get(name)))


def _summary(value: Any) -> str:
    from dataformats.display.conversation import conversation
    from dataformats.display.value_text import as_text

    return as_text(value) if conversation(value, _TURNS, 0) is None else f"{len(value)} messages"


def _print_turns(value: Any, indent: str) -> None:
    """Print the first messages of a chat; nothing for other values."""
    from dataformats.display.conversation import conversation

    turns = conversation(value, _TURNS, _CHARACTERS) or ()
    for turn in turns:
        print(f"{indent}{escape_text(turn.role)}: {escape_text(turn.line)}")
    if turns and len(value) > len(turns):
        print(f"{indent}...")


def _print_lines(lines: str | None) -> None:
    if lines is not None:
        print(lines)


def _print_records_as_json(records: ShownRecords, numbered: Iterable[tuple[int, Any]]) -> None:
    """Print records as one JSON document, with the error that ended them, if any: see `print_records`."""
    from dataformats.display.json_values import as_json
    from dataformats.inspecting.finding import Finding

    shown: list[Any] = []
    indices: list[int] = []
    finding = None
    try:
        for index, record in numbered:
            shown.append(as_json(record))
            indices.append(index)
    except DataFormatsError as error:
        finding = Finding.of(error)
    opaque = {name: str(kind) for name, kind in records.opaque.items()}
    document = {"records": shown, "indices": indices, "opaque": opaque}
    print_json(document | {"finding": None if finding is None else asdict(finding)})
    if finding is not None:
        raise SystemExit(FINDING)
