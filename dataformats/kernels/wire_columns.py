"""Batches of Examples and OFRecords as columns, in one call: what is simple is made, all else is left as found."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dataformats.kernels import reference
from dataformats.kernels.dispatch import kernels
from dataformats.kernels.reference.wire_columns import (
    APART,
    AS_FOUND,
    DENSE,
    JOINED,
    MADE,
    PLACED,
    RAGGED,
    Output,
)
from dataformats.kernels.wire import Shape

if TYPE_CHECKING:
    from dataformats.kernels.reference import BytesLike

__all__ = [
    "APART",
    "AS_FOUND",
    "DENSE",
    "JOINED",
    "MADE",
    "PLACED",
    "RAGGED",
    "Columns",
    "Output",
    "columns_of",
]

# `Made`, as a tuple without names.
Columns = Callable[
    ["BytesLike", NDArray[np.int64], NDArray[np.int64], "tuple[int, int] | None"],
    "tuple[tuple[int, Any, Any], ...] | None",
]


def columns_of(
    shape: Shape,
    wanted: Sequence[tuple[int, str]],
    outputs: Sequence[Output],
    known: Collection[tuple[int, str]] | None = None,
) -> Columns:
    """Return what makes columns of buffer, starts, lengths and a window: see `kernels/reference/wire_columns.py`.

    Args:
        shape: What records are.
        wanted: Part and name of the features to find, none twice.
        outputs: What each is to become.
        known: All parts and names that records may have; `None`: any.
    """
    # The C kernel writes numbers little-endian, as they are stored.
    module: Any = kernels() if sys.byteorder == "little" else reference
    others = sorted(set(known or ()) - set(wanted))
    names = tuple((part, name.encode()) for part, name in (*wanted, *others))
    plan = module.wire_columns_plan(shape, names, tuple(map(tuple, outputs)), known is not None, _int64s)
    return functools.partial(module.wire_columns, plan)


_int64s = functools.partial(np.empty, dtype=np.int64)
