"""Lightning, Accelerate and the Trainer of transformers, with a loader, its batches and its state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(600)  # the programs import large libraries

DIGITS = str(Path(__file__).parents[2] / "golden" / "real" / "digits-*.tfrecord")
HEAD = f"""
import functools, json, logging, os, pathlib, sys
import torch
import dataformats

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
folder = pathlib.Path(sys.argv[1])
digits = dataformats.open({DIGITS!r}, spec={{"image": "uint8[8,8]", "label": "int64"}})
found = {{}}
"""
WHOLE = [list(range(1797 * epoch + first, 1797 * epoch + min(first + 100, 1797)))
         for epoch in range(3) for first in range(0, 1797, 100)]  # fmt: skip


def found_by(program: str, folder: Path) -> dict[str, Any]:
    """Run a program, apart because the libraries patch torch; return its dict `found`."""
    script = folder / "program.py"  # Lightning starts it again for the second rank
    script.write_text(f"{HEAD}\n{program}\n(folder / 'found.json').write_text(json.dumps(found))", "utf-8")
    done = subprocess.run(
        [sys.executable, str(script), str(folder)],
        env=os.environ | {"DATAFORMATS_CACHE": str(folder / "cache"), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return found


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

class Kill(lightning.Callback):
    def __init__(self, hook, step):
        setattr(self, hook, self.kill)
        self.step = step

    def kill(self, trainer, *rest):
        if trainer.global_step == self.step:
            trainer.save_checkpoint(folder / "c.ckpt")
            raise Killed

quiet = {name: False for name in ("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing")}

def fit(to, checkpoint=None, batch_size=100, data=digits, grown=None, **more):
    trainer = lightning.Trainer(max_epochs=3, accelerator="cpu", **quiet, **more)
    model = Model()
    loader = dataformats.Loader(data, batch_size, seed=1, to=to)
    if grown:
        loader.load_state_dict = functools.partial(loader.load_state_dict, grown=grown)
    try:
        trainer.fit(model, loader, ckpt_path=checkpoint)
    except Killed:
        pass
    return model.seen

def validate(**more):
    trainer = lightning.Trainer(max_epochs=2, limit_train_batches=1, accelerator="cpu", **quiet, **more)
    model = Model()
    whole = dataformats.Loader(digits, 500, shuffle=False, resume=False, to="torch")
    trainer.fit(model, dataformats.Loader(digits, 100, to="torch"), whole)
    return model.validated

if "LOCAL_RANK" not in os.environ:  # the second rank has only the last part
    for name, hook, step in (("batch", "on_train_batch_end", 25), ("epoch", "on_train_epoch_end", 18)):
        found[name] = [fit("torch", callbacks=[Kill(hook, step)]), fit("numpy", folder / "c.ckpt")]
        if name == "batch":
            try:
                fit("torch", folder / "c.ckpt", 200)
            except dataformats.StateMismatchError as error:
                found["other batch size"] = str(error)
    found["growing"] = [fit("torch", data=digits[:1500], callbacks=[Kill("on_train_batch_end", 20)])]
    found["growing"].append(fit("torch", folder / "c.ckpt", data=digits[:1797], grown="now"))
    try:
        fit("torch", folder / "c.ckpt", data=digits[:1797], grown="next_epoch")
    except dataformats.StateMismatchError as error:
        found["grown in the next epoch"] = str(error)
    found["validated"] = [validate(), validate(limit_val_batches=3)]

class Seen(lightning.Callback):
    def on_train_end(self, trainer, model):
        (folder / f"{trainer.global_rank}.json").write_text(json.dumps(model.seen))
        trainer.strategy.barrier()

loader = dataformats.Loader(digits, 100, rank="auto", to="torch")  # before Lightning starts the second process
trainer = lightning.Trainer(
    max_epochs=1, accelerator="cpu", devices=2, strategy="ddp", callbacks=[Seen()], **quiet
)
trainer.fit(Model(), loader)
if trainer.global_rank:
    sys.exit()
found["ranks"] = [json.loads(path.read_text()) for path in sorted(folder.glob("?.json"))]
"""


