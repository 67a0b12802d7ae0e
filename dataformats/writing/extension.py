"""Extend finished data: a copy of their file, or links to their shards, is partial data that a writer resumes."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataformats.errors import FormatError, TargetExistsError
from dataformats.indexing.sidecar import list_file, load_sidecar, without_checksums
from dataformats.indexing.sidecar_check import compare_entry, fitting_facts
from dataformats.interfaces import Backend, ResumesFinishedFiles
from dataformats.storage import atomic
from dataformats.storage.files import LocalFile, LocalFolder
from dataformats.writing.partial_data import ENCODING, check_encoding
from dataformats.writing.recognition import records_of_shards
from dataformats.writing.schema import WriteSchema
from dataformats.writing.shard_journal import ShardJournal, shard_journal_path, shard_name
from dataformats.writing.shards import ShardLimits

__all__ = ["FinishedData"]


@dataclass(frozen=True, slots=True)
class FinishedData:
    """Data under their final name, to which a writer appends.

    The writer works on a copy of the file, or on a folder of links to the shards. So the data stay as they are, for
    every reader, until `close` gives their name to the longer data, and an error or a crash leaves nothing behind.

    Attributes:
        path: The file or folder.
        shards: The path and the entry (`list_file`) of each shard; `None` for a single file.
        file: The entry of the single file.
    """

    path: Path
    shards: Sequence[tuple[Path, Mapping[str, Any]]] | None
    file: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, path: Path, schema: WriteSchema, limits: ShardLimits) -> FinishedData:
        """Return the data at a path, which records of a schema extend. Data without a sidecar will have none.

        Args:
            path: The file or folder.
            schema: Of the new records.
            limits: Of the new shards.

        Raises:
            FormatError: They are damaged, or not those that their sidecar lists.
            StateMismatchError: They have another format, payload or spec.
            TargetExistsError: They cannot be extended.
        """
        facts = _checked_facts(path, schema)
        schema.needs_sidecar &= facts is not None  # it would describe records that were not checked
        if path.is_dir():
            shards = _shards(path, (facts or {}).get("files"), schema.backend)
            return cls(path, [(shard, _numbered(n, shard, listed)) for n, (shard, listed) in enumerate(shards)])
        if limits != ShardLimits():
            raise _not_extended(path, "is a single file")
        if not isinstance(schema.backend, ResumesFinishedFiles):
            raise _not_extended(path, f"is complete: a {schema.backend.name} file holds a table of its records")
        problem = schema.backend.extension_problem(path, **schema.options)
        if problem:
            raise _not_extended(path, problem)
        return cls(path, None, list_file(path.name, 0, path, {}))

    @property
    def digest(self) -> str:
        """What tells these data from others: of names, sizes and samples of the content."""
        entries = [self.file, *(without_checksums(entry) for _, entry in self.shards or ())]
        return hashlib.sha256(json.dumps(entries).encode()).hexdigest()[:16]

    def begin(self, partial: Path) -> None:
        """Make the partial data, unless an interrupted writer did."""
        if self.file is not None:
            if not partial.exists() or partial.stat().st_size < self.file["bytes"]:
                atomic.remove(partial)
                atomic.copy_file(self.path, partial)
            return
        journal, shards = shard_journal_path(partial), self.shards or ()
        if len(ShardJournal.load(journal)) < len(shards):
            atomic.remove(partial)
            partial.mkdir()
            for path, entry in shards:
                _link(path, partial / entry["name"])
            ShardJournal(journal, [entry for _, entry in shards])  # last: it shows that all links are there

    def check_resumed(self, partial: Path) -> None:
        """Raise `FormatError` if the file that a writer now resumes has lost finished records: they are damaged."""
        if self.file is not None and partial.stat().st_size < self.file["bytes"]:
            raise FormatError(
                "cannot append: not all records are sound",
                path=str(self.path),
                expected=f"{self.file['bytes']} bytes of sound records",
                found=f"{partial.stat().st_size} bytes",
                remedy="Verify it, and write its sound records to a new file",
            )


def _checked_facts(path: Path, schema: WriteSchema) -> dict[str, Any] | None:
    """Return the facts of the sidecar, which hold for the data and for the new records; `None` without one."""
    entry = LocalFolder(path) if path.is_dir() else LocalFile(path)
    sidecar = load_sidecar(entry)
    if sidecar is None:
        return None
    facts, found = fitting_facts(sidecar, functools.partial(compare_entry, sidecar.name, entry))
    for error in found.errors():
        raise error
    known = {name: facts[name] for name in ENCODING[:3] if name in facts}  # a plan describes what a conversion wrote
    if known.keys() - {"format"}:
        check_encoding(known, {"format": schema.backend.name, **(schema.sidecar() or {})}, sidecar.name)
    return facts


def _shards(
    path: Path, listed: Sequence[Mapping[str, Any]] | None, backend: Backend
) -> list[tuple[Path, Mapping[str, Any]]]:
    """Return the path and the entry of each shard in a folder, from the list in its sidecar, if there is one.

    Raises:
        TargetExistsError: The folder is one dataset, or holds none.
    """
    named = [(path / file["name"], file) for file in listed or ()]
    shards = named or [(shard, {"records": n}) for shard, n in records_of_shards(path, backend)]
    if not shards:
        raise _not_extended(path, f"holds no {backend.name} data")
    if any(shard.parent != path or not shard.exists() for shard, _ in shards):
        raise _not_extended(path, "is one dataset, not a folder of shards")
    return shards


def _numbered(number: int, path: Path, listed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a shard by its number; with the checksums of its files, if they are listed."""
    found = list_file(shard_name(number), listed["records"], path, {})
    known = {**listed, "name": found["name"]}
    return known if without_checksums(known) == found else found


def _not_extended(path: Path, why: str) -> TargetExistsError:
    remedy = (
        "Append to a folder of shards (create it with shard_records=), to a plain TFRecord or OFRecord file without "
        "shard_records=, or to a Granular dataset of generation 3 without it; or write a new dataset"
    )
    return TargetExistsError(f"cannot append: {str(path)!r} {why}", remedy=remedy)


def _link(source: Path, target: Path) -> None:
    """Give a finished shard, a file or a folder, a second name; copy it if the file system has no such links."""
    if source.is_dir():
        shutil.copytree(source, target, copy_function=_link_file)
    else:
        _link_file(source, target)


def _link_file(source: str | Path, target: str | Path) -> None:
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        atomic.copy_file(Path(source), Path(target))
