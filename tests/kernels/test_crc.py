"""CRC32 and CRC32C, by every implementation that runs here, against published vectors and the textbook loop."""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataformats import kernels
from dataformats.kernels import reference
from dataformats.testing.loop_over import loop_over

try:
    _native: Any = importlib.import_module("dataformats.kernels._native")
except ImportError:
    _native = None  # test_choice.py fails then, if the compiled kernels were asked for

Checksum = Callable[..., int]

POLYNOMIALS = {"crc32c": 0x82F63B78, "crc32": 0xEDB88320}
ISCSI_READ = bytes.fromhex(
    "01c000000000000000000000000000001400000000000400000000140000001828000000000000000200000000000000"
)
# RFC 3720, appendix B.4 (the CRCs are printed there byte by byte); "123456789" is the check value of each
# algorithm in G. Cook's catalogue of parametrised CRC algorithms.
VECTORS = [
    ("crc32c", b"", 0x00000000),
    ("crc32c", b"123456789", 0xE3069283),
    ("crc32c", bytes(32), 0x8A9136AA),
    ("crc32c", b"\xff" * 32, 0x62A8AB43),
    ("crc32c", bytes(range(32)), 0x46DD794E),
    ("crc32c", bytes(range(31, -1, -1)), 0x113FDB5C),
    ("crc32c", ISCSI_READ, 0xD9963A56),
    ("crc32", b"", 0x00000000),
    ("crc32", b"123456789", 0xCBF43926),
]
# Lengths around the units of the kernels: 256 bytes, three lanes of 1024 and of 4096 bytes, and pieces of 1 MiB.
LARGE = [767, 768, 3071, 3072, 3072 + 3 * 64 + 17, 3 * 4096 + 5, 1 << 16, (1 << 20) - 1, (1 << 20) + 1030]


def implementations(name: str) -> dict[str, Checksum]:
    found: dict[str, Checksum] = {"door": getattr(kernels, name), "reference": getattr(reference, name)}
    if _native is not None:
        found["native"] = getattr(_native, name)
        for variant in _native.variants()[name]:
            found[variant] = functools.partial(getattr(_native, f"{name}_with"), variant)
    return found


CASES = [(name, checksum) for name in POLYNOMIALS for checksum in implementations(name).values()]
SUITES = [module for module in (reference, _native) if module is not None]


@functools.cache
def octet_table(polynomial: int) -> list[int]:
    table = list(range(256))
    for _ in range(8):
        table = [(entry >> 1) ^ (polynomial if entry & 1 else 0) for entry in table]
    return table


def prefix_crcs(polynomial: int, data: bytes) -> list[int]:
    """The CRC of `data[:n]` for each n, by the loop of RFC 1952, section 8."""
    table = octet_table(polynomial)
    registers = itertools.accumulate(
        data, lambda register, octet: table[(register ^ octet) & 0xFF] ^ (register >> 8), initial=0xFFFFFFFF
    )
    return [register ^ 0xFFFFFFFF for register in registers]


def noise(n_bytes: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).bytes(n_bytes)


@loop_over("name, checksum", CASES)
def test_published_vectors(name: str, checksum: Checksum) -> None:
    for vector_name, data, expected in VECTORS:
        if vector_name == name:
            assert checksum(data) == expected, data


@loop_over("name, checksum", CASES)
def test_every_length_at_every_alignment(name: str, checksum: Checksum) -> None:
    data = noise(600 + 64)
    for offset in range(64 if checksum is not getattr(reference, name) else 8):
        view = memoryview(data)[offset:]
        expected = prefix_crcs(POLYNOMIALS[name], bytes(view[:600]))
        assert [checksum(view[:n]) for n in range(601)] == expected, offset


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_large(name: str) -> None:
    data = noise(max(LARGE))
    expected = prefix_crcs(POLYNOMIALS[name], data)
    for label, checksum in implementations(name).items():
        for n_bytes in LARGE:
            assert checksum(memoryview(data)[:n_bytes]) == expected[n_bytes], (label, n_bytes)


@pytest.mark.parametrize(("name", "checksum"), CASES)
@given(data=st.binary(max_size=5000), cut=st.integers(0, 5000))
@settings(deadline=None)
def test_goes_on_from_a_value(name: str, checksum: Checksum, data: bytes, cut: int) -> None:
    expected = prefix_crcs(POLYNOMIALS[name], data)
    cut = min(cut, len(data))
    assert checksum(data[cut:], expected[cut]) == expected[-1]


