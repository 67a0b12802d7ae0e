"""`tf.config`: functions without effect, because nothing here runs on other devices."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

__all__ = ["experimental", "list_physical_devices", "set_visible_devices"]

experimental: ModuleType = sys.modules[__name__]


def list_physical_devices(device_type: str | None = None) -> list[Any]:
    """Return no device."""
    return []


def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Do nothing."""
