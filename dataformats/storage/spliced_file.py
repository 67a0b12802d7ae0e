"""A file that is put together from bytes and from ranges of another file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from dataformats.interfaces.stored_file import StoredFile


class SplicedFile(StoredFile):
    """Bytes and ranges of a file, one behind the other, as a file.

    Args:
        file: The file.
        parts: Bytes, or ranges of bytes of the file, which must lie inside it.
        name: The path; `None` takes the path of the file.
    """

    def __init__(self, file: StoredFile, parts: Sequence[bytes | range], name: str | None = None) -> None:
        self._file = file
        self._parts = list(parts)
        self._starts = list(accumulate(map(len, parts), initial=0))
        self.name: str = name or file.name
        self.size: int = self._starts[-1]
        self.identity: tuple[str, ...] = (*file.identity, "spliced")
        self.has_name = False

    def read_into(self, offset: int, out: memoryview) -> int:
        done = 0
        while done < len(out) and offset + done < self.size:
            number = bisect_right(self._starts, offset + done) - 1
            part, first = self._parts[number], offset + done - self._starts[number]
            n = min(len(out) - done, len(part) - first)
            if isinstance(part, range):
                n = self._file.read_into(part.start + first, out[done : done + n])
                if n == 0:
                    break
            else:
                out[done : done + n] = part[first : first + n]
            done += n
        return done

    def origin(self, offset: int) -> int:
        """Return where a byte lies in the file itself; of other bytes, where they would lie beside the range of it."""
        places = zip(self._starts, self._parts, strict=False)
        shifts = [(start, part.start - start) for start, part in places if isinstance(part, range)]
        shift = next((shift for start, shift in reversed(shifts) if start <= offset), shifts[0][1] if shifts else 0)
        return max(0, offset + shift)

    def file_beside(self, name: str) -> StoredFile | None:
        return self._file.file_beside(name)

    def release(self) -> None:
        self._file.release()
