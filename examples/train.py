"""Train on records; may be killed at any moment, and resumes to exactly the same weights.

    python examples/train.py checkpoint.pt

Every few steps the weights, the optimizer, torch's random state and the loader's state go into one file, which is
complete or absent. A restarted script resumes from it, batch for batch as if there had been no interruption, also with
other `--workers` and another `--worker-type`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dataformats

DATA = Path(__file__).resolve().parents[1] / "tests" / "golden" / "real" / "digits-*.tfrecord"
SPEC = {"image": "uint8[8,8]", "label": "int64"}


def augmented(record: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Return a digit moved by at most a pixel; `rng` depends on seed and position alone, not on the worker."""
    down, right = rng.integers(-1, 2, 2)
    image = np.roll(record["image"], (down, right), (0, 1))
    return {"image": image.astype(np.float32)[None] / 16, "label": record["label"]}


def new_model() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Dropout(0.1),
        torch.nn.Linear(256, 10),
    )


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint under a temporary name, then replace the last one in one rename."""
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def train(checkpoint: Path, epochs: int, save_every: int, **workers: Any) -> torch.nn.Module:
    torch.manual_seed(0)
    source = dataformats.open(str(DATA), spec=SPEC)
    model = new_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    with dataformats.Loader(source, 32, seed=0, transform=augmented, to="torch", **workers) as loader:
        if checkpoint.exists():
            state = torch.load(checkpoint)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            torch.set_rng_state(state["rng"])
            loader.load_state_dict(state["loader"])
            print(f"resumed at position {loader.position}", flush=True)

        end = epochs * len(source)
        batches = loader.forever()
        steps = 0
        while loader.position < end:
            loss = learn(model, optimizer, next(batches))
            steps += 1
            if steps % save_every == 0 or loader.position == end:
                state = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "rng": torch.get_rng_state(),
                    "loader": loader.state_dict(),
                }
                save(checkpoint, state)
                print(f"position {loader.position}: loss {loss:.3f}", flush=True)
    return model


def learn(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: dict[str, torch.Tensor]) -> float:
    loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def digest(model: torch.nn.Module) -> str:
    """Return a digest of the weights: two that differ in one bit have different digests."""
    parts = [tensor.numpy().tobytes() for tensor in model.state_dict().values()]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--save-every", type=int, default=10, help="steps")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--worker-type", choices=["thread", "process"], default="thread")
    given = parser.parse_args()
    torch.set_num_threads(1)  # sums of floats depend on the number of threads
    model = train(
        given.checkpoint, given.epochs, given.save_every, workers=given.workers, worker_type=given.worker_type
    )
    print("weights", digest(model))


if __name__ == "__main__":
    main()
