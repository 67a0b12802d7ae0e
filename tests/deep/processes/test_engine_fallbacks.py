"""Engines when a container forbids system calls, simulated by a seccomp filter in a separate process."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dataformats.kernels import implementation
from dataformats.storage.native.engines import describe

CALLS = {
    "x86_64": {"io_setup": 206, "io_submit": 209, "io_getevents": 208, "preadv2": 327, "fadvise64": 221}
    | {"memfd_create": 319, "pwritev": 296},
    "aarch64": {"io_setup": 0, "io_submit": 2, "io_getevents": 4, "preadv2": 286, "fadvise64": 223}
    | {"memfd_create": 279, "pwritev": 70},
}.get(platform.machine(), {})
CALLS |= {"io_uring_setup": 425, "io_uring_enter": 426}
SIZE = 4_000_000

pytestmark = [
    pytest.mark.skipif(
        not sys.platform.startswith("linux") or len(CALLS) < 3, reason="filters the system calls of Linux, by number"
    ),
    pytest.mark.skipif(implementation() != "native", reason="engines are in C, and the kernels run in Python"),
]

CHILD = r"""
import ctypes, errno, logging, os, resource, struct, sys
import numpy as np
from dataformats.storage.native.engines import describe, engine

logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
path = sys.argv[1]
fd = os.open(path, os.O_RDONLY)
np.random.default_rng()  # imported now
content = np.frombuffer(open(path, "rb").read(), np.uint8)

def forbid(call, number=errno.EPERM, first=None):
    '''Refuse a system call with an errno; with `first`, only where its second argument is not that.'''
    code = [(0x20, 0, 0, 0), (0x15, 0, 1 if first is None else 3, call)]  # the call's number: equal?
    if first is not None:
        code += [(0x20, 0, 0, 24), (0x15, 1, 0, first)]  # the second argument: equal? then go on
    code += [(0x06, 0, 0, 0x00050000 | number), (0x06, 0, 0, 0x7FFF0000)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in code))
    program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(filters))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    buffer = ctypes.create_string_buffer(program)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, ctypes.addressof(buffer), 0, 0) == 0, os.strerror(ctypes.get_errno())  # PR_SET_SECCOMP

def check(name, n=1500):
    random = np.random.default_rng(n)
    for longest in (1000, 9000, 150_000 if n < 400 else 20_000):
        offsets, lengths = random.integers(0, len(content) + 500, n), random.integers(0, longest, n)
        places = np.cumsum(lengths) - lengths
        buffer = np.zeros(int(lengths.sum()), np.uint8)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        done = engine(name).read(np.full(n, fd), offsets, lengths, places, buffer.data)
        assert (done == np.clip(len(content) - offsets, 0, lengths)).all()
        for offset, length, place in zip(offsets, done, places):
            assert (buffer[place : place + length] == content[offset : offset + length]).all()
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("refusals") / "noise"
    with path.open("wb") as file:
        file.write(np.random.default_rng(6).bytes(SIZE))
        file.flush()
        os.fdatasync(file.fileno())
    return path


def run(path: Path, script: str) -> str:
    """Run the script behind CHILD in a separate process; return its output."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD + script, str(path)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def can_be_cold(path: Path) -> bool:
    """Return False on file systems in memory, which drop nothing, and if dropped pages cannot be detected."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:  # it would have to wait
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def available(name: str) -> bool:
    return bool(describe()[name]["available"])


needs_uring = pytest.mark.skipif("not available('uring')", reason="io_uring is forbidden here anyway")
needs_libaio = pytest.mark.skipif("not available('libaio')", reason="libaio is forbidden here anyway")


def test_no_ring(path: Path) -> None:
    out = run(
        path,
        f"""
forbid({CALLS["io_uring_setup"]})
for _ in range(2):
    check("uring"), check("auto")
for name in ("uring", "auto"):
    print(name, describe()[name]["available"], describe()[name]["cold"], describe()[name]["reason"])
""",
    )
    assert out.splitlines() == [
        "io='uring' does not work here (io_uring_setup: Operation not permitted): threads instead",
        "uring False threads io_uring_setup: Operation not permitted",
        "auto True advised reads io_uring_setup: Operation not permitted",
    ]


def test_no_more_contexts(path: Path) -> None:
    """The system refuses a context, as if fs.aio-max-nr were used up."""
    out = run(
        path,
        f"""
forbid({CALLS["io_setup"]}, errno.EAGAIN)
check("libaio")
print(describe()["libaio"])
""",
    )
    assert "io='libaio' does not work here (io_setup: Resource temporarily unavailable): threads instead" in out
    assert "'available': False" in out


