"""What the conformance suite has to know of a format: facts, no code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["FormatCase"]


@dataclass(frozen=True)
class FormatCase:
    """One format, or one way of writing it, as the suite sees it.

    Attributes:
        name: Of the case, unique among those that run together.
        format: As in `dataformats.create` and `open(format=...)`.
        suffix: The file ending, dot included.
        create_options: What `create` is given besides spec and payload.
        open_options: What `open` is given.
        payload: The codec of whole records that have a spec; `None` where fields are stored apart.
        folder: True where what `create` makes is a folder of files.
        empty_records: False where the format refuses records of no bytes.
        empty_values: False where the format refuses values of no bytes, as an empty text: each is an error.
        refuses: The types (as in a spec) that the format cannot hold: `create` raises `SpecError` for them.
        grows: True where `resume=True` goes on with a finished data set under its name.
        survives_kill: True where what `flush(sync=True)` confirmed is there after `kill -9`.
        checksums: True where no damage to a file can go unnoticed.
        indexed: True where random access needs an index that is kept in a sidecar.
        shard_names: The names of three shards of a data set called `train`.
        ends: From the lengths of the stored records to the bytes that a file must have for each of them to be whole;
            `None` where nothing says it beforehand (compression).
        cut_unnoticed: Endings of the files that are merely shorter when they are cut, wherever that is.
        cut_refused: Endings of the files that must be whole for the data to be opened, or counted.
        read_once: Endings of the files that are read whole at the first use: nobody looks at them later.
        flip_every: One bit of so many is flipped in the test that flips bits: 1 is all, an odd number reaches every
            position in a byte.

    Example:
        >>> from dataformats.testing import FormatCase
        >>> case = FormatCase("ffrecord", "ffrecord", ".ffr", shard_names=("PART_00000.ffr",))
        >>> case.checksums
        True
    """

    name: str
    format: str
    suffix: str
    create_options: Mapping[str, Any] = field(default_factory=dict)
    open_options: Mapping[str, Any] = field(default_factory=dict)
    payload: str | None = "example"
    folder: bool = False
    empty_records: bool = True
    empty_values: bool = True
    refuses: frozenset[str] = frozenset()
    grows: bool = False
    survives_kill: bool = True
    checksums: bool = True
    indexed: bool = False
    shard_names: tuple[str, ...] = ()
    ends: Callable[[Sequence[int]], Sequence[int]] | None = None
    cut_unnoticed: tuple[str, ...] = ()
    cut_refused: tuple[str, ...] = ()
    read_once: tuple[str, ...] = ()
    flip_every: int = 1

    @property
    def blobs(self) -> bool:
        """True where a record is stored as one blob."""
        return self.payload is not None

    def __str__(self) -> str:
        return self.name
