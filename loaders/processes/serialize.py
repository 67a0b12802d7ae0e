"""Write objects to memory with their arrays aligned, and load them so that the arrays are views of that memory."""

from __future__ import annotations

import copyreg
import io
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
"""Arrays begin at a multiple of this: a cache line, which is as long as the widest vector register."""


class PickleWithBuffers:
    """A pickled object and the buffers of its arrays, which are not copied before `write`.

    Layout: int64 number of parts, int64 bytes of each part, the parts. The first part is the pickle.

    Attributes:
        n_bytes: Bytes that `write` needs.

    Raises:
        Exception: Pickling a part of it raises this.
    """

    def __init__(self, value: Any) -> None:
        buffers: list[pickle.PickleBuffer] = []
        self._parts: list[Any] = [_dumps(value, buffers.append)]
        self._parts += [buffer.raw() for buffer in buffers]
        self._lengths = np.array([len(self._parts), *map(len, self._parts)], np.int64)
        self._offsets, n_bytes = _part_offsets(self._lengths)
        self.n_bytes: int = n_bytes

    def write(self, memory: Any) -> None:
        """Write it to the beginning of a writable buffer of at least `n_bytes` bytes."""
        view = memoryview(memory)
        view[: self._lengths.nbytes] = self._lengths.data.cast("B")
        for offset, part in zip(self._offsets, self._parts, strict=True):
            view[offset : offset + len(part)] = part


def load_pickle(memory: NDArray[np.uint8]) -> Any:
    """Return an object whose arrays are views of this memory.

    Args:
        memory: uint8[n], written by `PickleWithBuffers.write`.
    """
    n_parts = int(memory[:8].view(np.int64)[0])
    lengths = memory[: 8 * (1 + n_parts)].view(np.int64)
    offsets, _ = _part_offsets(lengths)
    parts = [memory[offset : offset + length] for offset, length in zip(offsets, lengths[1:].tolist(), strict=True)]
    return pickle.loads(parts[0].data, buffers=parts[1:])


def _part_offsets(lengths: NDArray[np.int64]) -> tuple[list[int], int]:
    """Return the offset of each part, and where the last one ends."""
    room = -(-lengths[1:] // ALIGNMENT) * ALIGNMENT
    ends = np.cumsum(room) + -(-lengths.nbytes // ALIGNMENT) * ALIGNMENT
    return (ends - room).tolist(), int(ends[-1])


def _dumps(value: Any, buffer_callback: Callable[[pickle.PickleBuffer], Any]) -> bytes:
    file = io.BytesIO()
    pickler = pickle.Pickler(file, 5, buffer_callback=buffer_callback)
    torch = sys.modules.get("torch")  # imported if the value has a tensor
    if torch is not None:
        pickler.dispatch_table = {**copyreg.dispatch_table, torch.Tensor: _reduce_tensor}
    pickler.dump(value)
    return file.getvalue()


def _reduce_tensor(tensor: Any) -> Any:
    """Pickle a tensor as an array, which becomes a buffer; torch would copy it into the pickle."""
    torch = sys.modules["torch"]
    is_plain = tensor.device.type == "cpu" and tensor.layout is torch.strided and not tensor.requires_grad
    if not is_plain or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
        return tensor.__reduce_ex__(5)
    array = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
    return _rebuild_tensor, (array, tensor.dtype, tuple(tensor.shape))


def _rebuild_tensor(array: NDArray[np.uint8], dtype: Any, shape: tuple[int, ...]) -> Any:
    import torch

    return torch.from_numpy(array).view(dtype).reshape(shape)
