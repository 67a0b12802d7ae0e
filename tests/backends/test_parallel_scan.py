"""A file that is scanned in several pieces at once gives the same result as one pass, damage included."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dataformats.backends.framed import file_scan as whole
from dataformats.backends.framed import frame_scanner as chain
from dataformats.backends.framed import parallel_scan as pieces
from dataformats.backends.framed.framing import Framing
from dataformats.backends.ofrecord.layout import FRAMING as OFRECORD
from dataformats.backends.tfrecord.layout import FRAMING as TFRECORD
from dataformats.interfaces.stored_file import StoredFile
from dataformats.storage.files import LocalFile
from dataformats.testing.loop_over import loop_over
from tests.campaign import share
from tests.waiting import LIMIT_S

frames = TFRECORD.frames
GOLDEN = Path(__file__).parents[1] / "golden"
FORMATS = {"tfrecord": TFRECORD, "ofrecord": OFRECORD}
FILES = [
    (path, FORMATS[name])
    for name in FORMATS
    for path in sorted((GOLDEN / name).rglob("*"))
    if path.is_file() and path.suffix not in (".json", ".npz", ".index")
]
QUICK = settings(
    max_examples=share(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


class Held(StoredFile):
    """A file in memory."""

    def __init__(self, content: bytes) -> None:
        self.name, self.size, self.identity = "held", len(content), (str(len(content)),)
        self.local = "held"  # a file with a path: the scan passes over large records
        self._content = content

    def read_into(self, offset: int, out: memoryview) -> int:
        part = self._content[offset : offset + len(out)]
        out[: len(part)] = part
        return len(part)

    def file_beside(self, name: str) -> None:
        return None


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Make pieces and windows so small that small files have many of them; with one thread there are no pieces."""

    def shrink(piece: int, threads: int) -> None:
        monkeypatch.setattr(pieces, "_PIECE", piece)
        monkeypatch.setattr(pieces, "_MEAN_FRAMES", 1)
        monkeypatch.setattr(pieces, "_SEARCH", 37)
        monkeypatch.setattr(pieces, "processors", lambda: threads)
        monkeypatch.setattr(chain, "_WINDOW", 64 if threads > 1 else 2**19)
        monkeypatch.setattr(whole, "_FIRST_SCAN", 1)

    return shrink


def scanned(framing: Framing, file: StoredFile) -> tuple[object, ...]:
    steps: list[int] = []
    found = whole.scan(framing, file, steps.append)
    assert sum(steps) <= file.size
    assert found.rest is not None or sum(steps) == file.size
    stored = None if found.stored is None else found.stored.tolist()
    return found.lengths.tolist(), stored, found.rest and (type(found.rest), str(found.rest))


def assert_same(tiny: Callable[[int, int], None], framing: Framing, file: StoredFile, sizes: list[int]) -> None:
    tiny(2**24, 1)
    expected = scanned(framing, file)
    for size in sizes:
        tiny(size, 4)
        assert scanned(framing, file) == expected, size


