"""Datasets for the viewer: of every kind of value, and one that attacks the page."""

from __future__ import annotations

import io
import json
import wave
from pathlib import Path
from typing import Any

import numpy as np

import dataformats

SCRIPT = "<script>window.hacked = 1</script>"
IMAGE = '<img src=x onerror="window.hacked = 2">'
NAMES = (SCRIPT, IMAGE, "__proto__", "constructor", "a b\"c'd", "javascript:window.hacked=3", "\u202egnp.exe", "${1+1}")
N_FIELDS = 2000


def sound(seconds: float = 0.25) -> bytes:
    """A WAV file: a tone."""
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        time = np.arange(int(8000 * seconds)) / 8000
        file.writeframes((8000 * np.sin(2 * np.pi * 440 * time)).astype("<i2").tobytes())
    return stream.getvalue()


def write_kinds(path: Path, n: int = 30) -> Path:
    """Write records with a value of every kind that the page draws."""
    photos = dataformats.open(str(Path(__file__).parents[2] / "golden" / "real" / "photos.tfrecord"))
    spec = {
        "photo": "bytes",
        "mask": "uint8[12,16]",
        "sound": "bytes",
        "clip": "webm",
        "wave": "float32[400]",
        "grid": "float32[20,30]",
        "words": "utf8[]",
        "tokens": "int64[]",
        "story": "utf8",
        "tree": "json",
        "score": "float32",
        "views": "msgpack",
        "blob": "bytes",
    }
    rng = np.random.default_rng(5)
    with dataformats.create(str(path), "granular", spec=spec) as writer:
        for index in range(n):
            record: dict[str, Any] = {
                "photo": photos[index % 12]["image"],
                "mask": rng.integers(0, 9, (12, 16)).astype(np.uint8),
                "sound": sound(),
                "clip": np.full((12, 48, 64, 3), 20 * (index % 12), np.uint8),
                "wave": np.sin(np.arange(400) / (5 + index)).astype(np.float32),
                "grid": np.add.outer(np.arange(20), np.arange(30)).astype(np.float32) * index,
                "words": [f"word{k}" for k in range(index % 5)],
                "tokens": rng.integers(0, 50_000, index * 7),
                "story": "Once upon a time there was a record. " * (index + 1),
                "tree": {"id": index, "tags": ["a", "b"], "box": {"x": 1.5, "y": None}},
                "score": rng.normal(),
                "views": {"id": index, "files": [{"file": photos[at]["image"]} for at in (0, 1)]},
                "blob": rng.bytes(40),
            }
            writer.append(record)
    return path


def write_hostile(path: Path) -> Path:
    """Write a TFRecord with markup in names and values, 2,000 fields, long texts, and damage in record 3."""
    names = [*NAMES, *(f"field{number:04}" for number in range(N_FIELDS - len(NAMES)))]
    values = [SCRIPT, IMAGE, json.dumps({"__proto__": {"x": SCRIPT}, SCRIPT: IMAGE}), "\x1b[2J\x00\u202e"]
    media = [b"\xff\xd8\xff\xe0" + SCRIPT.encode() * 9, b"<svg onload='window.hacked = 4'>", b"GIF89a" + bytes(40)]
    with dataformats.create(str(path), "tfrecord", spec=dict.fromkeys(names, "bytes")) as writer:
        for index in range(8):
            record = {name: f"{index}".encode() for name in names}
            for place, name in enumerate(NAMES):
                text = values[(index + place) % len(values)].encode()
                record[name] = media[index % 3] if place == 3 else text
            if index == 5:
                record[NAMES[4]] = b"x" * 10**7
            writer.append(record)
    damage(path, 3)
    return path


def damage(path: Path, number: int) -> None:
    """Change one byte of a record of a TFRecord."""
    data = bytearray(path.read_bytes())
    offset = 0
    for _ in range(number):
        offset += 16 + int.from_bytes(data[offset : offset + 8], "little")
    data[offset + 40] ^= 1
    path.write_bytes(data)
