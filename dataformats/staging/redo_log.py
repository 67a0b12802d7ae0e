"""RedoLog: the changes of a publication behind a URL, kept in one object until all are done."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from dataformats.errors import TargetExistsError, TargetInUseError
from dataformats.sidecars.file_comparison import is_name
from dataformats.sidecars.sidecar import SIDECAR_SUFFIX
from dataformats.staging.objects import Objects

_PATIENCE_S = 10.0
"""A writer whose heartbeat stands still so long counts as killed."""
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class RedoLog:
    """The changes of a publication: enough to end it, or to undo it.

    Attributes:
        id: The ID of the writer.
        metadata: The content of the new sidecar.
        keep: False if the new data need no sidecar.
        previous: The metadata of the old data.
        before: The old sidecar.
        beside: The names of the files beside a single file, old and new.
        kept: The objects of the old data that stay.
        moves: Final name to present name of the new objects.
        replaces: True if the new data have a name of an old object.
        is_seamless: True if readers find the old data or the new ones at any moment.
        is_moved: True once all new objects have their names.
    """

    id: str
    metadata: Mapping[str, Any]
    keep: bool
    previous: Mapping[str, Any] | None
    before: str | None
    beside: list[str]
    kept: list[str]
    moves: dict[str, str]
    replaces: bool
    is_seamless: bool
    is_moved: bool = False

    def pack(self) -> bytes:
        """Return the text."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def parse(cls, text: bytes, data: str) -> RedoLog:
        """Return the log in a text.

        Args:
            text: The text.
            data: The final name of the data. A log of others could have any object replaced.

        Raises:
            ValueError: It is no log, or one of other data.
        """
        try:
            log = cls(**json.loads(text))
            name = PurePosixPath(data)
            final = (f"{data}/", f"{data.removesuffix(name.name)}{name.stem}.")
            names = [*log.moves, *log.kept, *log.beside]
            is_ours = all(name == data or name.startswith(final) for name in names)
            is_ours &= all(name.startswith((f"{data}/", f"{data}.partial/")) for name in log.moves.values())
            is_ours &= is_name(log.id) and isinstance(log.metadata["files"], list)
        except (LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"not a log: {error}") from error
        if not is_ours:
            raise ValueError("it is about other data")
        return log


class LogObject:
    """The object `NAME.partial.dataformats.json`, which holds the log of the one writer that publishes.

    That writer rewrites the object `heartbeat` beside its staged shards every few seconds.

    Args:
        objects: The file system.
        path: The final name of the data in it.
        name: The final name of the data, for messages.
    """

    def __init__(self, objects: Objects, path: str, name: str) -> None:
        self._objects = objects
        self._path, self._name = path, name
        self._object = f"{path}.partial{SIDECAR_SUFFIX}"
        self._beat_s = 0.0

    def create(self, log: RedoLog) -> bool:
        """Write the log; return False if there is one."""
        return self._objects.create(self._object, log.pack())

    def set_moved(self, log: RedoLog) -> None:
        """Note that all new objects have their names."""
        self._objects.write(self._object, replace(log, is_moved=True).pack())

    def delete(self) -> None:
        """Delete the log: all is done, or undone."""
        self._objects.delete([self._object])

    def read(self, writer: str | None = None) -> RedoLog | None:
        """Return the log, if there is one, of this writer or of any.

        Raises:
            TargetExistsError: Something else has its name.
        """
        text = self._objects.read(self._object)
        if text is None:
            return None
        try:
            log = RedoLog.parse(text, self._path)
        except ValueError as error:
            name = f"{self._name}.partial{SIDECAR_SUFFIX}"
            what = f"{name!r} is in the way: no writer of this name left it ({error})"
            raise TargetExistsError(what, remedy="Delete or rename it") from error
        return log if writer in (None, log.id) else None

    def is_current(self, log: RedoLog) -> bool:
        """Return False if another writer has applied or undone a log, and deleted it."""
        return self.read(log.id) is not None

    def wait(self, writer: str) -> RedoLog | None:
        """Wait for a writer that is publishing; return the log that it left if it was killed, `None` if it has ended.

        Args:
            writer: The ID of the caller, whose own log is returned at once.

        Raises:
            TargetInUseError: It is publishing still.
        """
        other, heartbeat, deadline = "", None, 0.0
        while (log := self.read()) is not None and log.id != writer:
            if log.id != other:
                other, deadline = log.id, time.monotonic() + _PATIENCE_S
                heartbeat = self._objects.read(self._heartbeat_of(other))
            if time.monotonic() < deadline:
                time.sleep(_POLL_S)
            elif self._objects.read(self._heartbeat_of(other)) == heartbeat:
                break
            else:
                what = f"another writer is publishing {self._name!r}"
                raise TargetInUseError(what, remedy="Wait until it has ended; then call again")
        return log

    @contextmanager
    def heartbeats(self, writer: str) -> Iterator[None]:
        """Rewrite the heartbeat of a writer in a thread, so that no other one takes it for killed."""
        ended = threading.Event()

        def rewrite() -> None:
            while not ended.wait(_PATIENCE_S / 5):
                with suppress(Exception):
                    self._objects.write(self._heartbeat_of(writer), secrets.token_bytes(8))
                    self._beat_s = time.monotonic()

        self._beat_s = time.monotonic()
        thread = threading.Thread(target=rewrite, name="dataformats-heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def is_lost(self, log: RedoLog) -> bool:
        """Return True if the heartbeat stood still, and another writer has taken this one for killed."""
        return time.monotonic() > self._beat_s + _PATIENCE_S / 2 and not self.is_current(log)

    def _heartbeat_of(self, writer: str) -> str:
        return f"{self._path}.partial/{writer}/heartbeat"
