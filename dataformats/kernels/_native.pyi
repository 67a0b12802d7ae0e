import numpy as np
from numpy.typing import NDArray

from dataformats.kernels.reference import BytesLike

def crc32c(data: BytesLike, value: int = 0, /) -> int: ...
def crc32(data: BytesLike, value: int = 0, /) -> int: ...
def crc32c_extents(
    buffer: BytesLike, starts: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.uint32], /
) -> None: ...
def crc32_extents(
    buffer: BytesLike, starts: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.uint32], /
) -> None: ...
def crc32c_with(name: str, data: BytesLike, value: int = 0, /) -> int: ...
def crc32_with(name: str, data: BytesLike, value: int = 0, /) -> int: ...
def variants() -> dict[str, list[str]]: ...
def gather(
    buffer: BytesLike, starts: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.uint8], /
) -> int: ...
def wire_find(
    shape: int,
    buffer: BytesLike,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    names: bytes,
    ends: NDArray[np.int64],
    parts: bytes,
    features: NDArray[np.int64],
    surveys: NDArray[np.int64],
    strays: NDArray[np.uint8],
    /,
) -> int: ...
def wire_survey(shape: int, features: NDArray[np.int64], survey: NDArray[np.int64], /) -> int: ...
def wire_numbers(
    shape: int, buffer: BytesLike, features: NDArray[np.int64], out: NDArray[np.uint8], kind: int, /
) -> int: ...
def wire_places(
    shape: int,
    buffer: BytesLike,
    features: NDArray[np.int64],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    /,
) -> int: ...
def wire_steps(shape: int, buffer: BytesLike, lists: NDArray[np.int64], out: NDArray[np.int64], /) -> int: ...
