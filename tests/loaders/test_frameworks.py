"""Lightning and Accelerate, if installed, with a loader, its batches and its state."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

DIGITS = str(Path(__file__).parents[1] / "golden" / "real" / "digits-*.tfrecord")
HEAD = f"""
import json, logging, pathlib, sys
import torch
import dataformats

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
folder = pathlib.Path(sys.argv[1])
digits = dataformats.open({DIGITS!r}, spec={{"image": "uint8[8,8]", "label": "int64"}})
"""
WHOLE = [list(range(1797 * epoch + first, 1797 * epoch + min(first + 100, 1797)))
         for epoch in range(3) for first in range(0, 1797, 100)]  # fmt: skip


def printed_by(program: str, folder: Path) -> Any:
    """Return the last line that a program prints, as JSON; a separate process, because the libraries patch torch."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(program), str(folder)],
        env=os.environ | {"DATAFORMATS_CACHE": str(folder / "cache"), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


LIGHTNING = """
import lightning

class Killed(Exception):
    pass

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.seen = torch.nn.Linear(64, 10), []

    def training_step(self, batch, step):
        self.seen.append(batch.positions.tolist())
        scores = self.layer(batch["image"].flatten(1).float())
        return torch.nn.functional.cross_entropy(scores, batch["label"])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)

class KillAfter25(lightning.Callback):
    def on_train_batch_end(self, trainer, *rest):
        if trainer.global_step == 25:
            trainer.save_checkpoint(folder / "c.ckpt")
            raise Killed

def fit(to, checkpoint=None, **more):
    quiet = {name: False for name in ("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing")}
    trainer = lightning.Trainer(max_epochs=3, accelerator="cpu", **quiet, **more)
    model = Model()
    try:
        trainer.fit(model, dataformats.Loader(digits, 100, seed=1, to=to), ckpt_path=checkpoint)
    except Killed:
        pass
    return model.seen

print()
print(json.dumps([fit("torch", callbacks=[KillAfter25()]), fit("numpy", folder / "c.ckpt")]))
"""


@pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="lightning is not installed")
def test_lightning_saves_and_resumes_the_loader(tmp_path: Path) -> None:
    before, after = printed_by(LIGHTNING, tmp_path)
    assert before == WHOLE[:25]
    assert after == WHOLE[25:]


ACCELERATE = """
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import send_to_device
from torch.utils.data import DataLoader
from dataformats.loaders.pytorch import BatchDataset

accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=False))
loader = dataformats.Loader(digits, 100, seed=1)
accelerator.register_for_checkpointing(loader)
given = []
for batch in loader:
    on_device = send_to_device(batch, "meta")
    assert on_device["image"].device.type == "meta"
    given.append(on_device.positions.tolist())
    if len(given) == 7:
        accelerator.save_state(folder / "state")
accelerator.load_state(folder / "state")
again = [batch.positions.tolist() for batch in loader]

dataset = BatchDataset(digits, 100, seed=1)
prepared = accelerator.prepare(DataLoader(dataset, batch_size=None, num_workers=2))
epochs = []
for epoch in range(2):
    prepared.set_epoch(epoch)
    epochs += [batch.positions.tolist() for batch in prepared]
print()
print(json.dumps([given, again, epochs]))
"""


@pytest.mark.skipif(importlib.util.find_spec("accelerate") is None, reason="accelerate is not installed")
def test_accelerate_with_batches_and_state(tmp_path: Path) -> None:
    given, again, epochs = printed_by(ACCELERATE, tmp_path)
    assert given == WHOLE[:18]
    assert again == WHOLE[7:18]
    assert epochs == WHOLE[:36]
