"""The conformance suite with records that are JSON documents, as for formats of text lines."""

from __future__ import annotations

import pytest

from dataformats.testing import BackendConformance, FormatCase
from tests.cases import ffrecord_ends


class TestDocuments(BackendConformance):
    @pytest.fixture
    def case(self) -> FormatCase:
        names = ("PART_00000.ffr", "PART_00001.ffr", "PART_00002.ffr")
        return FormatCase(
            "documents", "ffrecord", ".ffr", payload="json", records="documents", shard_names=names, ends=ffrecord_ends
        )
