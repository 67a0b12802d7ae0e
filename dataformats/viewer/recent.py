"""The tasks that pages started: the last few of a kind."""

from __future__ import annotations

import secrets
from typing import Generic, Protocol, TypeVar

_KEPT = 4


class _Cancelable(Protocol):
    def cancel(self) -> None: ...


Task = TypeVar("Task", bound=_Cancelable)


class Recent(Generic[Task]):
    """The last few tasks, by number; a new one cancels the oldest. Thread-safe.

    Numbers are random: a page of an earlier server, or of a dataset that was opened again, has none of them.

    Args:
        noun: The word for a task in errors.
    """

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._tasks: dict[int, Task] = {}

    def add(self, task: Task) -> int:
        """Keep a task; return its number, which JavaScript can hold."""
        number = secrets.randbelow(2**53)
        self._tasks[number] = task
        for old in list(self._tasks)[:-_KEPT]:
            self.cancel(old)
        return number

    def __getitem__(self, number: int) -> Task:
        if number not in self._tasks:
            raise LookupError(f"newer requests replaced this {self._noun}: reload the page")
        return self._tasks[number]

    def all(self) -> list[Task]:
        """Return all tasks that are kept."""
        return list(self._tasks.values())

    def cancel(self, number: int) -> None:
        """End a task that no page needs."""
        task = self._tasks.pop(number, None)
        if task is not None:
            task.cancel()

    def stop(self) -> None:
        """End all tasks."""
        for number in list(self._tasks):
            self.cancel(number)
