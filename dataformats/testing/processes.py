"""Pickles, forks, spawned processes, and killed writers."""

from __future__ import annotations

import multiprocessing
import pickle
import warnings
from pathlib import Path

import pytest

from dataformats.errors import StateMismatchError
from dataformats.testing import subprocess_entry as entry
from dataformats.testing.case import FormatCase
from dataformats.testing.dataset_fixture import DatasetFixture
from dataformats.testing.subprocess_entry import digest, in_fork

_METHODS = ["fork", "forkserver"] if "forkserver" in multiprocessing.get_all_start_methods() else ["spawn"]


class PickleConformance:
    """A source in another process, by pickle and by fork."""

    def test_pickles_are_small(self, data: DatasetFixture) -> None:
        """A pickle carries spec and fingerprint in less than 1 KB, and reads the same."""
        path = data.write(30)
        data.write(4, "more")
        for source in (data.open(path), data.open(f"{data.folder}/*{data.case.suffix}")):
            pickled = pickle.dumps(source)
            assert len(pickled) < 1024
            again = pickle.loads(pickled)
            assert again.fingerprint == source.fingerprint
            assert (again.spec, again.payload, again.paths) == (source.spec, source.payload, source.paths)
            assert digest(again) == digest(source)
        view = pickle.loads(pickle.dumps(data.open(path)[::2]))
        data.check(view, range(0, 30, 2))
        if data.case.plain:
            ids = pickle.loads(pickle.dumps(data.open(path)[::2].select("id")))
            assert list(ids) == [{"id": data.record(i)["id"]} for i in range(0, 30, 2)]

    def test_pickles_refuse_other_data(self, data: DatasetFixture) -> None:
        """Unpickling raises if the data changed."""
        pickled = pickle.dumps(data.open(data.write(10)))
        data.move(data.path(), data.folder / "elsewhere")
        with pytest.raises(FileNotFoundError):
            pickle.loads(pickled)
        with data.create(data.path(), overwrite=True) as writer:
            writer.extend(data.records(range(1, 11)))
        with pytest.raises(StateMismatchError, match="data"):
            pickle.loads(pickled)

    def test_after_a_fork(self, data: DatasetFixture) -> None:
        """The same object reads in a child, and in the parent."""
        _skip_unless_forks(data.case)
        source = data.source(40)
        expected = digest(source)
        assert in_fork(lambda: digest(source)) == expected
        assert digest(source) == expected


class ProcessDurability:
    """Processes that inherit a source or get it as a pickle, and writers that are killed."""

    @pytest.mark.parametrize("method", _METHODS)
    def test_other_processes(self, data: DatasetFixture, method: str) -> None:
        """A source that was used before reads the same in a process started in any way."""
        if method == "fork":
            _skip_unless_forks(data.case)
        source = data.source(40)
        expected = (digest(source), source.fingerprint)
        pickled = pickle.dumps(source)
        assert entry.map_in_processes(data.case, method, entry.read_pickle, [pickled, pickled]) == [expected, expected]
        assert digest(source) == expected[0]

    def test_processes_build_one_index_together(self, data: DatasetFixture) -> None:
        """Processes that make the same index at the same time all read the right records."""
        _skip_unless_forks(data.case)
        path = data.write(300)
        context = multiprocessing.get_context("fork")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            manager = context.Manager()
        call = (str(path), dict(data.case.open_options), manager.Barrier(3))
        found = entry.map_in_processes(data.case, "fork", entry.count_records, [call] * 3)
        manager.shutdown()
        assert set(found) == {digest(data.open(path))}

    def test_few_descriptors(self, data: DatasetFixture) -> None:
        """A folder of more files than the process may open."""
        folder = data.folder / "many"
        with data.create(folder, shard_records=1) as writer:
            writer.extend(data.records(range(150)))
        entry.run_command(data.case, "read_with_few_descriptors", str(folder), 64)

    @pytest.mark.parametrize("shards", [None, 7])
    def test_killed_writers(self, data: DatasetFixture, shards: int | None) -> None:
        """Records synced before `kill -9` are there on resume; the result equals an undisturbed writer's."""
        if shards:
            data.need_shards()
        path = data.folder / "shards" if shards else data.path()
        options = {**data.case.create_options, **({"shard_records": shards} if shards else {})}
        meaning = {"payload": data.case.payload} if data.case.documents else {"spec": data.spec}
        safe = 0
        for n_safe, n_more in ((10, 3), (9, 0)):
            entry.kill_when_ready(data.case, "write_until_killed", str(path), {**options, **meaning}, n_safe, n_more)
            assert not path.exists()
            with_writer = data.create(path, resume=True, **options)
            found = len(with_writer)
            with_writer.abort()
            assert found <= safe + n_safe + n_more
            if data.case.survives_kill and not data.case.pending_may_be_lost:
                assert safe + n_safe <= found
            safe = found
        with data.create(path, resume=True, **options) as writer:
            assert len(writer) == safe
            writer.extend(data.records(range(safe, 40)))
        data.check(data.open(path), range(40))
        assert _leftovers(data.folder) == []
        straight = data.folder / ("straight" if shards else f"straight{data.case.suffix}")
        with data.create(straight, **options) as writer:
            writer.extend(data.records(range(40)))
        data.check(data.open(straight), range(40))


def _skip_unless_forks(case: FormatCase) -> None:
    if not case.survives_fork:
        pytest.skip("the library of the format refuses to work in a forked process")


def _leftovers(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if "partial" in path.name or "journal" in path.name]
