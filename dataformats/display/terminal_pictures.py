"""Pictures in a terminal: by its own protocol for images, or in half-block characters."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.display.media import thumbnail

Draw = Callable[[Any, int], str]
"""Returns the characters that show an image in at most a number of columns; raises `ValueError` for other values."""

BLOCK = "\N{UPPER HALF BLOCK}"
"""Two pixels."""

_INDENT = 4
_COLUMNS, _PIXELS, _CELL_PIXELS = 64, 256, 8
_CHUNK = 4096  # kitty's protocol sets it
_MULTIPLEXERS = ("screen", "tmux")  # they do not pass images on
_KITTY = ("xterm-kitty", "xterm-ghostty")


def terminal_pictures(environment: Mapping[str, str]) -> Callable[[Any], str | None]:
    """Return a function of a value: the lines that show it as a picture, or `None` if it is no image.

    It returns `None` for every value if a terminal with this environment shows no colors.
    """
    draw = choose_protocol(environment)
    columns = min(_COLUMNS, shutil.get_terminal_size().columns - _INDENT)

    def shown(value: Any) -> str | None:
        if draw is None or columns < 1:
            return None
        try:
            return "\n".join(" " * _INDENT + line for line in draw(value, columns).split("\n"))
        except ValueError:
            return None

    return shown


def choose_protocol(environment: Mapping[str, str]) -> Draw | None:
    """Return how a terminal with these environment variables shows images; `None` if it shows no colors."""
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if term in ("", "dumb") or environment.get("NO_COLOR"):
        return None
    if not term.startswith(_MULTIPLEXERS) and "TMUX" not in environment:
        if term in _KITTY or "KITTY_WINDOW_ID" in environment:
            return kitty
        if program in ("iTerm.app", "WezTerm") or environment.get("LC_TERMINAL") == "iTerm2":
            return iterm
    return half_blocks if environment.get("COLORTERM") in ("truecolor", "24bit") else half_blocks_of_256


def kitty(value: Any, columns: int) -> str:
    """Return an image in kitty's graphics protocol, which takes PNG."""
    stream = BytesIO()
    _opened(thumbnail(value, _pixels(columns))).save(stream, "PNG")
    text = base64.b64encode(stream.getvalue()).decode()
    parts = [text[first : first + _CHUNK] for first in range(0, len(text), _CHUNK)]
    more = [1] * (len(parts) - 1) + [0]
    starts = ["f=100,a=T,q=2,"] + [""] * (len(parts) - 1)
    return "".join(f"\x1b_G{start}m={rest};{part}\x1b\\" for start, rest, part in zip(starts, more, parts, strict=True))


def iterm(value: Any, columns: int) -> str:
    """Return an image in iTerm2's protocol for inline images."""
    picture = thumbnail(value, _pixels(columns))
    return f"\x1b]1337;File=inline=1;size={len(picture)}:{base64.b64encode(picture).decode()}\a"


def half_blocks(value: Any, columns: int) -> str:
    """Return an image in 24-bit color, two pixels a character."""
    return _blocks(value, columns, lambda red, green, blue: f"2;{red};{green};{blue}")


def half_blocks_of_256(value: Any, columns: int) -> str:
    """Return an image in the 6 x 6 x 6 colors of 256, two pixels a character."""

    def nearest(*rgb: int) -> str:
        red, green, blue = (0 if level < 48 else 1 if level < 115 else (level - 35) // 40 for level in rgb)
        return f"5;{16 + 36 * red + 6 * green + blue}"

    return _blocks(value, columns, nearest)


def _blocks(value: Any, columns: int, color: Callable[[int, int, int], str]) -> str:
    pixels = _rgb(thumbnail(value, columns))
    lines = []
    for top in range(0, len(pixels), 2):
        row, below = pixels[top].tolist(), pixels[top + 1 : top + 2].tolist()
        back = [f"48;{color(*pixel)}" for pixel in below[0]] if below else ["49"] * len(row)  # 49: the terminal's own
        cells = [f"\x1b[38;{color(*pixel)};{under}m{BLOCK}" for pixel, under in zip(row, back, strict=True)]
        lines.append("".join(cells) + "\x1b[0m")
    return "\n".join(lines)


def _rgb(picture: bytes) -> NDArray[np.uint8]:
    """Return pixels (h, w, 3) on black."""
    pixels = np.asarray(_opened(picture).convert("RGBA")).astype(np.uint16)
    return (pixels[..., :3] * pixels[..., 3:] // 255).astype(np.uint8)


def _opened(picture: bytes) -> Any:
    from PIL import Image

    return Image.open(BytesIO(picture))


def _pixels(columns: int) -> int:
    return min(_PIXELS, columns * _CELL_PIXELS)
