"""The extensions in examples/, registered for the tests of one module."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dataformats.registry import backends, codecs

_EXAMPLES = Path(__file__).parents[1] / "examples"

needs_examples = pytest.mark.skipif(
    not _EXAMPLES.exists(), reason="runs the examples of a checkout, and these tests stand outside one"
)


def register_examples(*modules: str) -> Callable[[], Iterator[None]]:
    """Return a fixture that calls `register` of these modules, and forgets what they registered after the tests."""

    @pytest.fixture(scope="module", autouse=True)
    def registered() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patched:
            patched.syspath_prepend(_EXAMPLES)
            for registry in (backends, codecs):
                patched.setattr(registry, "_objects", dict(registry._objects))
            for module in modules:
                importlib.import_module(module).register()
            yield

    return registered
