"""Which engine reads local files: one of each name in a process, opened at its first use."""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.fork_hooks import after_fork
from dataformats.kernels.engines import engine_open, engine_read, engine_state

__all__ = ["NAMES", "Engine", "describe", "engine"]

NAMES = ("auto", "uring", "libaio", "threads")
"""The engines that `engine` knows."""

_FALLBACK = "threads"
_BY_KIND = {
    "mmap": "only if asked for: a mapped file that is cut short ends the process with SIGBUS",
    "fsspec": "for files behind a URL",
}
_PLAIN = "plain reads"

logger: logging.Logger = logging.getLogger("dataformats")


class Engine:
    """An engine of this process. Thread-safe; a forked child opens its own at its first use.

    Attributes:
        name: What was asked for.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._opened = False
        self._capsule: Any = None
        self._refusal: str | None = None
        self._told = False
        after_fork(self, "_forget")

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._opened, self._capsule, self._refusal = False, None, None

    @property
    def capsule(self) -> Any:
        """The engine for native readers, opened now if it was not; None where there is none: plain reads serve."""
        capsule = self._capsule  # in one look: a forked child forgets it
        if capsule is not None:
            return capsule
        with self._lock:
            if not self._opened:
                self._capsule = self._open()
                self._opened = True
            return self._capsule

    @property
    def reason(self) -> str | None:
        """Why it does not do all that its name says, or None; also if it broke while it was used."""
        capsule = self.capsule
        if self._refusal is not None or capsule is None:
            return self._refusal
        _, what, error = engine_state(capsule)
        return None if what is None else f"{what}: {os.strerror(error)}"

    @property
    def cold(self) -> str:
        """What reads files that are not in memory: the name of an engine, or `"plain reads"`."""
        capsule = self.capsule
        return _PLAIN if capsule is None else engine_state(capsule)[0]

    def read(
        self,
        fds: ArrayLike,
        offsets: ArrayLike,
        lengths: ArrayLike,
        places: ArrayLike,
        buffer: memoryview,
    ) -> NDArray[np.int64]:
        """Read stretches of open files into places of writable bytes; return how many each got, `(n,) int64`.

        A stretch gets fewer bytes than its length only where its file ends.

        Raises:
            OSError: A read failed.
        """
        try:
            return engine_read(self.capsule, fds, offsets, lengths, places, buffer)
        except NotImplementedError:
            numbers = (np.asarray(each).tolist() for each in (fds, offsets, lengths, places))
            done = [_read(fd, at, buffer[place : place + n]) for fd, at, n, place in zip(*numbers, strict=True)]
            return np.array(done, np.int64)

    def _open(self) -> Any:
        try:
            return engine_open(self.name)
        except NotImplementedError as error:
            self._refusal = str(error)  # whoever runs without C was told so by the kernels
            return None
        except OSError as error:
            self._refusal = str(error.strerror)
        capsule = _open_or_none(_FALLBACK)
        if not self._told:
            self._told = True
            instead = _PLAIN if capsule is None else _FALLBACK
            logger.warning("io=%r does not work here (%s): %s instead", self.name, self._refusal, instead)
        return capsule

    def __reduce__(self) -> tuple[Any, ...]:
        return engine, (self.name,)

    def __repr__(self) -> str:
        return f"Engine({self.name!r})"


def _open_or_none(name: str) -> Any:
    try:
        return engine_open(name)
    except OSError:
        return None


def _read(fd: int, offset: int, out: memoryview) -> int:
    done = 0
    while done < len(out):
        n = os.preadv(fd, [out[done:]], offset + done)
        if n == 0:
            break
        done += n
    return done


_ENGINES = {name: Engine(name) for name in NAMES}  # nothing is opened before it is used


def engine(name: str) -> Engine:
    """Return the engine of this process that has that name.

    One that this machine forbids is replaced by `threads`, and the log says so once.

    Raises:
        ValueError: No engine has that name.
    """
    if name not in _ENGINES:
        raise ValueError(f"no engine is called {name!r}: expected one of {', '.join(NAMES)}")
    return _ENGINES[name]


def describe() -> dict[str, dict[str, Any]]:
    """Return what of each engine there is here, for bug reports.

    `available`; `reason`, why it is not, or not as it should be, else None; `note`, when it is used. For those that
    `engine` knows: `cold`, what reads files that are not in memory. It opens them.
    """
    facts: dict[str, dict[str, Any]] = {}
    for name, each in _ENGINES.items():
        cold = each.cold
        note = f"what is not in memory is read by {cold}" if name == "auto" else "if asked for"
        available = name in ("auto", cold)
        facts[name] = {"available": available, "reason": each.reason, "note": note, "cold": cold}
    for name, note in _BY_KIND.items():
        facts[name] = {"available": True, "reason": None, "note": note}
    return facts
