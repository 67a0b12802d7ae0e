"""Builds each tests/fuzz/fuzz_*.c with the kernels and runs it: see README.md in this folder.

Needs only the standard library, a C compiler, and for fuzzing clang with libFuzzer.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
KERNELS = HERE.parents[1] / "dataformats" / "kernels"
GOLDEN = HERE.parent / "golden"

# The targets, and the kernels that each one is for: the coverage of these is printed.
TARGETS: dict[str, Sequence[str]] = {
    "batch": ["batch/batch.c", "io/request.c", "checksum/crc_copy*.c"],
    "best_fit": ["pack/*.c"],
    "crc": ["checksum/*.c"],
    "example": ["wire/*.c"],
    "gather": ["batch/gather.c"],
    "images": ["image/*.c"],
    "index": ["batch/index.c", "checksum/crc_portable.c"],
    "json": ["json/*.c", "wire/wire_reader.c"],
    "layout": ["batch/layout.c"],
    "ofrecord": ["wire/*.c"],
    "permutation": ["permute/*.c"],
    "read": ["io/*.c"],
    "scan": ["scan/*.c"],
    "sequence_example": ["wire/*.c"],
    "write": ["wire/wire_write.c", "wire/wire_names.c"],
}

FLAGS = ["-g", "-O2", "-std=c11", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all", "-Wall", "-Wextra"]
SANITIZERS = "-fsanitize=address,undefined"
# Only the kernels are instrumented, because only they are to be explored. Tracing each comparison takes a third of
# the time, and makes inputs no better.
TRACED = ["-fsanitize=fuzzer-no-link", "-fno-sanitize-coverage=trace-cmp"]
MEASURED = ["-fprofile-instr-generate", "-fcoverage-mapping"]
ENVIRONMENT = os.environ | {
    "ASAN_OPTIONS": "abort_on_error=1:malloc_context_size=2:quarantine_size_mb=8",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}
MAX_SEED_BYTES = 4096
REPLAY_ROUNDS = 40


def main() -> int:
    """Run the targets of the command line; return 1 if a target failed."""
    arguments = parsed()
    names = arguments.targets or list(TARGETS)
    with tempfile.TemporaryDirectory(prefix="dataformats-fuzz-") as name:
        folder = Path(name)
        write_seeds(folder / "seeds")
        if arguments.replay:
            return replay(names, folder, arguments.cc)
        if not has_libfuzzer(arguments.clang, folder):
            print(f"fuzzing skipped: {arguments.clang} with libFuzzer is not here")
            return 1 if arguments.insist else replay(names, folder, arguments.cc)
        seconds = arguments.seconds or max(1, arguments.total // len(names))
        return fuzz(names, folder, arguments, seconds)


def parsed() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"some of {', '.join(TARGETS)}; all if none is given")
    parser.add_argument("--seconds", type=int, help="for each target")
    parser.add_argument("--total", type=int, default=15, help="seconds for all targets together, without --seconds")
    parser.add_argument("--replay", action="store_true", help="no fuzzer: golden files and fixed mutations of them")
    parser.add_argument("--corpus", type=Path, help="a folder that keeps the found inputs, with a subfolder per target")
    parser.add_argument("--coverage", action="store_true", help="print the part of each target's kernels that was run")
    parser.add_argument("--insist", action="store_true", help="fail if there is no libFuzzer")
    parser.add_argument("--clang", default=os.environ.get("CLANG", "clang"))
    parser.add_argument("--cc", default=os.environ.get("CC", "gcc"))
    arguments = parser.parse_args()
    unknown = {*arguments.targets} - TARGETS.keys()
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    return arguments


def has_libfuzzer(clang: str, folder: Path) -> bool:
    """Return True if that compiler can build a fuzz target."""
    if shutil.which(clang) is None:
        return False
    probe = folder / "probe.c"
    probe.write_text("int LLVMFuzzerTestOneInput(const char *data, long size) { return !data && size; }\n")
    command = [clang, "-fsanitize=fuzzer", SANITIZERS, str(probe), "-o", str(folder / "probe")]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def fuzz(names: Sequence[str], folder: Path, arguments: argparse.Namespace, seconds: int) -> int:
    """Run each target under libFuzzer, and print a line for it; return 1 if one failed."""
    kernels = built_kernels(arguments.clang, [*TRACED, SANITIZERS], folder / "kernels")
    coverage = Coverage(arguments.clang, folder / "coverage") if arguments.coverage else None
    failed = 0
    for name in names:
        program = linked(arguments.clang, name, [SANITIZERS], ["-fsanitize=fuzzer", SANITIZERS], kernels, folder)
        corpus = (arguments.corpus or folder / "corpus") / f"fuzz_{name}"
        corpus.mkdir(parents=True, exist_ok=True)
        options = [f"-max_total_time={seconds}", f"-max_len={MAX_SEED_BYTES}", "-timeout=20", "-print_final_stats=1"]
        command = [program, *options, f"-artifact_prefix={os.getcwd()}/{name}-", corpus, folder / "seeds"]
        begin = time.monotonic()
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        elapsed = time.monotonic() - begin
        n = executions(done.stderr)
        lines = f", {coverage.of(name, corpus, folder / 'seeds')}" if coverage else ""
        print(f"{name}: {n:,} executions, {n / elapsed:,.0f}/s{lines}", flush=True)
        if done.returncode:
            print(done.stderr[-8000:], file=sys.stderr)
            failed = 1
    if coverage:
        print(f"all: {coverage.of_all()}")
    return failed


def executions(log: str) -> int:
    """Return how many inputs libFuzzer has run, from its output."""
    for line in reversed(log.splitlines()):
        if "number_of_executed_units" in line or line.startswith("#"):
            return int(line.split()[-1] if ":" in line.split()[0] else line[1:].split()[0])
    return 0


class Coverage:
    """The lines of the kernels that inputs reach, counted by clang in programs without sanitizers."""

    def __init__(self, clang: str, folder: Path) -> None:
        self._clang, self._folder = clang, folder
        self._kernels = built_kernels(clang, MEASURED, folder)
        self._programs: list[Path] = []

    def of(self, name: str, *inputs: Path) -> str:
        """Return the part of a target's kernels that these folders of inputs reach, in words."""
        program = linked(self._clang, name, [], ["-fsanitize=fuzzer", *MEASURED], self._kernels, self._folder)
        self._programs.append(program)
        environment = os.environ | {"LLVM_PROFILE_FILE": f"{program}.profraw"}
        command = [str(program), "-runs=0", f"-max_len={MAX_SEED_BYTES}", *map(str, inputs)]
        subprocess.run(command, env=environment, capture_output=True, check=True)
        return self._lines([program], [path for pattern in TARGETS[name] for path in KERNELS.glob(pattern)])

    def of_all(self) -> str:
        """Return the part of all kernels that all targets together have reached."""
        return self._lines(self._programs, kernel_sources())

    def _lines(self, programs: list[Path], sources: Sequence[Path]) -> str:
        profile = self._folder / "merged"
        self._tool("llvm-profdata", "merge", "-sparse", *(f"{program}.profraw" for program in programs), "-o", profile)
        objects = [part for program in programs[1:] for part in ("-object", program)]
        found = self._tool(
            "llvm-cov", "export", "-summary-only", f"-instr-profile={profile}", programs[0], *objects, *sources
        )
        total = json.loads(found)["data"][0]["totals"]["lines"]
        return f"{total['covered'] / total['count']:.0%} of {total['count']} lines"

    def _tool(self, name: str, *arguments: object) -> str:
        found = subprocess.run([self._clang, f"-print-prog-name={name}"], capture_output=True, text=True, check=True)
        command = [found.stdout.strip(), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def replay(names: Sequence[str], folder: Path, cc: str) -> int:
    """Run each target on the seeds and on fixed mutations of them; return 1 if one failed."""
    kernels = built_kernels(cc, [SANITIZERS], folder / "kernels")
    driver = compiled(cc, [SANITIZERS], HERE / "replay.c", folder / "replay.o")
    seeds = sorted((folder / "seeds").iterdir())
    failed = 0
    for name in names:
        program = linked(cc, name, [SANITIZERS], [SANITIZERS], [driver, *kernels], folder)
        done = subprocess.run([program, str(REPLAY_ROUNDS), *seeds], env=ENVIRONMENT, check=False)
        print(f"{name}: {len(seeds)} seeds with {REPLAY_ROUNDS} changes each", flush=True)
        failed |= done.returncode != 0
    return int(failed)


def kernel_sources() -> list[Path]:
    """Return the files of the kernels, without the wrapper for Python."""
    return [path for path in sorted(KERNELS.glob("*/*.c")) if path.parent.name != "python"]


def built_kernels(compiler: str, flags: list[str], folder: Path) -> list[Path]:
    """Return the objects of the kernels, in a new folder."""
    folder.mkdir()
    sources = kernel_sources()
    objects = [folder / f"{path.parent.name}_{path.stem}.o" for path in sources]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(lambda pair: compiled(compiler, flags, *pair), zip(sources, objects, strict=True)))


