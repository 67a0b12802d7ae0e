"""The guard of the viewer: it admits pages that know the token, under a name of this machine."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]

_HOST = re.compile(rb"(127\.0\.0\.1|localhost)(:[0-9]+)?")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}


class Guard:
    """Lets requests through whose path begins with the token; adds the headers that protect every response.

    The token is the first part of the path, so that each request of the page has it, pictures too, and there is no
    cookie: those are sent to all servers on 127.0.0.1, whatever their port. `Host` must be a name of this machine: a
    page of another site could point its own name here (DNS rebinding).

    Args:
        app: An ASGI application, which sees paths without the token.
        token: The secret.
    """

    def __init__(self, app: _App, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http":
            return
        token, *rest = scope["path"].removeprefix("/").split("/", 1)

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                added = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *(pair for pair in added if pair[0] not in given)]
            await send(message)

        if not _is_here(scope):
            await _refuse(guarded, 403, b"The viewer answers only to 127.0.0.1 and localhost.\n")
        elif not secrets.compare_digest(token.encode("utf-8", "surrogateescape"), self._token):
            await _refuse(guarded, 404, b"The address needs the token that `dataformats view` printed.\n")
        elif not rest:  # the page's own addresses are relative to a path that ends with a slash
            await _refuse(guarded, 307, b"", (b"location", f"/{token}/".encode()))
        else:
            path = "/" + rest[0]
            await self._app({**scope, "path": path, "raw_path": path.encode(), "root_path": ""}, receive, guarded)


def _is_here(scope: _Scope) -> bool:
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    return len(hosts) == 1 and _HOST.fullmatch(hosts[0]) is not None


async def _refuse(send: _Send, status: int, text: bytes, *more: tuple[bytes, bytes]) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
