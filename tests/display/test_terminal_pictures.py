"""Pictures in a terminal."""

from __future__ import annotations

import base64
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dataformats
from dataformats.display import terminal_pictures
from dataformats.display.terminal_pictures import choose_protocol, half_blocks, half_blocks_of_256, iterm, kitty
from dataformats.testing.loop_over import loop_over

PHOTOS = Path(__file__).parents[1] / "golden" / "real" / "photos.tfrecord"


@loop_over(
    "environment, expected",
    [
        ({}, None),
        ({"TERM": "dumb"}, None),
        ({"TERM": "xterm-kitty", "NO_COLOR": "1"}, None),
        ({"TERM": "xterm-kitty"}, kitty),
        ({"TERM": "xterm", "KITTY_WINDOW_ID": "1"}, kitty),
        ({"TERM": "xterm", "TERM_PROGRAM": "iTerm.app"}, iterm),
        ({"TERM": "xterm", "LC_TERMINAL": "iTerm2", "TMUX": "/tmp/x"}, half_blocks_of_256),
        ({"TERM": "screen-256color", "KITTY_WINDOW_ID": "1", "COLORTERM": "truecolor"}, half_blocks),
        ({"TERM": "xterm-256color", "COLORTERM": "24bit"}, half_blocks),
        ({"TERM": "linux"}, half_blocks_of_256),
    ],
)
def test_choice(environment: dict[str, str], expected: Any) -> None:
    assert choose_protocol(environment) is expected


def test_half_blocks() -> None:
    image = np.array([[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [255, 0, 128]], [[10, 11, 12], [13, 14, 15]]], np.uint8)
    block = terminal_pictures.BLOCK
    assert half_blocks(image, 10).split("\n") == [
        f"\x1b[38;2;1;2;3;48;2;7;8;9m{block}\x1b[38;2;4;5;6;48;2;255;0;128m{block}\x1b[0m",
        f"\x1b[38;2;10;11;12;49m{block}\x1b[38;2;13;14;15;49m{block}\x1b[0m",
    ]
    white = half_blocks_of_256(np.full((2, 2), 255, np.uint8), 10)
    assert white == f"\x1b[38;5;231;48;5;231m{block}" * 2 + "\x1b[0m"


def test_width() -> None:
    lines = half_blocks(np.zeros((100, 300), np.uint8), 31).split("\n")
    assert {line.count(terminal_pictures.BLOCK) for line in lines} == {31}
    assert len(lines) == 5


def test_protocols() -> None:
    photo = dataformats.open(PHOTOS)[0]["image"]
    text = kitty(photo, 60)
    parts = re.findall("\x1b_G([^;]*);([^\x1b]*)\x1b\\\\", text)
    assert "".join(f"\x1b_G{keys};{part}\x1b\\" for keys, part in parts) == text
    assert parts[0][0] == "f=100,a=T,q=2,m=1"
    assert {keys for keys, _ in parts[1:-1]} == {"m=1"}
    assert parts[-1][0] == "m=0"
    assert max(len(part) for _, part in parts) == 4096
    assert Image.open(BytesIO(base64.b64decode("".join(part for _, part in parts)))).size == (256, 256)
    found = re.fullmatch(r"\x1b\]1337;File=inline=1;size=(\d+):([^\a]*)\a", iterm(photo, 10))
    assert found is not None
    picture = base64.b64decode(found[2])
    assert (len(picture), Image.open(BytesIO(picture)).size) == (int(found[1]), (80, 80))


def test_half_blocks_refuse_other_values() -> None:
    for value in (None, 7, b"", b"text", [1], np.zeros(3), "x"):
        with pytest.raises(ValueError, match="expected"):
            half_blocks(value, 9)
