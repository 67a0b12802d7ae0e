"""Engines that read local files: one of each name per process, opened at first use."""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dataformats.fork_hooks import after_fork
from dataformats.kernels.engines import engine_open, engine_read, engine_state
from dataformats.storage.descriptors import DESCRIPTORS, is_shortage

NAMES = ("auto", "uring", "libaio", "threads")
"""The names that `engine` takes."""

_FALLBACK = "threads"
_BY_KIND = {
    "mmap": "available; pass io='mmap': truncating a mapped file ends the process with SIGBUS",
    "fsspec": "for files behind a URL",
}
_PLAIN = "plain reads"

_LOG = logging.getLogger("dataformats")


class Engine:
    """An engine of this process. Thread-safe; a forked child opens its own at its first use.

    Attributes:
        name: The requested engine.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._opened = False
        self._capsule: Any = None
        self._refusal: str | None = None
        self._has_warned = False
        after_fork(self, "_forget")

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._opened, self._capsule, self._refusal = False, None, None

    @property
    def capsule(self) -> Any:
        """The handle for native readers, opened at first use; `None` if plain reads are used."""
        capsule = self._capsule  # read once: a forked child resets it
        if capsule is not None:
            return capsule
        with self._lock:
            if not self._opened:
                self._capsule = self._open()
                self._opened = True
            return self._capsule

    @property
    def reason(self) -> str | None:
        """Why the engine is replaced, or what failed while it was used; `None` if it works."""
        capsule = self.capsule
        if self._refusal is not None or capsule is None:
            return self._refusal
        _, what, error = engine_state(capsule)
        return None if what is None else f"{what}: {os.strerror(error)}"

    @property
    def cold(self) -> str:
        """The engine that reads files that are not in memory, or `"plain reads"`."""
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
        """Read ranges of open files into a buffer; return the bytes read of each, int64[n].

        A range gets fewer bytes than its length only at the end of its file.

        Args:
            fds: int32[n], descriptors.
            offsets: int64[n], byte offsets in the files.
            lengths: int64[n], bytes.
            places: int64[n], byte offsets in `buffer`.
            buffer: Writable bytes.

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
            return _with_spare_descriptors(self.name)
        except NotImplementedError as error:
            self._refusal = str(error)  # no warning: the kernels have warned that they are not compiled
            return None
        except OSError as error:
            self._refusal = str(error.strerror)
        capsule = _open_or_none(_FALLBACK)
        if not self._has_warned:
            self._has_warned = True
            instead = _PLAIN if capsule is None else _FALLBACK
            _LOG.warning("io=%r does not work here (%s): %s instead", self.name, self._refusal, instead)
        return capsule

    def __reduce__(self) -> tuple[Any, ...]:
        return engine, (self.name,)

    def __repr__(self) -> str:
        return f"Engine({self.name!r})"


def _with_spare_descriptors(name: str) -> Any:
    try:
        return engine_open(name)
    except OSError as error:
        if not is_shortage(error):
            raise
    DESCRIPTORS.close_spare()
    return engine_open(name)


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


_ENGINES = {name: Engine(name) for name in NAMES}  # opened at first use


def engine(name: str) -> Engine:
    """Return the engine of this name of this process.

    An engine that this machine forbids is replaced by `threads`, with one warning in the log.

    Raises:
        ValueError: No engine has that name.
    """
    if name not in _ENGINES:
        raise ValueError(f"unknown engine: expected one of {', '.join(NAMES)}, found {name!r}")
    return _ENGINES[name]


def describe() -> dict[str, dict[str, Any]]:
    """Describe each engine, for bug reports; opens all of them.

    Returns:
        Name to a dict: `available`; `reason`, why it is not available or is replaced, or `None`; `note`, when it is
        used; and, for the names that `engine` takes, `cold`, which engine reads files that are not in memory.
    """
    facts: dict[str, dict[str, Any]] = {}
    for name, each in _ENGINES.items():
        cold = each.cold
        available = name in ("auto", cold)
        if name == "auto":
            note = f"reads uncached files with {cold}"
        else:
            note = f"available; pass io={name!r}" if available else f"not available; {cold} instead"
        facts[name] = {"available": available, "reason": each.reason, "note": note, "cold": cold}
    for name, note in _BY_KIND.items():
        facts[name] = {"available": True, "reason": None, "note": note}
    return facts
