"""JSON with a checksum, so that a damaged or torn text is not believed."""

from __future__ import annotations

import json
import zlib
from typing import Any


def pack_checked(content: Any) -> bytes:
    """Return facts as JSON, in one line, with the CRC-32 of their text."""
    text = json.dumps(content)
    return f'{{"crc32": {zlib.crc32(text.encode())}, "facts": {text}}}'.encode()


def parse_checked(data: bytes) -> Any:
    """Return the facts.

    Raises:
        ValueError: The text is not whole and sound.
    """
    try:
        found = json.loads(data)
        facts = found["facts"]
        sound = zlib.crc32(json.dumps(facts).encode()) == found["crc32"]
    except (LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"not JSON with a checksum ({error})") from error
    if not sound:
        raise ValueError("the checksum is wrong")
    return facts
