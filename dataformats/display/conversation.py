"""Chat messages as a conversation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from dataformats.display.json_values import as_json

_ROLES = ("role", "from")
_TEXTS = ("content", "value", "text")
_ROLE = 100  # characters


class Turn(NamedTuple):
    """A message: who says it, and its text, cut to a number of characters."""

    role: str
    text: str

    @property
    def line(self) -> str:
        """The text in one line."""
        return " ".join(self.text.split())


def conversation(value: Any, n: int, characters: int) -> list[Turn] | None:
    """Return the first `n` turns of chat messages; `None` if a value holds something else.

    Messages are a list of dicts with a `role` and a `content`, or with `from` and `value` as in ShareGPT. The rest of a
    message, such as calls of tools, follows its text as JSON.
    """
    if not isinstance(value, (list, tuple)) or not value:
        return None
    turns = [_turn(message, characters) for message in value[:n]]
    return None if None in turns else [turn for turn in turns if turn is not None]


def _turn(message: Any, characters: int) -> Turn | None:
    if not isinstance(message, Mapping):
        return None
    role = next((name for name in _ROLES if isinstance(message.get(name), str)), None)
    text = next((name for name in _TEXTS if name in message), None)
    if role is None or (text is None and role != "role"):
        return None
    parts = message.get(text)
    said = [_text(part) for part in (parts if isinstance(parts, (list, tuple)) else [parts]) if part is not None]
    others = {name: item for name, item in message.items() if name not in (role, text) and item is not None}
    whole = "\n".join([*said, *([_json(others)] if others else [])])
    return Turn(message[role][:_ROLE], whole if len(whole) <= characters else f"{whole[:characters]}...")


def _text(part: Any) -> str:
    """Return the text of a part of a message."""
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        part = part["text"]
    return part if isinstance(part, str) else _json(part)


def _json(value: Any) -> str:
    return json.dumps(as_json(value), ensure_ascii=False)
