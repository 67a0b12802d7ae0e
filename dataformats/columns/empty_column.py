"""The column of no records."""

from __future__ import annotations

import numpy as np

from dataformats.batch import Blobs, Column
from dataformats.columns.codec_resolver import CodecResolver
from dataformats.columns.field_decoder import FieldDecoder
from dataformats.spec import Type


def empty_column(type_: Type, field: str) -> Column:
    """Return the column of a type without any rows.

    Example:
        >>> from dataformats import Type
        >>> from dataformats.columns.empty_column import empty_column
        >>> empty_column(Type.parse("int8[2]"), "pair").shape
        (0, 2)
    """
    counts = np.zeros(0, np.int64) if type_.is_blob_list else None
    return FieldDecoder(CodecResolver(trusted=True), type_, type_, field).decode(Blobs.join([]), counts)
