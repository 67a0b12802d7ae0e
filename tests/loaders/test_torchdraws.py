"""Random numbers of torch depend on seed and position alone, and leave the global generator unchanged."""

from __future__ import annotations

import logging
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dataformats
from dataformats.loaders.rng import Randomness
from dataformats.testing.loop_over import loop_over

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
functional = torch.nn.functional

PLANE = torch.linspace(0, 1, 192).reshape(1, 3, 8, 8)
TORCH_DRAWS: dict[str, Callable[[], Any]] = {
    "rand": lambda: torch.rand(8),
    "randn": lambda: torch.randn(8),
    "randint": lambda: torch.randint(1000, (8,)),
    "randint from": lambda: torch.randint(5, 1000, (8,)),
    "randperm": lambda: torch.randperm(50),
    "normal": lambda: torch.normal(PLANE, 1.0),
    "normal of size": lambda: torch.normal(0.0, 1.0, (8,)),
    "bernoulli": lambda: torch.bernoulli(PLANE),
    "multinomial": lambda: torch.ones(100).multinomial(5),
    "poisson": lambda: torch.poisson(PLANE * 100),
    "binomial": lambda: torch.binomial(torch.full((9,), 100.0), torch.full((9,), 0.5)),
    "uniform_": lambda: torch.empty(8).uniform_(1, 2),
    "normal_": lambda: torch.empty(8).normal_(),
    "random_": lambda: torch.empty(8).random_(1000),
    "bernoulli_": lambda: torch.empty(90).bernoulli_(0.5),
    "exponential_": lambda: torch.empty(8).exponential_(),
    "geometric_": lambda: torch.empty(90).geometric_(0.1),
    "cauchy_": lambda: torch.empty(8).cauchy_(),
    "log_normal_": lambda: torch.empty(8).log_normal_(),
    "rand_like": lambda: torch.rand_like(PLANE),
    "randn_like": lambda: torch.randn_like(PLANE, dtype=torch.float64),
    "randint_like": lambda: torch.randint_like(PLANE, 1000),
    "randint_like from": lambda: torch.randint_like(PLANE, 5, 1000, dtype=torch.int64),
    "dropout": lambda: functional.dropout(PLANE),
    "dropout with gradient": lambda: functional.dropout(PLANE.clone().requires_grad_()).detach(),
    "dropout2d": lambda: functional.dropout2d(torch.ones(1, 99, 2, 2)),
    "alpha_dropout": lambda: functional.alpha_dropout(PLANE, 0.5, True),
    "torch.dropout": lambda: torch.dropout(PLANE, 0.5, True),
    "rrelu": lambda: functional.rrelu(-PLANE, training=True),
    "torch.rrelu": lambda: torch.rrelu(-PLANE, training=True),
    "gumbel_softmax": lambda: functional.gumbel_softmax(PLANE),
    "fractional_max_pool2d": lambda: functional.fractional_max_pool2d(
        torch.rand(1, 1, 64, 64, generator=torch.Generator().manual_seed(0)), 3, output_ratio=(0.5, 0.5)
    ),
    "attention": lambda: functional.scaled_dot_product_attention(PLANE, PLANE, PLANE, dropout_p=0.5),
    "init": lambda: torch.nn.init.kaiming_uniform_(torch.empty(4, 4)),
    "truncated": lambda: torch.nn.init.trunc_normal_(torch.empty(4, 4)),
    "Normal": lambda: torch.distributions.Normal(0.0, 1.0).sample((8,)),
    "Beta": lambda: torch.distributions.Beta(1.0, 1.0).sample((8,)),
    "Categorical": lambda: torch.distributions.Categorical(torch.ones(300)).sample((8,)),
    "a new layer": lambda: torch.nn.Linear(4, 4).weight.detach(),
}


