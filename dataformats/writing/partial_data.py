"""Partial data: their lock, the sidecar that a resume must match, and the files that only they have."""

from __future__ import annotations

import errno
import json
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataformats.errors import FormatError, Remedy, StateMismatchError, TargetExistsError
from dataformats.indexing.sidecar import SIDECAR_SUFFIX
from dataformats.indexing.sidecar_check import is_name
from dataformats.interfaces import Backend
from dataformats.storage import atomic
from dataformats.storage.file_lock import FileLock
from dataformats.writing.recognition import holds_data_of

__all__ = ["ATTEMPTS", "ENCODING", "PartialData", "check_encoding"]

_LOG = logging.getLogger("dataformats")
ATTEMPTS = ".attempts.partial"
"""What the name of the folder adds in which the tasks of a conversion write shards that are not committed yet."""
_JOURNALS = (".journal", ".shards.journal", ".tasks.journal")
_TEMPORARY = (".partial", ATTEMPTS, f"{ATTEMPTS}.partial", *(f"{journal}.partial" for journal in _JOURNALS))
_RETRY_S = 0.02
_MAX_BYTES = 16 * 2**20
ENCODING = ("format", "payload", "spec", "extends", "plan")
_REMEDY = "Start again without resume=True."


class PartialData:
    """The file or folder `NAME.partial`, and what lies beside it until the data are published.

    `NAME.partial.dataformats.json` stores format, payload and spec. It exists before the data do, and it is locked as
    long as a writer is open. So it shows that `NAME.partial` belongs to this package, and whether a writer has it.

    Args:
        final: The name of the data when they are complete.

    Attributes:
        path: The growing file or folder.
    """

    def __init__(self, final: Path) -> None:
        self._final = final
        self.path: Path = final.with_name(final.name + ".partial")
        self._sidecar = self._beside(SIDECAR_SUFFIX)
        self._lock: FileLock | None = None

    def acquire(self, *, shared: bool = False) -> None:
        """Lock the partial data, and complete what a killed writer began to replace.

        Args:
            shared: Have them together with others that called `share`, if there are any.

        Raises:
            BlockingIOError: Another writer has them.
            TargetExistsError: A link or a folder has the name of their sidecar.
        """
        while True:
            try:
                self._lock = FileLock(self._sidecar, create=True)
                break
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.EISDIR):
                    raise _in_the_way(self._sidecar, "it is a link or a folder, expected a file") from error
                if not (shared and isinstance(error, BlockingIOError)):
                    raise
            if self._joins():
                return
        self._recover()

    def _joins(self) -> bool:
        """Lock data that others have prepared; return False if they have published them meanwhile, or have failed."""
        self._lock = FileLock(self._sidecar, create=True, shared=True)
        if self._read():
            return True
        self._lock.release()
        time.sleep(_RETRY_S)
        return False

    def share(self) -> None:
        """Let others have the partial data, too, that acquire them as shared.

        Raises:
            BlockingIOError: Another writer got them in between.
        """
        if self._lock is not None and not self._lock.is_shared:
            self._lock.share()

    @property
    def is_owned(self) -> bool:
        """True until another program deletes or replaces the sidecar."""
        return self._lock is not None and self._lock.is_current

    def begin(self, facts: Mapping[str, Any], backend: Backend, resume: bool) -> None:
        """Delete what an interrupted writer left, or check that this one resumes it.

        Args:
            facts: Format, payload and spec, the digest of the finished data that they extend, and the plan of a
                conversion.
            backend: The format.
            resume: Keep the data. Then those of another program are kept, too, if they are of the format.

        Raises:
            FormatError: The sidecar of the partial data is damaged.
            StateMismatchError: The interrupted writer had another format, payload, spec or plan.
            TargetExistsError: Something else has the partial name.
        """
        is_ours = self._read() or self._is_recognized() or (resume and holds_data_of(self.path, backend))
        if self.path.is_symlink() or not is_ours:
            raise _in_the_way(self.path, "it has the name of partial data, but no writer of this package left it")
        saved = self._saved() if resume else None
        if saved is not None:
            check_encoding(saved, facts, str(self._sidecar))
            return
        if not resume:
            self._remove_data()
        self._write({"version": 1, **facts}, sync=resume)

    def publish(self, sidecars: Mapping[str, Path | None], *, replace: bool) -> None:
        """Give the complete data, and the files beside them, their final names.

        Replaced data may have the partial name afterwards: `discard` deletes them.

        Args:
            sidecars: `HasSidecars.sidecars`.
            replace: Replace an existing file or folder.

        Raises:
            TargetExistsError: Something has the name, and `replace` is False.
        """
        beside = {self._final.with_name(name): path for name, path in sidecars.items()}
        beside = {final: path for final, path in beside.items() if path is not None or os.path.lexists(final)}
        now = {**beside, self._final: self.path}
        if any(map(os.path.lexists, now)):
            self._mark_complete(now)
        try:
            if beside:
                atomic.publish_together(now, replace=replace)
            else:
                atomic.publish(self.path, self._final, replace=replace)
        except FileExistsError as error:
            what = f"{str(self._final)!r} exists: another program made it meanwhile"
            raise TargetExistsError(what, remedy=Remedy("Pass {overwrite} to replace it", overwrite=True)) from error

    def discard(self) -> None:
        """Delete the partial data and all that lies beside them; after an error, what can still be deleted."""
        self._remove_data()
        # The sidecar last: without it, the rest would not be recognized.
        atomic.remove(self._sidecar)

    def release(self) -> None:
        """Let other writers have the name. The data stay; if there are none, nothing beside them does."""
        if self._lock is None:
            return
        try:
            if self._lock.is_shared:
                pass  # others may have them
            elif self._lock.is_current and not os.path.lexists(self.path):
                self.discard()
            elif self._lock.is_current and not self._read():
                atomic.remove(self._sidecar)
        except OSError as error:
            _LOG.warning("leftovers beside %s were not deleted: %s", self._final, error)
        finally:
            self._lock.release()

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    @property
    def _files(self) -> list[Path]:
        # Also that of the final sidecar: it is left if the writer is killed while it writes that.
        temporary = self._final.with_name(f"{self._final.name}{SIDECAR_SUFFIX}.partial")
        return [self.path, *map(self._beside, (*_JOURNALS, *_TEMPORARY)), temporary]

    def _remove_data(self) -> None:
        atomic.remove(*self._files)

    def _is_recognized(self) -> bool:
        return self._is_empty() or any(self._beside(journal).is_file() for journal in _JOURNALS)

    def _is_empty(self) -> bool:
        if atomic.is_folder(self.path):
            return not any(self.path.iterdir())
        return not os.path.lexists(self.path) or self.path.lstat().st_size == 0

    def _recover(self) -> None:
        """Complete or undo the replacing of old data, if a writer was killed meanwhile."""
        try:
            _, end, mark = self._parsed()
        except FormatError:
            return  # it was not marked; `begin` decides
        if mark is None:
            return
        beside = self._final.with_name
        atomic.restore({beside(name): beside(f"{name}.partial") if new else None for name, new in mark.names.items()})
        if _inode(self.path) not in (None, mark.inode):
            if _inode(self._final) != mark.inode:
                raise _in_the_way(self.path, "it holds neither new data nor the data that they replaced")
            atomic.remove(self.path)
        os.ftruncate(self._descriptor, end)

    # ---- the sidecar; it is written in place, because another file of its name would not be locked

    def _saved(self) -> dict[str, Any] | None:
        """Return what the interrupted writer saved; `None` if there is nothing to resume."""
        if not os.path.lexists(self.path) or not self._read():
            return None
        try:
            return self._parsed()[0]
        except FormatError:
            if self._is_empty():
                return None  # killed while it wrote the sidecar
            raise

    def _parsed(self) -> tuple[dict[str, Any], int, _Mark | None]:
        """Return the facts, the bytes of their text, and the mark of complete data behind it."""
        text = self._read()
        try:
            facts, end = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError) as error:
            path = str(self._sidecar)
            raise FormatError(f"the sidecar is not JSON ({error})", path=path, remedy=_REMEDY) from error
        if not isinstance(facts, dict) or facts.get("version") != 1:
            found = facts.get("version") if isinstance(facts, dict) else type(facts).__name__
            expected = "an object of version 1"
            raise FormatError(
                "the sidecar cannot be read", path=str(self._sidecar), expected=expected, found=found, remedy=_REMEDY
            )
        return facts, end, _Mark.parse(text[end:], self._final)

    def _read(self) -> str:
        # In Latin-1, a place in the text is a place in the file. A crash of the machine may leave zeros.
        return os.pread(self._descriptor, _MAX_BYTES, 0).decode("latin-1").strip("\0")

    def _write(self, facts: Mapping[str, Any], *, sync: bool) -> None:
        os.ftruncate(self._descriptor, 0)
        atomic.write_all(self._descriptor, json.dumps(facts, indent=1).encode(), 0)
        if sync:
            os.fsync(self._descriptor)
            atomic.sync(self._sidecar.parent)

    def _mark_complete(self, now: Mapping[Path, Path | None]) -> None:
        """Append a mark: it tells complete data from replaced data under the partial name, and what is renamed."""
        names = {final.name: path is not None for final, path in now.items()}
        mark = f"\n{json.dumps({'complete': _inode(self.path), 'names': names})}\n"
        atomic.write_all(self._descriptor, mark.encode(), os.fstat(self._descriptor).st_size)
        os.fsync(self._descriptor)

    @property
    def _descriptor(self) -> int:
        if self._lock is None:
            raise ValueError(f"{str(self.path)!r} is not locked")
        return self._lock.descriptor


