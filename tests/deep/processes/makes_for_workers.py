"""Builders for the tests of worker processes. Workers import this module, so it imports no test."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from dataformats.errors import ChecksumError
from dataformats.loaders.batch import Batch
from dataformats.loaders.prefetcher import BatchTask, BuiltBatch, FixedTask, Progress


class Numbers:
    """Batches of `value` float32[n, width], each row its position, and of `worker`, the process that made them."""

    def __init__(self, width: int = 1000) -> None:
        self.width = width

    def __call__(self, task: BatchTask, progress: Progress) -> BuiltBatch:
        rows = []
        for position in task.positions.tolist():
            progress(position)
            rows.append(self.row(position))
        value = np.stack(rows) if rows else np.zeros((0, self.width), np.float32)
        columns = {"value": value, "worker": os.getpid()}
        return BuiltBatch(Batch(columns, task.positions, np.zeros(len(rows), bool)), len(rows), value.nbytes)

    def row(self, position: int) -> Any:
        return np.full(self.width, position, np.float32)

    def describe(self, position: int) -> str:
        return f"record {position} of 'a.tfrecord'"


class Growing(Numbers):
    """Rows that are the wider the higher their position."""

    def row(self, position: int) -> Any:
        return np.full(1 + position * 500, position, np.float32)


class Acts(Numbers):
    """Does something at one position."""

    def __init__(self, action: str, at: int) -> None:
        super().__init__()
        self.action = action
        self.at = at

    def row(self, position: int) -> Any:
        if position == self.at:
            globals()[self.action]()
        return super().row(position)


class Watched(Numbers):
    """Makes each row after another look of the parent, which counts them in shared memory."""

    def __init__(self, looks: Any) -> None:
        super().__init__()
        self.looks = looks

    def row(self, position: int) -> Any:
        before = self.looks.value
        while self.looks.value == before:
            time.sleep(0.002)
        return super().row(position)


class Follows(Numbers):
    """Makes one position only when another one is reached, by another worker: a file tells."""

    def __init__(self, position: int, after: int, sign: str) -> None:
        super().__init__()
        self.position, self.after, self.sign = position, after, sign

    def row(self, position: int) -> Any:
        if position == self.after:
            open(self.sign, "w").close()
        until = time.monotonic() + 240
        while position == self.position and not os.path.exists(self.sign) and time.monotonic() < until:
            time.sleep(0.005)
        return super().row(position)


class Odd(Numbers):
    """Gives something else than arrays."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def __call__(self, task: BatchTask, progress: Progress) -> BuiltBatch:
        made = super().__call__(task, progress)
        if self.kind == "failed":
            made.failed = [
                (1, UnpicklableError("a")),
                (2, ChecksumError("crc", path="a", index=2, stored=1, computed=2)),
            ]
        elif self.kind == "lock":
            made.batch["value"] = sys.stderr
        elif self.kind == "torch":
            made.batch["value"] = tensors()
        elif self.kind == "source":
            made.batch["value"] = self.source[0]  # type: ignore[attr-defined]  # the test sets it
        return made


class Cannot:
    """Pickles, and does not load again."""

    def __reduce__(self) -> Any:
        return cannot_load, ()


def cannot_load() -> None:
    if multiprocessing_child():
        raise ImportError("no such thing here")


def multiprocessing_child() -> bool:
    import multiprocessing

    return multiprocessing.parent_process() is not None


class UnpicklableError(Exception):
    """Cannot be pickled: it wants two arguments."""

    def __init__(self, one: str, two: str = "") -> None:
        super().__init__(one, two)
        self.lock = sys.stderr


def tensors() -> dict[str, Any]:
    import torch

    return {
        "float": torch.arange(6.0).reshape(2, 3),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "none": torch.zeros(0, 4),
        "one": torch.tensor(7),
        "turned": torch.arange(6).reshape(2, 3).T,
        "bool": torch.tensor([True, False]),
    }


def tasks(n: int, size: int = 4) -> Iterator[BatchTask]:
    for first in range(0, n * size, size):
        positions = np.arange(first, first + size)
        yield FixedTask(positions, positions)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def segfault() -> None:
    import ctypes
    import faulthandler

    faulthandler.disable()  # pytest enabled it, and it would print pages

    ctypes.string_at(0)


def leave() -> None:
    os._exit(3)


def orphan() -> None:
    """Dies and leaves a process behind that holds all that was inherited, until a file is gone or for ten minutes."""
    if os.fork() == 0:
        until = time.monotonic() + 600
        while os.path.exists(os.environ["HOLDS_WHILE_THERE"]) and time.monotonic() < until:
            time.sleep(0.01)
        os._exit(0)
    kill()


def hang() -> None:
    time.sleep(600)


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def value_error() -> None:
    raise ValueError("a bad thing")


def checksum_error() -> None:
    raise ChecksumError("crc", path="a.tfrecord", index=17, offset_bytes=96, stored=1, computed=2)


def unpicklable_error() -> None:
    raise UnpicklableError("a bad thing")


def stop_iteration() -> None:
    raise StopIteration


def system_exit() -> None:
    sys.exit("enough")


def no_memory() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def noisy(record: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {"image": record["image"] + rng.random((8, 8)), "label": record["label"]}


def drawn(record: dict[str, Any]) -> float:
    return float(np.random.random())


def fails(record: Any) -> Any:
    raise ValueError("a bad thing")