@loop_over("name", TORCH_DRAWS)
def test_torch_draws_by_position(name: str) -> None:
    draw, randomness = TORCH_DRAWS[name], Randomness(3)
    before = torch.get_rng_state()
    with randomness.torch_draws():
        randomness.at(5)
        first, second = draw(), draw()
        randomness.at(6)
        other = draw()
    with Randomness(3).torch_draws():
        torch.rand(3)  # draws for no record
    with randomness.torch_draws():
        randomness.at(7)
        torch.rand(3)
        randomness.at(5)
        again = draw()

    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before), "the global generator was drawn from"


def test_every_seeded_operator_is_known() -> None:
    """A new random function in torch must fail here, and not change runs."""
    from dataformats.loaders.pytorch import rng as torchdraws

    known = set(torchdraws._TAKE_A_GENERATOR) | set(torchdraws._DRAW_BY_OPERATORS)
    seeded = {
        schema.name.removeprefix("aten::")
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("aten::") and _is_seeded(schema)
    }
    public = [
        (name, getattr(holder, name)) for name in seeded for holder in (torch, torch.Tensor) if hasattr(holder, name)
    ]
    functions = [(name, one) for name, one in public if callable(one) and not name.startswith("_")]
    unknown = {name for name, one in functions if one not in known}

    assert unknown <= {"miopen_rnn"}  # torch.lstm calls it on some GPUs


def test_drawing_does_not_import_the_compiler() -> None:
    """Torch wraps the methods of modes that leave this to it, and the wrapper's first call imports `torch._dynamo`."""
    from dataformats.loaders.pytorch.rng import _Operators

    assert not hasattr(_Operators.__torch_dispatch__, "__wrapped__")


def _is_seeded(schema: Any) -> bool:
    operator = getattr(torch.ops.aten, schema.name.removeprefix("aten::"), None)
    overload = getattr(operator, schema.overload_name or "default", None)
    return overload is not None and torch.Tag.nondeterministic_seeded in overload.tags


def test_torch_does_not_change_the_numpy_generator() -> None:
    randomness = Randomness(3)
    wanted = randomness.at(5).random(4).tolist()
    with randomness.torch_draws():
        rng = randomness.at(5)
        torch.rand(100)
        assert rng.random(4).tolist() == wanted


def test_torch_draws_of_a_batch_differ_from_its_record() -> None:
    randomness = Randomness(3)
    with randomness.torch_draws():
        randomness.at(5)
        of_record = torch.rand(8)
        randomness.of_batch(5)
        assert not torch.equal(torch.rand(8), of_record)


def test_torch_draws_the_same_in_all_threads_while_a_trainer_draws() -> None:
    randomness = Randomness(3)
    torch.manual_seed(0)
    trained = torch.rand(500)

    def records(_: int) -> list[float]:
        found = []
        with randomness.torch_draws():
            for position in range(100):
                randomness.at(position)
                found.append(torch.rand(1).item())
        return found

    torch.manual_seed(0)
    with ThreadPoolExecutor(3) as pool:
        several = [pool.submit(records, number) for number in range(3)]
        while_loading = torch.stack([torch.rand(1)[0] for _ in range(500)])
        found = [future.result() for future in several]

    assert torch.equal(while_loading, trained)
    assert found[0] == found[1] == found[2]
    assert len(set(found[0])) == 100


def test_a_generator_of_the_caller_is_used() -> None:
    wanted = torch.rand(3, generator=torch.Generator().manual_seed(1))
    with Randomness(3).torch_draws():
        assert torch.equal(torch.rand(3, generator=torch.Generator().manual_seed(1)), wanted)
        assert torch.poisson(torch.ones(3), torch.Generator()).shape == (3,)


def test_functions_without_draws_are_unchanged() -> None:
    with Randomness(3).torch_draws():
        assert torch.equal(functional.dropout(PLANE, training=False), PLANE)
        assert not functional.dropout(PLANE, 1.0).any()
        assert torch.from_numpy(np.arange(3)).add(1).tolist() == [1, 2, 3]
        assert torch.equal(pickle.loads(pickle.dumps(PLANE)), PLANE)
        assert functional.interpolate(PLANE, size=4).shape == (1, 3, 4, 4)


