"""The result of a conversion."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConvertReport:
    """The result of a conversion.

    Attributes:
        path: The new file or folder.
        format: Its format.
        payload: The codec of its whole records; `None` if it stores each field separately.
        records: The number of records.
        copied: True if stored payloads were copied unchanged; False if records were decoded and encoded.
        seconds: Wall time.
        left_out: Fields of the source that the new records lack.
        files: The number of new files, or of shards if they are folders.
        nbytes: Their size in bytes.
        omitted: How many records failed, and were left out by `on_corrupt="omit"`.
        errors: The messages of the first of these, as far as this run met them.
        resumed: How many records an interrupted run had written.

    Example:
        >>> import dataformats, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "photos.ofrecord"
        >>> report = dataformats.convert("tests/golden/real/photos.tfrecord", path, "ofrecord")
        >>> report.payload, report.records, report.copied
        ('ofrecord', 12, False)
    """

    path: str
    format: str
    payload: str | None
    records: int
    copied: bool
    seconds: float
    left_out: tuple[str, ...] = ()
    files: int = 0
    nbytes: int = 0
    omitted: int = 0
    errors: tuple[str, ...] = ()
    resumed: int = 0
