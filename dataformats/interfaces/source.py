"""RecordSource: a finite, random-access sequence of records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dataformats.batch import RecordBatch
    from dataformats.spec import Spec

__all__ = ["FieldStats", "Fields", "OnCorrupt", "RecordSource"]

OnCorrupt = Literal["raise", "omit"]
"""What a read does with a record that is damaged: raise its error, or leave it out and note it in `failed`."""

Fields = Sequence[str] | Mapping[str, "bool | range"] | None
"""Field names, or one mask for all records (`{"frames": range(32, 42), "title": True}`); `None` is every field."""


@dataclass(frozen=True, slots=True)
class FieldStats:
    """What the values of one field are like.

    Attributes:
        count: Records that hold the field.
        missing: Records that do not.
        minimum: Smallest number; for bytes, text and sequences smallest length. `None` without values; likewise:
        maximum: Largest.
        mean: Mean.
        std: Standard deviation (of the population).
        of_lengths: True where the four are about lengths.

    Example:
        >>> import dataformats
        >>> label = dataformats.open("tests/golden/real/digits-*.tfrecord").stats("label")
        >>> label.count, label.missing, label.minimum, label.maximum
        (1797, 0, 0.0, 9.0)
    """

    count: int
    missing: int
    minimum: float | None
    maximum: float | None
    mean: float | None
    std: float | None
    of_lengths: bool


class RecordSource(ABC):
    """A finite, random-access sequence of records, whatever file format they lie in.

    Records are dicts of fields, or single values in data whose payload has none. `read` is the primitive: it fetches
    any records in one I/O submission; everything else stands on it. A source may be used from many threads, after
    `fork`, and pickled to other processes; it is a `collections.abc.Sequence`, a Grain `RandomAccessDataSource`, and
    has PyTorch's `__getitems__`.

    Example:
        >>> import dataformats
        >>> spec = {"image": "uint8[8,8]", "label": "int64"}
        >>> src = dataformats.open("tests/golden/real/digits-*.tfrecord", spec=spec)
        >>> len(src)
        1797
        >>> src[-1]["label"]
        8
        >>> src[:100].read([5, 3])["image"].shape
        (2, 8, 8)
    """

    @property
    @abstractmethod
    def format(self) -> str:
        """The name of the file format."""

    @property
    @abstractmethod
    def payload(self) -> str | None:
        """The codec of whole records, or `None` in formats that store fields apart."""

    @property
    @abstractmethod
    def spec(self) -> Spec:
        """Field to type; single values have the one field `"value"`."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of all files."""

    @property
    @abstractmethod
    def paths(self) -> tuple[str, ...]:
        """The files, in reading order."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A digest (hex) of which records these are; never of paths, times or specs.

        It covers format, counts, sizes, all record lengths and stored checksums, and the bytes of 64 records at fixed
        places; it costs no full read.
        """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of records; the first call may build an index.

        In a damaged file: the records found, plus one for a rest that cannot be read.
        """

    @abstractmethod
    def read(self, indices: ArrayLike, fields: Fields = None, on_corrupt: OnCorrupt = "raise") -> RecordBatch:
        """Return the records at `indices`, in that order, repeats included, as one batch.

        Args:
            indices: int[n], each in `[0, len)`.
            fields: Names, or one mask; `None` reads all.
            on_corrupt: `"raise"` the error of the first damaged record, or `"omit"` it and note it in `batch.failed`.

        Raises:
            IndexError: An index outside `[0, len)`.
            FormatError: A damaged record, with file, record, offset, expected and found.
            SpecError: A record that does not fit the spec.
        """

    @abstractmethod
    def read_bytes(self, indices: ArrayLike) -> list[bytes]:
        """Return the stored payloads of these records, decompressed and verified.

        Raises:
            SpecError: The format stores fields apart, so a record has no bytes of its own.
        """

    @abstractmethod
    def available(self, index: int) -> dict[str, bool | range]:
        """Return what record `index` holds: field to True, or to the range of a sequence's elements."""

    @abstractmethod
    def __getitem__(self, key: Any) -> Any:
        """Return one record (`src[5]`, `src[-1]`), a part of one (`src[5, mask]`), or a view (`src[2:10]`)."""

    @abstractmethod
    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Return the records at `indices`, read at once, as PyTorch's DataLoader asks."""

    @abstractmethod
    def __iter__(self) -> Iterator[Any]:
        """Yield the records in order, reading ahead; needs no index."""

    @abstractmethod
    def select(self, *fields: str) -> RecordSource:
        """Return a view with these fields, in this order; the others are not decoded."""

    @abstractmethod
    def map(self, function: Callable[[Any], Any]) -> RecordSource:
        """Return a view whose records are `function(record)`, computed at each read."""

    @abstractmethod
    def take(self, indices: ArrayLike | range) -> RecordSource:
        """Return a view of these records, in this order, repeats allowed."""

    @abstractmethod
    def where(self, mask: ArrayLike | Callable[[Any], bool]) -> RecordSource:
        """Return a view of the records where the mask is true.

        Args:
            mask: bool[len], or a function of a record that is evaluated once for each, now, in parallel.
        """

    @abstractmethod
    def split(self, *fractions: float, seed: int = 0) -> tuple[RecordSource, ...]:
        """Return disjoint views of these shares, and one of the rest if they leave one; records keep their order.

        Which record goes where depends on `len`, the fractions and the seed alone, on every machine and version.

        Args:
            fractions: Shares in (0, 1), together at most 1.
            seed: Another seed, another partition.
        """

    @abstractmethod
    def shard(self, index: int, count: int) -> RecordSource:
        """Return part `index` of `count` contiguous parts whose lengths differ by at most one."""

    @abstractmethod
    def stats(self, field: str | None = None) -> FieldStats:
        """Return count, range and moments of a field, reading it whole; single values need no name."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files; using the source again opens them again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


Sequence.register(RecordSource)  # type: ignore[type-abstract]  # its children are sequences
