"""Random calls of the drop-in module and of TensorFlow: `python -m compat.tests.deep.beside_tensorflow --seed 7`.

Prints how many results are equal, and each value that differs. Errors where TensorFlow gives a value are counted by
their text.
"""

from __future__ import annotations

import argparse
import collections
import operator
import random
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .test_tensorflow import BOTH, configuration, theirs, values

Call = Callable[[Any], Any]

DTYPES = ("uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "float32", "float64", "bool")
OPERATORS = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
    "and_",
    "or_",
    "pow",
)
TWO = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "equal", "less", "greater_equal", "pow")
ONE = (
    "abs", "negative", "square", "sqrt", "exp", "floor", "round", "sign", "math.log", "math.ceil", "math.rint",
    "cumsum", "reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "argmax", "argmin", "transpose",
    "zeros_like", "ones_like", "shape", "size", "rank", "identity", "math.is_finite", "reduce_any", "logical_not",
)  # fmt: skip


def compared(value: Any) -> Any:
    """Return a value as nested tuples of dtypes, shapes and arrays."""
    if hasattr(value, "row_splits"):
        return ("ragged", compared(value.values), compared(value.row_splits))
    if hasattr(value, "dense_shape"):
        return ("sparse", *map(compared, (value.indices, value.values, value.dense_shape)))
    if isinstance(value, dict):
        return tuple((name, compared(value[name])) for name in sorted(value))
    if isinstance(value, tuple | list):
        return tuple(map(compared, value))
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    array = array.astype(object) if array.dtype.kind in "SU" else array
    return (str(array.dtype), array.shape, array)


