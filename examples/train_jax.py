"""Train with Flax NNX on several processes, and resume on another number of them.

    python examples/train_jax.py checkpoint --processes 2 --steps 12
    python examples/train_jax.py checkpoint --processes 3

The first command trains 12 steps and saves; the second one continues to the end of the epoch, and checks that each
record came once. All processes run on this machine's processors. On a cluster, start one on each host, and let
`jax.distributed.initialize()` find the others.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx, serialization
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import dataformats

DATA = Path(__file__).resolve().parents[1] / "tests" / "golden" / "real" / "digits-*.tfrecord"
SPEC = {"image": "uint8[8,8]", "label": "int64"}
BATCH = 60  # records on all processes together: 2 and 3 processes have the same steps


class Model(nnx.Module):
    """A classifier of digits, which also counts how often it got each record."""

    def __init__(self, n_records: int, rngs: nnx.Rngs) -> None:
        self.hidden = nnx.Linear(64, 128, rngs=rngs)
        self.scores = nnx.Linear(128, 10, rngs=rngs)
        self.seen = nnx.Variable(jnp.zeros(n_records, jnp.int32))

    def __call__(self, images: jax.Array) -> jax.Array:
        return self.scores(nnx.relu(self.hidden(images.reshape(-1, 64) / 16)))


@nnx.jit
def learn(model: Model, optimizer: nnx.Optimizer, batch: dict[str, jax.Array]) -> jax.Array:
    """Train on the batch of all processes; `real` is False for the rows that fill the last one."""

    def loss_of(model: Model) -> jax.Array:
        losses = optax.softmax_cross_entropy_with_integer_labels(model(batch["image"]), batch["label"])
        return (losses * batch["real"]).sum() / batch["real"].sum()

    loss, gradients = nnx.value_and_grad(loss_of)(model)
    optimizer.update(model, gradients)
    model.seen[...] = model.seen.at[batch["record"]].add(batch["real"])
    return loss


def train(checkpoint: Path, steps: int | None) -> None:
    source = dataformats.open(str(DATA), spec=SPEC)
    loader = dataformats.Loader(source, BATCH // jax.process_count(), seed=0, rank="auto", pad_last=True)
    model = Model(len(source), nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)

    mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(AxisType.Auto,))
    rows, copies = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    state = nnx.state((model, optimizer))
    if checkpoint.exists():
        saved = serialization.msgpack_restore(checkpoint.read_bytes())
        nnx.replace_by_pure_dict(state, saved["state"])
        loader.load_state_dict(saved["loader"])
        print(f"process {jax.process_index()} resumes at position {loader.position}", flush=True)
    nnx.update((model, optimizer), jax.device_put(state, copies))

    for batch in loader:
        part = {
            "image": batch["image"],
            "label": batch["label"].astype(np.int32),
            "record": loader.locate(batch.positions).record.astype(np.int32),
            "real": (~batch.padding).astype(np.int32),
        }
        whole = {name: jax.make_array_from_process_local_data(rows, column) for name, column in part.items()}
        loss = learn(model, optimizer, whole)
        if loader.step == steps:
            break

    if jax.process_index() == 0:
        print(f"position {loader.position}: loss {loss:.3f}", flush=True)
        if loader.epoch == 1:
            print("each record came once:", bool((model.seen[...] == 1).all()))
        save(checkpoint, nnx.to_pure_dict(nnx.state((model, optimizer))), loader.state_dict())


def save(path: Path, state: dict[str, Any], loader: dict[str, Any]) -> None:
    """Write the checkpoint under a temporary name, then replace the last one in one rename."""
    partial = path.with_suffix(".partial")
    partial.write_bytes(serialization.msgpack_serialize({"state": jax.device_get(state), "loader": loader}))
    partial.replace(path)


def start(processes: int) -> int:
    """Run this script in several processes of this machine; return 0 if all of them succeed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, *sys.argv, "--coordinator", address, "--process"]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    running = [subprocess.Popen([*command, str(number)], env=environment) for number in range(processes)]
    return max(abs(one.wait()) for one in running)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, help="stop after this step, not at the end of the epoch")
    parser.add_argument("--coordinator", help=argparse.SUPPRESS)
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.process is None:
        sys.exit(start(given.processes))
    jax.distributed.initialize(given.coordinator, given.processes, given.process)
    train(given.checkpoint, given.steps)


if __name__ == "__main__":
    main()
