"""FormatCase: the facts about a format that the conformance suite needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class FormatCase:
    """One format, or one way of writing it, as the suite sees it.

    Attributes:
        name: Name of the case, unique among the cases of a test class.
        format: The name that `dataformats.create` and `open(format=...)` take.
        suffix: The file ending, dot included.
        setup: `"module:function"`, called without arguments in every new process before it reads or writes. Needed if
            the backend is registered by a call of `register_backend`, which a new process does not repeat.
        create_options: Arguments of `create` besides spec and payload.
        open_options: Arguments of `open`.
        payload: The codec of whole records; `None` if the format stores fields apart.
        records: `"fields"` if records have a spec. `"documents"` if each record is one JSON document, for formats that
            hold no arbitrary bytes, such as lines of text: `payload` must then be `"json"`.
        spec: The fields of the format, if it has fixed ones: every dataset then has them, and tests of other fields are
            skipped. The first one tells records apart: numbers, `utf8` or `bytes`.
        folder: True if `create` makes a folder of files.
        beside: Endings of the files that belong beside a file, in place of `suffix`: its writer is a `HasSidecars`, and
            its files cannot be shards.
        empty_records: False if the format refuses records of no bytes.
        empty_values: False if the format refuses values of no bytes, such as an empty text: each is an error.
        refuses: The types (as in a spec) that the format cannot hold: `create` raises `SpecError` for them.
        grows: True if `resume=True` appends to a finished dataset under its name.
        survives_kill: True if records that `flush()` wrote are there after `kill -9`, and those that `flush(sync=True)`
            confirmed after a loss of power, too.
        pending_may_be_lost: True if the format writes records in blocks, so that an interrupted writer may lose the
            last ones, even after `flush(sync=True)` confirmed them.
        survives_fork: False if a library of the format refuses to work in a forked process.
        traces_memory: False if a library of the format calls Python from its own threads: `tracemalloc.stop` crashes
            CPython 3.11 if such a thread allocates at the same time.
        verifies_records: True if each record is verified: no damage to a file can go unnoticed.
        saves_behind_damage: True if a repair saves the records behind damage in the middle of any file, and the damage
            makes no wrong records.
        fingerprints_records: True if the fingerprint covers the content of each record, such as stored checksums; else
            it covers all lengths and a sample of the records.
        indexed: True if random access needs an index that is kept in a sidecar.
        shard_names: The names of three shards of a dataset called `train`.
        ends: Maps the lengths of the stored records to the bytes that a file must have for each of them to be whole;
            `None` if these are not known beforehand (compression). If fields are stored apart, the length counts
            all blobs of a record.
        separator: Bytes behind each record that it is whole without, such as the end of a line: they separate it from
            the next one.
        cut_refused: Endings of the files that must be whole for the data to be opened, or counted.
        needs_sidecar: True if only the sidecar shows that a file was cut.
        read_once: Endings of the files that are read whole at the first use, and not again.
        flip_every: The distance in bits of the bits that `BackendDurability` flips: 1 is all of them; an odd number
            reaches every position in a byte.
        cut_every: The distance in bytes of the places where `BackendDurability` damages a file: 1 is all of them. It is
            larger if the smallest file of the format is large.

    Example:
        >>> from dataformats.testing import FormatCase
        >>> case = FormatCase("ffrecord", "ffrecord", ".ffr", shard_names=("PART_00000.ffr",))
        >>> case.verifies_records
        True
    """

    name: str
    format: str
    suffix: str
    setup: str | None = None
    create_options: Mapping[str, Any] = field(default_factory=dict)
    open_options: Mapping[str, Any] = field(default_factory=dict)
    payload: str | None = "example"
    records: Literal["fields", "documents"] = "fields"
    spec: Mapping[str, str] | None = None
    folder: bool = False
    beside: tuple[str, ...] = ()
    empty_records: bool = True
    empty_values: bool = True
    refuses: frozenset[str] = frozenset()
    grows: bool = False
    survives_kill: bool = True
    pending_may_be_lost: bool = False
    survives_fork: bool = True
    traces_memory: bool = True
    verifies_records: bool = True
    saves_behind_damage: bool = False
    fingerprints_records: bool = True
    indexed: bool = False
    shard_names: tuple[str, ...] = ()
    ends: Callable[[Sequence[int]], Sequence[int]] | None = None
    separator: int = 0
    cut_refused: tuple[str, ...] = ()
    needs_sidecar: bool = False
    read_once: tuple[str, ...] = ()
    flip_every: int = 1
    cut_every: int = 1

    @property
    def blobs(self) -> bool:
        """True if a record is stored as one blob."""
        return self.payload is not None

    @property
    def documents(self) -> bool:
        """True if records are JSON documents, without a spec."""
        return self.records == "documents"

    @property
    def plain(self) -> bool:
        """True if records have the fields of the suite, `id` and `data`."""
        return not self.documents and self.spec is None

    def __str__(self) -> str:
        return self.name
