"""InPlaceWriter: appends to finished data, which grow under their final name."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from dataformats.interfaces import FilePlace
from dataformats.sidecars.sidecar import sidecar_bytes
from dataformats.staging.area import ENCODING, Publication
from dataformats.staging.local_area import LocalArea
from dataformats.storage.files import LocalFolder
from dataformats.writing.existing_data import checked_metadata
from dataformats.writing.output_schema import OutputSchema
from dataformats.writing.shard_writer import ShardWriter
from dataformats.writing.write_options import WriteOptions


class InPlaceWriter(ShardWriter):
    """Appends to a finished dataset in place. Its area only locks the name.

    Args:
        path: The folder, without links: its sidecar lies beside it, not beside links to it.
        schema: The schema of the new records.
        options: See `create`.
    """

    def __init__(self, path: Path, schema: OutputSchema, options: WriteOptions) -> None:
        super().__init__(LocalArea(path), schema, replace(options, resume=True))

    def _begin(self) -> None:
        """Compare format, payload and spec with the sidecar; its list of files does not hold until `publish`."""
        final = self.area.final
        self.area.lock(self._schema.backend, overwrite=True, resume=True)  # also the folder
        self._found = final.stat()
        metadata = checked_metadata(LocalFolder(final), self._schema)
        if metadata is not None:
            known = {name: fact for name, fact in metadata.items() if name in ENCODING[:3]}  # a plan would not hold
            self.area.write_sidecar(sidecar_bytes(known) if known else None)
        self._open_file(final, True, FilePlace(self._stem))

    def check_owned(self) -> None:
        if not (self._path.exists() and os.path.samestat(self._path.stat(), self._found)):
            raise RuntimeError(f"another program deleted or replaced {self.name!r}")

    def finish(self) -> Publication:
        """Complete the files, and list only those that belong to the data: others may lie beside them."""
        publication = super().finish()
        entry, found = publication.metadata["files"][0], self._schema.backend.find(LocalFolder(self._path))
        names = {Path(file.name).relative_to(self._path).as_posix() for file in found}
        entry["parts"] = [part for part in entry["parts"] if part["name"] in names]
        entry["bytes"] = sum(part["bytes"] for part in entry["parts"])
        return publication

    def publish(self, publication: Publication) -> None:
        self.check_owned()
        self.area.write_sidecar(sidecar_bytes(publication.metadata) if publication.keep else None)
        self.area.release()

    def abort(self, *, keep: bool) -> None:
        super().abort(keep=True)
