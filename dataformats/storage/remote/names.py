"""Names of files behind fsspec file systems: HTTP names are URLs, which quote characters and may have a query."""

from __future__ import annotations

import hashlib
import re
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

_USER = re.compile(
    r"(?<=http://)[^/?#\s]*@|(?<=https://)[^/?#\s]*@|(?<=://)(?<!git://)(?<!github://)[^/?#\s]*:[^/?#\s]*@"
)
_DIGEST = re.compile(r"\*{3}[0-9a-f]{8}")
_HTTP = re.compile(r"""https?://[^?\n]*\?\S+?(?=['")>\],;:]*(?:\s|$))""")


def shown_url(url: object) -> str:
    """Return a URL as it is shown, without user and password; the query of HTTP, which may hold a token, is a digest.

    So two files whose queries differ have two names. A path is returned as text.

    Example:
        >>> shown_url("https://me:secret@host/a.tfrecord?sig=secret")
        'https://***@host/a.tfrecord?***14371be9'
    """
    url = str(url)
    if "://" not in url:
        return url
    has_query = "http://" in url or "https://" in url
    url, question, query = url.partition("?") if has_query else (url, "", "")
    if query and not _DIGEST.fullmatch(query):
        query = f"***{hashlib.blake2b(query.encode(errors='surrogateescape'), digest_size=4).hexdigest()}"
    return _USER.sub("***@", url) + question + query


def shown_text(text: str) -> str:
    """Return a message of a library with its URLs as they are shown."""
    return _USER.sub("***@", _HTTP.sub(lambda found: shown_url(found[0]), text))


def is_http(path: str) -> bool:
    """Return True for the path of a file behind HTTP, which is a whole URL."""
    return path.startswith(("http://", "https://"))


def parent_of(fs: Any, path: str) -> str:
    """Return the path of the folder that a file or folder lies in; for a URL, without query and fragment."""
    if not is_http(path):
        return str(fs._parent(path))
    url = urlsplit(path)
    return urlunsplit((url.scheme, url.netloc, url.path.rstrip("/").rpartition("/")[0], "", ""))


def path_beside(fs: Any, path: str, name: str) -> str:
    """Return the path of `name` in the same folder; a URL keeps its query, which may hold a token."""
    if not is_http(path):
        return f"{fs._parent(path)}/{name}"
    url = urlsplit(path)
    folder = url.path.rstrip("/").rpartition("/")[0]
    return urlunsplit((url.scheme, url.netloc, f"{folder}/{quote(name)}", url.query, ""))


def unquote_path(path: str) -> str:
    """Return a path as it is, or the unquoted path of a URL."""
    return unquote(urlsplit(path).path) if is_http(path) else path


def entry_name(folder: str, path: str) -> str:
    """Return the name of an entry in the listing of a folder; empty for the folder itself.

    Some object stores list an object `NAME/` that stands for an empty folder, and the pages of HTTP servers have links
    that sort them.
    """
    inside = unquote_path(path).strip("/")
    return "" if inside == unquote_path(folder).strip("/") else inside.rsplit("/", 1)[-1]
