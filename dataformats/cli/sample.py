"""`dataformats sample`: random records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dataformats.cli.functions import condition, matches, report_failures_of
from dataformats.cli.options import (
    AsJson,
    Checksums,
    Count,
    FieldNames,
    Format,
    Images,
    Paths,
    Payload,
    SpecTexts,
    Where,
    one_or_all,
    open_arguments,
    split_names,
)
from dataformats.cli.shown_records import (
    Failures,
    ShownRecords,
    check_images,
    number_records,
    opened_records,
    print_records,
    print_records_as_json,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["sample"]

Seed = Annotated[int, typer.Option("--seed", metavar="S", help="Another seed, another sample.")]


def sample(
    paths: Paths,
    n: Count = 5,
    seed: Seed = 0,
    fields: FieldNames = None,
    where: Where = None,
    format: Format = None,
    payload: Payload = None,
    spec: SpecTexts = None,
    checksums: Checksums = True,
    as_json: AsJson = False,
    images: Images = False,
) -> None:
    """Show random records.

    Each is shown at most once, as `head` shows the first ones. They are the first ones of `convert --shuffle-seed S`,
    in its order. Only they are read, besides the fields that --where needs. A damaged record is reported on standard
    error, and the exit code is 1.
    """
    check_images(images, as_json)
    options, failures = open_arguments(format, payload, spec, checksums=checksums), Failures()
    chosen = condition(where)
    with opened_records(one_or_all(paths), options, split_names(fields)) as records, report_failures_of(where=chosen):
        found = number_records(records.read(_indices(records, chosen, seed, n, failures), failures))
        print_records_as_json(records, found) if as_json else print_records(records, found, images)
    failures.end()


def _indices(records: ShownRecords, where: Any, seed: int, n: int, failures: Failures) -> range | NDArray[np.int64]:
    """Return the indices of `n` random records for which a condition is true."""
    import numpy as np

    from dataformats.converting.selection import Selection

    if where is None:
        selection = Selection(records.source, None, seed, n, "omit")
        return selection.records(0, len(selection))
    matching = np.concatenate([np.zeros(0, np.int64), *matches(records.source, where, failures)])
    selection = Selection(records.source.take(matching), None, seed, n, "omit")
    return matching[selection.records(0, len(selection))]
