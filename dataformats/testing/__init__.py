"""The conformance suite, for whoever writes a backend; needs pytest.

    import pytest
    from dataformats.testing import BackendConformance, FormatCase

    CASES = [FormatCase("mine", "mine", ".mine", shard_names=("train-0.mine", "train-1.mine", "train-2.mine"))]

    class TestBackend(BackendConformance):
        @pytest.fixture(params=CASES, ids=str)
        def case(self, request):
            return request.param

What a format cannot do is said by its `FormatCase`; no test is overridden.
"""

from __future__ import annotations

import pytest

_TOPICS = (
    "reading",
    "columns",
    "views",
    "writing",
    "locations",
    "indexes",
    "processes",
    "damage",
    "converting",
    "dataset_fixture",
)
pytest.register_assert_rewrite(*(f"dataformats.testing.{topic}" for topic in _TOPICS))

from dataformats.testing.case import FormatCase  # noqa: E402  # asserts are rewritten in what is imported after that
from dataformats.testing.suite import BackendConformance  # noqa: E402

__all__ = ["BackendConformance", "FormatCase"]
