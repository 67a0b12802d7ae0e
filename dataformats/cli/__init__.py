"""The command line: `dataformats info|head|verify|index|convert`, one file a command.

What reads data is imported inside the commands, when one runs: `--help` and a wrong option answer at once.
"""

from dataformats.cli.app import main

__all__ = ["main"]
