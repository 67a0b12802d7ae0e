"""A proxy in front of an S3 server: it numbers the requests of each program, and some of them meet a fault.

`python -m tests.deep.remote.kills.proxy PORT` is started by `proxy_client.py`. A program is known by its access key.
Each line of stdin is a command in JSON, and is answered by a line. A line with `held` says that a program waits.
Requests that change something are sent to the server one by one: moto compares the condition of a conditional put, and
only later stores the object.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.deep.remote.kills.faults import Action, Fault

_LIFT = "/.lift"
_STATUS = {Action.FAIL_500: 500, Action.FAIL_503: 503, Action.FAIL_403: 403, Action.DENY: 403, Action.LIE_500: 500}
_CODES = {500: "InternalError", 503: "SlowDown", 403: "AccessDenied"}


@dataclass(frozen=True)
class Request:
    """A request as it is sent to the server."""

    method: str
    target: str
    head: bytes
    body: bytes
    key: str

    @property
    def changes(self) -> bool:
        return self.method in ("PUT", "POST", "DELETE")


@dataclass
class Program:
    """State of a program in the proxy.

    Attributes:
        group: Its process group, which a fault kills.
        fault: The fault that it meets, if any.
        hold_at: The request that waits, and all later ones.
        gate: Open as long as no request waits.
        log: Method, target and fate of its requests.
        left: The number of requests that the fault still lasts.
    """

    group: int
    fault: Fault | None
    hold_at: int
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    log: list[list[Any]] = field(default_factory=list)
    left: int = 0
    is_held: bool = False
    is_dead: bool = False

    def meets_fault(self, at: int, request: Request) -> bool:
        """Return True if this request meets the fault; it counts how long the fault lasts."""
        if self.fault is None or at < self.fault.at or not self.left:
            return False
        if self.fault.action is Action.DENY and not request.changes:
            return False
        self.left -= 1
        return True


class Proxy:
    """The proxy.

    Args:
        port: The port of the server.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._programs: dict[str, Program] = {}
        self._one_by_one = asyncio.Lock()
        self._late: list[list[Any]] = []  # requests that wait, and after how many others they are sent
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    # ---- requests

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        with suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            while (request := await self._read(reader, writer)) is not None:
                self._running += 1
                self._idle.clear()
                try:
                    answer = await self._answer(request)
                finally:
                    self._running -= 1
                    if not self._running:
                        self._idle.set()
                if answer is None:
                    linger = struct.pack("ii", 1, 0)
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    writer.transport.abort()
                    return
                writer.write(answer)
                await writer.drain()
        writer.close()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if "transfer-encoding" in headers:
            raise NotImplementedError("a body in chunks")
        if "100-continue" in headers.pop("expect", ""):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        sent = "\r\n".join([first, *(f"{name}: {value}" for name, value in headers.items() if name != "connection")])
        found = re.search(r"Credential=([^/]+)/", headers.get("authorization", ""))
        key = found[1] if found else ""
        return Request(method, target, f"{sent}\r\nconnection: close\r\n\r\n".encode("latin-1"), body, key)

    async def _answer(self, request: Request) -> bytes | None:
        """Return the answer; `None` resets the connection."""
        program = self._programs.get(request.key)
        if program is None:
            return _error(403)
        if request.target == _LIFT:
            program.fault = None
            return b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        if request.method == "PUT" and request.target.endswith("/heartbeat") and not program.is_dead:
            return await self._send(request)  # a thread sends it at any time: neither counted nor held
        entry: list[Any] = [request.method, request.target, "waits"]
        program.log.append(entry)
        at = len(program.log)
        while at >= program.hold_at and not program.is_dead:
            if not program.is_held:
                program.is_held = True
                _print({"held": request.key})
            await program.gate.wait()
        if program.is_dead:
            entry[2] = "dropped"
            return None
        if program.fault is not None and program.meets_fault(at, request):
            entry[2] = program.fault.action.name
            return await self._faulty_answer(program, program.fault, request)
        answer = await self._send(request)
        entry[2] = int(answer.split(b" ", 2)[1])
        return answer

    async def _faulty_answer(self, program: Program, fault: Fault, request: Request) -> bytes | None:
        action = fault.action
        if action in (Action.KILL_AFTER, Action.LIE_500, Action.LIE_RESET, Action.TWICE):
            await self._send(request)
        elif action in (Action.KILL_LATE, Action.LATE):
            self._late.append([fault.span, request])
        if fault.kills:
            program.is_dead = True
            with suppress(ProcessLookupError):
                os.killpg(program.group, signal.SIGKILL)
            return None
        if action is Action.TWICE:
            return await self._send(request)
        return _error(_STATUS[action], request.method) if action in _STATUS else None

    async def _send(self, request: Request) -> bytes:
        answer = await self._forward(request)
        for waiting in self._late:
            waiting[0] -= 1
        due = [late for left, late in self._late if left <= 0]
        self._late = [waiting for waiting in self._late if waiting[0] > 0]
        for late in due:
            await self._forward(late)
        return answer

    async def _forward(self, request: Request) -> bytes:
        if not request.changes:
            return await self._exchange(request)
        async with self._one_by_one:
            return await self._exchange(request)

    async def _exchange(self, request: Request) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(request.head + request.body)
        head = await reader.readuntil(b"\r\n\r\n")
        found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        has_body = request.method != "HEAD" and not head.startswith((b"HTTP/1.1 204", b"HTTP/1.1 304"))
        # The server closes the connection 10 ms after the last byte.
        body = await (reader.readexactly(int(found[1])) if found else reader.read()) if has_body else b""
        writer.close()
        return re.sub(rb"(?i)\r\nconnection: close", b"", head) + body

    # ---- commands

    async def command(self, words: dict[str, Any]) -> Any:
        """Run the request of a line of stdin; return the answer."""
        match words.pop("do"):
            case "start":
                self._start(**words)
            case "log":
                return self._programs[words["name"]].log
            case "release":
                program = self._programs[words["name"]]
                program.gate.set()
                program.gate = asyncio.Event()
                program.is_held, program.hold_at = False, words["hold_at"]
            case "settle":
                await self._idle.wait()
            case "deliver":
                waiting, self._late = self._late, []
                for _, late in waiting:
                    await self._forward(late)
                return len(waiting)
        return None

    def _start(self, name: str, group: int, fault: str | None, hold_at: int) -> None:
        chosen = None if fault is None else Fault.parse(fault)
        lasts = 0 if chosen is None else 1 if chosen.is_late else chosen.span
        self._programs[name] = Program(group, chosen, hold_at, left=lasts)


def _error(status: int, method: str = "GET") -> bytes:
    code = _CODES[status]
    body = b"" if method == "HEAD" else f"<Error><Code>{code}</Code><Message>by the proxy</Message></Error>".encode()
    head = f"HTTP/1.1 {status} {code}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _print(answer: Any) -> None:
    print(json.dumps(answer), flush=True)


async def main(port: int) -> None:
    """Serve until stdin ends."""
    proxy = Proxy(port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=2**20)
    _print({"port": server.sockets[0].getsockname()[1]})
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        _print({"answer": await proxy.command(json.loads(line))})


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
