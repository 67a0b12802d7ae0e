"""Decompressors of GZIP and ZLIB data at a position of a file, which can be copied as checkpoints.

The fast paths decompress with zlib-ng, or in one pass with ISA-L, or with zlib if these are not installed. They say
nothing about damage: they raise `DamageError` at anything unusual. Their reference decompresses with zlib, and finds
every byte before the damage. So the bytes and errors of a damaged file are the same with any library.
"""

from __future__ import annotations

import functools
import importlib
import zlib
from contextlib import suppress
from types import ModuleType
from typing import Any

WBITS = {"gzip": 31, "zlib": 15}
"""The `wbits` of `zlib` for each compression."""

_RESERVED_FLAGS = 0xE0  # bits of a gzip header without a meaning


class DamageError(Exception):
    """The compressed data may be damaged: the reference has to find out."""


@functools.cache
def fast_library(name: str = "zlib_ng.zlib_ng") -> ModuleType:
    """Return a library; `zlib`, which takes twice as long as the others, if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:  # a platform for which it has no wheel
        return zlib


def decompressed_start(data: bytes, compression: str, max_bytes: int) -> tuple[bytes, bool]:
    """Return up to `max_bytes` decompressed bytes of the beginning of a file, and True if its last member ends there.

    Damaged data end the bytes.
    """
    out, is_whole = b"", False
    with suppress(zlib.error):
        while not is_whole and len(out) < max_bytes:
            state = zlib.decompressobj(WBITS[compression])
            out += state.decompress(data, max_bytes - len(out))
            data = state.unused_data
            is_whole = state.eof and not data.startswith(b"\x1f\x8b")
            if not state.eof:
                break
    return out, is_whole


class Decompressor:
    """A decompressor at a decompressed position.

    Args:
        wbits: A value of `WBITS`.

    Attributes:
        read_bytes: How many compressed bytes to read at once.
        source: Compressed bytes given to it.
        position: Decompressed bytes returned.
        member: The position at which the present member begins.
        pending: Bytes that were given to it and not consumed.
    """

    __slots__ = ("_state", "_wbits", "member", "pending", "position", "source")
    read_bytes = 64 * 1024
    library: Any = staticmethod(fast_library)

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._state = self._new_state()
        self.source: int = 0
        self.position: int = 0
        self.member: int = 0
        self.pending: bytes = b""

    def _new_state(self) -> Any:
        return self.library().decompressobj(self._wbits)

    @property
    def ended(self) -> bool:
        """True behind the last byte of a member."""
        return bool(self._state.eof)

    @property
    def left_over(self) -> bytes:
        """The bytes given to it that follow the member."""
        unused: bytes = self._state.unused_data
        return unused + self.pending

    def give(self, compressed: bytes) -> None:
        """Feed the next compressed bytes; call only if none are pending."""
        self.pending = compressed
        self.source += len(compressed)

    def begin_member(self, compressed: bytes, source: int) -> None:
        """Continue with another member, which begins with `compressed`; these bytes end at `source`."""
        self._state, self.pending, self.source = self._new_state(), compressed, source
        self.member = self.position

    def copy(self) -> Decompressor:
        """Return another one at the same position."""
        return self._with(self._state.copy(), self.pending)

    def checkpoint(self) -> Decompressor:
        """Return a copy, up to a byte further on, that holds no compressed bytes: they are read again.

        Raises:
            DamageError: The data are damaged here.
        """
        state = self._state.copy()
        found = self._with(state, b"")
        found.source -= len(self.pending)
        try:
            found.position += len(state.decompress(b"", 1))  # which forgets `unconsumed_tail`
        except self.library().error as error:
            raise DamageError(str(error)) from error
        return found

    def _with(self, state: Any, pending: bytes) -> Decompressor:
        new = object.__new__(type(self))
        new._wbits, new._state, new.pending = self._wbits, state, pending
        new.source, new.position, new.member = self.source, self.position, self.member
        return new

    def take(self, max_bytes: int) -> bytes:
        """Return up to `max_bytes` decompressed bytes of the pending ones; max_bytes > 0.

        Raises:
            DamageError: The pending bytes are damaged at their start.
        """
        try:
            out: bytes = self._state.decompress(self.pending, max_bytes)
        except self.library().error as error:
            raise DamageError(str(error)) from error
        self.pending = _left(self._state)
        self.position += len(out)
        return out


class OnePassDecompressor(Decompressor):
    """Decompresses with ISA-L, a third faster than zlib-ng; its state cannot be copied, so a copy is at the start."""

    __slots__ = ("_checked",)
    library: Any = staticmethod(functools.partial(fast_library, "isal.isal_zlib"))

    def copy(self) -> Decompressor:
        """Return another one at the start."""
        return type(self)(self._wbits)

    def _new_state(self) -> Any:
        self._checked = self._wbits != WBITS["gzip"]
        return super()._new_state()

    def take(self, max_bytes: int) -> bytes:
        """Return up to `max_bytes` decompressed bytes of the pending ones; max_bytes > 0.

        Raises:
            DamageError: The pending bytes are damaged at their start, or a member begins with flags of no meaning,
                which ISA-L does not see.
        """
        if not self._checked:
            flags = self.pending[3:4]
            if not flags or flags[0] & _RESERVED_FLAGS:
                raise DamageError("unknown header flags")
            self._checked = True
        return super().take(max_bytes)


class ReferenceDecompressor(Decompressor):
    """Decompresses with zlib, one call at a time, up to the last byte before damage.

    Which bytes of a damaged file are readable must not depend on how they are read. zlib drops the output of a call
    that finds damage, so that call is repeated in halves, down to one byte in and one byte out.
    """

    __slots__ = ()
    read_bytes = 16 * 1024  # a checkpoint may hold this much compressed data
    library: Any = staticmethod(functools.partial(fast_library, "zlib"))

    def checkpoint(self) -> Decompressor:
        """Return a copy at the same position."""
        return self.copy()

    def take(self, max_bytes: int) -> bytes:
        """Return up to `max_bytes` decompressed bytes of the pending ones; max_bytes > 0.

        Raises:
            DamageError: The pending bytes are damaged at their start.
        """
        before = self._state.copy()
        try:
            out: bytes = self._state.decompress(self.pending, max_bytes)
        except zlib.error:
            out = self._take_before_damage(before, max_bytes)
        else:
            self.pending = _left(self._state)
        self.position += len(out)
        return out

    def _take_before_damage(self, state: Any, max_bytes: int) -> bytes:
        """Return the bytes before the damage, at least one; raises `DamageError` if there are none."""
        n_in, n_out = len(self.pending), max_bytes
        while True:
            attempt = state.copy()
            try:
                out: bytes = attempt.decompress(self.pending[:n_in], n_out)
            except zlib.error as error:
                if n_in <= 1 and n_out <= 1:
                    self._state = state
                    raise DamageError(str(error)) from error
                n_in, n_out = (n_in // 2, n_out) if n_in > 1 else (n_in, n_out // 2)
                continue
            self.pending = _left(attempt) + self.pending[n_in:]
            state, n_in, n_out = attempt, len(self.pending), max_bytes
            if out or attempt.eof or not self.pending:
                self._state = attempt
                return out


def _left(state: Any) -> bytes:
    """Return the compressed bytes that were not consumed; at the end, `unused_data` may hold them instead."""
    left: bytes = b"" if state.eof else state.unconsumed_tail
    return left