@loop_over("name, checksum", CASES)
def test_takes_any_contiguous_buffer(name: str, checksum: Checksum) -> None:
    array = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
    expected = prefix_crcs(POLYNOMIALS[name], array.tobytes())[-1]
    frozen = array.copy()
    frozen.flags.writeable = False
    for data in (array, frozen, bytearray(array.tobytes()), memoryview(array.tobytes()), array.astype("<f8")):
        assert checksum(data) == expected
    assert checksum(np.empty((3, 0))) == 0
    assert checksum(memoryview(b"")) == 0


@loop_over("name, checksum", CASES)
def test_checksums_refuse_non_buffers(name: str, checksum: Checksum) -> None:
    for wrong in ("text", 5, None, [1, 2]):
        with pytest.raises(TypeError):
            checksum(wrong)
    with pytest.raises(ValueError, match=r"^data must be C-contiguous$"):
        checksum(np.arange(10)[::2])
    with pytest.raises(ValueError, match=r"^data must be C-contiguous$"):
        checksum(np.arange(6).reshape(2, 3).T)


@loop_over("name, checksum", CASES)
@loop_over("value", [-1, 1 << 32, 1 << 70, -(1 << 70)])
def test_refuses_a_value_out_of_range(name: str, checksum: Checksum, value: int) -> None:
    with pytest.raises(ValueError, match=rf"^value must be in \[0, 2\*\*32\), found {value}$"):
        checksum(b"abc", value)


@loop_over("name, checksum", CASES)
def test_value_is_an_integer(name: str, checksum: Checksum) -> None:
    assert checksum(b"abc", np.uint32(7)) == checksum(b"abc", 7)
    with pytest.raises(TypeError):
        checksum(b"abc", 1.0)


@pytest.mark.skipif(_native is None, reason="the compiled kernels are not here")
def test_unknown_variant() -> None:
    with pytest.raises(ValueError, match=r"^no variant 'sse9' on this machine$"):
        _native.crc32c_with("sse9", b"")
    with pytest.raises(ValueError, match=r"^no variant 'sse42' on this machine$"):
        _native.crc32_with("sse42", b"")


def extents_of(suite: Any, name: str, buffer: Any, starts: list[int], lengths: list[int]) -> list[int]:
    out = np.full(len(starts), 0xDEADBEEF, dtype=np.uint32)
    arrays = np.array(starts, dtype=np.int64), np.array(lengths, dtype=np.int64)
    getattr(suite, f"{name}_extents")(buffer, *arrays, out)
    return [int(crc) for crc in out]


@pytest.mark.parametrize("name", POLYNOMIALS)
@pytest.mark.parametrize("suite", SUITES)
@given(data=st.data())
@settings(deadline=None)
def test_extents(suite: Any, name: str, data: st.DataObject) -> None:
    buffer = data.draw(st.binary(max_size=300))
    starts = data.draw(st.lists(st.integers(0, len(buffer)), max_size=8))
    lengths = [data.draw(st.integers(0, len(buffer) - start)) for start in starts]
    pieces = [buffer[start : start + length] for start, length in zip(starts, lengths, strict=True)]
    expected = [prefix_crcs(POLYNOMIALS[name], piece)[-1] for piece in pieces]
    assert extents_of(suite, name, buffer, starts, lengths) == expected
    assert getattr(kernels, f"{name}_extents")(buffer, starts, lengths).tolist() == expected


@loop_over("name", POLYNOMIALS)
@loop_over("suite", SUITES)
def test_extents_of_a_large_buffer(suite: Any, name: str) -> None:
    buffer = noise(200_000)
    starts, lengths = [0, 150_000, 3, 200_000], [200_000, 50_000, 7000, 0]
    pieces = [buffer[start : start + length] for start, length in zip(starts, lengths, strict=True)]
    expected = [prefix_crcs(POLYNOMIALS[name], piece)[-1] for piece in pieces]
    assert extents_of(suite, name, buffer, starts, lengths) == expected
    with pytest.raises(ValueError, match=r"^extent 1 "):
        extents_of(suite, name, buffer, [0, 199_999], [200_000, 2])


BIG = (1 << 63) - 1


