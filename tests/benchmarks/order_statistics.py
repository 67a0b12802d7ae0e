"""Statistics of shuffled orders, ours and others': `python -m tests.benchmarks.order_statistics`.

Prints the tables of docs/determinism.md, and how much of a dataset the nodes of a cluster download in an epoch. Grain
takes part where it is installed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataformats.loaders.epochs import Epochs
from dataformats.loaders.plan import Plan
from dataformats.loaders.shuffle import Shuffle
from dataformats.loaders.skips import Skips
from dataformats.loaders.steps import Steps
from tests.deep.statistics import permutation_statistics as statistics

Order = NDArray[np.int64]
Walk = tuple[int, int]

N = 1_000_000
WALKS: tuple[Walk, ...] = ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0))
PAIRS = {
    "one place, two epochs": (((0, 0), (0, 1)), ((1, 0), (1, 1))),
    "one place, two seeds": (((0, 0), (1, 0)), ((1, 0), (2, 0)), ((0, 1), (1, 1))),
    "epoch 1 of seed 0, epoch 0 of seed 1": (((0, 1), (1, 0)),),
}
KINDS = {
    "serial": "serial correlation, lags 1 to 8",
    "displacement": "displacement",
    "neighbors": "records that stay neighbors",
    "blocks": "evenness of blocks over blocks",
    "low": "low bits, by place, neighbor and block",
    "steps": "steps from record to record",
}
BLOCKS = (16, 64, 1024)
WINDOW_BLOCKS = 256
BATCH = 256
CLASSES = 1000
RANKS, RANKS_PER_NODE = (8, 64, 512), 8
WINDOWS_PER_NODE = 2.3
TRAFFIC_BLOCK, TRAFFIC_BATCH = 64, 64  # records


def of_plan(shuffle: Shuffle) -> Callable[[int, int], Order]:
    """The order of a plan."""
    return lambda seed, epoch: Plan.of_one(N, shuffle, seed).locate(range(epoch * N, (epoch + 1) * N)).record


def of_numpy(seed: int, epoch: int) -> Order:
    """numpy's permutation: an ideal order, at 8 bytes per record."""
    return np.random.default_rng([seed, epoch]).permutation(N)


def of_grain(grain: Any) -> Callable[[int, int], Order]:
    """`MapDataset.shuffle`, used as in a training run."""

    def order(seed: int, epoch: int) -> Order:
        shuffled = grain.MapDataset.range(N).shuffle(seed=seed)
        return np.fromiter((shuffled[epoch * N + i] % N for i in range(N)), np.int64, N)

    return order


def peers() -> dict[str, Callable[[int, int], Order]]:
    """Return name to order of each installed peer."""
    found = {"dataformats": of_plan(Shuffle.of(True)), "numpy": of_numpy}
    try:
        grain = importlib.import_module("grain")
    except ImportError:
        return found
    return found | {f"Grain {grain.__version__}": of_grain(grain)}


def global_rows(order: Callable[[int, int], Order]) -> Iterator[tuple[str, str]]:
    """Yield name and cell of each row about one peer."""
    orders = {walk: order(*walk) for walk in WALKS}
    lag_1 = np.mean([raw_correlation(found) for found in orders.values()])
    yield "correlation of a record with the next", f"{lag_1:+.4f}"
    figures = [pair for found in orders.values() for pair in statistics.figures(found, 0, N)]
    for prefix, name in KINDS.items():
        yield name, worst(figure for kind, figure in figures if kind.startswith(prefix))
    for name, pairs in PAIRS.items():
        found = [pair for a, b in pairs for pair in statistics.pair_figures(orders[a], orders[b], N)]
        yield name, worst(figure for _, figure in found)


