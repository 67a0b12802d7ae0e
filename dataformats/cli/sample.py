"""`dataformats sample`: random records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataformats.cli import options
from dataformats.cli.functions import matches
from dataformats.cli.shown_records import Failures, ShownRecords, opened_records, output_kind, print_batches

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@options.paths
@options.count
@options.option("seed", "int", "Another seed, another sample.", 0)
@options.fields
@options.where
@options.reading
@options.checksums
@options.output
def sample(paths: str | list[str], limit: int, seed: int, fields: list[str] | None, where: Any, **given: Any) -> None:
    """Show random records.

    Each is shown at most once, as `head` shows the first ones. They are the first ones of `convert --shuffle-seed S`,
    in its order. Only they are read, besides the fields that --where needs. A damaged record is reported on standard
    error, and the exit code is 1.
    """
    output, failures = output_kind(given), Failures()
    with opened_records(paths, given, fields, where) as records:
        indices = _indices(records, where, seed, limit, failures)
        print_batches(records, records.read(indices, failures), limit, output)
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
