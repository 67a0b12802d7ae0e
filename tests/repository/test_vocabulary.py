"""One word for one thing, in the signatures of all public names: docs/glossary.md."""

from __future__ import annotations

import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dataformats
from dataformats.errors import MissingExtraError
from dataformats.testing.loop_over import loop_over

API = Path(__file__).parents[2] / "docs" / "api"
# A word that left -> the word that replaced it. The error classes `TargetExistsError` and `TargetInUseError` stay.
REPLACED = {"attempt": "try", "sibling": "beside", "target": "destination"}
# Parameter -> what its annotation must match: a word has one meaning.
MEANINGS = {
    "batch": r"RecordBatch|Mapping|Any|T",
    "executor": r"^Executor \| None$",
    "index": r"\bint\b|^str$|Any",  # of a record; `index=` of `open` is a place
    "on_corrupt": r"^(OnCorrupt|DamagePolicy)$",
    "position": r"\bint\b",
    "positions": r"NDArray\[np.int64\]|ArrayLike|Sequence\[int\]",
    "progress": r"^Callable\[\[int, int\], None\] \| None$",
    "shard_records": r"^int \| None$",
    "shards": r"^int \| None$",
    "shuffle": r"^bool|Shuffle",
    "shuffle_seed": r"^int \| None$",
    "source_options": r"^Mapping\[str, Any\] \| None$",
    "storage_options": r"^dict\[str, Any\] \| None$",
    "to": r"^Literal\['numpy', 'torch'",
    "where": r"^Where \| None$",
}


def public_things() -> Iterator[tuple[str, object]]:
    """Yield all names of the API reference but those of drop-in modules, whose words are the originals'."""
    text = "\n".join(page.read_text() for page in sorted(API.glob("*.md")))
    for path in re.findall(r"^\.\. auto(?:class|function|exception):: ([\w.]+)", text, re.MULTILINE):
        if path.startswith("dataformats_compat"):
            continue
        module, _, name = path.rpartition(".")
        try:
            thing = getattr(importlib.import_module(module), name)
        except MissingExtraError:
            continue
        yield path, thing
        if inspect.isclass(thing):
            members = {name: member for name, member in inspect.getmembers(thing, inspect.isfunction) if name[0] != "_"}
            yield from ((f"{path}.{name}", member) for name, member in members.items())


@cache
def parameters() -> list[tuple[str, inspect.Parameter]]:
    found = []
    for path, thing in public_things():
        try:
            signature = inspect.signature(thing)  # type: ignore[arg-type]  # it is a class or a function
        except ValueError:  # an exception without its own arguments
            continue
        found += [(path, parameter) for parameter in signature.parameters.values()]
    return found


def test_reference_is_read() -> None:
    assert {path for path, _ in parameters()} >= {
        f"dataformats.{name}" for name in ("open", "convert", "split", "Loader")
    }


def test_public_names_avoid_replaced_words() -> None:
    names = {f"{path}({parameter.name})": parameter.name for path, parameter in parameters()}
    names |= {path: path.rpartition(".")[2] for path, _ in public_things()}
    found = {where: new for where, name in names.items() for old, new in REPLACED.items() if old in name.split("_")}
    assert not found


@loop_over("name, meaning", MEANINGS.items())
def test_parameters_of_a_name_mean_the_same(name: str, meaning: str) -> None:
    meant = {path: str(parameter.annotation) for path, parameter in parameters() if parameter.name == name}
    assert meant, "no public parameter has this name: delete the row"
    assert not {path: kind for path, kind in meant.items() if not re.search(meaning, kind)}


def test_reading_and_writing_calls_have_options_of_both_sides() -> None:
    names = defaultdict[str, set[str]](set)
    for path, parameter in parameters():
        names[path].add(parameter.name)
    assert {path for path, own in names.items() if "source_options" in own and "overwrite" in own} == {
        f"dataformats.{name}" for name in ("convert", "merge", "repair", "split")
    }
    assert all("storage_options" in own for own in names.values() if "overwrite" in own)


def test_public_functions_stand_in_the_reference() -> None:
    listed = {path for path, _ in public_things()}
    assert {f"dataformats.{name}" for name in dataformats.__all__} <= listed  # type: ignore[attr-defined]  # the stub has no list
