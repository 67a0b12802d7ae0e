"""Files behind URLs: a small file beside the data is read whole or refused."""

from __future__ import annotations

import pytest

from dataformats.errors import FormatError
from tests.storage.remote.counting_store import CountingStore


def test_too_long_file_beside_the_data_is_refused() -> None:
    store = CountingStore()
    data = store.file("a", b"data")
    store.file("a.json", b"{'a': 123}")
    assert data.bytes_beside("a.json", 10) == (f"memory://{store.folder}/a.json", b"{'a': 123}")
    with pytest.raises(FormatError, match="too long to be read whole"):
        data.bytes_beside("a.json", 9)
