"""dataformats head: the first records, with pictures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dataformats.display import terminal_pictures
from tests.cases import GOLDEN
from tests.cli.conftest import Run

PHOTOS = GOLDEN / "real" / "photos.tfrecord"


def test_head(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("head", PHOTOS, "-n", 1, "--images").out == run("head", PHOTOS, "-n", 1).out
    assert run("head", PHOTOS, "--images", "--json").code == 2
    shown = [f"[{n}]" for n in range(3)]
    monkeypatch.setattr(terminal_pictures, "terminal_pictures", lambda _: lambda value: shown.pop() if value else None)
    assert run("head", PHOTOS, "-n", 1, "--images", "--fields", "image").out.endswith("bytes\n[2]\n")


def test_chat_messages_are_a_conversation(run: Run, tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "a\nb\x1b"}, {"role": "assistant", "content": None, "calls": [1]}]
    shared = [{"from": "human", "value": "hi"}] * 9
    (tmp_path / "x.jsonl").write_text(json.dumps({"messages": chat, "conversations": shared}) + "\n")
    messages = ["  messages: 2 messages", r"    user: a b\x1b", '    assistant: {"calls": [1]}']
    conversations = ["  conversations: 9 messages", *["    human: hi"] * 8, "    ..."]
    assert run("head", tmp_path / "x.jsonl").out.splitlines() == ["record 0", *messages, *conversations]
    (tmp_path / "x.json").write_text(json.dumps([chat, [{"from": "a", "to": "b"}]]))
    shown = run("head", tmp_path / "x.json").out
    assert shown.startswith("record 0: 2 messages\n  user: a b")
    assert shown.endswith("record 1: [{'from': 'a', 'to': 'b'}]\n")


def test_records_of_keys(run: Run, tmp_path: Path) -> None:
    samples = f"{GOLDEN}/webdataset/train-*.tar"
    keys = ("--key", "train/0003", "--key", "train/0001")
    found = run("head", samples, *keys, "--fields", "__key__", "--json")
    assert json.loads(found.out)["indices"] == [3, 1]
    assert run("cat", samples, *keys[:2], "--fields", "__key__").out == '{"__key__": "train/0003"}\n'
    (tmp_path / "x.jsonl").write_text("".join(f'{{"id": {7 * i}}}\n' for i in range(9)))
    many = [text for i in range(9) for text in ("--key", 7 * i)]
    assert run("head", tmp_path / "x.jsonl", *many, "--on", "id").out.count("record") == 9
    for options, message in [
        (("--key", 8, "--on", "id"), "unknown key in 'id' '8' (nearest: 28)"),
        (("--key", "a", "--on", "id"), "keys in 'id' are integers, found ('a',)"),
        (("--key", 7), "no field of the records is their key. Pass --on to name one."),
        (("--key", 7, "--on", "id", "--where", "id = 7"), "expected one of them, found both"),
    ]:
        refused = run("head", tmp_path / "x.jsonl", *options)
        assert refused.code == 2, refused.err
        assert message in refused.err
