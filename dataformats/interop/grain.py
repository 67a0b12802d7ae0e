"""Grain: the batches of a `Loader` as a `grain.IterDataset`, with its exact state."""

from __future__ import annotations

from typing import Any

from dataformats.errors import MissingExtraError
from dataformats.loaders.loader import Loader

try:
    import grain.python as grain
except ImportError as error:
    raise MissingExtraError("dataformats.interop.grain", extra="grain") from error

__all__ = ["LoaderDataset"]


class LoaderDataset(grain.IterDataset):  # type: ignore[misc]  # Grain has no types
    """The batches of a loader as a `grain.IterDataset`.

    Each iterator begins at the position at which the first one found the loader; to resume, call `set_state`. The state
    of an iterator is the loader's. The loader has one cursor: a new iterator takes it over, and the old one raises a
    `RuntimeError`. For worker processes, pass `worker_type="process"` to the loader, not `mp_prefetch`.

    Args:
        loader: The loader; its workers build the batches.
        num_epochs: The iterator ends before the epoch with this number; `None`: never.

    Example:
        >>> import dataformats
        >>> from dataformats.interop.grain import LoaderDataset
        >>> digits = dataformats.open("tests/golden/real/digits-*.tfrecord", spec={"label": "int64"})
        >>> dataset = LoaderDataset(dataformats.Loader(digits, 600), num_epochs=2)
        >>> batches = iter(dataset.map(lambda batch: len(batch["label"])))
        >>> next(batches), batches.get_state()["position"]
        (600, 600)
        >>> list(batches)
        [600, 597, 600, 600, 597]
    """

    def __init__(self, loader: Loader, num_epochs: int | None = 1) -> None:
        super().__init__()
        self._loader, self._num_epochs = loader, num_epochs
        self._begin: dict[str, Any] | None = None

    def __iter__(self) -> _Batches:
        if self._begin is None:
            self._begin = self._loader.state_dict()
        self._loader.load_state_dict(self._begin)
        return _Batches(self._loader, self._num_epochs)


class _Batches(grain.DatasetIterator):  # type: ignore[misc]
    def __init__(self, loader: Loader, num_epochs: int | None) -> None:
        super().__init__()
        self._loader, self._num_epochs = loader, num_epochs
        self._take_over()

    def __next__(self) -> Any:
        self._check_position()
        if self._num_epochs is not None and self._loader.epoch >= self._num_epochs:
            raise StopIteration
        batch = next(self._batches)
        self._position = self._loader.position
        return batch

    def get_state(self) -> dict[str, Any]:
        self._check_position()
        return self._loader.state_dict()

    def set_state(self, state: dict[str, Any]) -> None:
        self._loader.load_state_dict(state)
        self._take_over()

    def _take_over(self) -> None:
        self._batches, self._position = self._loader.forever(), self._loader.position

    def _check_position(self) -> None:
        if self._loader.position != self._position:
            raise RuntimeError(
                f"this iterator is over: it left the loader at position {self._position}, and another iterator moved "
                f"it to {self._loader.position}. Give each iterator a loader of its own"
            )
