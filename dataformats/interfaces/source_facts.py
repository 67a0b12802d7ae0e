"""What a source says of itself: facts of its files, and facts of its spec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from dataformats.spec import Type

SpecProvenance = Literal["computed", "files", "declared", "inferred", "saved"]
"""Where a spec comes from: the source computes its records; the files state it; a call declares it; it is inferred
from records; or a sidecar states the spec with which the records were written."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The files of a source. Reads no record and builds no index. A view replaces parts of its parent's facts.

    Attributes:
        format: The name of the file format.
        paths: The files, in reading order.
        nbytes: Bytes of all files.
        files_per_record: How many files hold a record: several if each field has a file.
        is_compressed: True if reads decompress the neighbors of a record, too, as in a gzip file.
        decodes_blocks: True if the source keeps the blocks that it decodes: caching bytes of its remote files gains
            nothing.
        key_field: The field that has the key of a record, in formats with keys; empty in others.

    Example:
        >>> import dataformats
        >>> digits = dataformats.open("tests/golden/real/digits-*.tfrecord")
        >>> digits.facts.format, len(digits.facts.paths), digits[:10].facts == digits.facts
        ('tfrecord', 3, True)
    """

    format: str
    paths: tuple[str, ...] = ()
    nbytes: int = 0
    files_per_record: int = 1
    is_compressed: bool = False
    decodes_blocks: bool = False
    key_field: str = ""


class Origin(NamedTuple):
    """Where a record comes from, as errors name it.

    Attributes:
        path: Its file, or its shard if that is a folder; empty for a record without a file.
        index: Its index in the dataset of that file; for a record without a file, in the source that was asked.
        offset_bytes: The byte at which its stored bytes begin in the file `path`; -1 if it is unknown.
    """

    path: str
    index: int  # type: ignore[assignment]  # a record's number here; in other tuples the method that searches
    offset_bytes: int = -1


@dataclass(frozen=True, slots=True)
class SpecFacts:
    """The spec of a source, besides its types. May read some records, as the spec itself.

    Attributes:
        payload: The codec of whole records; `None` if fields are stored apart, or nothing is stored.
        provenance: Where the spec comes from.
        opaque_fields: The fields whose types, named by the files, no codec may decode; their values are bytes.
        left_out: The fields of the files that cannot be read, not even as bytes, each with the reason.

    Example:
        >>> import dataformats
        >>> facts = dataformats.open("tests/golden/real/digits-*.tfrecord").spec_facts
        >>> facts.payload, facts.provenance
        ('example', 'inferred')
    """

    payload: str | None = None
    provenance: SpecProvenance = "computed"
    opaque_fields: Mapping[str, Type] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


def common_provenance(facts: Iterable[SpecFacts]) -> SpecProvenance:
    """Return where the spec of several sources comes from: it is inferred if one of them infers it."""
    found: set[SpecProvenance] = {one.provenance for one in facts}
    if "inferred" in found:
        return "inferred"
    return found.pop() if len(found) == 1 else "declared"
