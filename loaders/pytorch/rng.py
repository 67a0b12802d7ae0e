"""Make torch draw from a generator of this thread. Imported only if torch has been imported already.

This uses private names of torch, and lists of its random functions. Both are known for the versions in `KNOWN_TORCH`;
other versions work if nothing changed, and are logged once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_LOG = logging.getLogger("dataformats")

KNOWN_TORCH = ((2, 2), (2, 13))
"""First and last version: the minimum of the extra `torch`, and the newest one that the tests run with."""


_TAKE_A_GENERATOR = (
    torch.rand,
    torch.randn,
    torch.randint,
    torch.randperm,
    torch.normal,
    torch.bernoulli,
    torch.multinomial,
    torch.poisson,
    torch.binomial,
    torch.rrelu,
    torch.rrelu_,
    torch._standard_gamma,  # pyright: ignore[reportPrivateImportUsage]  # called by torch.distributions
    torch._sample_dirichlet,  # pyright: ignore[reportPrivateImportUsage]
    torch.Tensor.uniform_,
    torch.Tensor.normal_,
    torch.Tensor.random_,
    torch.Tensor.bernoulli,
    torch.Tensor.bernoulli_,
    torch.Tensor.exponential_,
    torch.Tensor.geometric_,
    torch.Tensor.cauchy_,
    torch.Tensor.log_normal_,
    torch.Tensor.multinomial,
)
_DRAW_BY_OPERATORS = (
    torch.rand_like,
    torch.randn_like,
    torch.randint_like,
    torch.dropout,
    torch.dropout_,
    torch.alpha_dropout,
    torch.alpha_dropout_,
    torch.feature_dropout,
    torch.feature_dropout_,
    torch.feature_alpha_dropout,
    torch.feature_alpha_dropout_,
    torch.native_dropout,
    torch.gru,
    torch.lstm,
    torch.rnn_relu,
    torch.rnn_tanh,
    functional.scaled_dot_product_attention,
    functional.dropout,
    functional.dropout1d,
    functional.dropout2d,
    functional.dropout3d,
    functional.alpha_dropout,
    functional.feature_alpha_dropout,
    functional.rrelu,
    functional.gumbel_softmax,
    functional.fractional_max_pool2d,
    functional.fractional_max_pool2d_with_indices,
    functional.fractional_max_pool3d,
    functional.fractional_max_pool3d_with_indices,
    functional.multi_head_attention_forward,
    *(one for name, one in vars(torch.nn.init).items() if name.endswith("_") and not name.startswith("_")),
)
"""Functions that draw inside, and accept no generator in at least some versions of torch."""


class TorchDraws(TorchFunctionMode):
    """A context, for one thread, in which torch draws from separate generators.

    Torch's global generator is neither used nor changed, because training draws from it in another thread. Random
    functions get `generator=`, which costs 2 µs for each call of a torch function. Functions that draw inside (dropout,
    `torch.nn.init`) are intercepted operator by operator, at 5 µs each.

    Not covered: draws within one GPU operator (attention and recurrent networks with dropout), and compiled functions.

    Args:
        seed_of: Returns the seed; called at the first draw after `forget`, for each device.
    """

    def __init__(self, seed_of: Callable[[], int]) -> None:
        super().__init__()
        _check_version()
        self._seed_of = seed_of
        self._generators: dict[torch.device, torch.Generator] = {}
        self._seeded: set[torch.device] = set()
        self._operators = _Operators(self)

    def forget(self) -> None:
        """Seed again before the next draw."""
        self._seeded.clear()

    def generator(self, args: Any, kwargs: Any) -> torch.Generator:
        """Return the generator for a call with these arguments."""
        device = _device(args, kwargs)
        if device not in self._seeded:
            if device not in self._generators:
                self._generators[device] = torch.Generator(device)
            self._generators[device].manual_seed(self._seed_of())
            self._seeded.add(device)
        return self._generators[device]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        draw = _DRAWS.get(func)
        if draw is not None:
            return draw(self, func, args, kwargs or {})
        return func(*args, **kwargs) if kwargs else func(*args)

    def draw_directly(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call a function that accepts a generator."""
        if kwargs.get("generator") is None and not any(isinstance(one, torch.Generator) for one in args):
            kwargs = {**kwargs, "generator": self.generator(args, kwargs)}
        return func(*args, **kwargs)

    def draw_by_operators(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call a function that draws inside."""
        with self._operators:
            return func(*args, **kwargs)


_DRAWS: dict[Any, Callable[[TorchDraws, Any, Any, Any], Any]] = {
    **dict.fromkeys(_DRAW_BY_OPERATORS, TorchDraws.draw_by_operators),
    **dict.fromkeys(_TAKE_A_GENERATOR, TorchDraws.draw_directly),
}


class _Operators(TorchDispatchMode):
    """Passes a generator to the operators that draw; all random functions end in these few."""

    def __init__(self, draws: TorchDraws) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types there
        self._draws = draws

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or torch wraps the method below so that its first call imports torch.compile, which takes 4 s

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags or kwargs.get("generator") is not None:
            return func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if name in _REPLACEMENTS:
            return _REPLACEMENTS[name](self._draws.generator(args, kwargs), *args, **kwargs)
        keyed = _with_generator(func)
        if keyed is None:
            return func(*args, **kwargs)
        return keyed(*args, **{**kwargs, "generator": self._draws.generator(args, kwargs)})


@cache
def _check_version() -> None:
    """Log, once, that this version of torch is unknown."""
    first, last = KNOWN_TORCH
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if not first <= version <= last:
        _LOG.warning(
            "torch %s is unknown here (known: %d.%d to %d.%d): random numbers that it draws in transforms may differ "
            "between runs. Use `rng` of the transform, or a known version",
            torch.__version__,
            *first,
            *last,
        )


def _with_generator(func: Any) -> Any:
    """Return the overload of an operator that takes a generator, or `None`."""
    if any(argument.name == "generator" for argument in func._schema.arguments):
        return func
    overload = {"default": "generator", "low": "low_generator"}.get(func._overloadname, "")
    return getattr(func.overloadpacket, overload) if overload in func.overloadpacket.overloads() else None


def _device(args: Any, kwargs: Any) -> torch.device:
    if kwargs.get("device") is not None:
        return torch.empty(0, device=kwargs["device"]).device  # "cuda" means the current CUDA device
    for one in (*args, *kwargs.values()):
        if isinstance(one, torch.Tensor):
            return one.device
    return torch.empty(0).device  # the default device of torch


def _rand_like(generator: torch.Generator, like: Any, **options: Any) -> Any:
    return torch.empty_like(like, **options).uniform_(generator=generator)


def _randn_like(generator: torch.Generator, like: Any, **options: Any) -> Any:
    return torch.empty_like(like, **options).normal_(generator=generator)


def _randint_like(generator: torch.Generator, like: Any, *ends: Any, **options: Any) -> Any:
    low, high = ends if len(ends) == 2 else (0, ends[0])
    return torch.empty_like(like, **options).random_(int(low), int(high), generator=generator)


def _native_dropout(generator: torch.Generator, values: Any, p: float, train: bool | None = True) -> Any:
    if train is False:
        return values.clone(), torch.ones_like(values, dtype=torch.bool)
    mask = torch.empty_like(values, dtype=torch.bool).bernoulli_(1 - p, generator=generator)
    return values * mask * (0.0 if p == 1 else 1 / (1 - p)), mask


_REPLACEMENTS: dict[str, Callable[..., Any]] = {
    "rand_like": _rand_like,
    "randn_like": _randn_like,
    "randint_like": _randint_like,
    "native_dropout": _native_dropout,
}
"""Replacements, from operators that accept a generator, for those that do not."""
