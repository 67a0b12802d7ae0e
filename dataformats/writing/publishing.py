"""Publish new data under their final name, after their sidecar: what all destinations have in common."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dataformats.errors import FormatError
from dataformats.indexing.sidecar import load_sidecar, sidecar_bytes
from dataformats.indexing.sidecar_check import compare_entry, fitting_facts
from dataformats.interfaces import Backend
from dataformats.interfaces.stored_file import Folder, StoredFile
from dataformats.writing.partial_data import ENCODING

__all__ = ["NO_FILES", "Destination"]

NO_FILES: Mapping[str, Path | None] = {}


class Destination(ABC):
    """The final name of new data, and the local path where they grow until they are published.

    Attributes:
        name: The final name, for messages.
        partial: The local path of the growing file or folder.
        grows: True if the data grow under their final name.
        keeps_partial: True if partial data can be resumed.
        in_parts: True if the files get their final names one after another: until the last has it, the sidecar lists
            one that is missing, so that `open` refuses the data.
    """

    name: str
    partial: Path
    grows: bool = False
    keeps_partial: bool = False
    in_parts: bool = False

    @abstractmethod
    def exists(self) -> bool:
        """Return True if something has the final name."""

    @property
    def final(self) -> Path:
        """The final name as a local path.

        Raises:
            ValueError: It is not on the local disk: only local data can be resumed or extended.
        """
        raise ValueError(f"cannot resume or append: expected a local path, found {self.name!r}")

    def unrelated_entry(self) -> Path | str | None:
        """Return a file or folder in the folder of this name that is not data; `None` if there is none."""
        return None

    @property
    def is_owned(self) -> bool:
        """True until another program deletes or replaces what `lock` locked."""
        return True

    def check_owned(self) -> None:
        """Raise `RuntimeError` unless the partial data are still those of this writer."""
        if not self.is_owned:
            raise RuntimeError(f"another program deleted or replaced {str(self.partial)!r} or its sidecar")

    def lock(self, overwrite: bool, *, shared: bool = False) -> None:  # noqa: B027  # only local files have locks
        """Refuse other writers of this name until `release`.

        Args:
            overwrite: `publish` replaces what has the name.
            shared: Refuse only those that do not share it.

        Raises:
            TargetInUseError: Another writer has the name.
        """

    def share(self) -> None:  # noqa: B027  # as `lock`
        """Let others have the name that lock it as shared; until then, at most one of them prepares it."""

    def release(self) -> None:  # noqa: B027  # only local files have locks
        """Let other writers have the name; a second call is a no-op."""

    def begin(self, facts: Mapping[str, Any], backend: Backend, resume: bool) -> None:  # noqa: B027  # as `lock`
        """Delete partial data of an interrupted writer, or check that they are resumed: `PartialData.begin`."""

    def publish(self, facts: Mapping[str, Any], *, keep: bool, sidecars: Mapping[str, Path | None] = NO_FILES) -> None:
        """Rename `partial` to its final name, after its sidecar `NAME.dataformats.json` is there.

        So the data never lack their sidecar. Until they are renamed, the sidecar also has the facts of the data that
        they replace; a reader takes those whose files are there.

        Args:
            facts: The content of the sidecar.
            keep: False if the published data need no sidecar.
            sidecars: Other files that belong beside the new one: `HasSidecars.sidecars`.
        """
        before = self._read_sidecar()
        try:
            if keep or before is not None or self.in_parts:
                self._write_sidecar(sidecar_bytes(facts, self.facts_of_data()[0]))
            self._rename(sidecars)
        except BaseException:
            with suppress(OSError):  # the sidecar holds in any case, for the old data and for the new ones
                self._end(facts, keep) if self._holds(facts) else self._write_sidecar(before)
            raise
        self._end(facts, keep)

    def complete(self, metadata: Mapping[str, Any]) -> bool:
        """Return True if data of this format, payload and spec have the final name, and all are there.

        Ends the work of a writer that was killed after it renamed them.
        """
        facts, is_sound = self.facts_of_data()
        if facts is None or not is_sound:
            return False
        known = {name: facts[name] for name in ENCODING if name in facts} or {"format": metadata["format"]}
        if known != dict(metadata):
            return False
        self._end(facts, keep=len(metadata) > 1)
        return True

    def _end(self, facts: Mapping[str, Any], keep: bool) -> None:
        """Leave the sidecar of the new data, or none, and no temporary files."""
        content = sidecar_bytes(facts) if keep else None
        if self._read_sidecar() != content:
            self._write_sidecar(content)
        self._clean_up()

    def facts_of_data(self) -> tuple[dict[str, Any] | None, bool]:
        """Return the facts of the data that have the final name, if there are any, and if these are complete."""
        entry = self._present()
        if entry is None:
            return None, False
        try:
            sidecar = load_sidecar(entry)
        except FormatError:
            return {}, False
        if sidecar is None:
            return {}, True
        facts, found = fitting_facts(sidecar, functools.partial(compare_entry, sidecar.name, entry))
        return facts, not (facts.get("incomplete") or any(found.errors()))

    def _holds(self, facts: Mapping[str, Any]) -> bool:
        """Return True if the data of these facts have the final name."""
        entry = self._present()
        return entry is not None and not any(compare_entry(self.name, entry, facts["files"]).errors(remote=True))

    def _present(self) -> StoredFile | Folder | None:
        """Return the file or folder that has the final name; `None` if there is none."""
        try:
            return self._entry() if self.exists() else None
        except FileNotFoundError:
            return None  # a link that names nothing

    @abstractmethod
    def _entry(self) -> StoredFile | Folder:
        """Return the file or folder that has the final name."""

    @abstractmethod
    def _read_sidecar(self) -> bytes | None:
        """Return the content of the sidecar of the final name; `None` if there is none."""

    @abstractmethod
    def _write_sidecar(self, content: bytes | None) -> None:
        """Write the sidecar of the final name; `None` deletes it."""

    @abstractmethod
    def _rename(self, sidecars: Mapping[str, Path | None]) -> None:
        """Rename `partial` and the files beside it to their final names."""

    @abstractmethod
    def _clean_up(self) -> None:
        """Delete temporary files after the data are published."""

    @abstractmethod
    def discard(self) -> None:
        """Delete the partial data."""
