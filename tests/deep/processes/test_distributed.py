"""Two processes of torch.distributed."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import dataformats
import tests.loaders.test_distributed as fast
from tests.loaders.test_distributed import DIGITS, SPEC, in_order

ranks, whole = fast.ranks, fast.whole  # fixtures

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the extra torch is not installed")


def test_each_record_once(ranks: list[dict[str, Any]], whole: list[int]) -> None:
    given = [[(positions, labels) for positions, labels, _ in rank["given"]] for rank in ranks]
    positions, labels = in_order(zip(*given, strict=True))
    assert positions == list(range(1797))
    assert labels == whole
    digits = dataformats.open(DIGITS, spec=SPEC)
    pixels = sum(pixels for rank in ranks for _, _, pixels in rank["given"])
    assert pixels == digits.read(range(1797))["image"].sum(dtype=np.int64)
    assert sorted(labels) == sorted(digits.read(range(1797))["label"].tolist())
