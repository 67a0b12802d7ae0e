"""The table of parsers, and the sound inputs of each."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.parsers import documents, formats, indexes, states
from tests.fuzz.parsers.engine import Target

_ALL: Sequence[Target] = (*documents.TARGETS, *formats.TARGETS, *indexes.TARGETS, *states.TARGETS)

TARGETS: dict[str, Target] = {target.name: target for target in _ALL}
