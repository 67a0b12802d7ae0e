"""Batches as tensors, and their copies to a device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from dataformats.batch.tensors import map_tensors, to_tensors

__all__ = ["Copy", "DeviceCopier", "to_torch"]


def to_torch(batch: Any) -> Any:
    """Return a batch, or any structure of columns, with tensors in place of arrays.

    A tensor shares the memory of its array if that is writable, contiguous and in the machine's byte order, and is a
    copy otherwise. A `Ragged` of numbers becomes a jagged nested tensor, one of text or bytes a list; a `Nullable`
    stays one, with tensors inside. `positions` and `padding` stay arrays: they are for `loader.locate`, and only
    columns go to a device.

    Example:
        >>> import numpy as np
        >>> from dataformats.loaders.pytorch import to_torch
        >>> pixels = np.zeros((2, 3), np.float32)
        >>> batch = to_torch({"image": pixels, "name": ["a", "b"]})
        >>> batch["image"][0, 0] = 7
        >>> batch["name"], float(pixels[0, 0])
        (['a', 'b'], 7.0)
    """
    return to_tensors(batch, share=True)


class DeviceCopier:
    """Copies batches to a device while earlier ones are being used.

    On CUDA, a batch is put into page-locked memory and copied on a separate stream; the caller's stream waits for that
    copy before it uses the batch. So the copy of a batch overlaps with the computation on the previous one. On other
    devices, batches are copied at once.

    Page-locked memory and device memory come from torch's caches. A page-locked block is reused when its copy is done,
    a device block when the stream that used the batch has passed that point.

    Args:
        device: An argument of `torch.device`.

    Raises:
        ValueError: torch sees no such device.

    Example:
        >>> import torch
        >>> from dataformats.loaders.pytorch import DeviceCopier
        >>> copier = DeviceCopier("cpu")
        >>> [batch["x"].sum().item() for batch in copier.ahead({"x": torch.ones(n)} for n in (2, 3))]
        [2.0, 3.0]
    """

    def __init__(self, device: Any) -> None:
        self.device: torch.device = _checked_device(device)
        self._stream: torch.cuda.Stream | None = None

    def begin(self, batch: Any) -> Copy:
        """Begin to copy a batch of tensors or arrays. May run ahead of `Copy.wait`, and in another thread."""
        tensors = to_torch(batch)
        if self.device.type != "cuda":
            return Copy(map_tensors(tensors, lambda tensor: tensor.to(self.device)))
        if self._stream is None:  # not in __init__: it initializes CUDA, after which a process must not fork
            self._stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]  # torch has no types for it
        stream = self._stream
        # A tensor that a function of the caller put on a device belongs to the caller's stream, which copies it.
        tensors = map_tensors(tensors, lambda tensor: tensor if tensor.is_cpu else tensor.to(self.device))
        # No wait for the caller's stream: it does not use the memory that this stream allocates and fills.
        with torch.cuda.stream(stream):
            return Copy(map_tensors(tensors, self._copy), stream.record_event())

    def end(self, begun: Copy) -> Any:
        """Return the batch; the caller's stream waits for the copy."""
        return begun.wait()

    def ahead(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the batches on the device; the copy of the next batch begins before each one is yielded."""
        pending: Copy | None = None
        for batch in batches:
            begun = self.begin(batch)
            if pending is not None:
                yield pending.wait()
            pending = begun
        if pending is not None:
            yield pending.wait()

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_cpu:
            return tensor
        pinned = tensor if tensor.is_pinned() else tensor.pin_memory()
        return pinned.to(self.device, non_blocking=True)


@dataclass(frozen=True, eq=False)
class Copy:
    """A copy of a batch to a device, perhaps unfinished.

    Attributes:
        batch: Its tensors on the device; not to be used before `wait`.
        event: Occurs when the copy is done; `None` if it is done.
    """

    batch: Any
    event: Any = None

    def wait(self) -> Any:
        """Return the batch. The current stream of this thread waits for the copy; the thread itself does not."""
        if self.event is None:
            return self.batch
        return map_tensors(self.batch, self._hand_over)

    def _hand_over(self, tensor: torch.Tensor) -> torch.Tensor:
        stream = torch.cuda.current_stream(tensor.device)
        assert self.event is not None
        stream.wait_event(self.event)
        # The memory belongs to the copying stream, which must not reuse it while this stream still reads it.
        tensor.record_stream(stream)
        return tensor


def _checked_device(device: Any) -> torch.device:
    try:
        found = torch.device(device)
        if found.type == "cuda":  # devices are only counted: using one would initialize CUDA
            count = torch.cuda.device_count() if torch.cuda.is_available() else 0
            if found.index is None:  # each thread has its own current device: take the caller's
                found = torch.device("cuda", torch.cuda.current_device() if torch.cuda.is_initialized() else 0)
            if (found.index or 0) >= count:
                raise RuntimeError(f"torch sees {count} CUDA devices")
        else:
            torch.empty(0, device=found)
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        raise ValueError(
            f"expected a device of torch {torch.__version__}, found device={device!r}: {str(error).splitlines()[0]}. "
            "Pass device=None to keep batches in main memory"
        ) from error
    return found