@pytest.mark.parametrize(("draw", "mean"), [(torch.rand_like, 0.5), (torch.randn_like, 0.0)])
def test_replaced_operators_have_the_same_mean(draw: Callable[[Any], Any], mean: float) -> None:
    with Randomness(3).torch_draws():
        found = draw(torch.empty(10_000))

    assert abs(found.mean().item() - mean) < 0.04


def test_dropout_drops_and_scales() -> None:
    with Randomness(3).torch_draws():
        found = functional.dropout(torch.ones(10_000), 0.25)
        values, kept = torch.native_dropout(torch.ones(10_000), 0.25, True)

    for one in (found, values):
        assert set(one.tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
        assert abs(one.mean().item() - 1) < 0.04
    assert torch.equal(values > 0, kept)


def test_a_late_import_of_torch_is_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    here = sys.modules["torch"]
    monkeypatch.delitem(sys.modules, "torch")
    with caplog.at_level(logging.WARNING, "dataformats"), Randomness(3).torch_draws():
        sys.modules["torch"] = here

    assert "Import torch before the loader starts" in caplog.text


def draw_for(record: Any) -> dict[str, Any]:
    return {"drawn": torch.rand(3), "dropped": functional.dropout(torch.ones(8))}


@pytest.mark.parametrize("workers", [{"workers": 0}, {"workers": 3}])
def test_a_loader_draws_by_position(workers: dict[str, Any]) -> None:
    """The draws of a record are the same in any batch, thread or process."""
    with dataformats.Loader(list(range(40)), 7, transform=draw_for, **workers) as loader:
        batches = list(loader)
    found = {
        position: (drawn.tolist(), dropped.tolist())
        for batch in batches
        for position, drawn, dropped in zip(batch.positions, batch["drawn"], batch["dropped"], strict=True)
    }

    randomness = Randomness(0)
    with randomness.torch_draws():
        for position in range(40):
            randomness.at(position)
            made = draw_for(None)
            assert found[position] == (made["drawn"].tolist(), made["dropped"].tolist())


def test_collate_and_batch_transform_draw_other_numbers() -> None:
    drawn: list[tuple[str, float, float]] = []

    def transform(record: int, rng: np.random.Generator) -> int:
        drawn.append(("transform", torch.rand(1).item(), rng.random()))
        return record

    def collate(records: list[int]) -> dict[str, Any]:
        drawn.append(("collate", torch.rand(1).item(), 0.5))
        return {"value": np.array(records)}

    def batch_transform(batch: Any, rng: np.random.Generator) -> Any:
        drawn.append(("batch", torch.rand(1).item(), rng.random()))
        return batch

    functions: dict[str, Any] = {"transform": transform, "collate": collate, "batch_transform": batch_transform}
    for _ in range(2):
        with dataformats.Loader([1, 2], 1, workers=0, **functions) as loader:
            list(loader)

    assert drawn[:6] == drawn[6:]
    assert len({number for _, number, _ in drawn}) == 6
    assert len({number for name, _, number in drawn if name != "collate"}) == 4


def test_an_unknown_torch_is_logged_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataformats.loaders.pytorch import rng

    first, last = rng.KNOWN_TORCH
    for version, is_known in ((first, True), (last, True), ((first[0], first[1] - 1), False), ((9, 0), False)):
        monkeypatch.setattr(torch, "__version__", "{}.{}.1+cpu".format(*version))
        rng._check_version.cache_clear()
        caplog.clear()
        with caplog.at_level(logging.WARNING, "dataformats"):
            for _ in range(2):
                rng.TorchDraws(lambda: 0)
        assert len(caplog.records) == (0 if is_known else 1)
    assert "torch 9.0.1+cpu is unknown" in caplog.text
    rng._check_version.cache_clear()


def test_the_torch_of_the_tests_is_known() -> None:
    from dataformats.loaders.pytorch import rng

    first, last = rng.KNOWN_TORCH
    assert first <= tuple(map(int, torch.__version__.split(".")[:2])) <= last
