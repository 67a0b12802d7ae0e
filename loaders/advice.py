"""What limits a loader, and which change would help most: for `Loader.stats` and `benchmark`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dataformats.batch.arrow_types import MEDIA
from dataformats.interfaces.declared_spec import declared_spec
from dataformats.interfaces.record_source import RecordSource
from dataformats.loaders.adapters import Readable
from dataformats.reading.blob_source import BlobSource
from dataformats.reading.derived_source import joined_sources
from dataformats.storage import threads
from dataformats.storage.remote.systems import is_url

LIMITS = {
    "read": "reading (with checksums and decompression)",
    "decode": "decoding",
    "transform": "transform or batch_transform",
    "collate": "building batches",
    "transfer": "conversion and copies to the device",
}
"""The name of each stage of a batch as a limit of the speed."""

IN_MEMORY = 'open(..., cache="memory")'
ON_DISK = 'open(..., cache="disk:PATH")'
IN_WINDOWS = 'shuffle="window"'

_MEMORY_BYTES = 2**30
_CROWDED = 0.7  # CPU time by time of workers; below, threads wait for the interpreter, or for something else
_SATURATED = 0.3  # CPU time of all workers by time of one; below, the interpreter is mostly free
_PYTHON = ("transform", "collate")


def fits_in_memory(source: RecordSource) -> bool:
    """Return True if the stored bytes are few enough for `cache="memory"`."""
    return source.nbytes <= _MEMORY_BYTES


@dataclass(frozen=True, slots=True)
class LoaderSetup:
    """The arguments of a loader that the best change depends on.

    Attributes:
        sources: The source of each component, with the stored bytes of the fields that operations decode.
        workers: Number of workers.
        worker_type: `"thread"` or `"process"`.
        places: How many batches may be built ahead.
        order: `"global"`, `"window"` or `"none"`.
    """

    sources: Sequence[Readable]
    workers: int
    worker_type: str
    places: int
    order: str

    def best_change(self, shares: Mapping[str, float], cpu: float) -> str:
        """Return the change that would help most, for a loader that its training waits for.

        Args:
            shares: The share of each stage in the time of a batch.
            cpu: CPU time of Python functions by the time of a batch; 0 without such functions.
        """
        stage = max(shares, key=lambda name: shares[name])
        more = f"workers={max(2, 2 * self.workers)}"
        if stage == "read":
            return self._better_reading() or more
        if stage == "decode" and (media := next(self._media, None)) is not None:
            return f"decode={{{media!r}: ...}} at the size that training needs"  # all processors decode them already
        crowded = cpu < _CROWDED and cpu * self.workers > _SATURATED
        if stage in _PYTHON and self.worker_type == "thread" and self.workers > 1 and crowded:
            return 'worker_type="process", because threads share one interpreter'
        if self.workers < threads.N_THREADS or (stage in _PYTHON and 0 < cpu < _SATURATED):
            return more
        return _LESS_WORK[stage]

    def _better_reading(self) -> str | None:
        """Return the change for files that are read slowly; `None` if more workers wait for them better."""
        files = self._files
        is_remote = any(is_url(path) for one in files for path in one.paths)
        if is_remote and self.order == "global":
            return IN_WINDOWS  # each record is a request
        if not files or not self.workers or (self.workers < threads.N_THREADS and not is_remote):
            return None
        if all(one.cache is None and fits_in_memory(one) for one in files):
            return IN_MEMORY
        if is_remote and all(one.cache is None for one in files):
            return ON_DISK
        return IN_WINDOWS if self.order == "global" else None

    @property
    def _files(self) -> list[BlobSource]:
        parts = (part for one in self.sources if isinstance(one, RecordSource) for part in joined_sources(one))
        return [part for part in parts if isinstance(part, BlobSource)]

    @property
    def _media(self) -> Iterator[str]:
        specs = (declared_spec(one) for one in self.sources if isinstance(one, RecordSource))
        return (name for spec in specs if spec for name, kind in spec.items() if kind.codec in MEDIA)


_LESS_WORK = {
    "decode": "a smaller size in decode=, or fewer fields in spec=, because all processors decode",
    "transform": "less work in transform, because all processors have a worker",
    "collate": "smaller columns, or a faster collate, because all processors have a worker",
    "transfer": "smaller columns, such as uint8 in place of float32",
}
