"""Pickles, forks, spawned processes, processes that are killed."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from dataformats.errors import StateMismatchError
from dataformats.testing import subprocess_entry as children
from dataformats.testing.dataset_fixture import Workshop, check_plain, in_fork
from dataformats.testing.records import PLAIN, plain

__all__ = ["ProcessConformance"]

_METHODS = [method for method in ("fork", "spawn", "forkserver") if method in multiprocessing.get_all_start_methods()]


class ProcessConformance:
    """A source in other processes, and writers that end without a warning."""

    def test_pickles_are_small(self, shop: Workshop) -> None:
        """A pickle carries spec and fingerprint in less than 1 KB, and reads the same."""
        path = shop.write(30)
        shop.write(4, "more")
        for source in (shop.open(path), shop.open(f"{shop.folder}/*{shop.case.suffix}")):
            pickled = pickle.dumps(source)
            assert len(pickled) < 1024
            again = pickle.loads(pickled)
            assert again.fingerprint == source.fingerprint
            assert (again.spec, again.payload, again.paths) == (source.spec, source.payload, source.paths)
            assert children.digest(again) == children.digest(source)
        view = pickle.loads(pickle.dumps(shop.open(path)[::2].select("id")))
        assert [record["id"] for record in view] == [plain(i)["id"] for i in range(0, 30, 2)]

    def test_pickles_refuse_other_data(self, shop: Workshop) -> None:
        """Data that changed since are not what was pickled."""
        pickled = pickle.dumps(shop.open(shop.write(10)))
        shop.move(shop.path(), shop.folder / "elsewhere")
        with pytest.raises(FileNotFoundError):
            pickle.loads(pickled)
        with shop.create(shop.path(), spec=PLAIN, overwrite=True) as writer:
            writer.extend(plain(i) for i in range(1, 11))
        with pytest.raises(StateMismatchError, match="data"):
            pickle.loads(pickled)

    @pytest.mark.parametrize("method", _METHODS)
    def test_other_processes(self, shop: Workshop, method: str) -> None:
        """A source that was used before reads the same in a process started in any way."""
        source = shop.plain(40)
        expected = (children.digest(source), source.fingerprint)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: a fork of a process with threads
            with multiprocessing.get_context(method).Pool(2) as pool:
                assert pool.map(children.read_in_child, [source, source]) == [expected, expected]
        assert children.digest(source) == expected[0]

    def test_after_a_fork(self, shop: Workshop) -> None:
        """The very object goes on in a child, and in the parent."""
        source = shop.plain(40)
        expected = children.digest(source)
        assert in_fork(lambda: children.digest(source)) == expected
        assert children.digest(source) == expected

    def test_two_that_build_at_once(self, shop: Workshop) -> None:
        """Processes that make the same index at the same time disturb nobody."""
        path = shop.write(300)
        context = multiprocessing.get_context("fork")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            manager = context.Manager()
            barrier = manager.Barrier(3)
            with context.Pool(3) as pool:
                arguments = [(str(path), dict(shop.case.open_options), barrier)] * 3
                found = pool.starmap(children.count_records, arguments, chunksize=1)
            manager.shutdown()
        assert set(found) == {children.digest(shop.open(path))}

    def test_few_descriptors(self, shop: Workshop) -> None:
        """A folder of more files than the process may open."""
        folder = shop.folder / "many"
        with shop.create(folder, spec=PLAIN, shard_records=1) as writer:
            writer.extend(map(plain, range(150)))
        code = f"children.read_with_few_descriptors({str(folder)!r}, {dict(shop.case.open_options)!r}, 64)"
        done = subprocess.run(_command(code), capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr

    @pytest.mark.parametrize("shards", [None, 7])
    def test_killed_writers(self, shop: Workshop, shards: int | None) -> None:
        """What was synced before `kill -9` is there for who resumes; the result is what it would have been."""
        path = shop.folder / "shards" if shards else shop.path()
        options = {**shop.case.create_options, **({"shard_records": shards} if shards else {})}
        safe = 0
        for n_safe, n_more in ((10, 3), (9, 0)):
            code = f"children.write_until_killed({str(path)!r}, {shop.case.format!r}, {options!r}, {n_safe}, {n_more})"
            _kill_when_ready(code)
            assert not path.exists()
            with_writer = shop.create(path, spec=PLAIN, resume=True, **options)
            found = len(with_writer)
            with_writer.abort()
            if shop.case.survives_kill:
                assert safe + n_safe <= found <= safe + n_safe + n_more
            safe = found
        with shop.create(path, spec=PLAIN, resume=True, **options) as writer:
            assert len(writer) == safe
            writer.extend(plain(i) for i in range(safe, 40))
        check_plain(shop.open(path), range(40))
        assert _leftovers(shop.folder) == []
        straight = shop.folder / ("straight" if shards else f"straight{shop.case.suffix}")
        with shop.create(straight, spec=PLAIN, **options) as writer:
            writer.extend(map(plain, range(40)))
        check_plain(shop.open(straight), range(40))


def _command(code: str) -> list[str]:
    return [sys.executable, "-c", f"from dataformats.testing import children; {code}"]


def _kill_when_ready(code: str) -> None:
    with subprocess.Popen(_command(code), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGKILL)


def _leftovers(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if "partial" in path.name or "journal" in path.name]
