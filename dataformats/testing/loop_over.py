"""loop_over: one test that loops over its cases. A test per case costs a millisecond in each worker of each run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from dataformats.testing.dataset_fixture import DatasetFixture

_Test = Callable[..., None]


def loop_over(names: str, cases: Iterable[Any]) -> Callable[[_Test], _Test]:
    """Call a test once per case, and fail with every case that failed. The names are as for `pytest.mark.parametrize`.

    Each case gets a fresh `tmp_path`, `monkeypatch` and `data` (a `DatasetFixture`); the other fixtures are shared. A
    timeout ends the test. A skip must hold for all cases.
    """
    arguments, listed = [name.strip() for name in names.split(",")], list(cases)

    def decorate(test: _Test) -> _Test:
        @functools.wraps(test)
        def test_all(*instance: object, **fixtures: Any) -> None:
            assert listed, "no cases"
            failed: list[tuple[BaseException, str]] = []
            for number, case in enumerate(listed):
                values = dict(zip(arguments, case if len(arguments) > 1 else [case], strict=True))
                try:
                    with _fresh(fixtures, number) as own:
                        test(*instance, **own, **values)
                except (Exception, BaseExceptionGroup, pytest.fail.Exception, pytest.skip.Exception) as error:
                    failed.append((error, ", ".join(f"{name}={value!r:.120}" for name, value in values.items())))
                    if isinstance(error, TimeoutError) or "pytest-timeout" in str(error):
                        break
            if len(failed) == len(listed) and all(isinstance(error, pytest.skip.Exception) for error, _ in failed):
                raise failed[0][0]
            for raised, place in failed:
                raised.add_note(place)
            if failed:
                text = f"{len(failed)} of {len(listed)} cases failed: " + "; ".join(place for _, place in failed)
                raise BaseExceptionGroup(text, [error for error, _ in failed])

        parameters = [one for one in inspect.signature(test).parameters.values() if one.name not in arguments]
        test_all.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # pytest reads it
        return test_all

    return decorate


@contextmanager
def _fresh(fixtures: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        own = dict(fixtures)
        if "tmp_path" in own:
            own["tmp_path"] = own["tmp_path"] / str(number)
            own["tmp_path"].mkdir()
        if "monkeypatch" in own:
            own["monkeypatch"] = stack.enter_context(own["monkeypatch"].context())
        if isinstance(own.get("data"), DatasetFixture):
            own["data"] = own["data"].in_folder(str(number))
        yield own
