"""The HTTP client of fsspec: no answer is read without a limit, and no header follows a redirect to another host."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from dataformats.errors import FormatError
from dataformats.storage.remote.checked_requests import read_at_most
from dataformats.storage.remote.names import shown_url

_MAX_BYTES = 64 * 2**20
"""The longest page that lists a folder; ranges have limits of their own."""
_SENT_ANYWHERE = ("Accept", "Accept-Encoding", "If-Match", "Range", "User-Agent")


async def http_client(**options: Any) -> Any:
    """Return a client of aiohttp, as fsspec makes it with these options."""
    library = importlib.import_module("aiohttp")
    redirects = library.TraceConfig()
    redirects.on_request_redirect.append(_keep_headers)
    options["trace_configs"] = [*(options.get("trace_configs") or ()), redirects]
    return library.ClientSession(**{"response_class": _limited_response(), **options})


@functools.cache
def _limited_response() -> type[Any]:
    base: Any = importlib.import_module("aiohttp").ClientResponse

    class LimitedResponse(base):  # type: ignore[misc]  # the environment may lack aiohttp
        """An answer of which `read` and `text` take a bounded number of bytes."""

        _body: bytes | None

        async def read(self) -> bytes:
            if self._body is None:
                body = await read_at_most(self.content.read, _MAX_BYTES)
                if len(body) > _MAX_BYTES:
                    self.close()
                    what, expected = "the answer of the server is too long", f"at most {_MAX_BYTES} bytes"
                    raise FormatError(what, path=shown_url(self.url), expected=expected, found="more")
                self._body = body
            whole: bytes = await super().read()
            return whole

    return LimitedResponse


async def _keep_headers(_: Any, __: Any, redirect: Any) -> None:
    """Remove the headers that may hold a secret from a request that goes to another host; aiohttp keeps most."""
    old = redirect.url
    new = old.join(type(old)(redirect.response.headers.get("Location", "")))
    if (old.scheme, old.host, old.port) != (new.scheme, new.host, new.port):
        for name in {*redirect.headers}.difference(_SENT_ANYWHERE):
            redirect.headers.popall(name, None)
