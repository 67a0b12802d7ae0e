"""FinishedData: the data under a final name, which a writer extends."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataformats.errors import FormatError, TargetExistsError
from dataformats.interfaces import ResumesFinishedFiles
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.sidecars.file_comparison import compare_entry, fitting_metadata
from dataformats.sidecars.sidecar import list_file, load_sidecar, without_checksums
from dataformats.staging.area import ENCODING, StagingArea, check_encoding
from dataformats.staging.foreign_files import records_of_shards
from dataformats.storage import atomic
from dataformats.writing.output_schema import OutputSchema
from dataformats.writing.write_options import WriteOptions


@dataclass(frozen=True, slots=True)
class FinishedData:
    """Data under their final name, to which a writer appends.

    The writer works on a copy of the file, or writes further shards. So the data stay as they are, for every reader,
    until `close` gives their name to the longer data, and an error or a crash leaves nothing behind.

    Attributes:
        name: The path or URL.
        shards: The entry (`list_file`) of each shard; `None` for a single file.
        file: The local path of the single file.
        metadata: The metadata of the sidecar with the list of files, without the plan of a conversion.
    """

    name: str
    shards: Sequence[Mapping[str, Any]] | None
    file: Path | None
    metadata: Mapping[str, Any]

    @classmethod
    def at(cls, area: StagingArea, schema: OutputSchema, options: WriteOptions) -> FinishedData:
        """Return the data that have the name of an area. Data without a sidecar will have none.

        Args:
            area: The area.
            schema: The schema of the new records.
            options: The options of the call.

        Raises:
            FormatError: They are damaged, or differ from their sidecar.
            StateMismatchError: They have another format, payload or spec.
            TargetExistsError: They cannot be extended.
            ValueError: They are a single file that is not on the local disk.
        """
        entry = area.entry()
        if entry is None:
            raise FileNotFoundError(area.name)
        metadata = checked_metadata(entry, schema)
        schema.needs_sidecar &= metadata is not None  # it would describe records that were not checked
        known = {"format": schema.backend.name, **(schema.sidecar() or {})}
        if isinstance(entry, Folder):
            shards = _shards(area.name, entry, (metadata or {}).get("files"), schema)
            return cls(area.name, shards, None, {**known, "files": shards})
        path = area.final
        if options.limits_shards:
            raise _not_extended(area.name, "is a single file")
        if not isinstance(schema.backend, ResumesFinishedFiles):
            raise _not_extended(area.name, f"is complete: a {schema.backend.name} file holds a table of its records")
        problem = schema.backend.extension_problem(path, **schema.options)
        if problem:
            raise _not_extended(area.name, problem)
        return cls(area.name, None, path, {**known, "files": [list_file(path.name, 0, path, {})]})

    @property
    def digest(self) -> str:
        """A digest that identifies these data, from names, sizes and samples of the content."""
        entries = [without_checksums(entry) for entry in self.metadata["files"]]
        return hashlib.sha256(json.dumps(entries).encode()).hexdigest()[:16]

    @property
    def n_bytes(self) -> int:
        """The bytes of all files."""
        return sum(entry["bytes"] for entry in self.metadata["files"])

    def copy_to(self, partial: Path) -> None:
        """Copy the single file, unless an interrupted writer did."""
        if self.file is None or (partial.exists() and partial.stat().st_size >= self.n_bytes):
            return
        # The copy gets its name when it is on the disk: an incomplete one could look like a sound file.
        copy = partial.with_name(f"{partial.name}.partial")
        atomic.remove(partial, copy)
        atomic.copy_file(self.file, copy)
        atomic.sync(copy)
        os.rename(copy, partial)

    def problem(self, partial: Path) -> FormatError | None:
        """Return why a writer that resumed the copy cannot extend it; `None` if the copy has all finished records."""
        n_bytes = partial.stat().st_size
        if n_bytes >= self.n_bytes:
            return None
        return FormatError(
            "cannot append: not all records are sound",
            path=self.name,
            expected=f"{self.n_bytes} bytes of sound records",
            found=f"{n_bytes} bytes",
            remedy="Verify it, and write its sound records to a new file",
        )


def checked_metadata(entry: StoredFile | Folder, schema: OutputSchema) -> dict[str, Any] | None:
    """Return the metadata of the sidecar, which hold for the data and for the new records; `None` without one.

    Raises:
        FormatError: The data differ from their sidecar.
        StateMismatchError: They have another format, payload or spec.
    """
    sidecar = load_sidecar(entry)
    if sidecar is None:
        return None
    metadata, found = fitting_metadata(sidecar, functools.partial(compare_entry, sidecar.name, entry))
    for error in found.errors():
        raise error
    known = {
        name: metadata[name] for name in ENCODING[:3] if name in metadata
    }  # a plan describes what a conversion wrote
    if known.keys() - {"format"}:
        check_encoding(known, {"format": schema.backend.name, **(schema.sidecar() or {})}, sidecar.name)
    return metadata


def _shards(
    name: str, folder: Folder, listed: Sequence[Mapping[str, Any]] | None, schema: OutputSchema
) -> list[Mapping[str, Any]]:
    """Return the entry of each shard in a folder, from the list in its sidecar, if there is one.

    Raises:
        TargetExistsError: The folder is one dataset, or holds none.
    """
    shards, prefix = list(listed or ()), f"{folder.name.rstrip('/')}/"
    in_folders = schema.backend.in_folders
    inside = {*folder.folders(), *(() if in_folders else folder.names())}
    if not shards:
        files, counts = schema.backend.find(folder), Counter[str]()
        found = records_of_shards(files, schema.backend)
        if in_folders:  # a file beside the shards, such as an index of all, would not describe further ones
            found += [(file.name, 0) for file in files]
        for path, records in found:
            place = path.removeprefix(prefix)
            counts[place.partition("/")[0] if in_folders else place] += records
        if not counts.keys() <= inside:
            raise _not_extended(name, "is one dataset, not a folder of shards")
        for shard, records in counts.items():
            path = prefix + shard
            parts = [file for file in files if file.name == path or file.name.startswith(f"{path}/")]
            shards.append(_entry_of(shard, records, path, parts))
    if not shards:
        raise _not_extended(name, f"holds no {schema.backend.name} data")
    if any(entry["name"] not in inside for entry in shards):
        raise _not_extended(name, "is one dataset, not a folder of shards")
    return shards


def _entry_of(name: str, records: int, path: str, files: Sequence[StoredFile]) -> dict[str, Any]:
    """Return the entry of a shard that no sidecar lists; without digests for objects, which would need reads."""
    if all(file.local is not None for file in files):
        return list_file(name, records, Path(path), {})
    entry = {"name": name, "records": records, "bytes": sum(file.size for file in files)}
    if files[0].name == path:
        return entry
    return entry | {"parts": [{"name": file.name.removeprefix(f"{path}/"), "bytes": file.size} for file in files]}


def _not_extended(name: str, why: str) -> TargetExistsError:
    remedy = (
        "Append to a folder of shards (create it with shard_records=), to a plain TFRecord or OFRecord file without "
        "shard_records=, or to a Granular dataset of generation 3 without it; or write a new dataset"
    )
    return TargetExistsError(f"cannot append: {name!r} {why}", remedy=remedy)
