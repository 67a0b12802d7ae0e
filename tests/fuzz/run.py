"""Builds each tests/fuzz/fuzz_*.c with the kernels and runs it: see README.md in this folder.

Needs only the standard library, a C compiler, and for fuzzing clang with libFuzzer.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
KERNELS = HERE.parents[1] / "dataformats" / "kernels"
GOLDEN = HERE.parent / "golden"
FLAGS = ["-g", "-O1", "-std=c11", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all"]
SANITIZERS = "address,undefined"
ENVIRONMENT = os.environ | {"ASAN_OPTIONS": "abort_on_error=1", "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}
MAX_SEED_BYTES = 4096
REPLAY_ROUNDS = 40


def main() -> int:
    """Run what the command line asks for; return 1 if a target failed."""
    arguments = parsed()
    targets = sorted(HERE.glob("fuzz_*.c"))
    if arguments.targets:
        targets = [target for target in targets if target.stem.removeprefix("fuzz_") in arguments.targets]
    if not targets:
        print("no such target", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="dataformats-fuzz-") as name:
        folder = Path(name)
        write_seeds(folder / "seeds")
        if arguments.replay:
            return replay(targets, folder, arguments.cc)
        if not has_libfuzzer(arguments.clang, folder):
            print(f"fuzzing skipped: {arguments.clang} with libFuzzer is not here")
            return 1 if arguments.insist else 0
        seconds = arguments.seconds or max(1, arguments.total // len(targets))
        return fuzz(targets, folder, arguments, seconds)


def parsed() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help="names without fuzz_ and .c; all if none is given")
    parser.add_argument("--seconds", type=int, help="for each target")
    parser.add_argument("--total", type=int, default=15, help="seconds for all targets together, without --seconds")
    parser.add_argument("--replay", action="store_true", help="no fuzzer: golden files and fixed mutations of them")
    parser.add_argument("--corpus", type=Path, help="a folder that keeps the found inputs, with a subfolder per target")
    parser.add_argument("--insist", action="store_true", help="fail if there is no libFuzzer")
    parser.add_argument("--clang", default=os.environ.get("CLANG", "clang"))
    parser.add_argument("--cc", default=os.environ.get("CC", "gcc"))
    return parser.parse_args()


def has_libfuzzer(clang: str, folder: Path) -> bool:
    """Return True if that compiler can build a fuzz target."""
    if shutil.which(clang) is None:
        return False
    probe = folder / "probe.c"
    probe.write_text("int LLVMFuzzerTestOneInput(const char *data, long size) { return !data && size; }\n")
    command = [clang, f"-fsanitize=fuzzer,{SANITIZERS}", str(probe), "-o", str(folder / "probe")]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def fuzz(targets: list[Path], folder: Path, arguments: argparse.Namespace, seconds: int) -> int:
    """Run each target under libFuzzer; return 1 if one failed."""
    kernels = built_kernels(arguments.clang, ["-fsanitize=fuzzer-no-link," + SANITIZERS], folder)
    failed = 0
    for target in targets:
        program = linked(arguments.clang, [f"-fsanitize=fuzzer,{SANITIZERS}"], [target], kernels, folder)
        corpus = (arguments.corpus or folder / "corpus") / target.stem
        corpus.mkdir(parents=True, exist_ok=True)
        options = [f"-max_total_time={seconds}", f"-max_len={MAX_SEED_BYTES}", "-timeout=20", "-print_final_stats=1"]
        command = [program, *options, f"-artifact_prefix={os.getcwd()}/", corpus, folder / "seeds"]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        runs = [line.split()[-1] for line in done.stderr.splitlines() if "number_of_executed_units" in line]
        print(f"{target.stem}: {seconds} s, {runs[0] if runs else 'an unknown number of'} runs", flush=True)
        if done.returncode:
            print(done.stderr[-8000:], file=sys.stderr)
            failed = 1
    return failed


def replay(targets: list[Path], folder: Path, cc: str) -> int:
    """Run each target on the seeds and on fixed mutations of them; return 1 if one failed."""
    kernels = built_kernels(cc, ["-fsanitize=" + SANITIZERS], folder)
    seeds = sorted((folder / "seeds").iterdir())
    failed = 0
    for target in targets:
        program = linked(cc, ["-fsanitize=" + SANITIZERS], [target, HERE / "replay.c"], kernels, folder)
        done = subprocess.run([program, str(REPLAY_ROUNDS), *seeds], env=ENVIRONMENT, check=False)
        print(f"{target.stem}: {len(seeds)} seeds with {REPLAY_ROUNDS} changes each", flush=True)
        failed |= done.returncode != 0
    return int(failed)


def built_kernels(compiler: str, flags: list[str], folder: Path) -> list[Path]:
    """Return the objects of the kernels, without the wrapper for Python."""
    sources = [path for path in sorted(KERNELS.glob("*/*.c")) if path.parent.name != "python"]
    objects = [folder / f"{path.parent.name}_{path.stem}.o" for path in sources]
    for source, made in zip(sources, objects, strict=True):
        run([compiler, *FLAGS, *flags, f"-I{KERNELS}", "-c", source, "-o", made])
    return objects


def linked(compiler: str, flags: list[str], sources: list[Path], kernels: list[Path], folder: Path) -> Path:
    """Return the program of a target."""
    program = folder / sources[0].stem
    run([compiler, *FLAGS, *flags, f"-I{KERNELS}", *sources, *kernels, "-lpthread", "-lm", "-o", program])
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
    """Return the files of frames, damaged ones too."""
    found = [path for name in ("tfrecord", "ofrecord") for path in sorted((GOLDEN / name).rglob("*"))]
    return [path for path in found if path.is_file() and path.suffix not in (".json", ".npz")]


def records(path: Path) -> Iterator[bytes]:
    """Yield the data of the first frames of a file, as far as their lengths make sense."""
    content, at = path.read_bytes(), 0
    head, tail = (12, 4) if "tfrecord" in path.parts else (8, 0)
    for _ in range(8):
        length = int.from_bytes(content[at : at + 8], "little")
        if at + head + length + tail > len(content):
            return
        yield content[at + head : at + head + length]
        at += head + length + tail


if __name__ == "__main__":
    sys.exit(main())
