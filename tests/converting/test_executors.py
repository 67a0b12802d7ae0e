"""What worker processes receive."""

import pickle
from dataclasses import dataclass
from pathlib import Path

import pytest

from dataformats.converting.executors import SentOnce


@dataclass(frozen=True, eq=False)
class NeedsFile(SentOnce):
    path: Path

    def __post_init__(self) -> None:
        self.path.read_bytes()


def test_object_that_does_not_unpickle_raises_in_the_task(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    sent = pickle.dumps(NeedsFile(path))
    path.unlink()
    received = pickle.loads(sent)  # an error here would end a worker process
    with pytest.raises(FileNotFoundError):
        _ = received.path
    path.touch()
    assert pickle.loads(sent).path == path