@loop_over("path, framing", FILES)
def test_golden_files(path: Path, framing: Framing, tiny: Callable[[int, int], None]) -> None:
    file = LocalFile(path)
    assert_same(tiny, framing, file, [64, 257, max(64, file.size // 3)])
    file.release()


def nested(depth: int, width: int) -> bytes:
    """TFRecords whose data are TFRecords, and so on."""
    if depth == 0:
        return bytes(range(width))
    return frames([nested(depth - 1, width + n) for n in range(4)])


@pytest.mark.parametrize("size", [50, 64, 100, 333, 1000])
def test_scan_reads_records_holding_tfrecords(size: int, tiny: Callable[[int, int], None]) -> None:
    for depth in (1, 2, 3, 4):
        inner = nested(depth, 10)
        content = frames([inner, b"", inner[:-3], b"x" * 40, inner])
        assert_same(tiny, TFRECORD, Held(content), [size])


def test_data_made_of_headers(tiny: Callable[[int, int], None]) -> None:
    header = frames([b"abc"])[:12]
    far = frames([bytes(2000)])[:12]
    content = frames([header * 50, far * 60, b"y" * 30, (far + header) * 40])
    assert_same(tiny, TFRECORD, Held(content), [64, 100, 500])


def test_header_in_data_does_not_mislead_scan(tiny: Callable[[int, int], None]) -> None:
    padding, between = b"p" * 250, [b"true", b"frames", b"x" * 50, b""]
    inner = frames([b"inside"] * 30)
    to_inner = len(frames(between)) + 4 + 12  # bytes from the end of the header: a footer, true frames, a header
    lure = frames([bytes(to_inner - 4)])[:12]
    content = frames([b"first", padding + lure, *between, inner, *between])
    assert content.index(inner) == content.index(lure) + 12 + to_inner
    assert_same(tiny, TFRECORD, Held(content), [*range(40, 300, 7)])


def test_a_huge_record_across_pieces(tiny: Callable[[int, int], None]) -> None:
    noise = np.random.default_rng(0).bytes(20_000)
    content = frames([b"a" * 20, b"b" * 30, noise, b"c", nested(3, 5) * 20, b"d" * 20, b"e" * 20])
    assert_same(tiny, TFRECORD, Held(content), [64, 700, 5000])
    assert_same(tiny, TFRECORD, Held(content[:-3]), [64, 700, 5000])


def test_records_too_large_to_be_read(tiny: Callable[[int, int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "_SKIP_LOCAL", 100)
    monkeypatch.setattr(chain, "_HEADERS_ONLY", 40)
    content = frames([bytes(n) for n in (5, 500, 3, 400, 0, 300, 200, 1, 150)] * 5)
    for damaged in (content, content[:-1], content[:-5], content[:-17], content + b"abc"):
        assert_same(tiny, TFRECORD, Held(damaged), [64, 333])
        assert_same(tiny, OFRECORD, Held(damaged), [64, 333])


@given(seed=st.integers(0, 2**32), size=st.integers(40, 600))
@QUICK
def test_random_files_with_cuts_and_flips(seed: int, size: int, tiny: Callable[[int, int], None]) -> None:
    chance = random.Random(seed)
    records = [chance.choice([chance.randbytes(chance.randrange(90)), nested(2, 3)]) for _ in range(60)]
    content = bytearray(frames(records))
    assert_same(tiny, TFRECORD, Held(bytes(content)), [size])
    for _ in range(chance.randrange(1, 3)):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    assert_same(tiny, TFRECORD, Held(bytes(content)), [size])
    assert_same(tiny, TFRECORD, Held(bytes(content[: chance.randrange(len(content))])), [size])


def test_pieces_are_used(tiny: Callable[[int, int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    file = Held(frames([b"data" * 5] * 500))
    taken: list[bool] = []
    adopt = chain.FrameScanner.adopt

    def watched(self: chain.FrameScanner, other: chain.FrameScanner) -> bool:
        taken.append(adopt(self, other))
        return taken[-1]

    monkeypatch.setattr(chain.FrameScanner, "adopt", watched)
    tiny(2**24, 1)
    scanned(TFRECORD, file)
    assert taken == []
    tiny(1000, 4)
    scanned(TFRECORD, file)
    assert len(taken) > 10
    assert all(taken)
    scanned(OFRECORD, Held(b"".join(OFRECORD.frames([b"data" * 5] * 500) for _ in range(2))))
    assert len(taken) < 40  # nothing tells where an OFRecord begins


def test_error_of_scan_thread_is_raised(tiny: Callable[[int, int], None]) -> None:
    class Failing(Held):
        def read_into(self, offset: int, out: memoryview) -> int:
            if offset > 5000:
                raise OSError("the disk is gone")
            return super().read_into(offset, out)

    tiny(1000, 4)
    with pytest.raises(OSError, match="the disk is gone"):
        whole.scan(TFRECORD, Failing(frames([b"data" * 5] * 500)))


def test_ending_the_scan_does_not_wait_for_a_lock_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector may end it in a thread that holds what a piece waits for."""
    monkeypatch.setattr(pieces, "_PATIENCE_S", 0.05)
    lock, begun, ended = threading.Lock(), threading.Event(), threading.Event()

    class Piece(pieces._Piece):
        def scan(self, stopped: threading.Event) -> None:
            if self.first:
                begun.set()
                with lock:
                    ended.set()

    scan = pieces._in_order([Piece(TFRECORD, Held(b""), first, first, 1) for first in (0, 1)])
    with lock:
        assert next(scan) is None
        assert begun.wait(LIMIT_S)
        closing = threading.Thread(target=scan.close, daemon=True)
        closing.start()
        closing.join(LIMIT_S)
        assert not closing.is_alive()
    assert ended.wait(LIMIT_S)
