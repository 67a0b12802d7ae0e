"""Names of the core that the other distributions of this project import, such as `dataformats_compat`.

They are semi-public: each release may change them, together with those distributions. `internals.pyi` lists them, and
each is imported at its first use.
"""

from __future__ import annotations

import importlib

_STUB: str = __loader__.get_data(f"{__file__}i").decode()  # works in a zip file, too
_PLACES = {  # name to its module and its name there: a line of the stub is `from MODULE import NAME as NAME`
    words[5]: (words[1], words[3]) for words in map(str.split, _STUB.splitlines()) if words[:1] == ["from"]
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'dataformats.internals' has no attribute {name!r}")
    module, named = _PLACES[name]
    value: object = getattr(importlib.import_module(module), named)
    globals()[name] = value
    return value
