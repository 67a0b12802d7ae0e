"""Worker processes of conversions."""

from __future__ import annotations

from dataformats.converting.executors import worker_pool

DRAW = "__import__('time').sleep(0.5) or __import__('numpy').random.random()"


def test_workers_draw_different_random_numbers() -> None:
    with worker_pool(2) as pool:
        assert pool is not None
        draws = [pool.submit(eval, DRAW) for _ in range(4)]
        assert len({draw.result() for draw in draws}) == 4
