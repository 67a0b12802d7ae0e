"""Values as text and as JSON."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

from dataformats.display.json_values import as_json
from dataformats.display.text import escape_text
from dataformats.display.value_text import as_text
from dataformats.testing.loop_over import loop_over


def png(size: tuple[int, int], mode: str) -> bytes:
    stream = BytesIO()
    Image.new(mode, size).save(stream, "PNG")
    return stream.getvalue()


SHOWN: list[tuple[Any, str]] = [
    (7, "7"),
    (0.5, "0.5"),
    (True, "True"),
    (None, "None"),
    (np.float32(0.5), "0.5"),
    ("héllo\n", "'héllo\\n'"),
    ("x" * 300, f"'{'x' * 120}'... (300 characters)"),
    (b"short", "b'short'"),
    (b"x" * 33, f"33 bytes: b'{'x' * 32}'..."),
    (png((3, 2), "L"), f"PNG image, 3 x 2, L, {len(png((3, 2), 'L'))} bytes"),
    (b"RIFF\0\0\0\0WEBP" + bytes(9), "WebP image that cannot be opened"),
    (b"\0\0\0\x20ftypisom" + bytes(50), "MP4 video, 62 bytes"),
    (b"\x1a\x45\xdf\xa3" + bytes(50), "WebM video, 54 bytes"),
    (np.arange(3), "int64[3]: 0 1 2"),
    (np.zeros((100, 2), np.float32), "float32[100,2]: 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 ..."),
    (np.zeros((0, 4)), "float64[0,4]"),
    ([1, "a", b"b"], "[1, 'a', b'b']"),
    (list(range(9)), "[0, 1, 2, 3, ... (9 in all)]"),
    ({"a": [1], "b": {}}, "{'a': [1], 'b': {}}"),
    ([{"a": np.ones(2)}, None], "[{'a': float64[2]: 1.0 1.0}, None]"),
    ([[[[[[[[1, 2]]]]]]]], "[[[[[[[... (1 in all)]]]]]]]"),
]


@loop_over("value, expected", SHOWN)
def test_shown(value: Any, expected: str) -> None:
    assert as_text(value).startswith(expected) if "cannot" in expected else as_text(value) == expected


def test_a_line_is_not_long() -> None:
    wide: Any = "x" * 100
    for _ in range(5):
        wide = [wide] * 4
    assert len(as_text(wide)) < 1100


def test_as_json_keeps_deeply_nested_values() -> None:
    value: Any = {"end": 1}
    for _ in range(255):
        value = [{"a": value}]
    assert as_json(value) == value


def test_an_image_is_not_decoded() -> None:
    whole = png((2000, 1000), "RGB")
    assert as_text(whole[:100]) == "PNG image, 2000 x 1000, RGB, 100 bytes"  # the pixels are not even there
    assert as_text(b"\xff\xd8\xff" + bytes(50)).startswith("JPEG image that cannot be opened (")


@loop_over(
    "value, expected",
    [
        (np.array([[1, 2]]), [[1, 2]]),
        (b"\x00", {"base64": "AA=="}),
        (float("nan"), "nan"),
        (np.array([np.inf]), ["inf"]),
        ({"a": (1, None)}, {"a": [1, None]}),
        (np.array([0.5], np.longdouble), ["0.5"]),
        (1 + 2j, {"repr": "(1+2j)"}),
    ],
)
def test_as_json(value: Any, expected: Any) -> None:
    assert as_json(value) == expected
    json.dumps(as_json(value), allow_nan=False)


def test_printable() -> None:
    assert escape_text("naïve 漢字") == "naïve 漢字"
    assert escape_text("a\x1b[31m\r\n\u202e\udc80") == "a\\x1b[31m\\r\\n\\u202e\\udc80"
