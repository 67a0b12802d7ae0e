"""A backend of fields, on the public base classes, whose records may lack fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

import pytest

from dataformats.registry import backends
from dataformats.testing import BackendConformance, FormatCase
from tests.cases import SEQUENCES
from tests.contract import rows_format


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    rows_format.register()
    yield
    del backends._objects["rows"]


def ends(lengths: Sequence[int]) -> list[int]:
    header = len(b'{"i": "int64", "d": "bytes"}')  # the spec of the damaged files
    return list(accumulate((8 + length for length in lengths), initial=12 + header))[1:]


CASE = FormatCase(
    "rows",
    "rows",
    ".rows",
    setup="tests.contract.rows_format:register",
    payload=None,
    refuses=SEQUENCES,
    verifies_records=False,
    fingerprints_records=False,
    indexed=True,
    ends=ends,
    shard_names=tuple(f"train-{number:05d}-of-00003.rows" for number in range(3)),
)


BLOCKS = replace(CASE, name="blocks", create_options={"blocks": True}, pending_may_be_lost=True, cut_every=5)


class TestRows(BackendConformance):
    @pytest.fixture(params=[CASE, BLOCKS], ids=str)
    def case(self, request: pytest.FixtureRequest) -> FormatCase:
        return request.param  # type: ignore[no-any-return]