@pytest.fixture(scope="module")
def lightning(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return found_by(LIGHTNING, tmp_path_factory.mktemp("lightning"))


@pytest.mark.parametrize(("checkpoint", "step"), [("batch", 25), ("epoch", 18)])
def test_lightning_saves_and_resumes_the_loader(lightning: dict[str, Any], checkpoint: str, step: int) -> None:
    assert lightning[checkpoint] == [WHOLE[:step], WHOLE[step:]]


def test_lightning_ends_no_epoch_elsewhere_after_a_resume(lightning: dict[str, Any]) -> None:
    assert "expected 100, found 200. Lightning counts batches" in lightning["other batch size"]


def test_lightning_goes_on_with_appended_records(lightning: dict[str, Any]) -> None:
    """Its second epoch, 1500 records when it was interrupted, has all 1797; so has its third one."""
    first, rest = lightning["growing"]
    assert first == [list(range(at, at + 100)) for at in range(0, 2000, 100)]
    starts = [*range(2000, 3297, 100), *range(3297, 5094, 100)]
    assert [batch[0] for batch in rest] == starts
    assert [position for batch in rest for position in batch] == list(range(2000, 5094))
    assert "Lightning would cut the longer epochs" in lightning["grown in the next epoch"]


def test_lightning_validates_with_the_same_records(lightning: dict[str, Any]) -> None:
    whole, limited = lightning["validated"]
    every = [500, 500, 500, 297]
    assert whole == every[:2] + every * 2  # two batches come first, as a check of sanity
    assert limited == every[:2] + every[:3] * 2


def test_lightning_starts_ranks_after_the_loader_is_made(lightning: dict[str, Any]) -> None:
    assert len(lightning["ranks"]) == 2
    batches = [batch for seen in lightning["ranks"] for batch in seen]
    assert sorted(position for batch in batches for position in batch) == list(range(1797))


RANKS = """
import torch.distributed, torch.multiprocessing
from accelerate import Accelerator, DataLoaderConfiguration
from torch.utils.data import DataLoader
from dataformats.loaders.pytorch import BatchDataset

def read_by(rank):
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= where | {"LOCAL_RANK": str(rank)}
    store = f"file://{folder}/store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    given = {}
    for dispatch in (True, False):
        accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=dispatch))
        form = {"batch_size": None} if dispatch else {"batch_size": 1, "collate_fn": lambda one: one[0]}
        for name, ranks in (("all", {}), ("auto", {"rank": "auto"}), ("given", {"rank": rank, "world_size": 2})):
            loader = DataLoader(BatchDataset(digits, 100, seed=1, **ranks), num_workers=dispatch, **form)
            for prepared in (True, False):
                try:
                    batches = accelerator.prepare(loader) if prepared else loader
                    found = [label for batch in batches for label in batch["label"].tolist()]
                except ValueError as error:
                    found = str(error)
                given[f"{name} {dispatch} {prepared}"] = found
    (folder / f"rank{rank}.json").write_text(json.dumps(given))

torch.multiprocessing.start_processes(read_by, nprocs=2, start_method="fork")
found["divided"] = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]
"""


@pytest.mark.parametrize("dispatch", [True, False])
def test_accelerate_divides_the_batches_of_a_rank_never_again(others: dict[str, Any], dispatch: bool) -> None:
    def read(case: str) -> list[Any]:
        return [rank[case] for rank in others["divided"]]

    def together(case: str) -> list[int]:
        return sorted(label for rank in read(case) for label in rank)

    labels = sorted(label for batch in others["stateful"][2][:18] for label in batch)
    for ranks in ("auto", "given"):
        for error in read(f"{ranks} {dispatch} True"):
            assert "2 processes: records would be left out. Iterate the DataLoader itself" in error
        assert together(f"{ranks} {dispatch} False") == labels
    repeated = Counter(together(f"all {dispatch} True")) - Counter(labels)
    assert repeated.total() == dispatch  # one record, to make batches even
    assert together(f"all {dispatch} False") == sorted(labels * 2)


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
found["accelerate"] = [given, again, epochs]
"""


def test_accelerate_with_batches_and_state(others: dict[str, Any]) -> None:
    given, again, epochs = others["accelerate"]
    assert given == WHOLE[:18]
    assert again == WHOLE[7:18]
    assert epochs == WHOLE[:36]


TRANSFORMERS = """
from transformers import Trainer, TrainingArguments
from dataformats.loaders.pytorch import PlanSampler, RecordDataset, collate

class Classifier(torch.nn.Module):
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
    trainer = OrderedTrainer(Classifier(), options, train_dataset=RecordDataset(digits), data_collator=collate)
    trainer.train(resume_from_checkpoint=resume)
    return trainer.model.layer.weight.detach().flatten().tolist()

found["weights"] = [weights(), weights(resume=str(folder / "checkpoint-25"))]
"""


def test_the_trainer_of_transformers_resumes_to_the_same_weights(others: dict[str, Any]) -> None:
    whole, resumed = others["weights"]
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
found["stateful"] = [*labels, [batch["label"].tolist() for _ in range(2) for batch in wanted]]
"""


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return found_by(RANKS + STATEFUL + ACCELERATE + TRANSFORMERS, tmp_path_factory.mktemp("others"))


def test_a_sampler_in_a_stateful_loader_has_the_order_of_a_loader(others: dict[str, Any]) -> None:
    alone, with_workers, wanted = others["stateful"]
    assert alone == with_workers == wanted