@loop_over("name", POLYNOMIALS)
@loop_over("suite", SUITES)
@loop_over(
    "start, length",
    [(-1, 1), (0, -1), (0, 11), (10, 1), (11, 0), (BIG, 0), (0, BIG), (BIG, BIG), (1, BIG), (~BIG, ~BIG)],
)
def test_extents_outside_are_refused(suite: Any, name: str, start: int, length: int) -> None:
    out = np.full(3, 0xDEADBEEF, dtype=np.uint32)
    starts, lengths = np.array([0, start, -5]), np.array([10, length, 0])
    message = rf"^extent 1 \(start {start}, length {length}\) is outside the buffer of 10 bytes$"
    with pytest.raises(ValueError, match=message):
        getattr(suite, f"{name}_extents")(bytes(10), starts, lengths, out)
    assert (out == 0xDEADBEEF).all()  # nothing was read, so nothing was written
    with pytest.raises(ValueError, match=message):
        getattr(kernels, f"{name}_extents")(bytes(10), starts, lengths)


@pytest.mark.parametrize("suite", SUITES)
def test_crc32c_extents_refuses_wrong_arrays(suite: Any) -> None:
    two, three = np.zeros(2, dtype=np.int64), np.zeros(3, dtype=np.int64)
    out = np.zeros(2, dtype=np.uint32)
    with pytest.raises(ValueError, match=r"^starts, lengths and out must be equally long, found 2, 3 and 2$"):
        suite.crc32c_extents(b"abc", two, three, out)
    starts_message = "^starts must be a contiguous int64 array of one dimension$"
    recast = [two.astype(dtype) for dtype in ("int32", "float64", ">i8")]
    for wrong in (*recast, three[::2], two.reshape(2, 1)):
        with pytest.raises(TypeError, match=starts_message):
            suite.crc32c_extents(b"abc", wrong, two, out)
    with pytest.raises(TypeError, match=r"^lengths must be a contiguous int64 array of one dimension$"):
        suite.crc32c_extents(b"abc", two, three[::2], out)
    frozen = out.copy()
    frozen.flags.writeable = False
    for wrong_out in (two, out.astype(np.int32), frozen):
        with pytest.raises(TypeError, match=r"^out must be a writable contiguous uint32 array"):
            suite.crc32c_extents(b"abc", two, two, wrong_out)


@loop_over("name", POLYNOMIALS)
@loop_over("suite", SUITES)
def test_items(suite: Any, name: str) -> None:
    """Long ones are summed without the GIL."""
    checksum = implementations(name)["reference"]
    items: list[Any] = [b"ab", memoryview(b"c"), bytearray(40_000), b"", b"d", b"ef"]
    for n in (0, 1, 2, 3, 6):
        out = np.zeros(n, np.uint32)
        getattr(suite, f"{name}_items")(items if n else [], out)
        groups = [items[i * len(items) // n : (i + 1) * len(items) // n] for i in range(n)]
        assert out.tolist() == [checksum(b"".join(group)) for group in groups]
    for n in (0, 4, 7):
        with pytest.raises(ValueError, match=f"found {n} for 6"):
            getattr(suite, f"{name}_items")(items, np.zeros(n, np.uint32))
    with pytest.raises(TypeError):
        getattr(suite, f"{name}_items")([b"a", "text"], np.zeros(1, np.uint32))


def test_door_takes_lists_and_integer_arrays() -> None:
    expected = [kernels.crc32c(b"b"), kernels.crc32c(b"cd")]
    assert kernels.crc32c_extents(b"abcd", [1, 2], [1, 2]).tolist() == expected
    starts, lengths = np.array([1, 2], np.uint8), np.array([1, 2], ">i4")
    assert kernels.crc32c_extents(b"abcd", starts, lengths).tolist() == expected
    assert kernels.crc32c_extents(b"abcd", [], []).dtype == np.uint32
    with pytest.raises(TypeError, match=r"^lengths must be integers, found float64$"):
        kernels.crc32_extents(b"abcd", [1], [1.0])
    with pytest.raises(ValueError, match="equally long, found 1, 2 and 1"):
        kernels.crc32_extents(b"abcd", [1], [1, 1])


def test_mask() -> None:
    # The length of a record, and the masked CRC that TensorFlow 2.21.0's TFRecordWriter wrote after it.
    assert kernels.masked_crc32c(bytes.fromhex("1e00000000000000")) == 0x3212DCD9
    assert kernels.mask(0) == 0xA282EAD8
    crcs = np.array([0, 1, 0xE3069283, 0xFFFFFFFF], dtype=np.uint32)
    masked = kernels.mask(crcs)
    assert masked.dtype == np.uint32
    assert masked.tolist() == [kernels.mask(int(crc)) for crc in crcs]
    assert masked.tolist() == [(((c >> 15) | (c << 17)) + 0xA282EAD8) % 2**32 for c in crcs.tolist()]
