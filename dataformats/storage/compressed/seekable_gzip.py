"""Random access into GZIP and ZLIB files: copies of the decompressor's state at checkpoints.

Consecutive reads decompress each byte once, also if several threads take turns: a read continues where an earlier one
ended, and waits for one that is about to end there. For other reads, decompressed blocks are kept, as long as each of
them serves several reads: a shuffled epoch reads each block many times.

The checksum of a member lies behind its bytes, so a pass over the whole file comes first, and drops members whose
checksum is wrong. The pass takes checksums of the compressed bytes, too, in blocks: a later read that needs some of
them finds that they are the ones that passed.
"""

from __future__ import annotations

import base64
import itertools
import math
import threading
import weakref
from array import array
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dataformats.errors import ChecksumError, FormatError, TruncatedError
from dataformats.fork_hooks import after_fork
from dataformats.interfaces import OutdatedIndexError
from dataformats.interfaces.stored_file import BlocksInMemory, StoredFile
from dataformats.kernels import crc32c
from dataformats.storage.compressed.decompressor import (
    WBITS,
    DamageError,
    Decompressor,
    OnePassDecompressor,
    ReferenceDecompressor,
)
from dataformats.storage.compressed.ordered_stream import OrderedStream
from dataformats.storage.decoded_cache import DECODED_CACHE, Owner

_STEP = 256 * 1024  # decompressed bytes between checkpoints, at first
_MAX_CHECKPOINTS = 1024  # checkpoints of one file; 40 to 56 KB each
_MIN_CHECKPOINTS = 4
_ALL_CHECKPOINTS = 8192  # checkpoints of all files of the process, approximately
_CURSORS = 4
_PATIENCE = 16  # reads that another one waits for at most
_PATIENCE_S = 1.0  # an interrupt may leave a read that never ends
_END = 2**63
_FLAGS = 4  # bytes of a gzip header up to its flags, which a decompressor may look at
_STREAMS = 4  # files of the process that are read in order
_MIN_READS = 8  # for each block, or the blocks of other reads are not kept
_RUN = 16  # blocks that are decompressed at once
_NEAR = 4096  # bytes: a read that begins as near behind another one follows it

_CHECKED = 64 * 1024  # compressed bytes that have one checksum: what a decompressor reads at once

_STREAMING: list[weakref.ref[DecompressedFile]] = []  # the latest last
_LIVE: weakref.WeakSet[DecompressedFile] = weakref.WeakSet()

_Block = tuple[Owner, bool, int]
"""The file, whether the reference decompressed the block, and its number in the file; a block has `_STEP` bytes."""


class _Admission:
    """Counts reads of all files, so that blocks are kept only if each serves several reads."""

    def __init__(self) -> None:
        self.restart()
        after_fork(self, "restart")

    def restart(self) -> None:
        self._spare = math.inf  # blocks that may be kept before they serve any read

    def admits(self, n_missing: int) -> bool:
        """Count a read; return True if it may decompress so many blocks to keep them."""
        most = DECODED_CACHE.limit_bytes // _STEP
        spare = min(self._spare + 1 / _MIN_READS, most)  # another thread's count may be lost: it is a rough number
        self._spare = spare - n_missing if n_missing <= spare else spare
        return n_missing <= spare


_ADMISSION = _Admission()


