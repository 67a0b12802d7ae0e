"""Find records by the keys in a field, through a kept index."""

from __future__ import annotations

import difflib
import operator
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.batch import Blobs
from dataformats.errors import Remedy, SpecError, UnknownNameError
from dataformats.indexing.array_file import ArrayFile, facts_of_files
from dataformats.interfaces.declared_spec import declared_spec
from dataformats.interfaces.record_source import RecordSource
from dataformats.kernels import crc32_extents
from dataformats.reading.key_join import Keys
from dataformats.reading.scan import digest_of

_FEW, _MOST_NAMED = 10, 1000  # keys that an error names, and compares with a missing one
_OPENED: weakref.WeakKeyDictionary[RecordSource, dict[str, ArrayFile]] = weakref.WeakKeyDictionary()


def find(source: RecordSource, keys: Any, on: str | None) -> int | NDArray[np.int64]:
    """Return the indices of the records with these keys: see `RecordSource.find`."""
    name = key_field(source, on)
    is_one = isinstance(keys, (str, bytes)) or np.ndim(keys) == 0
    wanted = [keys] if is_one else list(keys)
    found = _find(source, name, [_compared(key) for key in wanted])
    missing = np.flatnonzero(found < 0)
    if len(missing):
        raise _missing(source, name, wanted[int(missing[0])])
    return int(found[0]) if is_one else found


def _missing(source: RecordSource, name: str, key: Any) -> Exception:
    """Return the error of a key that no record has."""
    first = list(source.read(range(min(len(source), _MOST_NAMED)), [name])[name])
    if first and isinstance(first[0], (str, bytes)) != isinstance(key, (str, bytes)):
        expected = "text" if isinstance(first[0], (str, bytes)) else "integers"
        return SpecError(f"find: expected keys that are {expected}, found {key!r:.80}", field=name)
    known = [one.decode(errors="replace") if isinstance(one, bytes) else str(one) for one in first]
    shown = key.decode(errors="replace") if isinstance(key, bytes) else str(key)
    near = difflib.get_close_matches(shown, known, n=3) or ["...", *known[:3]]
    return UnknownNameError(f"key in {name!r}", name=shown, known=near if len(known) > _FEW else known)


def key_field(source: RecordSource, on: str | None) -> str:
    """Return the field of the keys.

    Raises:
        SpecError: There is no field of keys.
        UnknownNameError: There is no field `on`.
    """
    spec = declared_spec(source)
    if spec is None:
        raise SpecError("find: the records have no spec, because they are the result of map()", remedy="Find before it")
    name = source.facts.key_field if on is None else on
    if on is None and name not in spec:
        raise SpecError("find: no field of the records is their key", remedy=Remedy("Pass {on} to name one.", on=...))
    if name not in spec:
        raise UnknownNameError("field", name=name, known=spec)
    return name


def _compared(key: Any) -> int | bytes:
    """Return a key, or the value of a record, as the number or the bytes by which they are compared."""
    if isinstance(key, (str, bytes)):
        return key.encode() if isinstance(key, str) else key
    return operator.index(key)


def _find(source: RecordSource, name: str, wanted: Sequence[int | bytes]) -> NDArray[np.int64]:
    """Return for each key its record; -1 if no record has it."""
    opened = _OPENED.setdefault(source, {})
    if name not in opened:
        opened[name] = _index(source, name)
    index = opened[name]
    found = np.full(len(wanted), -1, np.int64)
    blobs = [key if isinstance(key, bytes) else (key % 2**64).to_bytes(8, "little") for key in wanted]
    buckets = _hashes(*Blobs.join(blobs).contiguous()) % (index.size("starts") - 1)
    starts = index.take("starts", buckets)
    counts = index.take("starts", buckets + 1) - starts
    owners = np.repeat(np.arange(len(wanted)), counts)
    places = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    records = index.take("records", starts[owners] + places)
    for owner, record, value in zip(owners.tolist(), records.tolist(), source.read(records, [name])[name], strict=True):
        if _compared(value) == wanted[owner]:
            found[owner] = record
    return found


def _index(source: RecordSource, name: str) -> ArrayFile:
    """Return the index of a field: a hash table, from the cache of indexes or made now.

    Raises:
        SpecError: A key is repeated, or no integer or text.
    """
    parent = weakref.ref(source)  # the index may outlive it
    key = digest_of([repr((source.fingerprint, name, *facts_of_files(source.paths)))])

    def make() -> Mapping[str, NDArray[np.int64]]:
        keys = Keys(parent(), name, "find")  # type: ignore[arg-type]  # it is in use
        keys.check_unique()
        hashes = _hashes(*keys.octets())
        buckets = hashes % max(1, len(hashes))
        ends = np.cumsum(np.bincount(buckets, minlength=max(1, len(hashes))))
        return {"starts": np.append(0, ends), "records": np.argsort(buckets, kind="stable")}

    return ArrayFile("keys", key, make)


def _hashes(octets: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    return crc32_extents(octets, offsets[:-1], np.diff(offsets)).astype(np.int64)
