"""One reader, one writer and one loader for the record files that research already has.

    import dataformats

    src = dataformats.open("train-*.tfrecord")      # or a folder, a list, a URL
    src[5], len(src), src.read([3, 6, 0])["label"]

    with dataformats.create("out.ffr", "ffrecord", spec=src.spec) as writer:
        writer.extend(src)

The public names stand in `__init__.pyi`. Each is imported at its first use.
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

_MODULE_OF: dict[str, str] = {}  # public name to module; filled at first use


def __getattr__(name: str) -> object:
    module_of = _MODULE_OF or _read_stub()
    if name == "__all__":
        return sorted(module_of, key=lambda public: (public.islower(), public))
    if name not in module_of:
        from dataformats.foreign_names import MODULE

        remedy = f"; instead: {MODULE[name]}" if name in MODULE else ""
        raise AttributeError(f"module 'dataformats' has no attribute {name!r}{remedy}")
    value: object = getattr(importlib.import_module(module_of[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*(_MODULE_OF or _read_stub()), "__version__"])


def _read_stub() -> dict[str, str]:
    """Fill in the module of each public name: a line of the stub is `from MODULE import NAME as NAME`."""
    stub = __loader__.get_data(f"{__path__[0]}/__init__.pyi").decode()  # works in a zip file, too
    _MODULE_OF.update({line.split()[3]: line.split()[1] for line in stub.splitlines() if line.startswith("from ")})
    return _MODULE_OF
