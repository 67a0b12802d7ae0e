"""Batches made by processes."""

from __future__ import annotations

from typing import Any

__all__ = ["ProcessFeed"]


def ProcessFeed(*arguments: Any, **options: Any) -> Any:  # noqa: N802
    """Not there yet."""
    raise NotImplementedError("worker processes are being built")
