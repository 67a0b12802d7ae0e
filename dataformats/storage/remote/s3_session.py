"""The HTTP session of s3fs: it reads no listing and no error without a limit."""

from __future__ import annotations

import importlib
import inspect
from contextlib import suppress
from typing import Any

from dataformats.storage.remote.http_client import limited_response

_base: Any = object
with suppress(ImportError):  # nothing reads S3 by s3fs here
    _base = importlib.import_module("aiobotocore.httpsession").AIOHTTPSession


class LimitedSession(_base):  # type: ignore[misc]
    """A session whose answers are bounded where the library reads them whole; objects are read in parts."""

    async def _get_session(self, proxy_url: Any) -> Any:
        session = await super()._get_session(proxy_url)
        session._response_class = limited_response()
        return session


def session_options() -> dict[str, Any]:
    """Return the `config_kwargs` of s3fs that choose the session; none for releases before that option."""
    known = inspect.signature(importlib.import_module("aiobotocore.config").AioConfig).parameters
    return {"http_session_cls": LimitedSession} if "http_session_cls" in known else {}
