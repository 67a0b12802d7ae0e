"""Numbers as decimal text."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dataformats.codecs.decimal_numbers import DECIMAL


@pytest.mark.parametrize("value", [np.float16(65504), np.float16(0.1), np.float32(123456789), np.float32(0.1)])
def test_a_double_of_the_digits_is_the_same_number(value: np.floating) -> None:
    digits = DECIMAL.with_args([value.dtype.name]).encode(value)
    assert json.loads(digits) == float(value)