def compiled(compiler: str, flags: list[str], source: Path, made: Path) -> Path:
    """Return the object of a source."""
    run([compiler, *FLAGS, *flags, f"-I{KERNELS}", "-c", source, "-o", made])
    return made


def linked(
    compiler: str, name: str, flags: list[str], link_flags: list[str], objects: Sequence[Path], folder: Path
) -> Path:
    """Return the program of a target."""
    target = compiled(compiler, flags, HERE / f"fuzz_{name}.c", folder / f"fuzz_{name}.o")
    program = folder / f"fuzz_{name}"
    run([compiler, *link_flags, target, *objects, "-lpthread", "-lm", "-o", program])
    return program


def run(command: list[object]) -> None:
    """Run a command; its failure ends this program."""
    subprocess.run([str(part) for part in command], check=True)


def write_seeds(folder: Path) -> None:
    """Write the small golden files, and the records that lie in them."""
    folder.mkdir()
    contents = dict.fromkeys(content for path in golden_files() for content in (path.read_bytes(), *records(path)))
    for number, content in enumerate(content for content in contents if len(content) <= MAX_SEED_BYTES):
        (folder / f"{number:04}").write_bytes(content)


def golden_files() -> list[Path]:
    """Return the files of frames and of lines, damaged ones too."""
    found = [path for name in ("tfrecord", "ofrecord", "jsonl") for path in sorted((GOLDEN / name).rglob("*"))]
    return [path for path in found if path.is_file() and path.suffix not in (".json", ".npz", ".py", ".gz")]


def records(path: Path) -> Iterator[bytes]:
    """Yield the data of the first frames of a file, as far as their lengths make sense, or the first lines."""
    content, at = path.read_bytes(), 0
    if "jsonl" in path.parts:
        yield from content.splitlines(keepends=True)[:8]
        return
    head, tail = (12, 4) if "tfrecord" in path.parts else (8, 0)
    for _ in range(8):
        length = int.from_bytes(content[at : at + 8], "little")
        if at + head + length + tail > len(content):
            return
        yield content[at + head : at + head + length]
        at += head + length + tail


if __name__ == "__main__":
    sys.exit(main())