@needs_uring
@pytest.mark.parametrize("first", [None, 256], ids=["at once", "under way"])
def test_broken_ring_falls_back_to_other_reads(path: Path, first: int | None) -> None:
    """A ring also breaks while the kernel still writes to the caller's memory."""
    if not can_be_cold(path):
        pytest.skip("where the tests' files lie, perhaps in memory, nothing is known to be cold: auto asks no ring")
    out = run(
        path,
        f"""
check("uring"), check("auto")
forbid({CALLS["io_uring_enter"]}, errno.EPERM, {first})
for _ in range(2):
    check("uring"), check("auto")
print(describe()["uring"]["reason"], "|", engine("auto").cold, "|", engine("auto").reason)
""",
    )
    assert out == (
        "io_uring_enter: Operation not permitted | advised reads | io_uring_enter: Operation not permitted\n"
    )


@needs_libaio
def test_broken_aio_context_falls_back_to_other_reads(path: Path) -> None:
    out = run(
        path,
        f"""
check("libaio")
forbid({CALLS["io_getevents"]})
check("libaio"), check("libaio", 300)
print(describe()["libaio"]["reason"])
""",
    )
    assert out == "io_getevents: Operation not permitted\n"


@needs_libaio
def test_no_submission(path: Path) -> None:
    run(path, f"forbid({CALLS['io_submit']}, errno.EAGAIN)\ncheck('libaio')\ncheck('libaio', 300)")


@pytest.mark.parametrize("number", ["EOPNOTSUPP", "ENOSYS", "EAGAIN", "EIO"])
def test_engines_work_without_nonblocking_reads(path: Path, number: str) -> None:
    """Some file systems cannot tell which pages are in memory."""
    script = f"forbid({CALLS['preadv2']}, errno.{number})\nfor name in ('auto', 'threads'):\n    check(name)\n"
    run(path, script + "    check(name, 40)")


@pytest.mark.parametrize("call", ["memfd_create", "pwritev"])
@pytest.mark.parametrize("number", ["EPERM", "ENOSYS"])
def test_no_copies_of_maps(path: Path, call: str, number: str) -> None:
    run(
        path,
        f"""
from pathlib import Path
from tests.storage.native import test_mapped_copies as test
path = Path(path)
forbid({CALLS[call]}, errno.{number})
files = test.file_set(path)
for _ in range(4):
    assert test.read(files, test.extents(test.FEW)) == [test.expected(test.FEW, content.tobytes())]
assert test.maps(path) == {int(call == "pwritev")}
""",
    )


def test_no_advice(path: Path) -> None:
    run(
        path,
        f"""
drop = os.posix_fadvise
os.posix_fadvise = lambda *ignored: None
forbid({CALLS["fadvise64"]})
check("threads"), check("auto")
""",
    )


def test_no_threads(path: Path) -> None:
    """The caller reads all, and says why."""
    out = run(
        path,
        f"""
forbid({CALLS["preadv2"]}, errno.EOPNOTSUPP)
clone = {{"x86_64": 435, "aarch64": 435}}[os.uname().machine]
forbid(clone, errno.ENOSYS)
forbid({{"x86_64": 56, "aarch64": 220}}[os.uname().machine], errno.EAGAIN)
check("threads", 300)
print(engine("threads").reason)
""",
    )
    assert out == "pthread_create: Resource temporarily unavailable\n"


def test_few_descriptors(path: Path) -> None:
    """Descriptors are used up when an engine opens, and when it would open files again."""
    out = run(
        path,
        """
engine("libaio").capsule
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, hard))
check("libaio"), check("uring"), check("auto")
print(engine("uring").reason, "|", engine("auto").cold)
""",
    )
    assert out.splitlines()[-1] == "io_uring_setup: Too many open files | advised reads"


def test_memory_file_systems(path: Path) -> None:
    """The file system may refuse O_DIRECT."""
    folder = Path("/dev/shm")
    if not os.access(folder, os.W_OK):
        pytest.skip("no file system in memory here")
    copy = folder / f"dataformats-test-{os.getpid()}"
    try:
        copy.write_bytes(path.read_bytes())
        run(copy, "for name in ('auto', 'uring', 'libaio', 'threads'):\n    check(name, 200)")
    finally:
        copy.unlink(missing_ok=True)
