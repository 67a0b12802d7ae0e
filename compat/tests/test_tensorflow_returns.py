"""Functions and methods of the drop-in `tensorflow` return tensors, which have `numpy()`, wherever TensorFlow does."""

from __future__ import annotations

import dataformats_compat.tensorflow as tf

from .tensorflow_calls import CALLS, METHODS, PYTHON, functions_of, plain_parts


def test_every_function_is_listed() -> None:
    paths: dict[int, set[str]] = {}
    for path, identity in functions_of(tf):
        paths.setdefault(identity, set()).add(path)
    listed = CALLS.keys() | PYTHON
    assert sorted(min(names) for names in paths.values() if not names & listed) == []
    assert sorted(listed - set().union(*paths.values())) == []


def test_results_are_tensors() -> None:
    found = {name: [*plain_parts(call(tf))] for name, call in (CALLS | METHODS).items()}
    assert {name: parts for name, parts in found.items() if parts} == {}