def window_rows(shuffle: Shuffle) -> Iterator[tuple[str, str]]:
    """Yield name and cell of each row about one shuffle of ours."""
    orders = {walk: of_plan(shuffle)(*walk) for walk in WALKS}
    block = shuffle.block_records or 1
    held = block * shuffle.window_blocks or N
    yield "records of a window", f"{held:,}"
    batches = [found[: N // BATCH * BATCH].reshape(-1, BATCH) for found in orders.values()]
    yield "runs of stored neighbors per window", f"{held // block:,}"
    yield f"classes in a batch of {BATCH}", f"{np.mean([distinct(found * CLASSES // N) for found in batches]):.0f}"
    yield "correlation of a record with the next", f"{np.mean([raw_correlation(f) for f in orders.values()]):+.4f}"
    away = np.mean([np.abs(found - np.arange(N)).mean() for found in orders.values()])
    yield "mean displacement, ideal 1", f"{away / (N / 3):.3f}"
    yield "within windows, largest deviation", worst(inside(orders, held))
    epochs = [statistics.correlation(orders[a], orders[b], N) for a, b in PAIRS["one place, two epochs"]]
    yield "one place, two epochs: correlation", f"{max(map(abs, epochs)) / np.sqrt(N):.4f}"


def inside(orders: Mapping[Walk, Order], size: int) -> Iterator[float]:
    """Yield the figures of records within the first window of each order, numbered as they are stored."""
    windows = [np.argsort(np.argsort(found[:size])) for found in orders.values()]
    for window in windows:
        yield from (figure for _, figure in statistics.figures(window, 0, size))
    for one, other in pairwise(windows):
        yield from (figure for _, figure in statistics.pair_figures(one, other, size))


def raw_correlation(order: Order) -> float:
    """Return the correlation of each record and the next one."""
    return statistics.correlation(order[:-1], order[1:], N) / float(np.sqrt(N - 1))


def distinct(rows: Order) -> float:
    """Return the mean number of distinct numbers in a row."""
    return float(1 + np.count_nonzero(np.diff(np.sort(rows, axis=1), axis=1), axis=1).mean())


def worst(figures: Iterator[float]) -> str:
    """Return the largest absolute value of some figures."""
    return f"{max(map(abs, figures)):,.1f}"


def traffic_rows(n_ranks: int, groups: int) -> Iterator[tuple[str, str]]:
    """Yield name and cell of each row about the bytes that all nodes download in an epoch, by the bytes of the dataset.

    Nothing is read: the plan tells the windows and blocks of the records of each node, whose ranks share one cache.
    """
    n_nodes = n_ranks // RANKS_PER_NODE
    n = n_nodes * round(WINDOWS_PER_NODE * WINDOW_BLOCKS * TRAFFIC_BLOCK)
    plan = Plan.of_one(n, Shuffle.of("window", TRAFFIC_BLOCK, WINDOW_BLOCKS, groups), 0)
    steps = Steps(Epochs.of(n), TRAFFIC_BATCH * n_ranks, False, Skips(), plan.streams if groups > 1 else None)
    order, windows, blocks = plan.epoch(0, 0), set(), [np.zeros(0, np.int64) for _ in range(n_nodes)]
    position = 0
    while position < n:
        step = steps.at(position)
        for node in range(n_nodes):  # its ranks are neighbors: together, they read as one of n_nodes ranks
            places = step.of_rank(node, n_nodes)
            windows |= {(node, window) for window in order.windows(places, plan.shuffle)}
            read = order.records(places, plan.shuffle) // TRAFFIC_BLOCK
            blocks[node] = np.union1d(blocks[node], read)
        position = step.after
    in_step = RANKS_PER_NODE * TRAFFIC_BATCH
    shared = max(1.0, min(n_nodes / groups, WINDOW_BLOCKS * TRAFFIC_BLOCK / in_step))
    yield "whole windows, as a loader fetches them", f"{sum(len(window) for _, window in windows) / n:.3f}"
    yield "s, the least of nodes / groups and window / records of a node in a step", f"{shared:.3f}"
    yield f"blocks of {TRAFFIC_BLOCK} records alone", f"{sum(map(len, blocks)) * TRAFFIC_BLOCK / n:.3f}"
    yield f"s (1 - (1 - 1 / s)^{TRAFFIC_BLOCK})", f"{shared * (1 - (1 - 1 / shared) ** TRAFFIC_BLOCK):.3f}"


def table(head: str, columns: Mapping[str, Iterator[tuple[str, str]]]) -> str:
    """Return a Markdown table of columns with the same rows."""
    filled = [dict(rows) for rows in columns.values()]
    lines = [f"| {head} | {' | '.join(columns)} |", "|---" * (1 + len(filled)) + "|"]
    lines += [f"| {name} | {' | '.join(rows.get(name, '') for rows in filled)} |" for name in filled[0]]
    return "\n".join(lines)


def main() -> None:
    """Print the tables."""
    print(table("largest deviation", {name: global_rows(order) for name, order in peers().items()}), end="\n\n")
    shuffles = {f"block_records={block}": Shuffle.of("window", block, WINDOW_BLOCKS) for block in BLOCKS}
    shuffles["True"] = Shuffle.of(True)
    print(table("", {name: window_rows(shuffle) for name, shuffle in shuffles.items()}), end="\n\n")
    clusters = dict.fromkeys((ranks, groups) for ranks in RANKS for groups in (ranks // RANKS_PER_NODE, 1))
    columns = {f"{ranks} ranks, groups={groups}": traffic_rows(ranks, groups) for ranks, groups in clusters}
    print(table("bytes moved by bytes held", columns))


if __name__ == "__main__":
    main()
