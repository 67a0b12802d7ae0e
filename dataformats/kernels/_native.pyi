from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels.reference.checksums import BytesLike
from dataformats.kernels.wire_write import Field

def crc32c(data: BytesLike, value: int = 0, /) -> int: ...
def crc32(data: BytesLike, value: int = 0, /) -> int: ...
def crc32c_extents(
    buffer: BytesLike, starts: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.uint32], /
) -> None: ...
def crc32_extents(
    buffer: BytesLike, starts: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.uint32], /
) -> None: ...
def crc32c_items(items: Sequence[BytesLike], out: NDArray[np.uint32], /) -> None: ...
def crc32_items(items: Sequence[BytesLike], out: NDArray[np.uint32], /) -> None: ...
def crc32c_with(name: str, data: BytesLike, value: int = 0, /) -> int: ...
def crc32_with(name: str, data: BytesLike, value: int = 0, /) -> int: ...
def variants() -> dict[str, list[str]]: ...
def hold_extents(
    file: NDArray[np.int32],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    stored: NDArray[np.uint32] | None,
    head: int,
    tail: int,
    check: int,
    /,
) -> object: ...
def hold_index(starts: NDArray[np.int64], head: int, tail: int, check: int, has_stored: bool, /) -> object: ...
def hold_blocks(index: object, file: int, n: int, source: bytes, is_path: bool, /, *facts: int) -> bool: ...
def hold_table(index: object, file: int, n: int, source: bytes, is_path: bool, /, *facts: int) -> bool: ...
def look_up(
    index: object,
    records: NDArray[np.int64],
    file: NDArray[np.int32],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    stored: NDArray[np.uint32],
    /,
) -> int: ...
def best_fit(lengths: NDArray[np.int64], row_length: int, rows: NDArray[np.int64], /) -> None: ...
def hold_files(memories: NDArray[np.uint64], sizes: NDArray[np.int64], mtimes: NDArray[np.int64], /) -> object: ...
def lay_out(
    indexes: tuple[Any, ...],
    records: NDArray[np.int64] | None,
    files: object,
    max_bytes: int,
    room: NDArray[np.int64],
    /,
) -> tuple[object, list[int], list[int]] | None: ...
def read_laid(
    laid: object,
    outs: tuple[Any, ...],
    fds: NDArray[np.int32],
    engine: Any,
    threads: Any,
    n_threads: int,
    with_memory: bool,
    /,
) -> bool: ...
def read_record(
    indexes: tuple[Any, ...], row: int, files: object, max_bytes: int, fds: list[int], engine: Any, /
) -> list[bytearray] | None: ...
def thread_pool_open(most: int, /) -> object: ...
def engine_open(name: str, /) -> object: ...
def engine_state(engine: object, /) -> tuple[str, str | None, int]: ...
def engine_read(
    engine: object | None,
    fds: NDArray[np.int32],
    offsets: NDArray[np.int64],
    lengths: NDArray[np.int64],
    places: NDArray[np.int64],
    buffer: BytesLike,
    done: NDArray[np.int64],
    /,
) -> None: ...
def gather(
    buffers: list[BytesLike],
    numbers: NDArray[np.int64],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out: NDArray[np.uint8],
    /,
) -> int: ...
def bytes_list(buffer: BytesLike, starts: NDArray[np.int64], lengths: NDArray[np.int64], /) -> list[bytes]: ...
def json_find(
    buffer: BytesLike,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    names: tuple[bytes, ...],
    only_names: bool,
    kinds: NDArray[np.uint8],
    begins: NDArray[np.int64],
    sizes: NDArray[np.int64],
    numbers: NDArray[np.int64],
    /,
) -> int: ...
def json_integers(
    buffer: BytesLike,
    begins: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out: NDArray[np.int64],
    written: NDArray[np.int64],
    /,
) -> int: ...
def json_unescape(
    buffer: BytesLike,
    begins: NDArray[np.int64],
    lengths: NDArray[np.int64],
    out: NDArray[np.uint8],
    written: NDArray[np.int64],
    /,
) -> int: ...
def join_frames(heads: BytesLike, items: Sequence[bytes], feet: BytesLike, out: NDArray[np.uint8], /) -> None: ...
def png_unfilter(rows: BytesLike, row_bytes: int, channels: int, out: NDArray[np.uint8], /) -> bool: ...
def bilinear(
    image: BytesLike,
    shape: tuple[int, int, int],
    size: tuple[int, int],
    is_float: bool,
    out: NDArray[np.uint8],
    /,
) -> bool: ...
def resample(
    image: BytesLike,
    shape: tuple[int, int],
    box: tuple[float, float, float, float],
    size: tuple[int, int],
    part: tuple[int, int, int, int],
    flip: bool,
    planes: bool,
    out: NDArray[np.uint8],
    portable: bool = False,
    /,
) -> bool: ...
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
    shape: int,
    buffer: BytesLike,
    features: NDArray[np.int64],
    out: NDArray[np.uint8],
    kind: int,
    portable: bool = False,
    /,
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
def scan_tfrecord(
    window: BytesLike, at: int, lengths: NDArray[np.int64], footers: NDArray[np.uint32], /
) -> tuple[int, int, int]: ...
def scan_ofrecord(window: BytesLike, at: int, lengths: NDArray[np.int64], /) -> tuple[int, int, int]: ...
def scan_lines(window: BytesLike, at: int, lengths: NDArray[np.int64], /) -> tuple[int, int, int, int]: ...
def scan_json(
    window: BytesLike, at: int, level: int, state: NDArray[np.int64], ends: NDArray[np.int64], /
) -> tuple[int, int, int]: ...
def scan_tfrecord_header(window: BytesLike, at: int, most: int, /) -> int: ...
def permute(indices: NDArray[np.int64], domain: int, key: tuple[int, int], out: NDArray[np.int64], /) -> None: ...
def permute_back(indices: NDArray[np.int64], domain: int, key: tuple[int, int], out: NDArray[np.int64], /) -> None: ...
def wire_plan(shape: int, fields: tuple[Field, ...], array_type: type, scalar_type: type, /) -> object: ...
def wire_write(plan: object, values: tuple[object, ...], normalize: Callable[[int, Any], object], /) -> bytes | int: ...
def wire_columns_plan(
    shape: int,
    names: tuple[tuple[int, bytes], ...],
    outputs: tuple[tuple[Any, ...], ...],
    closed: bool,
    new_int64s: Callable[[int], NDArray[np.int64]],
    values: tuple[tuple[Any, ...], ...] | None = None,
    /,
) -> object: ...
def wire_record(plan: object, record: BytesLike, /) -> dict[str, Any] | None: ...
def wire_columns(
    plan: object,
    buffer: BytesLike,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    window: tuple[int, int] | None,
    /,
) -> tuple[tuple[int, Any, Any, NDArray[np.bool_] | None], ...] | None: ...
