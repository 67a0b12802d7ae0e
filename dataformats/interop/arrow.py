"""A source as a `pyarrow.dataset.Dataset`: DuckDB and others then read only the columns that a query uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dataformats.errors import MissingExtraError
from dataformats.interfaces.record_source import RecordSource

try:
    import pyarrow
    import pyarrow.dataset
except ImportError as error:
    raise MissingExtraError("dataformats.interop.arrow", extra="arrow") from error

__all__ = ["SourceDataset"]


class SourceDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """A source as a dataset of pyarrow, which DuckDB and `polars.scan_pyarrow_dataset` take.

    A program that takes any Arrow stream reads every field of a source. From a dataset, it asks for the columns and the
    filter of its query: only the fields that these name are read and decoded.

    Args:
        source: The records, which have a spec.
        media_structs: Images, videos and sounds are Hugging Face's structs `{bytes, path}` instead of binary.

    Raises:
        SpecError: The records have no spec.

    Example:
        >>> import dataformats
        >>> import pyarrow.compute as pc
        >>> from dataformats.interop.arrow import SourceDataset
        >>> digits = SourceDataset(dataformats.open("tests/golden/real/digits-*.tfrecord"))
        >>> digits.to_table(columns=["label"], filter=pc.field("label") == 3).num_rows
        183
    """

    def __init__(self, source: RecordSource, *, media_structs: bool = False) -> None:
        self._source = source
        self._media_structs = media_structs
        self._schema = source.to_batches(media_structs=media_structs).schema

    def __reduce__(self) -> tuple[Any, ...]:
        return _dataset, (self._source, self._media_structs)

    @property
    def schema(self) -> Any:
        """The `pyarrow.Schema` of all fields."""
        return self._schema

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, Any] | None = None,
        filter: Any = None,  # noqa: A002  # as in pyarrow
        batch_size: int | None = None,
        **options: Any,
    ) -> Any:
        """Return a `pyarrow.dataset.Scanner` that reads the fields of these columns and of the filter."""
        fields = self._fields(columns, filter)
        reader = self._source.to_batches(batch_size, fields, media_structs=self._media_structs)
        return pyarrow.dataset.Scanner.from_batches(reader, columns=columns, filter=filter)

    def count_rows(self, filter: Any = None, **options: Any) -> int:  # noqa: A002  # as in pyarrow
        """Return the number of records for which the filter holds."""
        if filter is None:
            return len(self._source)
        found: int = self.scanner([], filter, **options).count_rows()
        return found

    def _fields(self, columns: Sequence[str] | Mapping[str, Any] | None, condition: Any) -> list[str]:
        """Return the fields that a scan needs, and perhaps more: an expression names its fields only in its text."""
        if columns is None:
            return list(self._schema.names)
        plain = set() if isinstance(columns, Mapping) else set(columns)
        expressions = [*columns.values()] if isinstance(columns, Mapping) else []
        text = " ".join(map(str, [*expressions, condition]))
        found = [name for name in self._schema.names if name in plain or name in text]
        return found or self._schema.names[:1]


def _dataset(source: RecordSource, media_structs: bool) -> SourceDataset:
    return SourceDataset(source, media_structs=media_structs)
