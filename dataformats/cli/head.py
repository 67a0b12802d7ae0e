"""`dataformats head`: the first records."""

from __future__ import annotations

import itertools
import sys

from dataformats.cli.functions import condition, report_failures_of
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
    check_images,
    number_records,
    opened_records,
    print_records,
    print_records_as_json,
)

__all__ = ["head"]


def head(
    paths: Paths,
    n: Count = 5,
    fields: FieldNames = None,
    where: Where = None,
    format: Format = None,
    payload: Payload = None,
    spec: SpecTexts = None,
    checksums: Checksums = True,
    as_json: AsJson = False,
    images: Images = False,
) -> None:
    """Show the first records.

    Long values are cut, images and videos are shown by format and size, and fields that no codec decodes as bytes.
    With --json values are whole, and bytes are in base64. No index is needed, except for --where.
    """
    check_images(images, as_json)
    options = open_arguments(format, payload, spec, checksums=checksums)
    chosen = condition(where)
    with opened_records(one_or_all(paths), options, split_names(fields)) as records, report_failures_of(where=chosen):
        first = itertools.islice(number_records(records.batches(chosen)), min(n, sys.maxsize))
        print_records_as_json(records, first) if as_json else print_records(records, first, images)
