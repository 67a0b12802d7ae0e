"""Short blobs copied from maps of files in the page cache: the bytes of plain reads, even if files change."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dataformats.batch.value_slices import join_blobs
from dataformats.errors import FormatError
from dataformats.interfaces import Extents, Located
from dataformats.kernels import reads_batches
from dataformats.storage import reference_read
from dataformats.storage.files import LocalFile
from dataformats.storage.native import fast_read
from dataformats.storage.native.file_set import FileSet
from tests.campaign import share
from tests.waiting import LIMIT_S

pytestmark = [
    pytest.mark.skipif(not reads_batches(), reason="maps are copied by the compiled kernels"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="files are copied from maps on Linux"),
]
SIZE = 300_000
NOISE = np.random.default_rng(5).bytes(SIZE)


def file_set(*paths: Path) -> FileSet:
    return FileSet([LocalFile(path) for path in paths])


def extents(rows: list[tuple[int, int, int]], **more: Any) -> Extents:
    file, offset, length = zip(*rows, strict=True)
    return Extents(np.array(file, np.int32), np.array(offset, np.int64), np.array(length, np.int64), **more)


def read(files: FileSet, *requests: Extents) -> list[list[bytes]] | None:
    located = {str(number): Located(request) for number, request in enumerate(requests)}
    stored = fast_read.read(files, located, 2**31)
    return None if stored is None else [list(join_blobs(blobs)) for blobs, _ in stored.values()]


def maps(path: Path) -> int:
    """Return how often a file is mapped."""
    return Path("/proc/self/maps").read_text().count(str(path))


FEW = [(0, at, 100) for at in range(0, SIZE - 100, SIZE // 20)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "noise"
    path.write_bytes(NOISE)
    return path


@pytest.fixture
def mapped(path: Path) -> FileSet:
    """The file, after reads that found it in the page cache."""
    files = file_set(path)
    for _ in range(3):
        assert read(files, extents(FEW)) is not None
    if not maps(path):
        pytest.skip("this system does not tell what is in the page cache, or refuses memory files")
    return files


def expected(rows: list[tuple[int, int, int]], content: bytes = NOISE) -> list[bytes]:
    return [content[at : at + n] for _, at, n in rows]


@settings(max_examples=share(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_extents(data: Any, mapped: FileSet) -> None:
    """Short and long ones, neighbors and overlapping ones, with framing, up to the last byte of the file."""
    head, tail = data.draw(st.sampled_from([(0, 0), (12, 4), (8, 0), (64, 64)]))
    requests = []
    for _ in range(data.draw(st.integers(1, 3))):
        rows = []
        for _ in range(data.draw(st.integers(1, 40))):
            offset = data.draw(st.integers(head, SIZE - tail) | st.sampled_from([head, SIZE - tail, 4096 + head]))
            longest = min(SIZE - tail - offset, data.draw(st.sampled_from([0, 1, 63, 1000, 5000, 40_000])))
            rows.append((0, offset, data.draw(st.sampled_from([longest, longest // 2]))))
        requests.append(rows)
    assert read(mapped, *(extents(rows, head=head, tail=tail) for rows in requests)) == [*map(expected, requests)]


def test_maps_go_with_their_files(path: Path, mapped: FileSet) -> None:
    files = file_set(path)
    for _ in range(3):
        assert read(files, extents(FEW)) is not None
    assert maps(path) == 2
    del files
    assert maps(path) == 1


def test_threads_and_forks(mapped: FileSet) -> None:
    rng = np.random.default_rng(0)
    batches = [[(0, int(at), 500) for at in rng.integers(0, SIZE - 500, 64)] for _ in range(40)]

    def check(rows: list[tuple[int, int, int]]) -> bool:
        return read(mapped, extents(rows)) == [expected(rows)]

    with ThreadPoolExecutor(12) as threads:
        assert all(threads.map(check, batches * 5))
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            os._exit(0 if all(map(check, batches)) else 1)
        children.append(child)
    assert all(map(check, batches * 3))
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]


def cut(path: Path) -> None:
    os.truncate(path, SIZE - 5000)


def cut_within_a_page(path: Path) -> None:
    os.truncate(path, SIZE - 50)


def write(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(7)
        file.write(b"x")
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize("change", [cut, cut_within_a_page, write, Path.unlink])
def test_changed_files_are_not_copied_from_the_mapping(
    change: Callable[[Path], None], path: Path, mapped: FileSet
) -> None:
    change(path)
    for _ in range(2):
        assert read(mapped, extents(FEW)) is None
        assert read(mapped, extents([(0, SIZE - 100, 100)])) is None
    with pytest.raises(FormatError):
        reference_read.read_blobs(mapped, [extents([(0, SIZE - 100, 100)])], max_bytes=2**31)


def test_another_file_of_the_same_size_and_time(path: Path, mapped: FileSet) -> None:
    """A file replaced as by `cp -p`. Its content counts once its descriptor is opened; the map has the first file."""
    other, stat = NOISE[::-1], path.stat()
    new = path.with_name("new")
    new.write_bytes(other)
    os.utime(new, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    new.replace(path)
    mapped[0].release()
    for _ in range(4):
        assert read(mapped, extents(FEW)) == [expected(FEW, other)]


def test_dropped_pages_are_read_again(path: Path) -> None:
    files = file_set(path)
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fdatasync(fd)
        for _ in range(4):
            assert read(files, extents(FEW)) == [expected(FEW)]
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            assert read(files, extents(FEW)) == [expected(FEW)]
    finally:
        os.close(fd)


def test_many_files(tmp_path: Path) -> None:
    """More than are mapped."""
    paths = [tmp_path / str(number) for number in range(300)]
    for number, path in enumerate(paths):
        path.write_bytes(NOISE[number : number + 2000])
    files = file_set(*paths)
    rows = [(number, 10, 1000) for number in range(300)]
    for _ in range(4):
        assert read(files, extents(rows)) == [[NOISE[number + 10 : number + 1010] for number in range(300)]]
    assert maps(tmp_path) <= 256


def test_large_files_are_not_mapped(mapped: FileSet, path: Path) -> None:
    """Touched pages count as memory of the process."""
    large = path.with_name("large")
    with large.open("wb") as file:
        file.write(NOISE)
        file.truncate(os.sysconf("SC_PHYS_PAGES") // 4 * os.sysconf("SC_PAGESIZE") - SIZE + 1)
    files = file_set(large)
    for _ in range(3):
        assert read(files, extents(FEW)) == [expected(FEW)]
    assert (maps(path), maps(large)) == (1, 0)


def test_few_descriptors(path: Path) -> None:
    """The maps leave descriptors for the rest of the process."""
    script = f"""
