"""From one format to another: stored payloads are copied where the codec stays the same, else decoded and encoded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dataformats.errors import SpecError
from dataformats.opening import open as open_source
from dataformats.source import RecordSource
from dataformats.spec import Spec, SpecLike
from dataformats.views import SourceBase
from dataformats.writing import DatasetWriter, Encoding, refuse, writer

__all__ = ["ConvertReport", "convert"]

_EVERY = 256


@dataclass(frozen=True, slots=True)
class ConvertReport:
    """What a conversion did.

    Attributes:
        path: The new data.
        format: Their format.
        payload: The codec of their whole records.
        records: How many.
        copied: True where stored payloads were copied as they are; False where they were decoded and encoded.
        seconds: Wall time.
    """

    path: str
    format: str
    payload: str | None
    records: int
    copied: bool
    seconds: float


def convert(
    source: RecordSource | Any,
    path: Any,
    format: str,  # noqa: A002
    *,
    spec: SpecLike | None = None,
    payload: str | None = None,
    codecs: Mapping[str, Any] | None = None,
    shard_records: int | None = None,
    shard_bytes: int | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **backend_options: Any,
) -> ConvertReport:
    """Write the records of a source in another format.

    Every checksum of the source is verified; the first damaged record stops the conversion and leaves nothing behind.

    Args:
        source: A source, or what `open` takes.
        path: The new file, or folder with `shard_*`.
        format: Its format.
        spec: The fields of the new data; `None` keeps the source's.
        payload: The codec of whole records; `None` keeps the source's.
        codecs: As in `open` and `create`.
        shard_records: As in `create`.
        shard_bytes: As in `create`.
        overwrite: Replace what has the name.
        progress: Called with (records done, records in all).
        **backend_options: What the new format adds.

    Raises:
        FormatError: A damaged record.
        SpecError: The format cannot hold the spec, or a record does not fit it.

    Example:
        >>> import dataformats, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "digits.ffr"
        >>> report = dataformats.convert("tests/golden/real/digits-*.tfrecord", path, "ffrecord")
        >>> report.records, report.copied
        (1797, True)
        >>> dataformats.open(path)[5]["label"]
        5
    """
    begin = time.perf_counter()
    given = source if isinstance(source, RecordSource) else open_source(source, codecs=codecs)
    if not isinstance(given, SourceBase):
        raise TypeError(f"expected a source of dataformats, found {type(given).__name__}")
    plan = _plan(given, spec, payload)
    encoding = Encoding(format, plan.payload, plan.spec)
    encode = refuse if plan.copied else encoding.encoder(codecs)
    out = writer(
        path, encoding, encode, shard_records=shard_records, shard_bytes=shard_bytes, overwrite=overwrite, **backend_options
    )
    with out:
        for done in _fill(given, out, plan.copied):
            if progress is not None:
                progress(done, len(given))
    return ConvertReport(str(path), format, encoding.payload, len(out), plan.copied, time.perf_counter() - begin)


@dataclass(frozen=True, slots=True)
class _Plan:
    payload: str | None
    spec: Spec | None
    copied: bool


def _plan(source: SourceBase, spec: SpecLike | None, payload: str | None) -> _Plan:
    """Decide what the new payload and spec are, and whether stored bytes can be copied."""
    wanted = None if spec is None else Spec(spec)
    if payload in (None, "bytes", source.payload) and (wanted is None or wanted == source.spec) and _has_bytes(source):
        declared = None if source.single or source.spec_is_inferred else source.spec
        return _Plan(payload or source.payload, wanted or declared, copied=True)
    if source.single:
        return _Plan(payload or (None if wanted else source.payload), wanted, copied=False)
    return _Plan(payload, wanted or source.spec, copied=False)


def _has_bytes(source: SourceBase) -> bool:
    try:
        source.read_bytes([])
    except SpecError:
        return False
    return True


def _fill(source: SourceBase, out: DatasetWriter, copied: bool) -> Iterator[int]:
    """Write all records; yield how many are done, every now and then."""
    records = source.scan_bytes() if copied else iter(source)
    append = out.append_bytes if copied else out.append
    for record in records:
        append(record)
        if len(out) % _EVERY == 0:
            yield len(out)
    yield len(out)