class DecompressedFile(StoredFile):
    """The decompressed bytes of a file, as a file.

    Args:
        file: The compressed file.
        compression: `"gzip"` or `"zlib"`.
        one_pass: It is read once, in order: faster, without checkpoints.
        records_have_checksums: True if its records do: then bytes of a damaged member can be read.

    Attributes:
        damage: Why the decompressed bytes end early, once `size` is known; `None` if the file is sound.
    """

    def __init__(
        self, file: StoredFile, compression: str, *, one_pass: bool = False, records_have_checksums: bool = False
    ) -> None:
        self._file = file
        self._wbits = WBITS[compression]
        self.compression = compression
        self.name: str = file.name
        self.identity: tuple[str, ...] = (*file.identity, compression)
        self._owner = DECODED_CACHE.owner(self)
        self.damage: FormatError | None = None
        self._records_have_checksums = records_have_checksums or one_pass
        self._checksums = array("I")  # CRC-32C of each block of compressed bytes that was read
        self._verified = bytearray()  # 1 for each block that was read in this process: its next reads are free
        self._size: int | None = None
        self._is_measured = False
        self._step = _END if one_pass else _STEP
        self._kind: type[Decompressor] = OnePassDecompressor if one_pass else Decompressor
        self._checkpoints: list[Decompressor] = [self._kind(self._wbits)]
        self._unlock()
        after_fork(self, "_unlock")
        _LIVE.add(self)

    def _unlock(self) -> None:
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)  # a read has ended
        self._seeking = threading.Lock()
        self._cursors: list[Decompressor] = []  # where recent reads ended: a sequential reader continues there
        self._reads: dict[int, tuple[int, int]] = {}  # thread to the read under way: from, to
        self._stream: OrderedStream | None = None

    @property
    def stored(self) -> StoredFile:
        """The compressed file."""
        return self._file

    @property
    def size(self) -> int:  # type: ignore[override]  # computed by a pass over the file, then cached
        """The number of readable decompressed bytes; the first call reads the whole file."""
        if self._size is None:
            self._size, self._is_measured = self._measure(), True
        return self._size

    @property
    def checksums(self) -> str:
        """The checksums of the compressed bytes that were read, as text for an index."""
        return base64.b85encode(np.array(self._checksums, "<u4").tobytes()).decode()

    def known_size(self, size: int, damage: FormatError | None, checksums: str) -> None:
        """Set size, damage and `checksums` from an index, instead of a pass over the file."""
        self._checksums = array("I", np.frombuffer(base64.b85decode(checksums), "<u4").tolist())
        self._verified = bytearray(len(self._checksums))
        self._size, self.damage, self._is_measured = size, damage, False

    def forget_size(self) -> None:
        """Measure the size again: the index that it came from is of another file."""
        DECODED_CACHE.drop(self._owner)
        self._size, self.damage, self._checksums, self._verified = None, None, array("I"), bytearray()

    def read_into(self, offset: int, out: memoryview) -> int:
        """Fill `out` from decompressed byte `offset`; return the number of bytes read, fewer only at the end."""
        if self.damage is not None and self._size is not None:
            out = out[: max(0, self._size - offset)]
        if not len(out):
            return 0
        return len(out) if self._read_kept(offset, out) else self._read(offset, out)

    def _read_kept(self, offset: int, out: memoryview) -> bool:
        """Fill `out` from blocks that are kept; return False if it must be decompressed for this read alone."""
        end = offset + len(out)
        if self._size is None or not 0 <= offset < end <= self._size or self._step == _END:
            return False
        numbers = range(offset // _STEP, (end - 1) // _STEP + 1)
        with self._lock:
            keys = self._keys(numbers)
            ends = [*(cursor.position for cursor in self._cursors), *(stop for _, stop in self._reads.values())]
        is_alone = len(out) > _STEP or any(0 <= offset - place <= _NEAR for place in ends)
        n_missing = sum(key not in DECODED_CACHE for key in keys)
        if (is_alone and n_missing) or not _ADMISSION.admits(n_missing):
            return False
        try:
            blocks = DECODED_CACHE.get_many(keys, self._blocks)
        except FormatError:
            return False  # the read itself says whether its bytes are damaged
        if sum(map(len, blocks)) < end - numbers[0] * _STEP:
            return False  # they were kept when the index said that the file is shorter
        for number, block in zip(numbers, blocks, strict=True):
            begin = number * _STEP
            first, stop = max(offset, begin), min(end, begin + len(block))
            out[first - offset : stop - offset] = block[first - begin : stop - begin]
        return True

    def decompress(self, first: int, end: int) -> None:
        """Decompress these bytes, and keep the blocks that have them."""
        stop = -(-min(end, self.size) // _STEP)
        for number in range(first // _STEP, stop, _RUN):  # all at once would be in memory beside the cache
            DECODED_CACHE.get_many(self._keys(range(number, min(number + _RUN, stop))), self._blocks)

    def blocks_in_memory(self, offsets: NDArray[np.int64]) -> BlocksInMemory | None:
        numbers, owners = np.unique(offsets // _STEP, return_inverse=True)
        blocks = DECODED_CACHE.get(self._keys(numbers.tolist()))
        return None if blocks is None else BlocksInMemory(owners, numbers * _STEP, blocks)

    def _keys(self, numbers: Sequence[int]) -> list[_Block]:
        return [(self._owner, self._kind is ReferenceDecompressor, number) for number in numbers]

    def _blocks(self, keys: Sequence[_Block]) -> list[tuple[memoryview, int]]:
        """Return blocks, in ascending order, and their bytes; neighbors are decompressed at once."""
        found: list[tuple[memoryview, int]] = []
        for _, run in itertools.groupby(enumerate(keys), lambda one: one[1][2] - one[0]):
            numbers = [number for _, (_, _, number) in run]
            begin, end = numbers[0] * _STEP, min((numbers[-1] + 1) * _STEP, self.size)
            data = memoryview(bytearray(end - begin))
            self._read(begin, data, waits=False)  # raises if the file ends early
            # Copies: a part of all of them would hold the memory of those that are dropped.
            blocks = [memoryview(bytes(data[at : at + _STEP])) for at in range(0, len(data), _STEP)]
            found += [(block, len(block)) for block in blocks]
        return found

    def _read(self, offset: int, out: memoryview, *, waits: bool = True) -> int:
        thread = threading.get_ident()
        try:
            with self._lock:
                self._reads[thread] = (offset, offset + len(out))
            if waits:
                self._wait_for_neighbors(offset)
            return self._read_into(offset, out)
        except DamageError:
            self._use_reference()
            return self._read_into(offset, out)
        finally:
            with self._ended:
                self._reads.pop(thread, None)
                self._ended.notify_all()

    def read_in_order(self, offset: int, out: memoryview) -> int:
        """Read like `read_into`, but faster if reads follow each other from the start of the file.

        The bytes before damage may be wrong. If the records do not pass their checksums, read them by `read_into`.
        """
        stream = self._stream
        if offset == 0 and (stream is None or not stream.holds(0)):
            stream = self._stream = OrderedStream(self._file, self.compression, self.size)
            _drop_streams(self)
        return len(out) if stream is not None and stream.read_into(offset, out) else self.read_into(offset, out)

    def _read_into(self, offset: int, out: memoryview) -> int:
        cursor = self._at(offset)
        done = 0
        while cursor.position == offset + done and done < len(out):
            part = self._advance(cursor, min(len(out) - done, self._to_checkpoint(cursor)))
            if not part:
                break
            out[done : done + len(part)] = part
            done += len(part)
        self._keep(cursor)
        if done < len(out) and self._size is not None and offset + done < self._size:
            if self.damage is None and not self._is_measured:
                what = "the decompressed data are shorter than the index says"
                raise OutdatedIndexError(what, path=self.name, expected=self._size, found=offset + done)
            raise self.damage or self._broken(cursor, "the decompressed data were truncated", TruncatedError)
        return done

    def _wait_for_neighbors(self, offset: int) -> None:
        """Wait while another read is about to end where one from `offset` on could continue."""
        with self._ended:
            for _ in range(_PATIENCE):
                is_alone = len(self._reads) == 1
                if is_alone or not self._will_be_nearer(offset) or not self._ended.wait(_PATIENCE_S):
                    break

    def _will_be_nearer(self, offset: int) -> bool:
        """True if a read under way ends before `offset`, and nearer to it than any decompressor is now."""
        cursors = [cursor.position for cursor in self._cursors if cursor.position <= offset]
        now = max([self._checkpoint_before(offset).position, *cursors])
        return any(now < end <= offset for _, end in self._reads.values())

    def _use_reference(self) -> None:
        """Decompress from the start, by the reference, and from then on."""
        with self._lock:
            if self._kind is not ReferenceDecompressor:
                self._kind = ReferenceDecompressor
                checkpoints: list[Decompressor] = [self._kind(self._wbits)]
                self._checkpoints, self._cursors, self._step = checkpoints, [], _STEP

    def pread(self, offset: int, length: int) -> bytes:
        """Return up to `length` decompressed bytes; uses memory for the bytes found, not for `length`."""
        parts, step = [], 2**20
        while length > 0:
            out = bytearray(min(step, length))
            n = self.read_into(offset, memoryview(out))
            parts.append(bytes(memoryview(out)[:n]))
            if n < len(out):
                break
            offset, length = offset + n, length - n
        return b"".join(parts)

    def release(self) -> None:
        with self._lock:
            self._cursors = []
        DECODED_CACHE.drop(self._owner)
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.stop()
        self._file.release()

    def file_beside(self, name: str) -> StoredFile | None:
        """Return the file `name` beside the compressed one; `None` if it does not exist."""
        return self._file.file_beside(name)

    def _measure(self) -> int:
        try:
            cursor = self._at(_END)
        except DamageError:
            self._use_reference()
            cursor = self._at(_END)
        self._keep(cursor)
        is_doubtful = self.damage is not None and self._is_doubtful(cursor, type(self.damage))
        return cursor.member if is_doubtful else cursor.position

    def _is_doubtful(self, cursor: Decompressor, damage: type[FormatError]) -> bool:
        """True if bytes before this damage, at the end of readable bytes, may be wrong: in a member without a checksum.

        A member that ends early has none that is wrong, and what a killed writer left can be read.
        """
        return not self._records_have_checksums and not cursor.ended and damage is not TruncatedError

    def _at(self, offset: int) -> Decompressor:
        """Return a decompressor at `offset`, or at the end of the readable bytes before it."""
        cursor = self._nearest(offset)
        if offset - cursor.position <= self._step:
            return self._skip(cursor, offset)
        # Far: one thread decompresses and leaves checkpoints; waiting threads start from these.
        self._keep(cursor)
        with self._seeking:
            return self._skip(self._nearest(offset), offset)

    def _skip(self, cursor: Decompressor, offset: int) -> Decompressor:
        while cursor.position < offset:
            if not self._advance(cursor, min(offset - cursor.position, self._to_checkpoint(cursor))):
                break
        return cursor

    def _nearest(self, offset: int) -> Decompressor:
        with self._lock:
            checkpoint = self._checkpoint_before(offset)
            kept = [c for c in self._cursors if checkpoint.position <= c.position <= offset]
            if not kept:
                return checkpoint.copy()
            best = max(kept, key=lambda cursor: cursor.position)
            self._cursors.remove(best)
            return best

    def _checkpoint_before(self, offset: int) -> Decompressor:
        number = bisect_right(self._checkpoints, offset, key=lambda checkpoint: checkpoint.position)
        return self._checkpoints[number - 1]

    def _keep(self, cursor: Decompressor) -> None:
        with self._lock:
            if type(cursor) is self._kind:
                self._cursors = [*self._cursors[-(_CURSORS - 1) :], cursor]

    def _to_checkpoint(self, cursor: Decompressor) -> int:
        """Add a checkpoint if one is due; return the number of bytes until the next one.

        Raises:
            DamageError: Another read found damage, or there is some here.
        """
        with self._lock:
            if type(cursor) is not self._kind:
                raise DamageError("another read found damage")
            due = self._checkpoints[-1].position + self._step
            if cursor.position >= due and not cursor.ended:
                self._checkpoints.append(cursor.checkpoint())
                most = max(_MIN_CHECKPOINTS, min(_MAX_CHECKPOINTS, _ALL_CHECKPOINTS // max(1, len(_LIVE))))
                while len(self._checkpoints) > most:
                    self._checkpoints = self._checkpoints[::2]
                    self._step *= 2
                due = self._checkpoints[-1].position + self._step
        return max(1, min(due - cursor.position, _STEP))

    def _advance(self, cursor: Decompressor, max_bytes: int) -> bytes:
        """Return the next 1 to `max_bytes` decompressed bytes; `b""` at the end or at damage.

        Raises:
            DamageError: There may be damage, and the decompressor is not the reference.
        """
        while True:
            if cursor.ended and not self._next_member(cursor):
                return b""
            n_read = self._feed(cursor)
            try:
                out = cursor.take(max_bytes)
            except DamageError as error:
                self._broken(cursor, f"the compressed data are damaged ({error})", FormatError)
                return b""
            if out:
                return out
            if not n_read and not cursor.pending and not cursor.ended:
                self._broken(cursor, "the compressed data end early", TruncatedError)
                return b""

    def _feed(self, cursor: Decompressor) -> int:
        """Read compressed bytes for a decompressor that has none pending; return how many are pending."""
        if not cursor.pending:
            cursor.give(self._stored_bytes(cursor.source, cursor.read_bytes))
        return len(cursor.pending)

    def _stored_bytes(self, offset: int, most: int) -> bytes:
        """Return compressed bytes: up to the end of their block, if its checksum has to be compared.

        Raises:
            ChecksumError: They are not the bytes that the pass over the file read.
        """
        number, last = offset // _CHECKED, (min(offset + most, self._file.size) - 1) // _CHECKED
        is_verified = last < len(self._verified) and self._verified.find(0, number, last + 1) < 0
        if self._records_have_checksums or is_verified:
            return self._file.pread(offset, most)
        begin = number * _CHECKED
        block = self._file.pread(begin, _CHECKED)
        computed = crc32c(block)
        with self._lock:
            if number == len(self._checksums) and block:
                self._checksums.append(computed)
                self._verified.append(0)
            stored = self._checksums[number] if number < len(self._checksums) else computed
            if stored == computed and number < len(self._verified):
                self._verified[number] = 1
        if stored != computed:
            what = f"compressed bytes changed since the file was indexed, in {begin} to {begin + len(block)};"
            what += " bytes before them can be read; checksum of them"
            raise ChecksumError(what, path=self.name, offset_bytes=begin, stored=stored, computed=computed)
        return block[offset - begin : offset - begin + most]

    def _next_member(self, cursor: Decompressor) -> bool:
        """Continue with the next gzip member; returns False at the end of the file."""
        rest, source = cursor.left_over, cursor.source
        while True:
            if self._wbits == WBITS["gzip"]:
                rest = rest.lstrip(b"\0")  # padding, which gzip itself accepts
            more = b"" if len(rest) >= _FLAGS else self._stored_bytes(source, cursor.read_bytes)
            if not more:
                break
            rest, source = rest + more, source + len(more)
        if not rest:
            return False
        if self._wbits != WBITS["gzip"] or not rest.startswith(b"\x1f"):
            self._broken(cursor, "bytes follow the compressed data", FormatError)
            return False
        cursor.begin_member(rest, source)
        return True

    def _broken(self, cursor: Decompressor, message: str, kind: type[FormatError]) -> FormatError:
        if not isinstance(cursor, ReferenceDecompressor):
            raise DamageError(message)
        found, remedy = f"{self._file.size} compressed bytes, {cursor.position} decompressed", None
        if self._is_doubtful(cursor, kind):
            found += f"; any of those from {cursor.member} on, where the member begins, may be wrong"
            remedy = "Get the file again; gzip -dc prints what is left of it"
        self.damage = kind(message, path=self.name, offset_bytes=cursor.position, found=found, remedy=remedy)
        return self.damage


def _drop_streams(latest: DecompressedFile) -> None:
    """Drop the stream of the file that began to be read in order before `_STREAMS` other ones."""
    others = [one for one in _STREAMING if one() not in (None, latest)]
    _STREAMING[:] = [*others[-_STREAMS + 1 :], weakref.ref(latest)]
    for one in others[: -_STREAMS + 1]:
        if (file := one()) is not None:
            file._stream = None  # a read under way keeps it
