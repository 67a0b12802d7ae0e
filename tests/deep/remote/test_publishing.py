"""Writing behind URLs: a kill or an error at each step leaves the old data, the new ones, or an error."""

from __future__ import annotations

import itertools

import pytest

import dataformats
from tests.campaign import chosen
from tests.deep.durability.test_publishing import CASES, Data, write_to
from tests.writing.failing_memory import Killed, Remote


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> Remote:
    return Remote(monkeypatch)


NAMES = ["file", "bag", "shards", "shards-for-file", "file-for-shards"]
STORES = [(True, False), (False, False), (True, True)]  # whether a fault stays, and whether the store renames


@pytest.mark.parametrize(("case", "store"), chosen([*itertools.product(NAMES, STORES)]), ids=str)
def test_faults_behind_a_url(
    case: str, store: tuple[bool, bool], remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old data, the new ones or an error, at each step; the new data are written again after it."""
    stays, renames = store
    if renames:
        monkeypatch.setattr(type(remote.memory), "protocol", "renames")
    old, new = CASES[case]
    at, path = 0, ""
    for at in range(80):
        path = f"memory://{at}/{new.name}"
        write_to(path, old)
        remote.fail(at, stays=stays)
        try:
            write_to(path, new, overwrite=True)
        except (Killed, OSError):
            pass
        else:
            assert at >= 2
            break
        finally:
            remote.at = -1
        assert found(path, old, new) in ("old", "new", "error")
        write_to(path, new, overwrite=True)
        assert new.is_in(path)
    assert new.is_in(path)
    assert ".partial" not in "".join(remote.memory.find(f"/{at}"))


@pytest.mark.parametrize("case", ["file", "dataset", "shards"])
@pytest.mark.parametrize("stays", [True, False], ids=["kill", "error"])
def test_new_data_behind_a_url_do_not_look_complete(case: str, stays: bool, remote: Remote) -> None:
    _, new = CASES[case]
    at, path = 0, ""
    for at in range(80):
        path = f"memory://{at}/{new.name}"
        remote.fail(at, stays=stays)
        try:
            write_to(path, new)
        except (Killed, OSError):
            pass
        else:
            break
        finally:
            remote.at = -1
        assert found(path, new, new) in ("old", "error")
        write_to(path, new, overwrite=True)
        assert new.is_in(path)
        assert ".partial" not in "".join(remote.memory.find(f"/{at}"))
    assert new.is_in(path)


def found(path: str, old: Data, new: Data) -> str:
    for name, data in (("old", old), ("new", new)):
        try:
            if data.is_in(path):
                return name
        except (OSError, dataformats.FormatError):
            return "error"
    return "neither"
