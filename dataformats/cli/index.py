"""`dataformats index`: build the index for random access ahead of its use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dataformats.cli import options
from dataformats.cli.exit_codes import USAGE
from dataformats.cli.info import SHOWN_FILES, print_more_files, print_spec
from dataformats.cli.output import format_count, print_fact, print_json
from dataformats.cli.progress import bar

if TYPE_CHECKING:
    from dataformats.reading.file_source import FileSource


@options.paths
@options.option("full", "bool", "Infer the fields from all records, and keep them.")
@options.option("beside", "bool", "Keep the index beside the data, not in the cache folder.")
@options.option("text", "bool", "TFRecord: also write NAME.index, which the tfrecord package reads.")
@options.reading
@options.as_json
def index(paths: str | list[str], full: bool, beside: bool, text: bool, as_json: bool, **reading: Any) -> None:
    """Build or refresh the index of files.

    Formats whose files contain their index need none: then the command reports the records alone. The exit code is 2 if
    an index cannot be written.
    """
    from dataformats.interfaces import CachesIndexes
    from dataformats.reading.opening import arguments_of

    place, arguments = "beside" if beside else "cache", options.arguments(reading)
    with bar("indexing", "bytes") as progress:
        source = arguments_of(paths, index=place, progress=progress, **arguments).open()
        len(source)
    summary: dict[str, Any] = {
        "format": source.format,
        "records": len(source),
        "files": {name: records for name, records, _ in source.reader.file_summaries()},
        "text_indexes": _text_indexes(source) if text else [],
    }
    if full:
        summary["spec"] = _inferred(source)
    print_json(summary) if as_json else _print_summary(summary, source)
    if isinstance(source.reader, CachesIndexes) and source.reader.index_failure is not None:
        raise SystemExit(USAGE)  # a warning says why


def _inferred(source: FileSource) -> dict[str, str]:
    with bar("inferring") as progress:
        done = 0

        def add(n: int) -> None:
            nonlocal done
            done += n
            if progress is not None:
                progress(done, len(source))

        return source.infer_fully(add).to_text()


def _text_indexes(source: FileSource) -> list[str]:
    if source.format != "tfrecord":
        raise click.BadParameter(f"the tfrecord package does not read {source.format}", param_hint="--text")
    from dataformats.backends.tfrecord.text_index import write_text_index

    names = [f"{path}.index" for path in source.paths]
    for path, name in zip(source.paths, names, strict=True):
        write_text_index(path, name)
    return names


def _print_summary(summary: dict[str, Any], source: FileSource) -> None:
    print_fact("format", summary["format"])
    print_fact("records", summary["records"])
    print_fact("files", len(summary["files"]))
    for path, records in list(summary["files"].items())[:SHOWN_FILES]:
        print_fact(f"file {path}", format_count(records, "record"))
    print_more_files(len(summary["files"]))
    for name in summary["text_indexes"]:
        print_fact("text index", name)
    if "spec" in summary:
        facts = source.spec_facts
        print_spec(source.spec, facts.provenance == "inferred", facts.opaque_fields)