def equal(one: Any, other: Any) -> bool:
    """Return True for the same structure and dtypes, and floats within rounding."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.dtype.kind == "f":
        within = 2e-2 if one.dtype == np.float16 else 1e-5
        return one.shape == other.shape and bool(np.allclose(one, other, within, within, equal_nan=True))
    return bool(np.array_equal(one, other)) if isinstance(one, np.ndarray) else bool(one == other)


def outcome(call: Call, module: Any) -> Any:
    try:
        return compared(call(module))
    except Exception as error:
        return error


def parsing(draw: random.Random) -> Call:
    names, good = ["a", "b", "c"][: draw.randint(1, 3)], draw.random() < 0.7
    features = {name: configuration(draw, ("fixed", "default", "sparse", "padded", "ragged")) for name in names}
    records = []
    for _ in range(draw.randint(1, 4)):
        record = theirs.train.Example()
        for name, (kind, letter, size, _) in features.items():
            if draw.random() > 0.1:
                record.features.feature[name].CopyFrom(values(draw, kind, letter, size, good))
        records.append(record.SerializeToString())
    single = draw.random() < 0.5

    def call(module: Any) -> Any:
        wanted = {name: make(module) for name, (*_, make) in features.items()}
        if single:
            return module.io.parse_single_example(records[0], wanted)
        return module.io.parse_example(records, wanted)

    return call


def chain(draw: random.Random) -> Call:
    n, steps = draw.randint(0, 9), [draw.choice(STEPS)(draw) for _ in range(draw.randint(1, 5))]

    def call(module: Any) -> Any:
        dataset = module.data.Dataset.range(n)
        for step in steps:
            dataset = step(module, dataset)
        return [*dataset.take(60).as_numpy_iterator(), int(dataset.cardinality())]

    return call


def _mapped(draw: random.Random) -> Any:
    factors = [draw.randint(-3, 4) for _ in range(3)]

    def step(module: Any, dataset: Any) -> Any:
        for factor in factors:  # the function sees the factor of its own turn
            dataset = dataset.map(lambda x: x * factor + 1)  # noqa: B023
        return dataset

    return step


def _each(draw: random.Random) -> list[Any]:
    k, b = draw.randint(1, 4), draw.randint(1, 3)
    return [
        lambda m, d: d.take(k),
        lambda m, d: d.skip(b),
        lambda m, d: d.repeat(b),
        lambda m, d: d.shard(k, 0),
        lambda m, d: d.batch(k, drop_remainder=b == 1).unbatch(),
        lambda m, d: d.filter(lambda x: x % k == 0),
        lambda m, d: d.concatenate(d),
        lambda m, d: d.enumerate().map(lambda at, x: at + x),
        lambda m, d: d.cache(),
        lambda m, d: d.prefetch(k),
        lambda m, d: d.take_while(lambda x: x < 9),
        lambda m, d: d.window(k, b).flat_map(lambda window: window.batch(b)).unbatch(),
        lambda m, d: d.interleave(lambda x: m.data.Dataset.from_tensors(x).repeat(b), k, b),
        lambda m, d: d.map(lambda x: m.cast(x, m.uint8) / 3).map(lambda x: m.cast(x, m.int64)),
        lambda m, d: m.data.Dataset.zip((d, d)).map(lambda x, y: x - y * k),
        lambda m, d: d.group_by_window(lambda x: x % k, lambda key, part: part.batch(b), window_size=b).unbatch(),
        lambda m, d: d.map(lambda x: m.range(m.abs(x) % k)).padded_batch(b).map(lambda x: m.reduce_sum(x)),
        lambda m, d: d.map(lambda x: {"x": x, "y": (x, [x, x])}).map(lambda e: e["x"] + e["y"][1][0]),
    ]


STEPS: list[Any] = [_mapped, *[lambda draw: draw.choice(_each(draw))] * 6]


def _value(draw: random.Random) -> Call:
    kind, dtype = draw.choice(["tensor", "tensor", "array", "list", "number"]), draw.choice(DTYPES)
    shape = draw.choice([(), (3,), (2, 3), (2, 1), (0,)])
    stored = np.random.default_rng(draw.randrange(2**32)).integers(0 if dtype[0] in "ub" else -9, 9, shape)
    array = (stored * (1.5 if dtype[0] == "f" else 1)).astype(dtype)
    if kind == "tensor":
        return lambda m: m.constant(array)
    found = array if kind == "array" else array.tolist() if kind == "list" else draw.choice([0, 1, 2, -3, 1.5, True])
    return lambda m: found


def operation(draw: random.Random) -> Call:
    x, y, name = _value(draw), _value(draw), draw.choice([*OPERATORS, *TWO, *ONE])
    if name in OPERATORS and draw.random() < 0.9:
        return lambda m: m.identity(getattr(operator, name)(m.convert_to_tensor(x(m)), y(m)))
    if name in TWO or name in OPERATORS:
        chosen = name if name in TWO else "add"
        return lambda m: m.identity(getattr(m, chosen)(x(m), y(m)))
    return lambda m: operator.attrgetter(name)(m)(x(m))


KINDS: dict[str, Callable[[random.Random], Call]] = {"parsing": parsing, "chains": chain, "operations": operation}


def run(kind: str, n: int, seed: int) -> int:
    """Compare `n` random calls; return how many values differ."""
    counts: collections.Counter[str] = collections.Counter()
    for number in range(n):
        call = KINDS[kind](random.Random(f"{kind}/{seed}/{number}"))
        expected, found = (outcome(call, module) for module in BOTH)
        if isinstance(found, Exception):
            text = re.sub(r"[\d\[\]'.-]+", "#", f"{type(found).__name__}: {found!s:.70}")
            counts["both raise" if isinstance(expected, Exception) else f"raises alone, {text}"] += 1
        elif isinstance(expected, Exception):
            counts[f"TensorFlow raises alone, {type(expected).__name__}"] += 1
        elif kind == "chains" and found[-1][2] == -2 and equal(expected[:-1], found[:-1]):
            counts["equal elements, unknown cardinality"] += 1
        elif equal(expected, found):
            counts["equal"] += 1
        else:
            counts["DIFFERENT"] += 1
            print(f"{kind} {seed}/{number}: expected {expected!s:.300}, found {found!s:.300}")
    print(kind, *(f"\n  {count:6} {text}" for text, count in counts.most_common()))
    return counts["DIFFERENT"]


def main() -> int:
    """Compare as many calls as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    for kind, n in (("parsing", 3000), ("chains", 1500), ("operations", 3000)):
        parser.add_argument(f"--{kind}", type=int, default=n)
    arguments = vars(parser.parse_args())
    return 1 if sum(run(kind, arguments[kind], arguments["seed"]) for kind in KINDS) else 0


if __name__ == "__main__":
    sys.exit(main())
