"""`loop_over`: every failing case is named, and a case leaves nothing to the next one."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import pytest

from dataformats.testing.loop_over import loop_over


def test_every_failing_case_is_named() -> None:
    @loop_over("a, b", [(1, 2), (3, 3), (5, 6)])
    def check(a: int, b: int) -> None:
        assert a == b

    with pytest.raises(ExceptionGroup, match="2 of 3 cases failed: a=1, b=2; a=5, b=6") as raised:
        check()
    assert [error.__notes__ for error in raised.value.exceptions] == [["a=1, b=2"], ["a=5, b=6"]]


def test_missing_errors_and_inner_loops_fail() -> None:
    @loop_over("n", [0, 1, 2])
    @loop_over("m", [0, 1])
    def check(n: int, m: int) -> None:
        with pytest.raises(ZeroDivisionError):
            n // m if n == 1 else n // 0

    with pytest.raises(BaseExceptionGroup, match="1 of 3 cases failed: n=1") as raised:
        check()
    assert "1 of 2 cases failed: m=1" in str(raised.value.exceptions[0])


def test_each_case_has_fresh_fixtures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @loop_over("n", range(3))
    def check(n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert "LOOP_OVER" not in os.environ
        monkeypatch.setenv("LOOP_OVER", str(n))
        (tmp_path / "new").mkdir()

    check(tmp_path=tmp_path, monkeypatch=monkeypatch)
    assert list(inspect.signature(check).parameters) == ["tmp_path", "monkeypatch"]


def test_a_loop_over_nothing_fails() -> None:
    @loop_over("n", [])
    def check(n: int) -> None:
        raise NotImplementedError

    with pytest.raises(AssertionError, match="no cases"):
        check()


def test_skips_hold_for_all_cases() -> None:
    @loop_over("n, skipped", [(0, (0, 1)), (1, (0, 1)), (2, (0,))])
    def check(n: int, skipped: tuple[int, ...]) -> None:
        @loop_over("m", [0, 1])
        def inner(m: int) -> None:
            if m in skipped:
                pytest.skip("not here")

        inner()

    with pytest.raises(BaseExceptionGroup, match="3 of 3 cases failed") as raised:
        check()
    assert [type(error) for error in raised.value.exceptions[:2]] == [pytest.skip.Exception] * 2
    assert "1 of 2 cases failed: m=0" in str(raised.value.exceptions[2])


def test_a_timeout_ends_the_loop() -> None:
    seen: list[Any] = []

    @loop_over("n", range(5))
    def check(n: int) -> None:
        seen.append(n)
        if n == 1:
            raise TimeoutError

    with pytest.raises(ExceptionGroup, match="1 of 5 cases failed: n=1"):
        check()
    assert seen == [0, 1]
