"""The number of rows of a dataset that no interruption can cost, while it grows."""

from __future__ import annotations

from pathlib import Path

from dataformats.backends.granular.folder import SPEC
from dataformats.sidecars.sidecar import SIDECAR_SUFFIX, load_sidecar, sidecar_bytes
from dataformats.storage.atomic import remove, write_bytes
from dataformats.storage.files import LocalFile

__all__ = ["FinishedRows", "is_partial"]


def is_partial(path: Path) -> bool:
    """True for a dataset or bag under a partial name, which has no finished rows."""
    return path.name.endswith(".partial")


class FinishedRows:
    """The number of finished rows, in a sidecar in the folder until `close`.

    As the sidecar of a file in the dataset, it is neither data nor a foreign file.

    Args:
        folder: The dataset.
        resumes: True if it is there.

    Attributes:
        count: The rows that an interrupted writer saved, or 0 for partial data; `None` for finished data if no writer
            of this package was interrupted. Then all rows are finished, and damage is not for a writer to judge.
    """

    def __init__(self, folder: Path, *, resumes: bool) -> None:
        self._sidecar = folder / f"{SPEC}{SIDECAR_SUFFIX}"
        sidecar = load_sidecar(LocalFile(folder / SPEC)) if resumes else None
        rows = None if sidecar is None else sidecar.metadata.get("finished_rows")
        none = None if resumes and not is_partial(folder) else 0
        self.count: int | None = rows if isinstance(rows, int) else none

    def save(self, count: int) -> None:
        """Write the sidecar, unless it has as many rows; on return it is on the disk."""
        if self.count is None or self.count < count:
            write_bytes(self._sidecar, sidecar_bytes({"format": "granular", "finished_rows": count}))
            self.count = count

    def remove(self) -> None:
        """Delete the sidecar, also one that is half written: all rows are finished."""
        remove(self._sidecar, self._sidecar.with_name(f"{self._sidecar.name}.partial"))
