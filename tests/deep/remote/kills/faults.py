"""The faults that a request to an object store can meet, and how they are written in a command line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

UNTIL_LIFTED = 10**6


class Action(Enum):
    """The action of a fault at a request."""

    KILL_BEFORE = "the process is killed, and the request does not arrive"
    KILL_AFTER = "the request is carried out, and the process is killed before it sees the answer"
    KILL_LATE = "the process is killed, and the request is carried out `span` requests later"
    FAIL_500 = "the server answers 500, for `span` requests"
    FAIL_503 = "the server answers 503 (slow down), for `span` requests"
    FAIL_403 = "the server answers 403, for `span` requests"
    DENY = "the server answers 403, for the next `span` requests that change something"
    RESET = "the connection is reset, for `span` requests"
    LIE_500 = "the request is carried out, and the answer is 500"
    LIE_RESET = "the request is carried out, and the connection is reset"
    TWICE = "the request is carried out twice; the second answer counts"
    LATE = "the connection is reset, and the request is carried out `span` requests later"


KILLS = (Action.KILL_BEFORE, Action.KILL_AFTER)
LATE = (Action.KILL_LATE, Action.LATE)
FAILURES = (
    Action.FAIL_500,
    Action.FAIL_503,
    Action.FAIL_403,
    Action.DENY,
    Action.RESET,
    Action.LIE_500,
    Action.LIE_RESET,
    Action.TWICE,
)


@dataclass(frozen=True)
class Fault:
    """One fault of a program.

    Attributes:
        at: The number of the request, from 1.
        action: The action.
        span: The number of requests that it lasts, or that a late request waits for.
        elsewhere: The call runs again on another machine: with an empty folder for temporary files.
    """

    at: int
    action: Action
    span: int = 1
    elsewhere: bool = False

    @property
    def kills(self) -> bool:
        return self.action in (*KILLS, Action.KILL_LATE)

    @property
    def is_late(self) -> bool:
        return self.action in LATE

    def __str__(self) -> str:
        return f"{self.at}:{self.action.name}:{self.span}" + (":elsewhere" if self.elsewhere else "")

    @classmethod
    def parse(cls, text: str) -> Fault:
        at, action, *rest = text.split(":")
        span = int(rest[0]) if rest and rest[0] != "elsewhere" else 1
        return cls(int(at), Action[action], span, "elsewhere" in rest)
