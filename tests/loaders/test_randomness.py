"""Random numbers that depend on seed and position alone, in any thread or process, after any draws."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from dataformats.loaders.rng import Randomness
from dataformats.testing.loop_over import loop_over

# Each leaves another rest in the generator: half a word, a part of a buffer, nothing.
DRAWS: dict[str, Callable[[Generator], Any]] = {
    "nothing": lambda rng: None,
    "float64": lambda rng: rng.random(),
    "float32": lambda rng: rng.random(dtype=np.float32),
    "uint8": lambda rng: rng.integers(256, dtype=np.uint8),
    "int32": lambda rng: rng.integers(2**31, dtype=np.int32),
    "bounded": lambda rng: rng.integers(5),
    "normals": lambda rng: rng.standard_normal(3),
    "normals32": lambda rng: rng.standard_normal(3, dtype=np.float32),
    "bytes": lambda rng: rng.bytes(5),
    "order": lambda rng: rng.permutation(7),
    "choice": lambda rng: rng.choice(9, 2, replace=False),
    "many": lambda rng: rng.random(10_001),
}


def drawn(rng: Generator) -> list[float]:
    """Return numbers that depend on any state left by earlier draws."""
    return [*rng.random(3, dtype=np.float32).tolist(), rng.random(), *rng.integers(7, size=5).tolist()]


def drawn_at(randomness: Randomness, position: int) -> list[float]:
    return drawn(randomness.at(position))


@loop_over("before", DRAWS)
def test_earlier_draws_have_no_effect(before: str) -> None:
    wanted = drawn(Randomness(3).at(17))
    randomness = Randomness(3)
    DRAWS[before](randomness.at(16))

    assert drawn(randomness.at(17)) == wanted


def test_numbers_are_frozen() -> None:
    """Other numbers would change every training run."""
    randomness = Randomness(0)

    assert randomness.at(0).bit_generator.random_raw(2).tolist() == FROZEN[0]
    assert randomness.at(2**61).bit_generator.random_raw(2).tolist() == FROZEN[1]
    assert randomness.of_batch(0).bit_generator.random_raw(2).tolist() == FROZEN[2]
    assert Randomness(2**63 - 1).at(1).bit_generator.random_raw(2).tolist() == FROZEN[3]
    assert randomness.of_operation(0).bit_generator.random_raw(2).tolist() == FROZEN[4]


FROZEN = [
    [1009940664453014927, 9944096959315886595],
    [6700206470000188373, 11591538036126044832],
    [4907110385858778783, 15981996832886373582],
    [2976317119206666238, 4260937739952269365],
    [12625499971659581418, 98715680650713199],
]


def test_seeds_positions_and_purposes_differ() -> None:
    firsts = [
        generator(position).random()
        for randomness in map(Randomness, range(20))
        for position in range(20)
        for generator in (randomness.at, randomness.of_batch, randomness.of_operation)
    ]

    assert len(set(firsts)) == 20 * 20 * 3


def test_neighboring_positions_are_unrelated() -> None:
    randomness = Randomness(5)
    rows = np.array([randomness.at(position).random(64) for position in range(512)])

    noise = 1 / np.sqrt(rows.size)
    assert abs(np.corrcoef(rows[:-1].ravel(), rows[1:].ravel())[0, 1]) < 4 * noise
    assert abs(rows.mean() - 0.5) < 4 * noise * np.sqrt(1 / 12)


def test_numpy_positions_and_seeds() -> None:
    assert drawn(Randomness(np.int64(3)).at(np.int64(17))) == drawn(Randomness(3).at(17))  # type: ignore[arg-type]


def test_threads_draw_the_same() -> None:
    randomness = Randomness(11)
    wanted = [drawn_at(Randomness(11), position) for position in range(200)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda position: drawn_at(randomness, position), range(200)))

    assert found == wanted


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_draw_the_same(method: str) -> None:
    randomness = Randomness(11)
    randomness.at(3).random(dtype=np.float32)
    with ProcessPoolExecutor(1, mp_context=get_context(method)) as pool:
        assert pool.submit(_in_process, pickle.dumps(randomness)).result() == drawn_at(Randomness(11), 5)


def _in_process(pickled: bytes) -> list[float]:
    return drawn_at(pickle.loads(pickled), 5)


def test_spawning_generators_raises() -> None:
    """Their numbers would depend on earlier spawns, and not on the position alone."""
    with pytest.raises(TypeError, match="spawning"):
        Randomness(0).at(0).spawn(1)


def test_torch_is_not_imported() -> None:
    code = (
        "import sys; from dataformats.loaders.rng import Randomness\n"
        "r = Randomness(3)\n"
        "with r.torch_draws(): r.at(3).random()\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
