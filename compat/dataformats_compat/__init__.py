"""Drop-in modules: code written for another reader of these files runs after one changed import.

Each module has the public names of its original: `import dataformats_compat.granular as granular`. They import neither
the original nor, except where the original's own module needs it, torch. `install` is for code that cannot be edited.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pkgutil
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import ClassVar

__all__ = ["install"]


def install(name: str) -> ModuleType:
    """Makes `import NAME`, and the import of any submodule, give the drop-in module, for the rest of the process.

    Args:
        name: The original's name, which is also a module of this package, such as `"granular"`. `"ofrecord"` stands for
            `oneflow.core.record.record_pb2`.

    Returns:
        The drop-in module.

    Raises:
        ValueError: No drop-in module has this name.
        RuntimeError: The original was imported before: objects of both would mix.

    Example:
        >>> import dataformats_compat
        >>> dataformats_compat.install("granular")
        <module 'dataformats_compat.granular' from ...>
        >>> from granular import sources
        >>> [sources.Epochs("abc")(step) for step in range(3)]
        ['c', 'a', 'b']
        >>> dataformats_compat.install("numpy")
        Traceback (most recent call last):
        ValueError: there is no drop-in module for 'numpy': ...
    """
    offered = sorted(module.name for module in pkgutil.iter_modules(__path__))
    if name not in offered:
        raise ValueError(f"there is no drop-in module for {name!r}: expected one of {', '.join(offered)}")
    module = importlib.import_module(f"{__name__}.{name}")
    original = _ORIGINALS.get(name, name)
    if sys.modules.get(original) is not module:
        _register(original, module, f"call install({name!r}) before the first import of {original}")
    if name not in _Finder.installed:
        _Finder.installed.add(name)
        sys.meta_path.insert(0, _Finder())
    return module


_ORIGINALS = {"ofrecord": "oneflow.core.record.record_pb2"}  # originals with another name than the drop-in module


def _register(name: str, module: ModuleType, remedy: str) -> None:
    """Give a module its name in `sys.modules`, in empty packages if the name has dots."""
    if name in sys.modules:
        raise RuntimeError(f"{name} was imported before: {remedy}")
    parent, _, last = name.rpartition(".")
    if parent:
        package = ModuleType(parent)
        package.__path__ = []
        setattr(package, last, module)
        _register(parent, package, remedy)
    sys.modules[name] = module


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `granular.sources` as `dataformats_compat.granular.sources`: the same module, not a copy of it."""

    installed: ClassVar[set[str]] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        name, _, rest = fullname.partition(".")
        if name not in self.installed or not rest or importlib.util.find_spec(f"{__name__}.{fullname}") is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(f"{__name__}.{spec.name}")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state  # the import system has just replaced the module's own
