"""The command line: `dataformats info`, `head` and the others, one file per command.

Modules that read data are imported when a command runs, so that `--help` and wrong options answer at once.
"""

from dataformats.cli.app import main as main
