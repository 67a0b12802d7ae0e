"""Completion in shells: the script of the current shell, printed or installed."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from dataformats.cli.output import print_fact

_FILES = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/completions/dataformats.fish"}


def completion(program: click.Command, *, install: bool) -> None:
    """Print the script of the shell in SHELL, or add it to a file that this shell reads when it starts."""
    shell = Path(os.environ.get("SHELL", "")).name
    kind = get_completion_class(shell) if shell in _FILES else None
    if kind is None:
        raise click.UsageError(f"expected bash, zsh or fish in the environment variable SHELL, found {shell!r}")
    script = kind(program, {}, "dataformats", "_DATAFORMATS_COMPLETE").source()
    if not install:
        print(script, end="")
        return
    path = Path(_FILES[shell]).expanduser()
    if not path.exists() or script.encode() not in path.read_bytes():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\nautoload -Uz compinit && compinit\n{script}" if shell == "zsh" else f"\n{script}")
    print_fact("completion", f"{path}, for new shells")
