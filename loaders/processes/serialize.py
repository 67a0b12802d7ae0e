"""Packing: objects as bytes in a slot, their arrays aligned, so that the arrays are views of the slot again."""

from __future__ import annotations

import copyreg
import io
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ALIGNMENT", "PickleWithBuffers", "unpack"]

ALIGNMENT = 64
"""Where arrays begin: at a line of the processor's cache, which is as long as the widest vector."""


class PickleWithBuffers:
    """An object as a pickle and the buffers of its arrays, which are not copied before `write`.

    Laid down as: int64 number of parts, int64 bytes of each part, the parts; the pickle is the first of them.

    Raises:
        Exception: What pickling a part of it raises.
    """

    def __init__(self, thing: Any) -> None:
        found: list[pickle.PickleBuffer] = []
        self._parts: list[Any] = [_dumps(thing, found.append)]
        self._parts += [buffer.raw() for buffer in found]
        self._lengths = np.array([len(self._parts), *map(len, self._parts)], np.int64)
        self._begins, n_bytes = _places(self._lengths)
        self.n_bytes: int = n_bytes

    def write(self, memory: Any) -> None:
        """Write it to the beginning of a writable buffer of at least `n_bytes` bytes."""
        view = memoryview(memory)
        view[: self._lengths.nbytes] = self._lengths.data.cast("B")
        for begin, part in zip(self._begins, self._parts, strict=True):
            view[begin : begin + len(part)] = part


def unpack(memory: NDArray[np.uint8]) -> Any:
    """Return an object whose arrays are views of this memory.

    Args:
        memory: uint8[n], what `PickleWithBuffers.write` wrote.
    """
    n_parts = int(memory[:8].view(np.int64)[0])
    lengths = memory[: 8 * (1 + n_parts)].view(np.int64)
    begins, _ = _places(lengths)
    parts = [memory[begin : begin + length] for begin, length in zip(begins, lengths[1:].tolist(), strict=True)]
    return pickle.loads(parts[0].data, buffers=parts[1:])


def _places(lengths: NDArray[np.int64]) -> tuple[list[int], int]:
    """Return where each part begins, and where the last one ends."""
    room = -(-lengths[1:] // ALIGNMENT) * ALIGNMENT
    ends = np.cumsum(room) + -(-lengths.nbytes // ALIGNMENT) * ALIGNMENT
    return (ends - room).tolist(), int(ends[-1])


def _dumps(thing: Any, buffer_callback: Callable[[pickle.PickleBuffer], Any]) -> bytes:
    file = io.BytesIO()
    pickler = pickle.Pickler(file, 5, buffer_callback=buffer_callback)
    torch = sys.modules.get("torch")  # whoever made a tensor has imported it
    if torch is not None:
        pickler.dispatch_table = {**copyreg.dispatch_table, torch.Tensor: _reduce_tensor}
    pickler.dump(thing)
    return file.getvalue()


def _reduce_tensor(tensor: Any) -> Any:
    """Pickle a tensor as the array that it is; torch would copy it into the pickle."""
    torch = sys.modules["torch"]
    plain = tensor.device.type == "cpu" and tensor.layout is torch.strided and not tensor.requires_grad
    if not plain or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
        return tensor.__reduce_ex__(5)
    array = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
    return _tensor, (array, tensor.dtype, tuple(tensor.shape))


def _tensor(array: NDArray[np.uint8], dtype: Any, shape: tuple[int, ...]) -> Any:
    import torch

    return torch.from_numpy(array).view(dtype).reshape(shape)
