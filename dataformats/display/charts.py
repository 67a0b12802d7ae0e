"""Charts in SVG, for pages without scripts."""

from __future__ import annotations

from collections.abc import Sequence


def bars(counts: Sequence[int]) -> str:
    """Return a histogram of counts."""
    width, height, most = 320, 64, max(1, *counts)
    step = width / len(counts)
    gap = 1 if step > 4 else 0
    tops = (height - max(1.5, n / most * (height - 1)) if n else height for n in counts)
    shapes = (f"M{i * step:.1f} {height}V{top:.1f}h{step - gap:.1f}V{height}z" for i, top in enumerate(tops))
    label, paint = f"histogram of {len(counts)} bins", "fill='currentColor'"
    return _svg("histogram", label, (width, height), paint, "".join(shapes))


def line(numbers: Sequence[float | None]) -> str:
    """Return a line through numbers; `None` interrupts it."""
    width, height, known = 96, 26, [number for number in numbers if number is not None]
    low = min(known, default=0.0)
    scale = (height - 4) / ((max(known, default=0.0) - low) or 1.0)
    step, path, was = (width - 2) / max(1, len(numbers) - 1), "", None
    for i, number in enumerate(numbers):
        if number is not None:
            path += f"{'M' if was is None else 'L'}{1 + i * step:.1f} {height - 2 - (number - low) * scale:.1f}"
        was = number
    label, paint = f"line through {len(numbers)} numbers", "fill='none' stroke='currentColor'"
    return _svg("spark", label, (width, height), paint, path)


def _svg(style: str, label: str, size: tuple[int, int], paint: str, path: str) -> str:
    width, height = size
    frame = f"viewBox='0 0 {width} {height}' width='{width}' height='{height}' preserveAspectRatio='none'"
    return f"<svg class='{style}' role='img' aria-label='{label}' {frame} {paint}><path d='{path}'/></svg>"
