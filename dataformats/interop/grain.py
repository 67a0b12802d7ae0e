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
    """The batches of a loader, from its position on, as a `grain.IterDataset`.

    The state of its iterator is that of the loader. The loader has one cursor: a new iterator takes it over.

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

    def __iter__(self) -> _Batches:
        return _Batches(self._loader, self._num_epochs)


class _Batches(grain.DatasetIterator):  # type: ignore[misc]
    def __init__(self, loader: Loader, num_epochs: int | None) -> None:
        super().__init__()
        self._loader, self._num_epochs = loader, num_epochs
        self._batches = loader.forever()

    def __next__(self) -> Any:
        if self._loader.epoch == self._num_epochs:
            raise StopIteration
        return next(self._batches)

    def get_state(self) -> dict[str, Any]:
        return self._loader.state_dict()

    def set_state(self, state: dict[str, Any]) -> None:
        self._loader.load_state_dict(state)
