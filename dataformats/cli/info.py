"""`dataformats info`: describe a dataset."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from dataformats.cli import options
from dataformats.cli.exit_codes import in_options
from dataformats.cli.output import format_count, print_fact, print_json, why_opaque
from dataformats.cli.progress import bar
from dataformats.display.text import type_text
from dataformats.errors import FormatError
from dataformats.spec import VALUE, Type
from dataformats.storage.remote.names import shown_url

if TYPE_CHECKING:
    from dataformats.inspecting.description import Info

SHOWN_FILES = 10


@options.paths
@options.reading
@options.checksums
@options.as_json
def info(paths: str | list[str], as_json: bool, **reading: Any) -> None:
    """Describe files: records, size, payload, fields.

    The first call builds an index and keeps it. Records are not checked: verify finds damage.
    """
    from dataformats.inspecting.description import info as described

    names = [paths] if isinstance(paths, str) else paths
    try:
        with bar("indexing", "bytes") as progress:
            about = described(paths, progress=progress, **options.arguments(reading))
    except FormatError as error:
        _print_datasets_below(error, names[0], as_json)
        raise
    print_json(about.to_json()) if as_json else _print_info(about, names)


def _print_datasets_below(error: FormatError, path: str, as_json: bool) -> None:
    """Print the datasets below a folder, if the error says that the folder itself is no dataset."""
    from dataformats.interfaces.stored_file import Folder
    from dataformats.reading.detection import ONLY_BELOW, datasets_in
    from dataformats.storage.paths import resolve

    folder = resolve(path)[0] if error.what == ONLY_BELOW else None
    if not isinstance(folder, Folder):
        return
    found = datasets_in(folder)
    if as_json:
        print_json({"datasets": [asdict(dataset) for dataset in found]})
    for dataset in () if as_json else found:
        print_fact(f"dataset {dataset.path}", f"{dataset.format}, {format_count(dataset.files, 'file')}")


def _print_info(about: Info, paths: Sequence[str]) -> None:
    print_fact("path", about.path)
    print_fact("format", about.format)
    if about.payload is not None:
        print_fact("payload", about.payload)
    print_fact("records", about.records)
    print_fact("bytes", about.nbytes)
    print_fact("files", len(about.files))
    for file in about.files[:SHOWN_FILES]:
        print_fact(f"file {file.path}", f"{format_count(file.records, 'record')}, {format_count(file.nbytes, 'byte')}")
    print_more_files(len(about.files))
    for problem in about.problems[:SHOWN_FILES]:
        print_fact("problem", problem)
    if about.problems:
        print_fact("all damage", f"run {shlex.join(['dataformats', 'verify', *map(shown_url, paths)])}")
    for note in about.notes:
        print_fact("note", in_options(note, note))
    for name, value in about.metadata.items():
        print_fact(name, value)
    print_fact("fingerprint", about.fingerprint)
    if dict(about.spec) == {VALUE: about.payload}:
        print_fact("spec", "none: a record is one value")
    else:
        names = about.class_names
        types = {
            field: replace(Type.named(kind), class_names=names.get(field, ())) for field, kind in about.spec.items()
        }
        print_spec(types, about.spec_is_inferred, about.opaque)


def print_more_files(n_files: int) -> None:
    """Print how many files were not listed, if any."""
    if n_files > SHOWN_FILES:
        print_fact("more files", f"{n_files - SHOWN_FILES}; --json lists them all")


def print_spec(spec: Mapping[str, Type], is_inferred: bool, opaque: Collection[str] = ()) -> None:
    """Print the fields, whether they were inferred, and which of them are opaque."""
    print_fact("spec", "inferred from the records" if is_inferred else "declared")
    for name, kind in spec.items():
        print_fact(f"field {name}", f"{kind} ({why_opaque(kind)})" if name in opaque else type_text(kind))