def check_encoding(saved: Mapping[str, Any], facts: Mapping[str, Any], sidecar: str) -> None:
    """Raise `StateMismatchError` unless a sidecar of this name has this format, payload, spec and plan."""
    saved = {name: saved[name] for name in ENCODING if name in saved}
    now = dict(facts)
    then_plan, now_plan = saved.pop("plan", None), now.pop("plan", {})
    then_plan = then_plan if isinstance(then_plan, dict) else {}
    if saved != now:
        raise StateMismatchError(
            f"the encoding of the data that {sidecar!r} describes",
            expected=saved,
            found=now,
            remedy="Pass the same format, payload and spec, or write new data, without resume=True and append=True.",
        )
    differing = [name for name in {**then_plan, **now_plan} if then_plan.get(name) != now_plan.get(name)]
    if differing:
        raise StateMismatchError(
            f"the plan of the conversion that {sidecar!r} describes",
            expected={name: then_plan.get(name) for name in differing},
            found={name: now_plan.get(name) for name in differing},
            remedy="Resume with the same source and arguments, or start again without resume=True.",
        )


@dataclass(frozen=True, slots=True)
class _Mark:
    """What the sidecar says of data that are complete and about to be published.

    Attributes:
        inode: Of the complete data.
        names: The final names, to True if a new file gets it and False if it is only deleted.
    """

    inode: int
    names: dict[str, bool]

    @staticmethod
    def parse(text: str, data: Path) -> _Mark | None:
        """Return the mark; `None` if there is none, a torn one, or one that names other files than those of `data`."""
        try:
            found = json.loads(text)
            mark = _Mark(int(found["complete"]), {str(name): bool(new) for name, new in found["names"].items()})
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
            return None
        beside = (name for name in mark.names if name != data.name)
        is_of_data = all(is_name(name) and name.startswith(f"{data.stem}.") for name in beside)
        return mark if is_of_data and data.name in mark.names else None


def _in_the_way(path: Path, why: str) -> TargetExistsError:
    return TargetExistsError(f"{str(path)!r} is in the way: {why}", remedy="Delete or rename it")


def _inode(path: Path) -> int | None:
    try:
        return path.lstat().st_ino
    except FileNotFoundError:
        return None
