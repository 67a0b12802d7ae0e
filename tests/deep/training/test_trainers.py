"""Lightning, Accelerate and the Trainer of transformers, with a loader, its batches and its state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

DIGITS = str(Path(__file__).parents[2] / "golden" / "real" / "digits-*.tfrecord")
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
    script = folder / "program.py"  # Lightning starts it again for the second rank
    script.write_text(HEAD + program, "utf-8")
    done = subprocess.run(
        [sys.executable, str(script), str(folder)],
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
        self.layer, self.seen, self.validated = torch.nn.Linear(64, 10), [], []

    def validation_step(self, batch, step):
        self.validated.append(len(batch.positions))

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

def validate(**more):
    quiet = {name: False for name in ("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing")}
    trainer = lightning.Trainer(max_epochs=2, limit_train_batches=1, accelerator="cpu", **quiet, **more)
    model = Model()
    whole = dataformats.Loader(digits, 500, shuffle=False, resume=False, to="torch")
    trainer.fit(model, dataformats.Loader(digits, 100, to="torch"), whole)
    return model.validated

print()
seen = [fit("torch", callbacks=[KillAfter25()]), fit("numpy", folder / "c.ckpt")]
print(json.dumps([validate(), validate(limit_val_batches=3), *seen]))
"""


def test_lightning_saves_and_resumes_the_loader(tmp_path: Path) -> None:
    validated, limited, before, after = printed_by(LIGHTNING, tmp_path)
    every = [500, 500, 500, 297]
    assert validated == every[:2] + every * 2  # two batches come first, as a check of sanity
    assert limited == every[:2] + every[:3] * 2
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


def test_accelerate_with_batches_and_state(tmp_path: Path) -> None:
    given, again, epochs = printed_by(ACCELERATE, tmp_path)
    assert given == WHOLE[:18]
    assert again == WHOLE[7:18]
    assert epochs == WHOLE[:36]


TWO_PROCESSES = """
import lightning

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.seen = torch.nn.Linear(64, 10), []

    def training_step(self, batch, step):
        self.seen += batch.positions.tolist()
        return torch.nn.functional.cross_entropy(self.layer(batch["image"].flatten(1).float()), batch["label"])

    def on_train_end(self):
        (folder / f"{self.global_rank}.json").write_text(json.dumps(self.seen))
        self.trainer.strategy.barrier()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)

quiet = {name: False for name in ("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing")}
loader = dataformats.Loader(digits, 100, rank="auto", to="torch")  # before Lightning starts the second process
trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", devices=2, strategy="ddp", **quiet)
trainer.fit(Model(), loader)
if trainer.global_rank == 0:
    print()
    print(json.dumps(sorted(sum((json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)), []))))
"""


def test_lightning_starts_ranks_after_the_loader_is_made(tmp_path: Path) -> None:
    assert printed_by(TWO_PROCESSES, tmp_path) == list(range(1797))


TRANSFORMERS = """
from transformers import Trainer, TrainingArguments
from dataformats.loaders.pytorch import PlanSampler, RecordDataset, collate

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(64, 10)

    def forward(self, image, label):
        scores = self.layer(image.flatten(1).float())
        return {"loss": torch.nn.functional.cross_entropy(scores, label), "logits": scores}

class OrderedTrainer(Trainer):
    def _get_train_sampler(self, *_):
        return PlanSampler(digits, seed=1)

def weights(stop=None, resume=None):
    options = TrainingArguments(
        str(folder), num_train_epochs=2, per_device_train_batch_size=100, use_cpu=True, report_to=[], save_steps=25,
        logging_steps=1000, disable_tqdm=True, remove_unused_columns=False, dataloader_num_workers=2 if resume else 0,
    )
    trainer = OrderedTrainer(Model(), options, train_dataset=RecordDataset(digits), data_collator=collate)
    trainer.train(resume_from_checkpoint=resume)
    return trainer.model.layer.weight.detach().flatten().tolist()

whole = weights()
print()
print(json.dumps([whole, weights(resume=str(folder / "checkpoint-25"))]))
"""


def test_the_trainer_of_transformers_resumes_to_the_same_weights(tmp_path: Path) -> None:
    whole, resumed = printed_by(TRANSFORMERS, tmp_path)
    assert whole == resumed


STATEFUL = """
from torchdata.stateful_dataloader import StatefulDataLoader
from dataformats.loaders.pytorch import PlanSampler, RecordDataset, collate

def loader(workers):
    sampler = PlanSampler(digits, seed=1)
    return StatefulDataLoader(RecordDataset(digits), 100, sampler=sampler, collate_fn=collate, num_workers=workers)

labels = []
for workers in (0, 2):
    first, second = loader(workers), loader(workers)
    given = []
    for batch in first:
        given.append(batch["label"].tolist())
        if len(given) == 7:
            second.load_state_dict(first.state_dict())
            break
    labels.append(given + [batch["label"].tolist() for _ in range(2) for batch in second])
wanted = dataformats.Loader(digits, 100, seed=1)
print()
print(json.dumps([*labels, [batch["label"].tolist() for _ in range(2) for batch in wanted]]))
"""


def test_a_sampler_in_a_stateful_loader_has_the_order_of_a_loader(tmp_path: Path) -> None:
    alone, with_workers, wanted = printed_by(STATEFUL, tmp_path)
    assert alone == with_workers == wanted
