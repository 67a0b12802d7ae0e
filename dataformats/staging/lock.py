"""NameLock: the lock on the name of a dataset, and the metadata of its partial data."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataformats.errors import FormatError, Remedy, TargetExistsError
from dataformats.sidecars.file_comparison import is_name
from dataformats.storage import atomic
from dataformats.storage.file_lock import FileLock

_RETRY_S = 0.02
_MAX_BYTES = 16 * 2**20
_REMEDY = Remedy("Start again without {resume}.", resume=True)


class NameLock:
    """The sidecar of partial data, `NAME.partial.dataformats.json`, which is locked as long as a writer is open.

    It exists before the data do, also on the disk, so it shows that `NAME.partial` belongs to this package. It holds
    format, payload and spec, and behind them, while the data get their final name, a mark. It is written in place,
    because another file of its name would not be locked.

    Args:
        path: The sidecar.
        final: The final name of the data.
    """

    def __init__(self, path: Path, final: Path) -> None:
        self.path = path
        self._final = final
        self._lock: FileLock | None = None

    def acquire(self, *, shared: bool = False) -> bool:
        """Lock the sidecar.

        Args:
            shared: Have it together with others that called `share`, if there are any.

        Returns:
            True if this writer has it alone.

        Raises:
            BlockingIOError: Another writer has it.
            TargetExistsError: A link or a folder has its name.
        """
        while True:
            try:
                self._lock = FileLock(self.path, create=True)
                return True
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.EISDIR):
                    raise in_the_way(self.path, "it is a link or a folder, expected a file") from error
                if not (shared and isinstance(error, BlockingIOError)):
                    raise
            self._lock = FileLock(self.path, create=True, shared=True)
            if self.text():
                return False
            self._lock.release()  # those that had it have published the data meanwhile, or have failed
            time.sleep(_RETRY_S)

    def share(self) -> None:
        """Share the sidecar with other writers that acquire it as shared.

        Raises:
            BlockingIOError: Another writer got it in between.
        """
        if self._lock is not None and not self._lock.is_shared:
            self._lock.share()

    def release(self) -> None:
        """Unlock the sidecar; a second call is a no-op."""
        if self._lock is not None:
            self._lock.release()

    @property
    def is_current(self) -> bool:
        """True until another program deletes or replaces the sidecar."""
        return self._lock is not None and self._lock.is_current

    @property
    def is_shared(self) -> bool:
        """True if other writers may have the sidecar."""
        return self._lock is not None and self._lock.is_shared

    def text(self) -> str:
        """Return the content; nothing if a crash of the machine left zeros."""
        # A place in a Latin-1 text is a place in the file.
        return os.pread(self._descriptor, _MAX_BYTES, 0).decode("latin-1").strip("\0")

    def write(self, metadata: Mapping[str, Any], *, sync: bool) -> None:
        """Write the metadata, with `sync` also to the disk; the name of the sidecar is always synced.

        The same text is not written again, because a loss of power could leave an empty file in its place.
        """
        text = json.dumps({"version": 1, **metadata})
        if self.text() != text:
            os.ftruncate(self._descriptor, 0)
            atomic.write_all(self._descriptor, text.encode(), 0)
        if sync:
            os.fsync(self._descriptor)
        atomic.sync(self.path.parent)

    def metadata(self) -> dict[str, Any]:
        """Return the metadata.

        Raises:
            FormatError: The sidecar is damaged.
        """
        return self._parsed()[0]

    def mark(self) -> Mark | None:
        """Return the mark; `None` if it is missing or damaged."""
        try:
            return self._parsed()[2] if self.text() else None
        except FormatError:
            return None

    def write_mark(self, mark: Mark) -> None:
        """Write a mark behind the metadata, and sync it; what a crash of the machine left there is deleted."""
        end = self._parsed()[1]
        os.ftruncate(self._descriptor, end)
        atomic.write_all(self._descriptor, f"\n{mark.pack()}\n".encode(), end)
        os.fsync(self._descriptor)

    def remove_mark(self) -> None:
        """Remove the mark, also on the disk: it would name later data wrongly."""
        os.ftruncate(self._descriptor, self._parsed()[1])
        os.fsync(self._descriptor)

    def _parsed(self) -> tuple[dict[str, Any], int, Mark | None]:
        """Return the metadata, the bytes of their text, and the mark behind it."""
        text = self.text()
        try:
            metadata, end = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError) as error:
            what = f"the sidecar is not JSON ({error})"
            raise FormatError(what, path=str(self.path), remedy=_REMEDY) from error
        if not isinstance(metadata, dict) or metadata.get("version") != 1:
            found = metadata.get("version") if isinstance(metadata, dict) else type(metadata).__name__
            what, expected = "the sidecar cannot be read", "an object of version 1"
            raise FormatError(what, path=str(self.path), expected=expected, found=found, remedy=_REMEDY)
        return metadata, end, Mark.parse(text[end:], self._final)

    @property
    def _descriptor(self) -> int:
        if self._lock is None:
            raise ValueError(f"{str(self.path)!r} is not locked")
        return self._lock.descriptor


@dataclass(frozen=True, slots=True)
class Mark:
    """The content of the sidecar of partial data while these get their final name: enough to undo that.

    Attributes:
        inode: The inode of the file or folder that gets the name.
        names: The final names, each to the present name of its new file; `None` if a file is only deleted.
        shards: Final name to staged name of the shards in the folder that gets the name; `None` if it holds none.
    """

    inode: int
    names: dict[str, str | None]
    shards: dict[str, str] | None = None

    def pack(self) -> str:
        """Return the text."""
        return json.dumps({"complete": self.inode, "names": self.names, "shards": self.shards})

    @staticmethod
    def parse(text: str, final: Path) -> Mark | None:
        """Return the mark; `None` if it is missing or torn, or names files that do not belong to `final`."""
        try:
            found = json.loads(text)
            names = {str(name): None if now is None else str(now) for name, now in found["names"].items()}
            shards = None if found["shards"] is None else {str(k): str(v) for k, v in found["shards"].items()}
            mark = Mark(int(found["complete"]), names, shards)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
            return None
        beside = [*({*names} - {final.name}), *(now for now in names.values() if now is not None)]
        is_of_data = all(is_name(name) and name.startswith(f"{final.stem}.") for name in beside)
        is_of_data = is_of_data and all(is_name(name) for pair in (shards or {}).items() for name in pair)
        return mark if is_of_data and final.name in names else None


def in_the_way(path: Path, why: str) -> TargetExistsError:
    """Return the error that something else has a name that partial data need."""
    return TargetExistsError(f"{str(path)!r} is in the way: {why}", remedy="Delete or rename it")