import os, resource
from tests.storage.native import test_mapped_copies as test
from pathlib import Path
path = Path({str(path)!r})
files = test.file_set(path)
test.read(files, test.extents(test.FEW))
most = max(map(int, os.listdir("/proc/self/fd"))) + 10
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
for _ in range(4):
    assert test.read(files, test.extents(test.FEW)) == [test.expected(test.FEW)]
links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink() and os.path.exists(link)]
assert not any("memfd:dataformats" in link for link in links)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr


SHRINKING = """
import sys, threading, time, os
from pathlib import Path
from tests.storage.native import test_mapped_copies as test
path = Path(sys.argv[1])
test.shrink_while_read(path)
"""


def shrink_while_read(path: Path) -> None:
    """Read while another thread cuts the file and makes it whole again, with its time."""
    until = time.monotonic() + 1
    stat = path.stat()
    n_read = n_changes = 0

    def is_over() -> bool:
        return n_read > 0 and time.monotonic() > until

    def shrink() -> None:
        nonlocal n_changes
        while not is_over():
            n_changes += 1
            os.truncate(path, 4096 * 3 + 17)
            with path.open("r+b") as file:
                file.write(NOISE)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            n_changes += 1
            time.sleep(0.001)

    other = threading.Thread(target=shrink, daemon=True)
    files = file_set(path)
    other.start()
    while not is_over():
        before = n_changes
        try:
            found = read(files, extents(FEW))
        except FormatError:  # another descriptor was needed
            found = None
        n_read += found is not None
        is_same = before % 2 == 0 and n_changes == before  # else the file may have had its time again at the end
        assert not is_same or found == [expected(FEW)]
    other.join()


def test_file_shrinking_during_reads_does_not_crash(path: Path) -> None:
    """The reads run in a process of their own: SIGBUS would end it."""
    command = [sys.executable, "-c", SHRINKING, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
